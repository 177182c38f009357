"""Extractive: answers with the context line nearest to the question, word for word.

A baseline without generation: it shows what a selection is worth when reading adds no reasoning.
Of a multiple-choice question it chooses the option nearest to a line.
Under the published truncation its answer is empty where the question was cut off, where a language
model would continue the record (docs/methods.md, Stage 2: reading).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from midchart.core.embedding.embedder import Embedder, cosines, shared
from midchart.core.errors import InputError
from midchart.core.protocol import Protocol
from midchart.core.readers import READERS
from midchart.core.text import count_tokens
from midchart.core.text.prompt import HEAD, LINE_DATE, MIDDLE, NOT_DOCUMENTED, TAIL, option_text
from midchart.core.types import Answer, Prompt
from midchart.core.weights import MINILM

Embed = Callable[[Sequence[str]], NDArray[np.float32]]
"""Unit vectors of texts, float32 [n, dim]."""
_DATE = re.compile(rf"\[{LINE_DATE}\] ")


def bare(line: str) -> str:
    """A context line without its date: the sentence itself, so that its vector is the arm's."""
    return line[match.end() :] if (match := _DATE.match(line)) else line


@READERS.register("extractive")
class Extractive:
    """The nearest context line by MiniLM cosine; ties go to the earlier line.

    ``window`` is in tokens of :func:`midchart.core.text.count_tokens`, the paper's reader's length.
    Raises InputError for one without room for a question, MissingModel without the weights.
    """

    name: str = "extractive"
    title: str = "Extractive baseline (non-generative)"
    needs: ClassVar[str] = MINILM
    group: ClassVar[int] = 16
    generative: ClassVar[bool] = False
    only_quotes: ClassVar[bool] = True

    def __init__(
        self, protocol: Protocol, window: int = 32_768, embedder: Embedder | None = None
    ) -> None:
        least = count_tokens(HEAD + MIDDLE + TAIL) + protocol.answer_tokens + 1
        if type(window) is not int or window < least:
            raise InputError(
                f"'window' of the reader 'extractive' is a whole number of tokens from {least}: "
                "fewer leave no room for a question and its answer"
            )
        self.protocol = protocol
        self.window = window
        self.embedder = embedder if embedder is not None else shared(self.needs)

    def count_tokens(self, text: str) -> int:
        """Words and punctuation marks of ``text``."""
        return count_tokens(text)

    def read_many(self, prompts: Sequence[Prompt]) -> Iterator[tuple[int, Answer]]:
        """Each prompt's index and answer, in order; the model encodes the lines of all together."""
        texts = list(dict.fromkeys(t for prompt in prompts for t in self._compared(prompt)))
        row = {text: i for i, text in enumerate(texts)}
        begun = time.perf_counter()
        vectors = self.embedder.embed(texts)
        each = (time.perf_counter() - begun) / max(1, len(prompts))

        def embed(wanted: Sequence[str]) -> NDArray[np.float32]:
            return vectors[[row[text] for text in wanted]]

        for index, prompt in enumerate(prompts):
            answer = self._read(prompt, embed)
            yield index, replace(answer, seconds=answer.seconds + each)

    def read(self, prompt: Prompt) -> Answer:
        """The line of ``prompt.context`` nearest to its question, with its date as shown.

        The answer is empty, and says why, where the prompt holds no question or no line.
        """
        return self._read(prompt, self.embedder.embed)

    def _compared(self, prompt: Prompt) -> list[str]:
        """The texts whose vectors an answer needs: what is asked for, then the lines."""
        asked = [f"{prompt.question} {option}" for option in prompt.options] or [prompt.question]
        return [*asked, *(bare(line.text) for line in prompt.context)]

    def _read(self, prompt: Prompt, embed: Embed) -> Answer:
        begun = time.perf_counter()
        missing = ""
        if not prompt.question_survived:
            missing = "the question was cut off the prompt"
        elif not prompt.question.strip():
            missing = "the question is empty"
        elif not prompt.context:
            missing = "the prompt holds no line of the record"
        if missing:
            return Answer("", reason=missing, prompt_tokens=prompt.tokens)
        if prompt.options:
            return self._chosen(prompt, embed, begun)
        scores = self.score(prompt, embed)
        best = int(np.argmax(scores))
        if doubt := self.doubt(scores):
            return Answer(
                NOT_DOCUMENTED,
                reason=doubt,
                quotes=True,
                prompt_tokens=prompt.tokens,
                output_tokens=count_tokens(NOT_DOCUMENTED),
                seconds=time.perf_counter() - begun,
                how="abstained",
            )
        line = prompt.context[best]
        return Answer(
            line.text,
            sources=(line.sentence_id,),
            quotes=True,
            prompt_tokens=prompt.tokens,
            output_tokens=count_tokens(line.text),
            seconds=time.perf_counter() - begun,
        )

    def _chosen(self, prompt: Prompt, embed: Embed, begun: float) -> Answer:
        """The option that, after the question, is nearest to any line; ties go to the earlier."""
        vectors, options = embed(self._compared(prompt)), len(prompt.options)
        lines = vectors[options:]
        scores = np.stack(
            [np.round(cosines(lines, v).astype(np.float64), 6) for v in vectors[:options]]
        )
        best = int(np.argmax(scores.max(axis=1)))
        text = option_text(prompt.options, best)
        return Answer(
            text,
            sources=(prompt.context[int(np.argmax(scores[best]))].sentence_id,),
            prompt_tokens=prompt.tokens,
            output_tokens=count_tokens(text),
            seconds=time.perf_counter() - begun,
        )

    def score(self, prompt: Prompt, embed: Embed | None = None) -> NDArray[np.float64]:
        """Cosine of each line of ``prompt.context`` with its question, float64 [n].

        ``embed``: unit vectors of texts, float32 [n, dim]; None for the reader's own encoder.
        """
        lines = [bare(line.text) for line in prompt.context]
        vectors = (embed or self.embedder.embed)([prompt.question, *lines])
        # Six decimals, as in the dense arm: float32 rounding must not decide.
        return np.round(cosines(vectors[1:], vectors[0]).astype(np.float64), 6)

    def doubt(self, scores: NDArray[np.float64]) -> str:
        """Why the best line is no answer, by the scores of all lines; empty where it is one."""
        return ""
