"""What an answer means for the person it is about, in sentences above everything else.

First the wrong answers: with the evidence in the prompt, and after it was dropped; then the
questions without an answer; then what was right. Sentences of the first two are the headline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from core import api
from pages.ui.patient import model
from pages.ui.patient.model import ArmView, Piece
from pages.ui.shared import marks
from pages.ui.shared.formats import listed

MOST_CHARACTERS = 60
"""Characters of an answer in a sentence."""
WEAK = "weak"
"""The outcome of an answer that is correct, but whose source is weak."""
RIGHT = ("correct", WEAK)
HELD = ""
"""The status of evidence that is present whole."""


class Harm(NamedTuple):
    """The sentences on a question: ``headline`` and the others; ``harmful``: whether any answer was
    wrong or missing."""

    headline: str
    rest: str
    harmful: bool


def sentences(views: Sequence[ArmView], pieces: Sequence[Piece], reference: str) -> Harm | None:
    """The sentences on judged answers; None where no arm's answer is judged right or wrong.

    ``views``: arms with a selection, none that wrote summaries; ``reference``: the reference
    answer.
    """
    groups: dict[tuple[str, str, str], list[str]] = {}
    for view in views:
        outcome = _outcome(view)
        if outcome:
            wrong = outcome == "incorrect" and view.answer is not None
            words = contrast(view.answer.text if view.answer and wrong else "", reference)
            key = (_lost(view, pieces), outcome, words if wrong else "")
            groups.setdefault(key, []).append(view.title)
    if not groups:
        return None
    wrong = {key: names for key, names in groups.items() if key[1] == "incorrect"}
    silent = {key: names for key, names in groups.items() if key[1] == "no answer"}
    right = {key: names for key, names in groups.items() if key[1] in RIGHT}
    first = _sentences(wrong) + _sentences(silent)
    rest = _sentences(right)
    unjudged = [view.title for view in views if not _outcome(view)]
    if unjudged:
        rest.append(f"Not judged: {listed(unjudged)}.")
    if not first:
        return Harm(" ".join(rest), "", False)
    return Harm(" ".join(first), " ".join(rest), True)


def _outcome(view: ArmView) -> str:
    """Of the judge that decides: "correct" or :data:`WEAK`, "incorrect", "no answer" for a refusal
    or silence that is incorrect; "" where it says neither."""
    first = next(iter(view.verdicts.values()), None)
    if first is None or first.outcome not in ("correct", "incorrect"):
        return ""
    if first.outcome == "correct" and view.weak:
        return WEAK
    silent = first.refusal or view.answer is None or not view.answer.text.strip()
    return "no answer" if silent and first.outcome == "incorrect" else first.outcome


_DID = {
    "incorrect": "answered",
    "no answer": "gave no answer",
    "correct": "answered correctly",
    WEAK: "answered correctly from a source that may not contain what was asked",
}


def _sentences(groups: Mapping[tuple[str, str, str], Sequence[str]]) -> list[str]:
    """A sentence each group of arms: those that kept the evidence first."""
    ordered = sorted(groups.items(), key=lambda group: group[0][0] != HELD)
    return [_sentence(*key, names) for key, names in ordered]


def _sentence(lost: str, outcome: str, words: str, names: Sequence[str]) -> str:
    did = f"{_DID[outcome]} {words}".strip()
    if lost == HELD:
        still = "" if outcome in RIGHT else "still "
        return f"The evidence was in the prompt: {listed(names)} {still}{did}."
    if lost == model.DROPPED:
        joined = "and all the same" if outcome in RIGHT else "and"
        return f"{listed(names)} dropped the evidence {joined} {did}."
    return f"{lost}: {listed(names)} {did}."


def _lost(view: ArmView, pieces: Sequence[Piece]) -> str:
    """Which evidence was not in the prompt: :data:`HELD` for none, "dropped" for all of it, else in
    words."""
    absent = [view.status(piece) for piece in pieces if view.status(piece) not in model.HELD]
    if not absent:
        return HELD
    if len(absent) == len(pieces) and len(set(absent)) == 1:
        where = " from the prompt" if absent[0] == model.CUT else ""
        dropped = absent[0] == model.DROPPED
        return model.DROPPED if dropped else f"The evidence was {absent[0]}{where}"
    present = len(pieces) - len(absent)
    verb = "was" if present == 1 else "were"
    return f"{present} of {len(pieces)} pieces of evidence {verb} in the prompt"


def contrast(answer: str, reference: str) -> str:
    """What was answered instead of what: the two values where each text has a single one, else
    both texts, shortened; "" without an answer."""
    if not answer.strip():
        return ""
    texts = [" ".join(api.undated(text).split()) for text in (answer, reference)]
    values = [api.single_value(text) for text in texts]
    if all(values) and values[0] != values[1]:
        return f"{values[0]} instead of {values[1]}"
    first, second = (f"“{marks.shortened(text, MOST_CHARACTERS).rstrip('.')}”" for text in texts)
    return f"{first} instead of {second}" if texts[1] else first
