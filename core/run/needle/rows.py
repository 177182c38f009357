"""Rows of needle runs: those of answers runs, with where the needle stands in each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from core.protocol import Protocol
from core.run.evidence import Question, question_of
from core.run.job import reason_of
from core.run.needle.cohort import NeedleCohort
from core.run.rows import ANSWERS, VERDICTS
from core.store import Schema
from core.types import Instruction

PLACE: Schema = {
    "needle": "VARCHAR",
    "fact": "VARCHAR",
    "length": "BIGINT",
    "depth": "BIGINT",
    "distractors": "BIGINT",
    "reached": "DOUBLE",
    "haystack_tokens": "BIGINT",
}
"""``record`` is the source record and ``needle`` a number among its needles; ``fact`` the needle's
kind; ``length`` what was asked for and ``haystack_tokens`` what the cut record holds; ``depth`` in
percent as asked for, and ``reached``, the share of the cut record's tokens that stand before the
needle. ``instruction`` names one needle at one place."""

NEEDLE_ANSWERS: Schema = {**ANSWERS, **PLACE}
NEEDLE_VERDICTS: Schema = {**VERDICTS, **PLACE}


@dataclass(frozen=True, slots=True)
class NeedleQuestion(Question):
    """A question about a needle, with the columns that tell where it stands."""

    place: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def columns(self) -> dict[str, Any]:
        return {**Question.columns(self), **self.place}


def needle_question(
    cohort: NeedleCohort, instruction: Instruction, protocol: Protocol
) -> NeedleQuestion:
    """The question of one needle at one place."""
    plain = question_of(cohort, instruction, protocol, reason_of)
    return NeedleQuestion(
        plain.instruction,
        plain.cohort,
        plain.gold,
        plain.parts,
        plain.position,
        plain.problem,
        place=cohort.columns(instruction.id),
    )
