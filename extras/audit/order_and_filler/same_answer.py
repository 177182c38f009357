"""Whether two answers to one question say the same.

The rules of the judge ``exact_else_overlap``, with each answer as the reference of the other:
values and dates are equal, a yes is a yes, and at least half of the words of each are in the other.
With options, the same one is chosen.
"""

from __future__ import annotations

from midchart.core.judges.exact_else_overlap import ExactElseOverlap
from midchart.core.judges.rules import is_refusal
from midchart.core.protocol import Protocol
from midchart.core.text import words
from midchart.core.text.choices import chosen_option
from midchart.core.types import Answer


class SameAnswer:
    """Compares answers of equal status; symmetric."""

    def __init__(self, protocol: Protocol) -> None:
        self.rule = ExactElseOverlap(protocol)

    def same(self, first: Answer, second: Answer, options: tuple[str, ...] = ()) -> bool:
        """Whether both answers say the same; two that decline do, and so do two without a word."""
        if words(first.text) == words(second.text):
            return True
        if options:
            chosen = [chosen_option(one.text, options) for one in (first, second)]
            if chosen != [None, None]:
                return chosen[0] == chosen[1]
        declined = [is_refusal(one.text) for one in (first, second)]
        if any(declined) or not (words(first.text) and words(second.text)):
            return all(declined)
        return self._holds(first, second) and self._holds(second, first)

    def _holds(self, reference: Answer, answer: Answer) -> bool:
        return self.rule.compare(reference.text, answer.text)[0] == "correct"
