"""Commands of ``extras.lab``: what they do is imported when they are called."""

from __future__ import annotations

from argparse import Namespace

from midchart.core.cli import DATA, PROTOCOL, arg, command, facts, meter


@command(
    "Models",
    DATA,
    arg("--out", metavar="FILE", required=True, help="the calibration, a JSON file"),
    PROTOCOL,
    name="calibrate",
)
def calibrate_cohort(call: Namespace) -> None:
    """calibrate the arm 'certain' on a cohort's questions with located evidence
    midchart calibrate demo --out calibration.json
    """
    from midchart.extras.lab.calibrate import make_calibration

    coverage = make_calibration(call.data, call.out, call.protocol, meter("calibrate, questions"))
    facts(call, coverage)


@command(
    "Models",
    arg("data", metavar="FILE", help="tab-separated: question, references, answer, people"),
    arg("--judge", action="append", metavar="NAME", help="a judge; may be given again"),
    arg("--train", default="", metavar="FILE", help="fit the model of 'statements'; its new card"),
    arg("--source", default="", metavar="TEXT", help="where the verdicts are from, for the card"),
)
def agreement(call: Namespace) -> None:
    """how far offline judges agree with people on a file of verdicts
    midchart agreement verdicts.tsv --judge statements --judge token_overlap
    """
    from midchart.extras.lab.agreement import JUDGES_MEASURED, judge_agreement

    document = judge_agreement(call.data, call.judge or JUDGES_MEASURED, call.train, call.source)
    facts(call, document)
