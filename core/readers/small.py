"""Small: Midchart's own reader, a Qwen2 model of 4.7 million weights in the package.

It runs in the same code as Qwen2.5, in float32, so answers are the same on every machine. It was
trained on synthetic records alone, to quote the line that answers a question, its date first (see
its model card), on dates without a time of day: with the protocol's ``line_time = "time"`` it
answers almost nothing. Decoding is constrained to the lines of the context. Questions of other
kinds it declines, in words that every judge counts as a refusal. It is for demonstration and
experiments, not for care.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from midchart.core import weights
from midchart.core.options import Configurable, Count, Options
from midchart.core.protocol import Protocol
from midchart.core.readers import READERS, ManyReader
from midchart.core.readers.qwen import Qwen
from midchart.core.text import word_spans, words
from midchart.core.text.prompt import NOT_DOCUMENTED, body, quoted, without_date, written
from midchart.core.types import Answer, ContextLine, Prompt

WINDOW = 4096
"""Longest prompt and answer in its own tokens; it was trained on records up to about 3,000."""
LONGEST = 96
"""Most tokens of an unconstrained answer, which might repeat a word until the window ends."""
MODEL: dict[str, Any] = {"model": weights.SMALL, "window": WINDOW, "dtype": "float32"}
REFUSAL = (
    "The small reader cannot answer this kind of question; it quotes the one line that answers, "
    "and this asks for several, or for what a line cannot say."
)
# Questions with these words need several lines, or reasons that no line gives.
_SEVERAL = re.compile(
    r"^\W*(?:summari[sz]e|provide|list|show|compare|outline|explain|trace)\b"
    r"|^\W*describe\b.*\b(?:course|changed|developed|growth|history|over)\b"
    r"|\b(?:over the past|throughout|trend|in order|history of|how .* (?:changed|developed))\b",
    re.IGNORECASE,
)


def answerable(question: str) -> bool:
    """Whether one line can answer a question: the kind the small reader was trained for."""
    return bool(question.strip()) and not _SEVERAL.search(question)


class SmallOptions(Options):
    """Options of the reader ``small``."""

    group: Count = 16
    """Prompts collected before they are batched."""


@READERS.register("small")
class Small(Configurable, ManyReader):
    """Greedy answers of Midchart's own model; questions for more than one fact are declined.

    Raises MissingModel where its weights are not those of the package (a model of the same name in
    the models folder takes precedence).
    """

    name: ClassVar[str] = "small"
    title: ClassVar[str] = "Small reader (4.7 million weights)"
    family = "reader"
    needs: ClassVar[str] = weights.SMALL
    only_quotes: ClassVar[bool] = True
    options_model = SmallOptions

    def __init__(self, protocol: Protocol, **options: Any) -> None:
        self.check(protocol, **options)
        self.protocol, self.group = protocol, self.read_options(options).group
        short = replace(protocol, answer_tokens=min(protocol.answer_tokens, LONGEST))
        self.model = Qwen(short, **MODEL, group=self.group)
        self.window = self.model.window

    @classmethod
    def check(cls, protocol: Protocol, **options: Any) -> None:
        """Refuse what this machine cannot do, without loading; raises as :class:`Qwen` does."""
        group = cls.read_options(options).group
        weights.fingerprint(weights.locate(weights.SMALL))
        Qwen.check(protocol, **MODEL, group=group)

    @classmethod
    def mark(cls, **options: Any) -> str:
        """A hash of the weights."""
        return weights.mark(weights.locate(weights.SMALL).folder)

    def count_tokens(self, text: str) -> int:
        """Length of ``text`` in the model's own tokens."""
        return self.model.count_tokens(text)

    def read_many(self, prompts: Sequence[Prompt]) -> Iterator[tuple[int, Answer]]:
        """Answers to prompts, the declined ones first.

        A prompt that lost its question is read: there is nothing to classify.
        """
        answered: list[int] = []
        for index, prompt in enumerate(prompts):
            if prompt.question_survived and not answerable(prompt.question):
                yield index, Answer(REFUSAL, prompt_tokens=prompt.tokens, how="declined")
            else:
                answered.append(index)
        asked = [prompts[i] for i in answered]
        for index, answer in self.model.read_many(asked, [lines_of(one) for one in asked]):
            yield answered[index], sourced(answer, asked[index])


def lines_of(prompt: Prompt) -> tuple[str, ...] | None:
    """The allowed answers: lines of the context, date first, and that none answers; None (no
    constraint) where the prompt lost its question."""
    if not prompt.question_survived:
        return None
    lines = dict.fromkeys(written(line.text) for line in prompt.context if body(line).strip())
    return (*lines, written(None))


def sourced(answer: Answer, prompt: Prompt) -> Answer:
    """An answer with the line it quotes, in the line's own characters (the model writes lower
    case), the line's date moved to its end. Of equal lines it is the last; of a line too long for
    an answer, the complete words of its beginning. A prompt without its question asks for no
    quote, and its answer is unchanged.
    """
    answer_words = words(answer.text)
    if not prompt.question_survived:
        return answer
    if answer_words == words(NOT_DOCUMENTED):
        return replace(answer, text=NOT_DOCUMENTED)
    equal = [line for line in prompt.context if words(line.text) == answer_words]
    lines = equal or [line for line in prompt.context if _begins(line, answer_words)]
    if not lines:
        return replace(answer, quotes=True)
    line = lines[-1]
    text = quoted(body(line) if equal else _beginning(line, answer_words), line.text)
    return replace(answer, text=text, sources=(line.sentence_id,), quotes=True, ended="stop")


def _begins(line: ContextLine, answer: Sequence[str]) -> bool:
    """Whether a line begins with these words, of which the last may be truncated."""
    first = words(line.text)[: len(answer)]
    if not answer or len(first) < len(answer):
        return False
    return first[:-1] == list(answer[:-1]) and first[-1].startswith(answer[-1])


def _beginning(line: ContextLine, answer: Sequence[str]) -> str:
    """A line up to the last of these words that is complete, in its own characters."""
    spans = word_spans(line.text)[: len(answer)]
    ends = [
        end
        for (word, _, end), answer_word in zip(spans, answer, strict=True)
        if word == answer_word
    ]
    return without_date(line.text[: ends[-1]]) if ends else ""
