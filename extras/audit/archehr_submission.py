"""Answers to ArchEHR-QA's cases as its task takes and scores them.

*Factuality*: precision, recall and F1 of the sentences that an answer cites, all cases together
(micro). *Strict*: those labelled essential count; *lenient*: the supplementary ones too. Scored are
the sentences that the answer's sources lie in, and those that the arm selected, as the task asks
for evidence alone too. The task's other measures compare texts by models and are its own script's.

*Submission*: a list of ``{"case_id", "answer"}``, in which each line of an answer ends with the
sentences that it cites, ``|3,4|``. Source: ArchEHR-QA, BioNLP 2025 shared task
(https://archehr-qa.github.io); this file was written from its description, and its organisers'
script has not read what it writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from midchart.core.errors import InputError
from midchart.core.loaders.benchmarks import LABELS, LabelledCase, labelled_cases
from midchart.core.loaders.open import open_cohort
from midchart.core.protocol import Protocol
from midchart.core.runs.directory import RunDirectory
from midchart.core.stats.intervals import cluster_totals, ratio
from midchart.core.stats.paired import reported_interval
from midchart.core.text import sentences
from midchart.core.text.prompt import LINE_DATE

_DATE = re.compile(rf"^\[{LINE_DATE}\] ")
"""Before a line that a reader quotes."""
MOST_WORDS = 75
"""Of an answer; the task's script reads no more."""
Answers = Sequence[Mapping[str, Any]]
"""Rows of table ``answers``."""


@dataclass(frozen=True, slots=True)
class SubmittedCase:
    """A case: its sentences and labels, and where Midchart's own sentences of the note lie, by id:
    first character and the one after."""

    labelled: LabelledCase
    spans: Mapping[str, tuple[int, int]]

    def sentences_of(self, ids: Iterable[str]) -> list[str]:
        """The case's sentences, in the note's order, that any of these sentences of ours touch."""
        spans = [self.spans[id] for id in ids if id in self.spans]
        return [
            name
            for name, (start, end) in self.labelled.places.items()
            if any(begin < end and start < stop for begin, stop in spans)
        ]


def cases_of(folder: RunDirectory) -> dict[str, SubmittedCase]:
    """The cases of a run's cohort by record; raises InputError where it is not ArchEHR-QA's."""
    cohort = open_cohort(folder.cohort_path())
    if cohort.format != "archehr_qa":
        raise InputError(f"{cohort.path}: is no cohort of ArchEHR-QA, whose task this is")
    protocol = folder.plan().protocol
    labelled = labelled_cases(Path(cohort.path))
    return {
        id: SubmittedCase(
            labelled[id],
            {
                one.id: (one.span.start, one.span.end)
                for one in sentences(cohort.records[id], protocol)
            },
        )
        for id in cohort.records
        if id in labelled
    }


def scores(
    cases: Mapping[str, SubmittedCase], answers: Answers, protocol: Protocol
) -> list[dict[str, Any]]:
    """A row for what is cited and what was selected, strictly and leniently.

    ``precision``, ``recall`` and ``f1`` over all cases with a key (null where they are 0/0), F1
    with its interval over cases (null for fewer than five), ``cases``, and ``long_answers``, those
    of more than 75 words (null without text).
    """
    labelled = [
        one for one in answers if one["record"] in cases and cases[one["record"]].labelled.labels
    ]
    long = [len((one["answer"] or "").split()) > MOST_WORDS for one in labelled if "answer" in one]
    rows: list[dict[str, Any]] = []
    for of, ids_of in (("cited", _cited), ("selected", _selected)):
        for criterion, labels in (("strict", LABELS[:1]), ("lenient", LABELS[:2])):
            counts = np.array(
                [_counts(cases[one["record"]], ids_of(one), labels) for one in labelled], float
            ).reshape(-1, 3)
            rows.append(
                {"of": of, "criterion": criterion, **_measures(counts, protocol),
                 "cases": len(labelled), "long_answers": sum(long) if long else None}
            )  # fmt: skip
    return rows


def submission(cases: Mapping[str, SubmittedCase], answers: Answers) -> list[dict[str, str]]:
    """The answers in the task's form, by case."""
    lines: list[dict[str, str]] = []
    for one in answers:
        case = cases.get(one["record"])
        if case is None:
            continue
        cited = ",".join(case.sentences_of(_cited(one)))
        text = _DATE.sub("", " ".join((one["answer"] or "").split()))
        lines.append({"case_id": one["record"], "answer": f"{text} |{cited}|" if cited else text})
    return lines


def _cited(answer: Mapping[str, Any]) -> list[str]:
    return list(answer["sources"] or ())


def _selected(answer: Mapping[str, Any]) -> list[str]:
    return [one["id"] for one in answer["selection"] or ()]


def _counts(case: SubmittedCase, ids: Iterable[str], labels: Sequence[str]) -> tuple[int, int, int]:
    """Sentences that are named and labelled, named, and labelled."""
    named = set(case.sentences_of(ids))
    right = {name for name, label in case.labelled.labels.items() if label in labels}
    return len(named & right), len(named), len(right)


def _measures(counts: np.ndarray[Any, Any], protocol: Protocol) -> dict[str, float | None]:
    """Micro precision, recall and F1 of counts [cases, 3], which :func:`_counts` gives."""
    both, named, right = (float(total) for total in counts.sum(axis=0))
    measures: dict[str, float | None] = {
        "precision": both / named if named else None,
        "recall": both / right if right else None,
        "f1": 2 * both / (named + right) if named + right else None,
        "f1_low": None,
        "f1_high": None,
    }
    if len(counts) and named + right:
        rng = np.random.default_rng(protocol.seed)
        pairs = np.stack([2 * counts[:, 0], counts[:, 1] + counts[:, 2]], axis=1)
        totals = cluster_totals(pairs, protocol.resamples, rng)
        ends = reported_interval(ratio(totals[:, 0], totals[:, 1]), len(counts))
        measures["f1_low"], measures["f1_high"] = ends if ends is not None else (None, None)
    return measures
