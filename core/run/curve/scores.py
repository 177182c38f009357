"""The three scores of a cohort's responses: the clinicians' verdict, exact values, token overlap.

A score is a number in [0, 1], or nan where it does not apply; what has none is counted beside the
curve, never taken for wrong (PROTOCOL, Experiment 1).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from core.judges.dates import take_dates
from core.judges.exact import Exact, reference_polarity
from core.judges.offline import reference_of
from core.judges.quantities import quantities
from core.protocol import Protocol
from core.text import words
from core.types import Answer, Cohort, Gold, Instruction, Response

SCORES = ("clinician", "exact", "jaccard")
NAN = float("nan")


def scored(
    name: str,
    cohort: Cohort,
    asked: Sequence[tuple[Instruction, Response]],
    protocol: Protocol,
) -> NDArray[np.float64]:
    """The score ``name`` of each response to its instruction, float64, nan where it has none.

    ``clinician``: 1 or 0, nan where the clinicians' verdict is neither. ``exact``: the exact
    judge's verdict where the reference is a structured value (:func:`structured`), nan where it
    is not, or where the answer to a yes/no question says neither. ``jaccard``: shared over all
    distinct words of answer and reference, nan without a reference.
    """
    if name == "clinician":
        verdicts = (response.correct for _, response in asked)
        return np.array([NAN if v is None else float(v) for v in verdicts], dtype=np.float64)
    out = np.full(len(asked), NAN)
    exact = Exact(protocol)
    cut = protocol.response_characters or None
    references: dict[str, tuple[Gold, str] | None] = {}
    for i, (instruction, response) in enumerate(asked):
        if instruction.id not in references:
            references[instruction.id] = _reference(cohort, instruction.id, name)
        found = references[instruction.id]
        if found is None:
            continue
        gold, reference = found
        if name == "exact":
            verdict = exact.judge(instruction, gold, Answer(response.text))
            if verdict.outcome in ("correct", "incorrect"):
                out[i] = float(verdict.outcome == "correct")
        else:
            out[i] = jaccard(reference, response.text[:cut])
    return out


def _reference(cohort: Cohort, id: str, name: str) -> tuple[Gold, str] | None:
    """The reference that a score compares with; None where it has nothing to compare."""
    gold = cohort.gold.get(id)
    if gold is None:
        return None
    reference = reference_of(gold)
    if not words(reference) or (name == "exact" and not structured(reference)):
        return None
    return gold, reference


def structured(reference: str) -> bool:
    """Whether a reference is a structured value: it holds a date or a number, or opens with yes
    or no. Any other is free text, which an exact comparison would fail for its wording."""
    days, rest = take_dates(reference)
    return bool(days or quantities(rest) or reference_polarity(reference))


def jaccard(reference: str, answer: str) -> float:
    """Distinct lower-cased words in both over those in either; 0 for an answer without words."""
    one, other = set(words(reference)), set(words(answer))
    return len(one & other) / len(one | other) if one else NAN
