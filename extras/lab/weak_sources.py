"""Whether the source of a quoted answer contains what was asked, by the scores of its prompt.

A source is *weak* where it is a heading, or hardly nearer to the question than the other lines of
the prompt: its :func:`midchart.core.readers.abstaining.prominence` is below :data:`LEAST`.
``python -m midchart.extras.lab.weak_sources COHORT …`` prints how often right and wrong sources
are marked; with ``--part train --part validation --below .75 1 1.25 1.5`` the figures that chose
it.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import Any

from midchart.core.cohorts.gold import gold_under
from midchart.core.errors import InputError
from midchart.core.format import interval, percent
from midchart.core.gate.cohort_training import split_of
from midchart.core.protocol import PRESETS, Protocol
from midchart.core.readers.abstaining import Abstaining, prominence
from midchart.core.readers.extractive import bare
from midchart.core.services.cohorts import open_data
from midchart.core.services.questions import ask, gold_ids, select
from midchart.core.stats.intervals import clustered_wilson
from midchart.core.stats.paired import reported_interval
from midchart.core.text.prompt import is_heading
from midchart.core.types import Answer, Prompt

ARM, READER = "bm25", "extractive"
"""The arm and reader whose answers the error rates are of."""
PART = "test"
"""The part of the patients that is measured by default; it chose nothing."""
LEAST = 1.25
"""Standard deviations above the mean of the prompt below which a source is weak: the largest of
.75, 1, 1.25 and 1.5 that marks at most 5 % of the right sources on the articles that chose it."""


@lru_cache(maxsize=2)
def _scorer(protocol: Protocol) -> Abstaining:
    return Abstaining(protocol)


def source_prominence(prompt: Prompt, answer: Answer, protocol: Protocol) -> float | None:
    """Standard deviations by which an answer's first source is nearer to the question than the
    lines of its prompt are on average: 0 of a heading, which states nothing; None without a source
    or a question.

    Raises MissingModel without the sentence encoder.
    """
    lines = [line.sentence_id for line in prompt.context]
    if not answer.sources or answer.sources[0] not in lines or not prompt.question.strip():
        return None
    at = lines.index(answer.sources[0])
    if is_heading(bare(prompt.context[at].text)):
        return 0.0
    return prominence(_scorer(protocol).score(prompt), at)


def error_rates(
    data: str, parts: Sequence[str] = (PART,), below: Sequence[float] = (LEAST,)
) -> list[dict[str, Any]]:
    """How often sources are marked as weak, of one cohort: for each threshold a row for sources
    that are the evidence and one for others.

    Questions with located evidence of the patients of ``parts``, of all patients where a cohort is
    too small to be split; arm and reader as in :data:`ARM` and :data:`READER`. ``n`` answers,
    ``patients``, ``weak`` of them, ``share`` with its interval by patient. Raises DataError.
    """
    protocol = PRESETS["corrected"]
    cohort = gold_under(open_data(data), protocol)
    try:
        split = split_of(cohort, protocol)
        counted = frozenset[str]().union(*(getattr(split, part) for part in parts))
    except InputError:
        counted, parts = frozenset(cohort.records), ("all",)
    values: dict[bool, dict[str, list[float]]] = {True: defaultdict(list), False: defaultdict(list)}
    for instruction in cohort.instructions:
        patient, gold = cohort.patient_of(instruction), cohort.gold.get(instruction.id)
        if gold is None or not gold.spans or patient not in counted:
            continue
        record = cohort.records[patient]
        selection = select(cohort, record, instruction, ARM, protocol)
        prompt, answer = ask(instruction, selection, READER, protocol)
        value = source_prominence(prompt, answer, protocol)
        if value is not None:
            right = answer.sources[0] in gold_ids(record, gold, protocol)
            values[right][patient].append(value)
    return [
        {
            "cohort": data,
            "part": " and ".join(parts),
            "below": least,
            "source": "the evidence" if right else "not the evidence",
            **_share([(sum(v < least for v in one), len(one)) for one in values[right].values()]),
        }
        for least, right in product(below, (True, False))
    ]


def _share(counts: Sequence[tuple[int, int]]) -> dict[str, Any]:
    weak, n = (sum(count[at] for count in counts) for at in (0, 1))
    row: dict[str, Any] = {"n": n, "patients": len(counts), "weak": weak}
    if not n:
        return row | {"share": None, "low": None, "high": None}
    sums = (
        sum(c * c for c, _ in counts),
        sum(c * m for c, m in counts),
        sum(m * m for _, m in counts),
    )
    clustered = clustered_wilson(weak, n, len(counts), *sums)
    ends = reported_interval(None, len(counts), clustered) or (None, None)
    return row | {"share": weak / n, "low": ends[0], "high": ends[1]}


def main(arguments: Sequence[str]) -> int:
    """Print the error rates on cohorts; returns the exit status."""
    parser = ArgumentParser(prog="python -m midchart.extras.lab.weak_sources", description=__doc__)
    parser.add_argument("cohorts", nargs="+", metavar="COHORT")
    parser.add_argument("--part", action="append", choices=("train", "validation", "test"))
    parser.add_argument("--below", nargs="+", type=float, default=[LEAST], metavar="SD")
    call = parser.parse_args(arguments)
    for data in call.cohorts:
        for row in error_rates(data, call.part or (PART,), call.below):
            share = "–" if row["share"] is None else percent(row["share"])
            print(
                f"{row['cohort']} ({row['part']}), below {row['below']:g}: source is "
                f"{row['source']}: {row['weak']} of {row['n']} answers on {row['patients']} "
                f"patients marked as weak, {share}{interval(row['low'], row['high'], percent)}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
