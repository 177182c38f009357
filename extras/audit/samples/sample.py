"""What a log of another system says of one question that it was asked.

A sample is a question, what the system retrieved for it, the prompt it gave its model, and the
answer: as the log states them, nothing computed. What a log does not say is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Chunk:
    """A text that a system retrieved: a part of a document, a sentence, a whole document.

    ``identifier`` is the system's own name of it; ``score`` what it was ranked by (None: unsaid).
    """

    text: str
    identifier: str = ""
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """What a system had after one step: ``name`` is "retrieved", "reranked" or its own
    name; ``chunks`` are in the system's order. Several rounds of retrieval are several steps."""

    name: str
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a prompt as given: its role (system, user, assistant, tool) and its text."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Sample:
    """One question asked of one system.

    ``id`` is unique among the samples of a file; ``place`` the file and line or index it was read
    from, for messages. ``messages`` is the prompt exactly as the model got it (a completion's is
    one user message); ``context`` the part of it that a log gives apart as the record's text
    ("": only the prompt is known). ``steps`` come in the order of the system's work. ``reference``
    holds the accepted answers, ``evidence`` the annotated chunks of evidence. ``scores`` are the
    log's own, by the name of its metric, of which larger is better unless the log says otherwise.
    ``ended`` is how the answer ended, as :data:`midchart.core.types.Answer` has it ("": unsaid).
    ``input_tokens`` and ``output_tokens`` are counted by the system (None: unsaid).
    """

    id: str
    place: str
    question: str
    answer: str
    patient: str = ""
    messages: tuple[Message, ...] = ()
    context: str = ""
    steps: tuple[Step, ...] = ()
    options: tuple[str, ...] = ()
    reference: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    system: str = ""
    model: str = ""
    task: str = ""
    scores: Mapping[str, float] = field(default_factory=dict)
    ended: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None


class SampleFormat(Protocol):
    """One format of logs.

    ``recognises`` looks at a file or folder cheaply; ``samples`` gives what can be read and calls
    ``trouble`` once for each part that cannot be, in one line with file, place and remedy.
    """

    name: str
    title: str

    def recognises(self, path: Path) -> bool: ...

    def samples(self, path: Path, trouble: Callable[[str], None]) -> Iterator[Sample]: ...
