"""Choice: whether the option that an answer chooses is the correct one.

An answer is read as its writer meant it (:mod:`midchart.core.text.choices`). One that cannot be
read, or contradicts itself, is unparsed; one that declines to answer is incorrect, unless an option
declines too. Under ``rule = "authors"`` it is scored as LongHealth's authors score it (arXiv
2401.14490; ``compute_metrics`` of their code): by the letter after the first "The correct answer
is", and incorrect without one. A question without options is a failed verdict.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from midchart.core.judges import JUDGES
from midchart.core.judges.rules import no_answer
from midchart.core.options import Configurable, Options
from midchart.core.protocol import Protocol
from midchart.core.text.choices import chosen_option, correct_option
from midchart.core.text.prompt import LETTERS
from midchart.core.text.refusals import is_refusal
from midchart.core.types import Answer, Gold, Instruction, Verdict

_AUTHORS = re.compile(r"The correct answer is (\w):")


class ChoiceOptions(Options):
    """Options of the judge ``choice``."""

    rule: Literal["protocol", "any_form", "authors"] = "protocol"
    """How the chosen option is read: "any_form" in which models write it, or as LongHealth's
    "authors" do; "protocol": "authors" under the preset "published", else "any_form"."""


@JUDGES.register("choice")
class ChoiceJudge(Configurable):
    """Correct where the letter, or the text, of the correct option is answered."""

    name, title, family = "choice", "Multiple choice (offline)", "judge"
    options_model = ChoiceOptions

    def __init__(self, protocol: Protocol, **options: Any) -> None:
        rule = self.read_options(options).rule
        published = protocol.preset == "published"
        self.authors = rule == "authors" or (rule == "protocol" and published)

    def judge(self, instruction: Instruction, gold: Gold, answer: Answer) -> Verdict:
        """A verdict whose ``raw`` names the chosen and the correct letter."""
        if answer.status == "failed":
            return no_answer(answer)
        options = instruction.options
        if not options:
            return Verdict("failed", reason="the question has no options")
        correct = correct_option(gold.answer, options)
        if correct is None:
            return Verdict("failed", reason="the reference is none of the question's options")
        if self.authors:
            stated = _AUTHORS.search(answer.text)
            letter = stated[1] if stated else "none"
            chosen = LETTERS.find(letter) if len(letter) == 1 else -1
            chosen = chosen if 0 <= chosen < len(options) else None
        else:
            chosen = chosen_option(answer.text, options)
            letter = "none" if chosen is None else LETTERS[chosen]
        refusal = is_refusal(answer.text if chosen is None else options[chosen])
        raw = f"{letter} chosen, {LETTERS[correct]} is correct"
        declines = refusal and not any(map(is_refusal, options))
        if chosen is None and not declines and not self.authors:
            return Verdict("unparsed", refusal, raw)
        return Verdict("correct" if chosen == correct else "incorrect", refusal, raw)
