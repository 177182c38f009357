"""Choice: whether the option that an answer chooses is the correct one.

Scored as LongHealth's authors do (arXiv 2401.14490): by the letter; an answer that chooses no
option is incorrect. A question without options is a failed verdict.
"""

from __future__ import annotations

from core.judges import JUDGES
from core.judges.rules import is_refusal, no_answer
from core.protocol import Protocol
from core.text.prompt import LETTERS, chosen_option, correct_option
from core.types import Answer, Gold, Instruction, Verdict


@JUDGES.register("choice")
class Choice:
    """Correct where the letter, or the text, of the correct option is answered."""

    name, title = "choice", "Multiple choice (offline)"

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol

    def judge(self, instruction: Instruction, gold: Gold, answer: Answer) -> Verdict:
        """A verdict whose ``raw`` names the chosen and the correct letter."""
        if answer.status == "failed":
            return no_answer(answer)
        if not instruction.options:
            return Verdict("failed", reason="the question has no options")
        correct = correct_option(gold.answer, instruction.options)
        if correct is None:
            return Verdict("failed", reason="the reference is none of the question's options")
        chosen = chosen_option(answer.text, instruction.options)
        letter = "none" if chosen is None else LETTERS[chosen]
        text = answer.text if chosen is None else instruction.options[chosen]
        raw = f"{letter} chosen, {LETTERS[correct]} is correct"
        return Verdict("correct" if chosen == correct else "incorrect", is_refusal(text), raw)
