"""What answers a prompt, one file each; the registry scans this folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from midchart.core.interfaces import Reader
from midchart.core.registry import Registry
from midchart.core.types import Answer, Prompt

READERS: Registry[Reader] = Registry("reader", "midchart.core.readers")


class ManyReader:
    """A reader of many prompts, to which one prompt is a group of one."""

    def read_many(self, prompts: Sequence[Prompt]) -> Iterator[tuple[int, Answer]]:
        """Each prompt's index and answer, in any order."""
        raise NotImplementedError

    def read(self, prompt: Prompt) -> Answer:
        """The answer to ``prompt``; a failure is a failed answer with its reason."""
        return next(iter(self.read_many([prompt])))[1]
