"""A reader that writes: each answer is drawn reproducibly from the prompt's lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from midchart.core.protocol import Protocol
from midchart.core.text import count_tokens
from midchart.core.text.prompt import body
from midchart.core.types import Answer, Prompt


class Writer:
    """Answers with the first ``words`` words of what it is given; counts what it is asked.

    ``identity`` "" is a reader that does not say what its answers depend on; prompts that hold
    ``fails_on`` fail.
    """

    name, title = "test_writer", "Writer"

    def __init__(
        self, window: int = 4000, words: int = 12, identity: str = "", fails_on: str = ""
    ) -> None:
        self.window, self.words, self.fails_on = window, words, fails_on
        self.identity = identity
        self.prompts: list[Prompt] = []

    def count_tokens(self, text: str) -> int:
        return count_tokens(text)

    def read(self, prompt: Prompt) -> Answer:
        self.prompts.append(prompt)
        if self.fails_on and self.fails_on in prompt.text:
            return Answer("", "failed", "it would not")
        words_read = " ".join(body(line) for line in prompt.context).split()
        text = " ".join(words_read[: self.words])
        return Answer(text, prompt_tokens=prompt.tokens, output_tokens=count_tokens(text))


class GroupWriter(Writer):
    """The same, many at a time and backwards."""

    group = 8

    def read_many(self, prompts: Sequence[Prompt]) -> Iterator[tuple[int, Answer]]:
        for index in reversed(range(len(prompts))):
            yield index, self.read(prompts[index])


class SpecWriter(Writer):
    """A writer as a spec's readers are built; tests register it as test_writer."""

    def __init__(self, protocol: Protocol, words: int = 12, window: int = 4000) -> None:
        super().__init__(window, words, identity=f"words {words}")
