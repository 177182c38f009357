"""The lab's vocabulary: a token is a whole word, so that a line of a record is four tokens."""

from __future__ import annotations

from dataclasses import dataclass

PAD, BEGIN, ASK, END = range(4)
"""Nothing, the beginning of a record, the end of a question, the end of a line."""
LINE = 4
"""Tokens of a line: date, entity, value, end."""
QUESTION = 3
"""Tokens of a question: date, entity, ask. The answer is what comes next."""
NAMES = (
    "lisinopril", "metformin", "warfarin", "furosemide", "digoxin", "amlodipine", "atorvastatin",
    "prednisone", "levothyroxine", "omeprazole", "insulin", "heparin", "creatinine", "potassium",
    "sodium", "haemoglobin", "platelets", "glucose", "lactate", "troponin", "albumin", "bilirubin",
    "INR", "ferritin", "calcium", "magnesium", "phosphate", "urea", "weight", "pulse",
    "temperature", "pressure",
)  # fmt: skip
FIRST_YEAR = 2010


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Dates (months, in order), entities and values, one token each."""

    dates: int = 120
    entities: int = 32
    values: int = 64

    @property
    def date0(self) -> int:
        """The first date's token."""
        return END + 1

    @property
    def entity0(self) -> int:
        """The first entity's token."""
        return self.date0 + self.dates

    @property
    def value0(self) -> int:
        """The first value's token."""
        return self.entity0 + self.entities

    @property
    def size(self) -> int:
        """How many tokens there are."""
        return self.value0 + self.values

    def word(self, token: int) -> str:
        """What a token says."""
        if token >= self.value0:
            return str(10 + token - self.value0)
        if token >= self.entity0:
            round_, at = divmod(token - self.entity0, len(NAMES))
            return NAMES[at] + (f" {round_ + 1}" if round_ else "")
        if token >= self.date0:
            year, month = divmod(token - self.date0, 12)
            return f"{FIRST_YEAR + year}-{month + 1:02d}"
        return ("", "record:", "?", ".")[token]

    def text(self, tokens: list[int]) -> str:
        """What tokens say, one after another."""
        return " ".join(filter(None, (self.word(token) for token in tokens)))


VOCABULARY = Vocabulary()
