"""What a lesson is: a training record for readers, its questions, and how it was to be made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from core.text.prompt import HEAD, MIDDLE, TAIL, written

Place = Literal["uniform", "edges"]


@dataclass(frozen=True, slots=True)
class ExamplePlan:
    """How lessons are made.

    lines: fewest and most lines of a record (each at least 4). place: where evidence stands,
    "uniform" over the lines or near the "edges". distractors: most lines of the same thing with
    another date or value a fact has. asked: questions a lesson has. absent: share of questions
    whose answer the record does not give. facts: share of the lines that facts and their
    distractors take. kinds: names of kinds to ask of (empty: all; see
    ``lessons.kinds``). made_up: share of names that exist nowhere. near: share of facts told in a
    sentence beside which stands another on their subject that answers nothing. withheld: share of
    facts of which only that stands in the record, and distractors that answer nothing. latest:
    share of records that are some earlier lines and the whole of one latest note.
    """

    lines: tuple[int, int] = (24, 24)
    place: Place = "uniform"
    distractors: int = 2
    asked: int = 20
    absent: float = 0.2
    facts: float = 0.4
    kinds: tuple[str, ...] = ()
    made_up: float = 0.6
    near: float = 0.4
    withheld: float = 0.15
    latest: float = 0.0


@dataclass(frozen=True, slots=True)
class ExampleQuestion:
    """A question of a lesson; its answer is what the line that answers it says, word for word
    and without its date, or :data:`core.text.prompt.NOT_DOCUMENTED`.

    ``line`` is the index of the line that answers it, None where the record does not;
    ``distractors`` are lines of the same thing that do not answer it.
    """

    kind: str
    question: str
    answer: str
    line: int | None
    distractors: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TrainingExample:
    """A record's lines, each with its date as a reader sees it, and what is asked about them."""

    lines: tuple[str, ...]
    asked: tuple[ExampleQuestion, ...]

    @property
    def opening(self) -> str:
        """What all prompts of the lesson begin with."""
        return HEAD + "\n".join(self.lines)

    @staticmethod
    def ending(question: str) -> str:
        """How a prompt goes on after :attr:`opening`, up to where the answer begins."""
        return MIDDLE + question + TAIL

    def written(self, number: int) -> str:
        """What a reader is to write to a question."""
        line = self.asked[number].line
        return written(None if line is None else self.lines[line])

    def prompt(self, number: int) -> str:
        """The whole prompt of a question, as :func:`core.text.prompt.build_prompt` writes it."""
        return self.opening + self.ending(self.asked[number].question)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A fact before it has a place: what its evidence says, what its distractors say, and ways
    to ask for it. ``others`` come before the evidence where ``last``; where ``apart`` they answer
    the question in no record, even where the evidence is missing. Nor do ``near`` lines, which are
    on the same subject and stand anywhere, and ``beside`` lines, which are of the same medicine and
    stand in every record that could tell the fact."""

    kind: str
    says: str
    asks: tuple[str, ...]
    others: tuple[str, ...] = ()
    last: bool = False
    apart: bool = False
    near: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
