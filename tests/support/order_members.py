"""Readers whose answers depend on order, filler, the question's words or chance in a known way."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from midchart.core.text import content_words, count_tokens, words
from midchart.core.types import Answer
from tests.support.run_members import registered

OTHER_ANSWER = 0.3
"""How often :class:`Noisy` gives another answer."""


class FirstLine:
    """Quotes the first line. Told to (``count:file``), it makes a file at one of its answers."""

    name, title, window = "test_first_line", "First line", 100_000

    def __init__(self, protocol, window=100_000):
        self.window, self.answers = window, 0
        count, _, self.file = os.environ.get("TEST_CANCEL_AT", "-1:").partition(":")
        self.cancel_at = int(count)

    def count_tokens(self, text):
        return count_tokens(text)

    def read(self, prompt):
        self.answers += 1
        if self.answers == self.cancel_at:
            Path(self.file).touch()
        return Answer(self.answer(prompt), prompt_tokens=prompt.tokens)

    def answer(self, prompt):
        return prompt.context[0].text.partition("] ")[2]


class ByWords(FirstLine):
    """Quotes the line with most words of the question, wherever it stands."""

    name, title = "test_by_words", "By words"

    def answer(self, prompt):
        asked = set(words(prompt.question))
        lines = [line.text.partition("] ")[2] for line in prompt.context]
        return max(lines, key=lambda line: (len(asked & set(words(line))), line))


class Counts(FirstLine):
    """Says how many lines hold a word of the question."""

    name, title = "test_counts", "Counts lines"

    def answer(self, prompt):
        asked = content_words(prompt.question)
        return f"{sum(bool(asked & set(words(line.text))) for line in prompt.context)} lines"


class Noisy(ByWords):
    """By words, but now and then an answer that it never gives again."""

    name, title = "test_noisy", "Noisy"

    def __init__(self, protocol):
        super().__init__(protocol)
        self.rng = np.random.default_rng(5)

    def answer(self, prompt):
        other = self.rng.random() < OTHER_ANSWER
        return f"Perhaps {self.answers}" if other else super().answer(prompt)


enter, leave = registered((FirstLine, ByWords, Counts, Noisy), ())
