"""A reader that reads every prompt twice, the second time with its context reversed.

Where the two answers are not the same words it answers "Not documented.": an answer that depends on
the order of the lines is not given (protocol field ``second_read``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from midchart.core.interfaces import Reader, read_each, streams
from midchart.core.protocol import Protocol
from midchart.core.readers import ManyReader
from midchart.core.text import words
from midchart.core.text.prompt import NOT_DOCUMENTED
from midchart.core.types import CUT_OFF, Answer, Prompt


def as_protocol_reads(reader: Reader, protocol: Protocol) -> Reader:
    """The reader itself, or one that reads twice where the protocol says so."""
    return TwiceReader(reader) if protocol.second_read == "reversed" else reader


class TwiceReader(ManyReader):
    """Another reader's answers, and "Not documented." where they change with the context's order.

    All else is the reader's: name, window, tokens, frame. Tokens and seconds are of both readings.
    """

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.name, self.title, self.window = reader.name, reader.title, reader.window
        self.group: int = getattr(reader, "group", 1)
        self.streams = streams(reader)

    def count_tokens(self, text: str) -> int:
        """Length of ``text`` in the reader's tokens."""
        return self.reader.count_tokens(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.reader, name)

    def read_many(self, prompts: Iterable[Prompt]) -> Iterator[tuple[int, Answer]]:
        """Each prompt's index and answer, as both readings of it are there."""
        both = (one for prompt in prompts for one in (prompt, self._reversed(prompt)))
        first: dict[int, Answer] = {}
        for place, answer in read_each(self.reader, both):
            index = place // 2
            if index not in first:
                first[index] = answer
            else:
                pair = (answer, first.pop(index))
                yield index, agreed(*(pair if place % 2 == 0 else pair[::-1]))

    def _reversed(self, prompt: Prompt) -> Prompt:
        """The prompt with the lines of its context in the other order."""
        context = "\n".join(line.text for line in prompt.context)
        if not context:
            return prompt
        lines = prompt.context[::-1]
        # The question follows the context, and may precede it as well.
        head, _, tail = prompt.text.partition(context)
        turned = "\n".join(line.text for line in lines)
        text = head + turned + tail
        begin, there, end = prompt.user.partition(context)
        return replace(
            prompt,
            text=text,
            context=lines,
            tokens=self.reader.count_tokens(text),
            user=begin + turned + end if there else prompt.user,
        )


def agreed(first: Answer, second: Answer) -> Answer:
    """The first of two answers where both have the same words, else "Not documented."."""
    both = (first, second)
    cut = [one for one in both if one.ended in CUT_OFF]
    if failed := [one for one in both if one.status != "ok"] or cut:
        return failed[0]
    costs = (first.cost_usd, second.cost_usd)
    same = words(first.text) == words(second.text)
    answer = first if same else replace(first, text=NOT_DOCUMENTED, sources=(), quotes=False)
    reason = "" if same else "the answer changes with the order of the context"
    return replace(
        answer,
        reason=reason or first.reason,
        prompt_tokens=first.prompt_tokens + second.prompt_tokens,
        output_tokens=first.output_tokens + second.output_tokens,
        reused_tokens=first.reused_tokens + second.reused_tokens,
        cost_usd=None if None in costs else sum(filter(None, costs)),
        reasoning_tokens=first.reasoning_tokens + second.reasoning_tokens,
        seconds=first.seconds + second.seconds,
        peak_mb=max(first.peak_mb, second.peak_mb),
    )
