"""Interfaces of loaders, arms, readers, judges and attentions.

Gold is seen by judges and scoring alone: no arm's or reader's signature takes it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

from midchart.core.types import (
    Answer,
    Budget,
    Gold,
    Instruction,
    Prompt,
    Record,
    Selection,
    Verdict,
)

Watch = Callable[[str], None]
"""Called with a description of a long wait; raises an exception to end it."""


def ignore(text: str) -> None:
    """A watch that does nothing."""


class Arm(Protocol):
    """A way to select what of a record a reader sees for a question."""

    name: str
    title: str

    def select(self, record: Record, instruction: Instruction, budget: Budget) -> Selection:
        """Pick sentences of ``record`` for ``instruction`` within ``budget``."""
        ...


class Reader(Protocol):
    """Answers a prompt.

    Optional attributes: ``generative`` is False where it only selects lines of its prompt;
    ``frame`` the text around context and question where its prompts are not ChatML.
    """

    name: str
    title: str
    window: int
    """Longest prompt, in the reader's own tokens."""

    def count_tokens(self, text: str) -> int:
        """Length of ``text`` in the reader's own tokens."""
        ...

    def read(self, prompt: Prompt) -> Answer:
        """Answer ``prompt``; a failure is an Answer with status failed and a reason."""
        ...


@runtime_checkable
class GroupReader(Reader, Protocol):
    """A reader that reads many prompts faster together than one after another.

    ``group`` is how many are worth collecting; the prompts of one patient are adjacent. Optional
    attribute: ``streams`` is True where a service answers; ``read_many`` is then called in a
    separate thread, and takes prompts as it can use them from an iterable that may wait for the
    next one.
    """

    group: int

    def read_many(self, prompts: Sequence[Prompt]) -> Iterator[tuple[int, Answer]]:
        """Each prompt's index and answer, in any order; closing the iterator stops the reader."""
        ...


def streams(member: object) -> bool:
    """Whether a reader or judge is a service that takes items as they are made."""
    return bool(getattr(member, "streams", False))


def read_each(reader: Reader, prompts: Iterable[Prompt]) -> Generator[tuple[int, Answer]]:
    """Each prompt's index and answer, in groups where the reader reads in groups."""
    if isinstance(reader, GroupReader):
        taken: Any = prompts if streams(reader) else list(prompts)
        yield from reader.read_many(taken)
        return
    for index, prompt in enumerate(prompts):
        yield index, reader.read(prompt)


class Judge(Protocol):
    """Says whether an answer is right."""

    name: str
    title: str

    def judge(self, instruction: Instruction, gold: Gold, answer: Answer) -> Verdict:
        """Judge ``answer``; missing evidence is a failed verdict, never a judged one."""
        ...


@runtime_checkable
class GroupJudge(Judge, Protocol):
    """A judge that judges many answers faster together, or streams, as :class:`GroupReader`."""

    group: int

    def judge_many(
        self, items: Sequence[tuple[Instruction, Gold, Answer]]
    ) -> Iterator[tuple[int, Verdict]]:
        """Each item's index and verdict, in order of completion."""
        ...


class Attention(Protocol):
    """A way to attend to a patient's events; a PyTorch module, so its arrays are tensors."""

    name: str
    title: str
    gated: bool
    """Whether it takes a gate, one number a position."""

    def __call__(
        self,
        q: Any,
        k: Any,
        v: Any,
        mask: Any,
        gate: Any = None,
        norms: Any = None,
        need_weights: bool = False,
    ) -> tuple[Any, Any | None]:
        """Out [batch, heads, queries, dim] and, where asked for, weights [..., queries, time]."""
        ...
