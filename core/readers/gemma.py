"""Gemma: Google's Gemma 3 270M, a small pretrained model from Python packages, without a hub.

A base model of 268 million weights (4-bit GGUF, converted once to bfloat16), which was trained on
no task and by nobody of this project. Its prompt is a completion: record, question, "Answer:"; the
answer ends with its line. The weights are under Gemma's terms (ai.google.dev/gemma/terms), and a
third party packaged them: nothing of it is part of this program or a default.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from core import weights
from core.errors import SpecError
from core.protocol import Protocol
from core.readers import READERS
from core.readers.qwen import Choose, Qwen, QwenOptions, Texts
from core.text.prompt import NOT_DOCUMENTED, Frame, body, quoted
from core.types import Answer, Prompt

FRAME = Frame("<bos>Patient record:\n", "\n\nQuestion: ", "\nAnswer:")


class GemmaOptions(QwenOptions):
    """Options of the reader ``gemma``."""

    model: Annotated[str, Field(pattern=f"^{weights.GEMMA}$")] = weights.GEMMA
    """The one model it reads."""
    window: Annotated[int, Field(ge=0, le=32_768)] = 0
    """Longest prompt and answer in the model's tokens; 0 is 32,768."""
    choose: Choose = "likelihood"
    """As of the reader ``qwen``; a base model does not follow a format."""
    quote: bool = False
    """Whether an answer must be a line of the context, without its date, or "Not documented."."""


@READERS.register("gemma")
class Gemma(Qwen):
    """Greedy completions of Gemma 3 270M; raises as :class:`core.readers.qwen.Qwen`."""

    name: ClassVar[str] = "gemma"
    title: ClassVar[str] = "Gemma 3 270M, base model (on this machine)"
    needs: ClassVar[str] = weights.GEMMA
    options_model = GemmaOptions
    model_type: ClassVar[str] = "gemma3_text"
    frame: ClassVar[Frame] = FRAME
    lead: ClassVar[str] = " "
    ends: ClassVar[tuple[str, ...]] = ("\n", *("\n" * n for n in range(2, 32)), "<eos>")

    def __init__(self, protocol: Protocol, **options: Any) -> None:
        super().__init__(protocol, **options)
        self.quote: bool = self.read_options(options).quote

    @classmethod
    def check(cls, protocol: Protocol, **options: Any) -> None:
        """As :meth:`core.readers.qwen.Qwen.check`; raises SpecError for a compressed cache too."""
        if cls.read_options(options).kv:
            raise SpecError("the reader 'gemma' has no compression of its cache; leave 'kv' out")
        super().check(protocol, **options)

    @classmethod
    def model_folder(cls, model: str) -> Path:
        """The folder of the weights, converted from the installed packages the first time.

        Raises MissingModel.
        """
        folder = weights.locate(model).folder
        if not folder.is_dir():
            from core.readers.local.gguf import convert

            convert(weights.gguf_parts(model), weights.MODELS[model].sha256, folder)
        return folder

    @property
    def identity(self) -> str:
        """Everything that an answer depends on, without its prompt."""
        return repr((super().identity, self.quote))

    def read_many(
        self, prompts: Sequence[Prompt], allowed: Sequence[Texts] = ()
    ) -> Iterator[tuple[int, Answer]]:
        """Answers to prompts; with the option ``quote`` each is a line with its source."""
        if allowed or not self.quote:
            yield from super().read_many(prompts, allowed)
            return
        lines = [None if p.options or not p.question_survived else _lines(p) for p in prompts]
        for index, answer in super().read_many(prompts, lines):
            yield index, _sourced(answer, prompts[index]) if lines[index] else answer


def _lines(prompt: Prompt) -> tuple[str, ...]:
    """The allowed answers: lines of the context without their dates, and that none answers."""
    texts = dict.fromkeys(body(line).strip() for line in prompt.context)
    return tuple(f" {text}" for text in (*texts, NOT_DOCUMENTED) if text)


def _sourced(answer: Answer, prompt: Prompt) -> Answer:
    """A quote with the date and id of its line, the last of equal ones."""
    for line in reversed(prompt.context):
        if answer.text and body(line).strip().startswith(answer.text):
            text = quoted(answer.text, line.text)
            return replace(answer, text=text, sources=(line.sentence_id,), quotes=True)
    return replace(answer, quotes=True)
