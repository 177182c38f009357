"""Small: Midchart's own reader, a Qwen2 model of 4.7 million weights that comes with the program.

It is read with by the very code that reads Qwen2.5, in float32, so that answers are the same on
every machine. It was trained on synthetic records alone, to quote the line that answers a question,
its date first (its card lies beside its weights), and is held to the lines of the context: it may
choose the wrong one, but writes none of its own. What it was not trained for it declines, in words
that every judge counts as a refusal. It is for demonstration and experiments, not for care.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from core import weights
from core.protocol import Protocol
from core.readers import READERS
from core.readers.qwen import Qwen
from core.text import word_spans, words
from core.text.prompt import NOT_DOCUMENTED, body, quoted, said, written
from core.types import Answer, ContextLine, Prompt

WINDOW = 4096
"""Longest prompt and answer in its own tokens; it was trained on records up to about 3,000."""
LONGEST = 96
"""Most tokens of an answer that is held to no line: not the same word until the window ends."""
QUOTE = "as the source has it"
"""How a quoted line is written; stored answers of another way are not taken for these."""
REFUSAL = (
    "The small reader cannot answer this kind of question; it quotes the one line that answers, "
    "and this asks for several, or for what a line cannot say."
)
# What is asked for with these words takes several lines, or reasons that no line gives.
_SEVERAL = re.compile(
    r"^\W*(?:summari[sz]e|provide|list|show|compare|outline|explain|trace)\b"
    r"|^\W*describe\b.*\b(?:course|changed|developed|growth|history|over)\b"
    r"|\b(?:over the past|throughout|trend|in order|history of|how .* (?:changed|developed))\b",
    re.IGNORECASE,
)


def answerable(question: str) -> bool:
    """Whether a question is of a kind the small reader was trained for: one line answers it."""
    return bool(question.strip()) and not _SEVERAL.search(question)


@READERS.register("small")
class Small:
    """Greedy answers of Midchart's own model; other questions than for one fact are declined.

    ``group``: how many prompts are worth collecting. Raises MissingModel where its weights are
    not those that came with the program (a model of the same name in the models folder is used
    in their place, whatever it is).
    """

    name: str = "small"
    title: str = "Small reader (Midchart's own, 4.7 million weights)"
    needs: ClassVar[str] = weights.SMALL
    only_quotes: ClassVar[bool] = True

    def __init__(self, protocol: Protocol, group: int = 16) -> None:
        self.check(protocol, group)
        self.protocol, self.group = protocol, group
        short = replace(protocol, answer_tokens=min(protocol.answer_tokens, LONGEST))
        self.model = Qwen(short, weights.SMALL, WINDOW, "float32", group=group)
        self.window = self.model.window

    @classmethod
    def check(cls, protocol: Protocol, group: int = 16) -> None:
        """Refuse what cannot be done, without loading anything; raises as :class:`Qwen` does."""
        weights.fingerprint(weights.locate(weights.SMALL))
        Qwen.check(protocol, weights.SMALL, WINDOW, "float32", group=group)

    @classmethod
    def mark(cls, **options: Any) -> str:
        """A hash that tells the weights from others."""
        return weights.mark(weights.locate(weights.SMALL).folder)

    @property
    def identity(self) -> str:
        """All that an answer depends on besides its prompt."""
        return repr(
            (self.model.identity, written(None), written(""), REFUSAL, _SEVERAL.pattern, QUOTE)
        )

    def count_tokens(self, text: str) -> int:
        """Length of ``text`` in the model's own tokens."""
        return self.model.count_tokens(text)

    def read(self, prompt: Prompt) -> Answer:
        """The model's answer to ``prompt``, or that it declines."""
        return next(self.read_many([prompt]))[1]

    def read_many(self, prompts: Sequence[Prompt]) -> Iterator[tuple[int, Answer]]:
        """Answers to prompts, the declined ones first.

        A prompt that lost its question is read as it is: there is nothing to tell a kind by.
        """
        put: list[int] = []
        for index, prompt in enumerate(prompts):
            if prompt.question_survived and not answerable(prompt.question):
                yield index, Answer(REFUSAL, prompt_tokens=prompt.tokens, how="declined")
            else:
                put.append(index)
        for index, answer in self.quotes([prompts[i] for i in put]):
            yield put[index], answer

    def quotes(self, prompts: Sequence[Prompt]) -> Iterator[tuple[int, Answer]]:
        """What the model writes to every prompt, none declined, each with the line it quotes."""
        within = [lines_of(prompt) for prompt in prompts]
        for index, answer in self.model.read_many(prompts, within):
            yield index, sourced(answer, prompts[index])


def lines_of(prompt: Prompt) -> tuple[str, ...] | None:
    """What an answer may be: a line of the context, its date first, or that none answers; anything
    where the prompt lost its question."""
    if not prompt.question_survived:
        return None
    lines = dict.fromkeys(written(line.text) for line in prompt.context if body(line).strip())
    return (*lines, written(None))


def sourced(answer: Answer, prompt: Prompt) -> Answer:
    """An answer with the line it quotes, in the line's own characters (the model writes lower
    case), and the line's date moved to its end. Of lines that are the same it is the last; of one
    too long for an answer, the whole words of its beginning.

    Without its question a prompt asks for no quote, and what is written is left as it is.
    """
    told = words(answer.text)
    if not prompt.question_survived:
        return answer
    if told == words(NOT_DOCUMENTED):
        return replace(answer, text=NOT_DOCUMENTED)
    alike = [line for line in prompt.context if words(line.text) == told]
    whole = bool(alike)
    alike = alike or [line for line in prompt.context if _begins(line, told)]
    if not alike:
        return replace(answer, quotes=True)
    line = alike[-1]
    text = quoted(body(line) if whole else _beginning(line, told), line.text)
    return replace(answer, text=text, sources=(line.sentence_id,), quotes=True)


def _begins(line: ContextLine, told: Sequence[str]) -> bool:
    """Whether a line begins with these words, of which the last may be cut."""
    own = words(line.text)[: len(told)]
    if not told or len(own) < len(told):
        return False
    return own[:-1] == list(told[:-1]) and own[-1].startswith(told[-1])


def _beginning(line: ContextLine, told: Sequence[str]) -> str:
    """What a line says up to the last of these words that it has whole, in its own characters."""
    spans = word_spans(line.text)[: len(told)]
    ends = [end for (word, _, end), cut in zip(spans, told, strict=True) if word == cut]
    return said(line.text[: ends[-1]]) if ends else ""
