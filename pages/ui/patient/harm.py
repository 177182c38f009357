"""What an answer means for the person it is about, in sentences above everything else.

First the wrong answers: with the evidence in the prompt, and after it was dropped; then the
questions without an answer; then what was right. Sentences of the first two are the headline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from midchart.core import api
from midchart.pages.ui.patient import cached, model
from midchart.pages.ui.patient.model import ArmView, Piece
from midchart.pages.ui.shared import chart, marks
from midchart.pages.ui.shared.formats import listed

MOST_CHARACTERS = 60
"""Characters of an answer in a sentence."""
HELD = ""
"""The status of evidence that is present whole."""


class Harm(NamedTuple):
    """The sentences on a question: ``headline`` and the others; ``harmful``: whether any answer was
    wrong or missing."""

    headline: str
    rest: str
    harmful: bool


def is_method(arm: str) -> bool:
    """Whether an arm is a method: no control, and not given the evidence."""
    return not chart.is_control(arm) and arm not in cached.NEEDS_EVIDENCE


Group = tuple[str, str, str]
"""The evidence that was lost, the outcome, and what was answered where that is wrong."""


def sentences(views: Sequence[ArmView], pieces: Sequence[Piece], reference: str) -> Harm | None:
    """The sentences on judged answers; None where no arm's answer is judged right or wrong.

    ``views``: arms with a selection, none that wrote summaries; ``reference``: the reference
    answer. What controls and the oracle did comes after the others.
    """
    first: list[str] = []
    rest: list[str] = []
    quoted = False
    for control in (False, True):
        groups: dict[Group, list[str]] = {}
        for view in views:
            outcome = _outcome(view)
            if outcome and is_method(view.name) != control:
                answer = view.answer.text if view.answer and outcome == "incorrect" else ""
                words = contrast(answer, reference)
                quoted |= words.startswith("“")
                groups.setdefault((_lost(view, pieces), outcome, words), []).append(view.title)
        for outcome in ("incorrect", "no answer", "correct"):
            chosen = {key: names for key, names in groups.items() if key[1] == outcome}
            place = rest if control or outcome == "correct" else first
            place += _sentences(chosen)
    if not first and not rest:
        return None
    if quoted and reference.strip():
        rest.append(f"The reference answer is “{_short(reference)}”.")
    if unjudged := [view.title for view in views if not _outcome(view)]:
        rest.append(f"Not judged: {listed(unjudged)}.")
    harmful = bool(first)
    if not first:
        first, rest = rest, []
    return Harm(" ".join(first), " ".join(rest), harmful)


def _outcome(view: ArmView) -> str:
    """Of the judge that decides: "correct", "incorrect", "no answer" for a refusal
    or silence that is incorrect; "" where it says neither."""
    first = next(iter(view.verdicts.values()), None)
    if first is None or first.outcome not in ("correct", "incorrect"):
        return ""
    silent = first.refusal or view.answer is None or not view.answer.text.strip()
    return "no answer" if silent and first.outcome == "incorrect" else first.outcome


_DID = {
    "incorrect": "answered",
    "no answer": "gave no answer",
    "correct": "answered correctly",
}


def _sentences(groups: Mapping[Group, Sequence[str]]) -> list[str]:
    """A sentence each group of arms: those that kept the evidence first."""
    ordered = sorted(groups.items(), key=lambda group: group[0][0] != HELD)
    return [_sentence(*key, names) for key, names in ordered]


def _sentence(lost: str, outcome: str, words: str, names: Sequence[str]) -> str:
    did = f"{_DID[outcome]} {words}".strip()
    if lost == HELD:
        still = "" if outcome == "correct" else "still "
        return f"The evidence was in the prompt: {listed(names)} {still}{did}."
    if lost == model.DROPPED:
        return f"{listed(names)} dropped the evidence and {did}."
    return f"Evidence {lost}: {listed(names)} {did}."


def _lost(view: ArmView, pieces: Sequence[Piece]) -> str:
    """Which evidence was not in the prompt: :data:`HELD` for none, "dropped" for all of it, else in
    words."""
    if {view.status(piece) for piece in pieces} == {model.DROPPED}:
        return model.DROPPED
    return model.lost_words(view, pieces)


def _short(text: str) -> str:
    return marks.shortened(" ".join(api.undated(text).split()), MOST_CHARACTERS).rstrip(".")


def contrast(answer: str, reference: str) -> str:
    """What was answered, and instead of what where each text has a single value; else the answer,
    shortened and quoted; "" without an answer."""
    if not answer.strip():
        return ""
    values = [api.single_value(api.undated(text)) for text in (answer, reference)]
    if all(values) and values[0] != values[1]:
        return f"{values[0]} instead of {values[1]}"
    return f"“{_short(answer)}”"
