"""From a selection to a row of answers: the prompt is built, read, and written down.

Prompts for a reader that reads many at a time (:class:`core.seams.GroupReader`) wait in a pile of
their own until a group is worth reading; those of one patient are not parted for it. Other
readers read each prompt at once. A row is appended as soon as its answer is there, so a worker
that dies loses what was in flight and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from math import isfinite
from typing import Any

from core.judges.failure import failure_kind
from core.judges.offline import reference_of
from core.packing import build_prompt
from core.run.entries import ArmEntry
from core.run.evidence import Question, buffer_claims
from core.run.folder import now
from core.run.groups import outcomes
from core.run.job import Job, Row, reason_of
from core.run.rows import ANSWERS, blank, digest, entry_text, item_of
from core.seams import GroupReader, Reader
from core.types import Answer, Prompt, Selection

LARGEST_PILE = 4
"""Groups that a pile may hold before it is read although its patient is not at an end."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question put to a reader over an arm entry's selection; ``reader`` is its label."""

    entry: ArmEntry
    question: Question
    reader: str

    @property
    def item(self) -> str:
        """The name of this piece of work in the run."""
        return item_of(self.entry, self.question.instruction.id, self.reader)


class Reading:
    """All reading of a pass. ``answered`` is called with every row once it is written."""

    def __init__(self, job: Job, answered: Callable[[Asked, Row], None]) -> None:
        self.job, self.answered = job, answered
        self._piles: dict[str, list[tuple[Asked, Row, Prompt]]] = {}

    def ask(self, asked: Asked, selection: Selection | None, selected: Row) -> None:
        """Have a question read; ``selected`` are the columns that tell of the selection."""
        row: Row = {**blank(ANSWERS), **selected, "reader": asked.reader}
        if selection is None:
            self._write(asked, row, None)
            return
        try:
            reader = self.job.reader(asked.reader)
            prompt = build_prompt(
                asked.question.instruction.question,
                selection,
                self.job.protocol,
                reader.window,
                reader.count_tokens,
            )
        except Exception as error:  # noqa: BLE001 - becomes the row's reason
            row |= {"status": "failed", "reason": reason_of(error)}
            self._write(asked, row, None)
            return
        claims = buffer_claims(self.job.protocol, asked.entry.shown_k)
        row |= asked.question.prompted(prompt, selection, claims)
        pile = self._piles.setdefault(asked.reader, [])
        pile.append((asked, row, prompt))
        group = _group(reader)
        if group <= 1 or len(pile) >= LARGEST_PILE * group:
            self._read(asked.reader)
        else:
            self.job.tell()

    def end_of_record(self) -> None:
        """Read every pile that is worth a group, now that a patient's prompts are all there."""
        for label, pile in self._piles.items():
            if pile and len(pile) >= _group(self.job.reader(label)):
                self._read(label)

    def finish(self) -> None:
        """Read what is left."""
        for label, pile in self._piles.items():
            if pile:
                self._read(label)

    def _read(self, label: str) -> None:
        pile, self._piles[label] = self._piles[label], []
        reader = self.job.reader(label)
        prompts = [prompt for _, _, prompt in pile]
        begun = time.perf_counter()
        answers = outcomes(lambda: _read_all(reader, prompts), len(pile), _failed)
        with closing(answers):
            for index, given in answers:
                asked, row, prompt = pile[index]
                answer = _checked(given)
                moment = time.perf_counter()
                row |= {
                    "status": answer.status,
                    "reason": answer.reason or None,
                    "answer": answer.text if answer.status == "ok" else None,
                    "sources": list(answer.sources),
                    "read_tokens": answer.prompt_tokens,
                    "output_tokens": answer.output_tokens,
                    "reused_tokens": answer.reused_tokens,
                    "seconds": answer.seconds or moment - begun,
                    "peak_mb": answer.peak_mb or None,
                    "how": answer.how or None,
                }
                self._write(asked, row, prompt, answer.quotes)
                begun = time.perf_counter()

    def _write(self, asked: Asked, row: Row, prompt: Prompt | None, quotes: bool = False) -> None:
        if prompt is not None:
            row |= {
                "prompt": prompt.text,
                "prompt_hash": digest(prompt.text),
                "question_survived": prompt.question_survived,
                "failure_kind": _failure_kind(asked.question, row, prompt, quotes),
            }
        identity = (
            entry_text(asked.entry),
            asked.reader,
            asked.question.instruction.id,
            prompt.text if prompt is not None else "",
            repr(self.job.protocol),
        )
        row |= {"key": digest(*identity), "item": asked.item, "time": now()}
        self.job.append("answers", row)
        self.answered(asked, row)


def _group(reader: Reader) -> int:
    return reader.group if isinstance(reader, GroupReader) else 1


def _failure_kind(question: Question, row: Row, prompt: Prompt, quotes: bool) -> str | None:
    """What kind of failure an answer is if a judge says wrong; None without answer or gold."""
    if row["answer"] is None or question.gold is None:
        return None
    return failure_kind(
        question.instruction.question,
        row["answer"],
        reference_of(question.gold),
        (line.text for line in prompt.context),
        prompt.question_survived,
        quotes,
    )


def _checked(answer: object) -> Answer:
    """A reader's answer, or a failed one where it is no answer: a reader is anyone's code."""
    if not isinstance(answer, Answer):
        return _failed(f"the reader gave a {type(answer).__name__} instead of an answer")
    text: Any = answer.text
    if not isinstance(text, str):
        return _failed(f"the reader gave a {type(text).__name__} as the text of its answer")
    if answer.status not in ("ok", "failed"):
        return _failed(f"the reader gave the status {answer.status!r:.60}")
    sources: Any = answer.sources
    if not isinstance(sources, list | tuple):
        return _failed(f"the reader gave a {type(sources).__name__} as the sources of its answer")
    texts: tuple[Any, ...] = (answer.reason, answer.how, *sources)
    if not all(isinstance(one, str) for one in texts):
        return _failed("the reader gave a reason, a way or sources that are no texts")
    counts: tuple[Any, ...] = (answer.prompt_tokens, answer.output_tokens, answer.reused_tokens)
    times: tuple[Any, ...] = (answer.seconds, answer.peak_mb)
    if not all(type(n) is int and n >= 0 for n in counts) or not all(map(_is_size, times)):
        return _failed("the reader gave counts or times that are no such numbers")
    if answer.status == "failed" and not answer.reason:
        return _failed("the reader failed without a reason")
    return answer


def _is_size(value: object) -> bool:
    """Whether a value is a finite number from 0 on."""
    return isinstance(value, int | float) and isfinite(value) and value >= 0


def _failed(reason: str) -> Answer:
    return Answer("", "failed", reason)


def _read_all(reader: Reader, prompts: Sequence[Prompt]) -> Iterator[tuple[int, Answer]]:
    if isinstance(reader, GroupReader):
        yield from reader.read_many(prompts)
        return
    for index, prompt in enumerate(prompts):
        yield index, reader.read(prompt)
