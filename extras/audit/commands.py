"""Commands on other systems: audits of their logs, cards, and their scores opened as a run."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from midchart.core import api
from midchart.core.cli import (
    DETACH,
    RUN,
    arg,
    command,
    facts,
    finish,
    json_line,
    positive,
    say,
    table,
    warn,
)
from midchart.core.errors import InputError
from midchart.core.parsing import read_named, user_path


@command(
    "Runs",
    arg("data", metavar="DATA"),
    arg("log", metavar="LOG", help="traces, a log or a table of answers"),
    arg("--ids", default="", metavar="CSV", help="the log's name of a patient, and the record's"),
    arg("--arm", action="append", metavar="NAME", help="to compare with; default: bm25 and hybrid"),
    arg("--judge", default="statements", metavar="NAME"),
    arg(
        "--reader",
        default="extractive",
        metavar="NAME",
        help="second reading of questions without known evidence (default: extractive)",
    ),
    arg("--against", default="", metavar="RUN", help="an earlier audit: what changed since"),
    arg("--name", default="", help="of the run (default: that of the log)"),
    DETACH,
)
def audit(call: Namespace) -> None:
    """where another system lost the evidence: its log, read back against the charts (a run)
    midchart audit demo answers.jsonl
    midchart audit demo answers.jsonl --arm bm25
    """
    files = {"log": call.log, "ids": call.ids}
    run = api.start(
        {
            "name": call.name or f"audit of {Path(call.log).name}",
            "kind": "audit",
            "data": api.open_data(call.data).path,
            "arms": call.arm or ["bm25", "hybrid"],
            "judges": [call.judge],
            "readers": [call.reader],
            "against": call.against,
            **{name: str(user_path(file).resolve()) for name, file in files.items() if file},
        }
    )
    finish(run, call)
    if not call.json and not call.detach:
        shown = api.report(run)["conclusion"]
        for text in (shown["headline"], *shown["details"]):
            say(f"\n{text}")


@command(
    "Runs",
    RUN,
    arg("--deal", type=positive, default=0, metavar="N", help="deal N more cards"),
    arg("--marks", default="", metavar="CSV", help="columns question, evidence (empty: none)"),
    arg("--by", default="", metavar="CODE", help="the clinician's code (default: the account)"),
)
def cards(call: Namespace) -> None:
    """questions of an audit without known evidence: deal them to a clinician, read the marks
    midchart cards RUN
    midchart cards RUN --deal 10
    midchart cards RUN --marks marks.csv --by clinician-1
    """
    from midchart.extras.audit.cards import audit_cards, deal_cards, mark_cards

    if call.marks:
        try:
            marks = read_named(Path(call.marks)).decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "is no UTF-8 text"
            raise InputError(f"{call.marks}: cannot be read as a table of marks ({why})") from None
        mark_cards(call.run, marks, call.by)
    if call.deal:
        deal_cards(call.run, call.deal, call.by)
    dealt = audit_cards(call.run)
    corrected = api.report(call.run)["tables"]["corrected"]
    if call.json:
        json_line({"cards": dealt, "corrected": corrected})
        return
    table(dealt, ("question", "record", "state", "counts", "text"))
    if corrected:
        say()
        table(corrected)


@command(
    "Results",
    arg("path", metavar="FILE|DIR"),
    arg("--name", default="", help="of the run (default: that of the log)"),
    arg("--format", default="", help="of the log (default: the first that recognises it)"),
)
def import_results(call: Namespace) -> None:
    """import the log of another system (Inspect AI, HELM, traces, a table, …), read-only
    midchart import-results answers.jsonl
    """
    from midchart.extras.audit import other_results

    imported = other_results.import_results(call.path, call.name, call.format)
    if not call.json:
        warn(imported["warnings"])
    facts(call, imported, ("warnings",))
