"""Map-reduce: chunks of 30 events are summarised, and the question is asked of the summaries.

docs/methods.md, Arms. Nothing of the record is kept word for word, so no sentence counts as kept
and what a summary holds of the evidence is not known. Summaries that the prompt cannot hold are
folded into summaries of summaries until it can, whatever the record's length; under the published
``map_reduce = "flat"`` they are not, and the prompt loses its end at about 50 chunks.

A summary does not depend on the question it will serve, so other questions on the record and a
resumed run find it on disk. Its key is the reader's ``identity`` (what its answers depend on) and
the prompt. A reader without an ``identity`` is called again by every process.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate, pairwise
from typing import Any, ClassVar

from midchart.core import config as settings
from midchart.core.arms import ARMS
from midchart.core.arms.base import Candidates, candidates
from midchart.core.errors import InputError, WorkFailed
from midchart.core.interfaces import Reader, read_each
from midchart.core.protocol import Protocol
from midchart.core.provenance import digest
from midchart.core.storage.files import replacing
from midchart.core.text import count_tokens
from midchart.core.text.prompt import body, build_prompt, frame_of, line_date, line_text
from midchart.core.types import (
    Answer,
    Budget,
    ContextLine,
    Instruction,
    Prompt,
    Record,
    Selection,
)

_CHUNK = 30
"""Events of a chunk (docs/methods.md, Arms)."""
FILL = 0.9
"""Target share of the prompt when folding: summaries differ in length; repeating costs more."""
SUMMARISE = (
    "Summarize this part of the patient record in a few sentences. Keep every diagnosis, "
    "medication with its dose, result with its value and unit, procedure and plan, each with its "
    "date. Add nothing that is not written above."
)
FOLD = (
    "These are summaries of consecutive parts of one patient record. Combine them into one "
    "summary of a few sentences. Keep every diagnosis, medication with its dose, result with its "
    "value and unit, procedure and plan, each with its date. Add nothing that is not written above."
)


@dataclass(frozen=True, slots=True)
class RecordPart:
    """A part of the record: a line or a summary, with its first and last time."""

    line: ContextLine
    begins: datetime | None
    ends: datetime | None


_Request = tuple[list[RecordPart], Prompt | None]
"""Parts and the prompt that asks for their summary; None: a part alone, which stays as it is."""


@ARMS.register("map_reduce")
class MapReduce:
    """Summaries of the whole record in place of its sentences.

    ``reader`` writes them, each of at most ``protocol.answer_tokens`` tokens; ``events`` is the
    size of a chunk. ``k`` and ``recency`` are ignored. Raises InputError without a reader or for
    one that cannot write.
    """

    name: str = "map_reduce"
    title: str = "Map-reduce (summaries)"
    by_relevance: ClassVar[bool] = False

    def __init__(
        self, protocol: Protocol, reader: Reader | None = None, events: int = _CHUNK
    ) -> None:
        self.check(protocol, events)
        if reader is None:
            raise InputError(
                "the arm 'map_reduce' works with a reader that writes its summaries; it is for "
                'runs: arms = [{ name = "map_reduce", reader = "qwen" }]'
            )
        if not getattr(reader, "generative", True):
            raise InputError(
                f"the arm 'map_reduce' takes a reader that writes; {reader.name!r} writes nothing "
                "of its own, so it cannot summarise"
            )
        self.protocol, self.reader, self.events = protocol, reader, events
        self._known: dict[str, Answer] = {}
        identity: str = getattr(reader, "identity", "")
        place = digest(reader.name, identity, str(protocol.answer_tokens))
        self._folder = settings.cache_folder() / "summaries" / place if identity else None

    @classmethod
    def check(cls, protocol: Protocol, events: int = _CHUNK) -> None:
        """Raise InputError for an invalid size of chunk."""
        if type(events) is not int or events < 1:
            raise InputError(
                f"'events' of the arm 'map_reduce' is {events!r}; it takes a whole number from 1"
            )

    def select(self, record: Record, instruction: Instruction, budget: Budget) -> Selection:
        """Summaries of all events within the cutoff, folded until they fit the prompt.

        ``budget.tokens`` covers the summaries without their dates; one that alone is longer is
        left out and counted in ``cut``. Raises InputError where the reader's window cannot hold
        two summaries, WorkFailed where the reader fails.
        """
        pool = candidates(record, instruction.cutoff, self.protocol)
        work = Counter[str]()
        chunks = self._chunks(pool)
        asked = [one for chunk in chunks for one in self._requests(SUMMARISE, chunk)]
        parts = self._summarised(asked, work)
        flat = self.protocol.map_reduce == "flat"
        while not flat and len(parts) > 1 and (by := self._excess(parts, instruction, budget)) > 1:
            parts = self._folded(parts, by, work)
            work["folds"] += 1
        lines = tuple(part.line for part in parts)
        kept_lines = self._within(lines, budget.tokens)
        trace = [
            ("candidates", str(len(pool.sentences))),
            *([("after the cutoff", str(pool.withheld))] if pool.withheld else []),
            ("reader", self.reader.name),
            ("chunks", str(len(chunks))),
            ("summaries asked for", str(work["requests"])),
            ("times folded", str(work["folds"])),
            ("tokens read for summaries", str(work["prompt_tokens"])),
            ("tokens of summaries written", str(work["output_tokens"])),
            *([("empty summaries", str(work["empty"]))] if work["empty"] else []),
        ]
        return Selection(
            record.id,
            instruction.id,
            self.name,
            (),
            sum(count_tokens(body(line)) for line in kept_lines),
            len(lines) - len(kept_lines),
            tuple(trace),
            kept_lines,
        )

    def _chunks(self, pool: Candidates) -> list[list[RecordPart]]:
        """The candidates' lines in chunks of ``events`` events with text."""
        by_event: dict[int, list[RecordPart]] = {}
        for sentence in pool.sentences:
            line = ContextLine(sentence.id, line_text(sentence, self.protocol))
            part = RecordPart(line, sentence.time, sentence.time)
            by_event.setdefault(sentence.span.event, []).append(part)
        events = list(by_event.values())
        return [
            [part for event in events[start : start + self.events] for part in event]
            for start in range(0, len(events), self.events)
        ]

    def _prompt(self, request: str, parts: Sequence[RecordPart]) -> Prompt:
        """A request for a summary; cut as the protocol states in a flat run only."""
        protocol = self.protocol
        if protocol.map_reduce == "folded":
            protocol = dataclasses.replace(protocol, truncation="context", context_tokens=0)
        lines = tuple(part.line for part in parts)
        asked = Selection("", "", self.name, (), 0, lines=lines)
        reader = self.reader
        return build_prompt(
            request, asked, protocol, reader.window, reader.count_tokens, frame_of(reader)
        )

    def _requests(self, request: str, parts: list[RecordPart]) -> list[_Request]:
        """Parts as requests that lose nothing: in halves where they are too long for one.

        In a flat run they are one request, which loses what the prompt cannot hold; a summary alone
        is not folded.
        """
        if request == FOLD and len(parts) == 1:
            return [(parts, None)]
        prompt = self._prompt(request, parts)
        if not prompt.cut or self.protocol.map_reduce == "flat":
            return [(parts, prompt)]
        if len(parts) == 1:
            parts = self._halves(parts[0])
        middle = len(parts) // 2
        return [*self._requests(request, parts[:middle]), *self._requests(request, parts[middle:])]

    def _halves(self, part: RecordPart) -> list[RecordPart]:
        """A line split at the blank nearest to its middle, if any."""
        date, _, text = part.line.text.partition("] ")
        middle = len(text) // 2
        blanks = [i for i in (text.rfind(" ", 1, middle), text.find(" ", middle)) if i > 0]
        at = min(blanks, key=lambda i: abs(i - middle)) if blanks else middle
        first, second = text[:at].strip(), text[at:].strip()
        if not first or not second:
            raise InputError(
                f"the reader's window of {self.reader.window} tokens holds no line of the record "
                "in addition to the summary request; the arm 'map_reduce' needs a longer one"
            )

        def half(text: str) -> RecordPart:
            line = dataclasses.replace(part.line, text=f"{date}] {text}")
            return dataclasses.replace(part, line=line)

        return [half(first), half(second)]

    def _summarised(self, asked: Sequence[_Request], work: Counter[str]) -> list[RecordPart]:
        """A part for each request, but for an empty summary."""
        parts: list[RecordPart] = []
        summaries = iter(self._summaries([prompt for _, prompt in asked if prompt is not None]))
        for piece, prompt in asked:
            if prompt is None:
                parts.append(piece[0])
                continue
            summary = next(summaries)
            work["requests"] += 1
            work["prompt_tokens"] += summary.prompt_tokens
            work["output_tokens"] += summary.output_tokens
            work["empty"] += not summary.text
            if summary.text:
                parts.append(_summary(piece, summary, self.protocol))
        return parts

    def _summaries(self, prompts: Sequence[Prompt]) -> list[Answer]:
        """A summary for each prompt; equal prompts are asked once, and those on disk never.

        Raises WorkFailed where the reader fails; what it wrote before is kept.
        """
        keys = [digest(prompt.text) for prompt in prompts]
        missing = {
            key: prompt
            for key, prompt in zip(keys, prompts, strict=True)
            if key not in self._known and not self._on_disk(key)
        }
        names, reason = list(missing), "the reader gave none"
        with closing(read_each(self.reader, list(missing.values()))) as answers:
            for index, answer in answers:
                if answer.status == "ok":
                    self._keep(names[index], answer, missing[names[index]])
                else:
                    reason = answer.reason or "no reason was given"
        lacking = len(missing.keys() - self._known.keys())
        if lacking:
            raise WorkFailed(f"{lacking} of {len(keys)} summaries failed: {reason}")
        return [self._known[key] for key in keys]

    def _keep(self, key: str, answer: Answer, prompt: Prompt) -> None:
        stored: dict[str, Any] = {
            "text": answer.text.strip(),
            "prompt_tokens": answer.prompt_tokens or prompt.tokens,
            "output_tokens": answer.output_tokens,
        }
        self._known[key] = Answer(**stored)
        if self._folder is not None:
            with replacing(self._folder / f"{key}.json") as fresh:
                fresh.write_text(json.dumps(stored), encoding="ascii")

    def _on_disk(self, key: str) -> bool:
        """Whether the summary is on disk; if so, it is loaded."""
        path = self._folder / f"{key}.json" if self._folder is not None else None
        if path is None or not path.is_file():
            return False
        self._known[key] = Answer(**json.loads(path.read_bytes()))
        return True

    def _excess(self, parts: list[RecordPart], instruction: Instruction, budget: Budget) -> float:
        """Length of the summaries relative to prompt and budget (up to 1: they fit).

        Under the right truncation they are folded to what it leaves: the question survives it.
        """
        protocol, count = self.protocol, self.reader.count_tokens
        window, frame = self.reader.window, frame_of(self.reader)
        around = count(frame.text("", instruction.question))
        if protocol.truncation == "right":
            if around <= protocol.right_tokens:  # else no context is short enough
                window = min(window, protocol.right_tokens + protocol.answer_tokens)
            protocol = dataclasses.replace(protocol, truncation="context")
        lines = tuple(part.line for part in parts)
        asked = Selection("", "", self.name, (), 0, lines=lines)
        excess = 0.0
        if budget.tokens is not None:
            line_tokens = sum(count_tokens(body(line)) for line in lines)
            excess = line_tokens / budget.tokens if budget.tokens else float(line_tokens + 1)
        if build_prompt(instruction.question, asked, protocol, window, count, frame).cut:
            room = window - protocol.answer_tokens - around
            room = max(1, min(room, protocol.context_tokens or room))
            needed = sum(count(line.text) + 1 for line in lines)
            excess = max(excess, needed / room, 1.01)
        return excess

    def _folded(self, parts: list[RecordPart], by: float, work: Counter[str]) -> list[RecordPart]:
        """Groups of ``by`` neighbours, two at least, so that no more is lost than necessary."""
        n = len(parts)
        groups = max(1, min((n + 1) // 2, int(FILL * n / by)))
        edges = [round(i * n / groups) for i in range(groups + 1)]
        asked = [one for a, b in pairwise(edges) for one in self._requests(FOLD, parts[a:b])]
        if len(asked) == n:
            raise InputError(
                f"the reader's window of {self.reader.window} tokens cannot hold two summaries; "
                "the arm 'map_reduce' needs a longer one, or shorter answers (answer_tokens)"
            )
        return self._summarised(asked, work)

    def _within(
        self, lines: tuple[ContextLine, ...], tokens: int | None
    ) -> tuple[ContextLine, ...]:
        """The lines that fit a budget, from the side that the protocol keeps."""
        if tokens is None:
            return lines
        step = -1 if self.protocol.full_side == "latest" else 1
        total = accumulate(count_tokens(body(line)) for line in lines[::step])
        fitting = sum(tokens_so_far <= tokens for tokens_so_far in total)
        return lines[::step][:fitting][::step]


def _summary(piece: Sequence[RecordPart], summary: Answer, protocol: Protocol) -> RecordPart:
    """A summary as a part, with the id of the first sentence that it replaces."""
    begins, ends = piece[0].begins, piece[-1].ends
    first, last = line_date(begins, protocol), line_date(ends, protocol)
    dates = first if first == last else f"{first} to {last}"
    return RecordPart(
        ContextLine(piece[0].line.sentence_id, f"[{dates}] {summary.text}", ()), begins, ends
    )
