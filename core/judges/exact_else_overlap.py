"""Exact values where the reference has one, else token overlap.

One verdict per answer. The reference alone chooses the rule, so that all answers to a question are
judged by the same one: numbers and dates, a yes or no, or a refusal are compared by
:mod:`midchart.core.judges.exact`; any other reference by :mod:`midchart.core.judges.token_overlap`,
since its words in order are rarely those of an answer. A question with options is judged by
:mod:`midchart.core.judges.choice`.
"""

from __future__ import annotations

from midchart.core.judges import JUDGES
from midchart.core.judges.choice import ChoiceJudge
from midchart.core.judges.exact import IN_ORDER, Exact
from midchart.core.judges.rules import OfflineJudge
from midchart.core.judges.token_overlap import TokenOverlap
from midchart.core.protocol import Protocol
from midchart.core.types import Answer, Gold, Instruction, Outcome, Verdict


@JUDGES.register("exact_else_overlap")
class ExactElseOverlap(OfflineJudge):
    """Equal values where the reference has any, else half of its words."""

    name, title = "exact_else_overlap", "Exact values, else token overlap (offline)"

    def __init__(self, protocol: Protocol) -> None:
        super().__init__(protocol)
        self.choice = ChoiceJudge(protocol)
        self.exact, self.overlap = Exact(protocol), TokenOverlap(protocol)

    def judge(self, instruction: Instruction, gold: Gold, answer: Answer) -> Verdict:
        """Judge ``answer`` by ``gold``; a question with options by the option chosen."""
        judge = self.choice.judge if instruction.options else super().judge
        return judge(instruction, gold, answer)

    def compare(self, reference: str, answer: str) -> tuple[Outcome, str]:
        outcome, raw = self.exact.compare(reference, answer)
        return self.overlap.compare(reference, answer) if raw == IN_ORDER else (outcome, raw)
