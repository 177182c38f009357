"""Exact: every number and date of the reference is in the answer, with equal value.

The paper's "exact match for structured values". Where the reference holds numbers or dates, they
alone decide. A reference that is only yes or no is compared with the answer's; where the answer
is neither, the verdict is unparsed. The words of any other reference must be in the answer, in
order, ignoring case and punctuation.
"""

from __future__ import annotations

import re

from midchart.core.judges import JUDGES
from midchart.core.judges.rules import OfflineJudge
from midchart.core.judges.values import Day, Quantity, quantities, take_dates
from midchart.core.text import words
from midchart.core.text.refusals import is_refusal
from midchart.core.types import Outcome

IN_ORDER = "words in order"
"""What a verdict's ``raw`` says where the reference holds no value to compare: no number, date,
yes, no or refusal."""
_REFERENCE_POLARITY = re.compile(r"\W*(yes|no)(?:\s*[.,;:!–—-].*|\s*)", re.IGNORECASE | re.DOTALL)
_CLAUSE = re.compile(r"(?:^|[.!?:;,\n])\W*(yes|no)\b(?=\s*(?:[.,;:!–—\n-]|$))", re.IGNORECASE)
_OPENING = re.compile(r"\W*(?:answer\s*:\s*)?(yes|no)\b", re.IGNORECASE)


def reference_polarity(text: str) -> str:
    """ "yes" or "no" where a reference opens with it as a separate clause, else ""."""
    match = _REFERENCE_POLARITY.fullmatch(text)
    return match[1].lower() if match else ""


def answer_polarity(text: str) -> str:
    """ "yes" or "no" where an answer opens with the word or has it as a clause; "" where it has
    neither or both."""
    opening = _OPENING.match(text)
    polarities = {match[1].lower() for match in _CLAUSE.finditer(text)}
    if opening:
        polarities.add(opening[1].lower())
    return polarities.pop() if len(polarities) == 1 else ""


def _contains(longer: list[str], shorter: list[str]) -> bool:
    n = len(shorter)
    return any(longer[i : i + n] == shorter for i in range(len(longer) - n + 1))


@JUDGES.register("exact")
class Exact(OfflineJudge):
    """Equal numbers and dates; else polarity; else the reference's words in order."""

    name, title = "exact", "Exact values (offline)"

    def compare(self, reference: str, answer: str) -> tuple[Outcome, str]:
        days, rest = take_dates(reference)
        numbers = quantities(rest)
        if days or numbers:
            return self._values(days, numbers, answer)
        if is_refusal(reference):
            return self._verdict(is_refusal(answer), "the reference is a refusal")
        polarity = reference_polarity(reference)
        if polarity:
            if is_refusal(answer):
                return "incorrect", f"{polarity} expected, refused"
            answered = answer_polarity(answer)
            if not answered:
                return "unparsed", f"{polarity} expected, neither yes nor no said"
            return self._verdict(answered == polarity, f"{polarity} expected, {answered} said")
        return self._verdict(_contains(words(answer), words(reference)), IN_ORDER)

    def _values(self, days: list[Day], numbers: list[Quantity], answer: str) -> tuple[Outcome, str]:
        answer_days, rest = take_dates(answer)
        answer_numbers = quantities(rest)

        def has(number: Quantity) -> bool:
            # A year alone is also matched by a date of that year.
            in_dates = not number.unit and number.bare in {day.year for day in answer_days}
            return in_dates or any(other.says(number) for other in answer_numbers)

        matched = sum(has(number) for number in numbers)
        matched += sum(any(other.says(day) for other in answer_days) for day in days)
        expected = len(numbers) + len(days)
        return self._verdict(matched == expected, f"{matched} of {expected} values")

    @staticmethod
    def _verdict(correct: bool, raw: str) -> tuple[Outcome, str]:
        return ("correct" if correct else "incorrect"), raw
