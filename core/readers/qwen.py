"""Qwen2.5-Instruct on this machine: the paper's reader (docs/methods.md, Stage 2: reading).

Greedy, ``answer_tokens`` new tokens, ended by ``<|im_end|>``. Messages are rendered by the chat
template of the model's folder, for Qwen2.5 the paper's ChatML; under the preset "published", and
where a folder has no template, by ChatML. Control tokens inside a record were neutralised
(:mod:`midchart.core.text.prompt`). Many prompts are batched by length, and a prefix shared by
prompts of one patient is read once.

On one machine the same prompts in the same order give the same answers. The composition of a
batch, a shared prefix, the number of threads or another processor changes the last bits of logits,
in float32 by about 1e-6, in bfloat16 by about 1e-2; an answer changes only where two tokens are
closer than that.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from midchart.core import config as settings
from midchart.core import weights
from midchart.core.errors import MissingModel, SpecError
from midchart.core.options import Configurable, Count, Options, Whole
from midchart.core.protocol import Protocol
from midchart.core.readers import READERS, ManyReader
from midchart.core.readers.local_batches import Tree, tree
from midchart.core.text import one_line
from midchart.core.text.chat_template import (
    added_tokens,
    has_template,
    template_frame,
    with_control,
)
from midchart.core.text.prompt import CHATML, LETTERS, Frame, option_text
from midchart.core.text.reasoning import split_reasoning
from midchart.core.types import Answer, Ended, Prompt

if TYPE_CHECKING:
    from midchart.core.readers.local_engine import Generated

_DEFAULT = "Qwen2.5-7B-Instruct"
_TRAINED_LENGTH_ONLY = frozenset(f"Qwen2.5-{size}-Instruct" for size in ("0.5B", "1.5B", "3B"))
"""Models whose cards promise only their trained length; the others reach four times it."""
_STRETCH = 4
ENDS = ("<|im_end|>", "<|endoftext|>")
_CACHED_CHARACTERS = 2000
"""Longest text whose token count is cached: lines recur, complete prompts do not."""

Choose = Literal["text", "letter", "likelihood"]
Texts = tuple[str, ...] | None
"""The texts of which an answer must be one, or None: anything."""


class LocalReader(Configurable, ManyReader):
    """A reader whose tokens are counted on this machine; subclasses write ``_ids``."""

    family = "reader"
    protocol: Protocol
    options: Any
    window: int

    def _ids(self, text: str) -> list[int]:
        """The model's tokens of a text."""
        raise NotImplementedError

    @cached_property
    def _count(self) -> Callable[[str], int]:
        def count(text: str) -> int:
            return len(self._ids(text))

        return lru_cache(maxsize=65_536)(count)

    def count_tokens(self, text: str) -> int:
        """Length of ``text`` in the model's own tokens."""
        return self._count(text) if len(text) <= _CACHED_CHARACTERS else len(self._ids(text))

    @property
    def _longest(self) -> int:
        """Longest prompt, reasoning and answer."""
        return self.window + self.options.reasoning_tokens

    def _too_long(self, tokens: int) -> Answer:
        reason = (
            f"the prompt of {tokens:,} tokens with {self.protocol.answer_tokens:,} for the answer "
            f"is longer than the reader's window of {self._longest:,}"
        )
        return Answer("", "failed", reason if tokens else "the prompt is empty")


class QwenOptions(Options):
    """Options of the reader ``qwen``."""

    model: str = _DEFAULT
    """A name of the catalogue, or of a folder in the models folder."""
    window: Whole = 0
    """Longest prompt and answer in the model's tokens; 0 is what the model's card promises."""
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    """auto is bfloat16 where the device computes in it, else float32."""
    batch_tokens: Whole = 0
    """Padded tokens per batch; 0 is what memory allows."""
    offload: bool = False
    """Whether layers that do not fit on the accelerators may be in this machine's memory."""
    share: bool = True
    """Whether shared prefixes are read once."""
    group: Count = 64
    """Prompts collected before they are batched."""
    reasoning_tokens: Whole = 0
    """Tokens for reasoning, in addition to those of the answer."""
    choose: Choose = "text"
    """How a multiple-choice question is answered: "text" as any other; "letter": the most probable
    letter of an option; "likelihood": the option whose text has the largest log-likelihood per
    character after the prompt."""


@READERS.register("qwen")
class Qwen(LocalReader):
    """A model of Qwen2.5's architecture that answers greedily.

    Raises what :meth:`check` raises; the weights are loaded when the first prompt is read.
    """

    name: ClassVar[str] = "qwen"
    title: ClassVar[str] = "Qwen2.5-Instruct (on this machine)"
    needs: ClassVar[str] = _DEFAULT
    options_model = QwenOptions
    model_types: ClassVar[tuple[str, ...]] = ("qwen2",)
    ends: ClassVar[tuple[str, ...]] = ENDS
    """Tokens that end an answer, added to those of the folder's ``generation_config.json``; the
    first one ends each of a list of allowed answers."""
    stretch: ClassVar[int] = _STRETCH
    """How far YaRN stretches the trained length."""

    def __init__(self, protocol: Protocol, **options: Any) -> None:
        self.check(protocol, **options)
        from tokenizers import Tokenizer

        chosen: QwenOptions = self.read_options(options)
        self.protocol, self.options, self.group = protocol, chosen, chosen.group
        self.folder = self.model_folder(chosen.model)
        self.trained = _config(self.folder)["max_position_embeddings"]
        stretch = 1 if chosen.model in _TRAINED_LENGTH_ONLY else self.stretch
        self.window = (chosen.window or self.trained * stretch) - chosen.reasoning_tokens
        self._tokenizer: Any = Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        named = [self._tokenizer.token_to_id(token) for token in self.ends]
        ends = [i for i in (*named, *_end_ids(self.folder)) if i is not None]
        self._stop, self._end = frozenset(ends), ends[0] if ends else -1

    @cached_property
    def frame(self) -> Frame:
        """The chat template of the model's folder, or ChatML."""
        if self.protocol.preset == "published" or not has_template(self.folder):
            return with_control(CHATML, added_tokens(self.folder))
        return template_frame(self.folder)

    @classmethod
    def check(cls, protocol: Protocol, **options: Any) -> None:
        """Refuse what this machine cannot do, without loading anything.

        Raises MissingModel for weights or a package that are not installed, UnknownName for an
        unknown model, SpecError for an option's value.
        """
        chosen: QwenOptions = cls.read_options(options)
        folder = cls.model_folder(chosen.model)
        config = _config(folder)
        if config.get("model_type") not in cls.model_types:
            raise SpecError(
                f"{folder} holds a model of type {config.get('model_type')!r}; the reader "
                f"{cls.name!r} reads models of type {', '.join(map(repr, cls.model_types))}"
            )
        if not (folder / "tokenizer.json").is_file():
            raise MissingModel(f"{folder}: tokenizer.json is not there")
        longest = cls.stretch * config["max_position_embeddings"]
        if chosen.window > longest:
            raise SpecError(
                f"'window' of the reader {cls.name!r} is {chosen.window}; it goes from 0 to "
                f"{longest}"
            )

    @classmethod
    def mark(cls, model: str = "", **others: Any) -> str:
        """A hash of the model's weights; raises as :meth:`check` does."""
        return weights.mark(cls.model_folder(model or cls.needs))

    @classmethod
    def model_folder(cls, model: str) -> Path:
        """The folder of a model's weights; raises as :func:`core.weights.locate_own` does."""
        return weights.locate_own(model).folder

    def _ids(self, text: str) -> list[int]:
        # A lone surrogate cannot be encoded; a question mark replaces it.
        clean = text.encode("utf-8", "replace").decode("utf-8")
        return self._tokenizer.encode(clean, add_special_tokens=False).ids

    def read_many(
        self, prompts: Sequence[Prompt], allowed: Sequence[Texts] = ()
    ) -> Iterator[tuple[int, Answer]]:
        """Answers to prompts, batch by batch; equal prompts are read once.

        ``allowed``: for each prompt the texts of which its answer must be one, word for word from
        the first character, or None.
        """
        choose = self.options.choose
        if choose == "text" or not any(prompt.options for prompt in prompts):
            yield from self._written(prompts, allowed)
            return
        lists = [allowed[i] if allowed else None for i in range(len(prompts))]
        for i, prompt in enumerate(prompts):
            if prompt.options:
                lists[i] = tuple(LETTERS[: len(prompt.options)])
        likely = [i for i, p in enumerate(prompts) if p.options and choose == "likelihood"]
        written = [i for i in range(len(prompts)) if i not in set(likely)]
        for at, answer in self._likeliest([prompts[i] for i in likely]):
            yield likely[at], answer
        answers = self._written([prompts[i] for i in written], [lists[i] for i in written])
        for at, answer in answers:
            prompt, index = prompts[written[at]], LETTERS.find(answer.text or "-")
            if prompt.options and index >= 0:
                answer = replace(answer, text=option_text(prompt.options, index))
            yield written[at], answer

    def _likeliest(self, prompts: Sequence[Prompt]) -> Iterator[tuple[int, Answer]]:
        """Each prompt's option of the largest log-likelihood per character."""
        from midchart.core.readers.local_engine import shared_engine

        engine = shared_engine(self.folder, self.options.dtype, self.options.offload)
        for index, prompt in enumerate(prompts):
            ids = np.array(self._ids(prompt.text), dtype=np.int64)
            options = [self._ids(one_line(text)) for text in prompt.options]
            if len(ids) + max(map(len, options)) > min(self._longest, self.trained):
                yield index, self._too_long(len(ids))
                continue
            start = time.perf_counter()
            sums = engine.log_likelihoods(ids, options)
            each = [total / len(one_line(o)) for total, o in zip(sums, prompt.options, strict=True)]
            text = option_text(prompt.options, int(np.argmax(each)))
            seconds = time.perf_counter() - start
            yield index, Answer(text, prompt_tokens=len(ids), seconds=seconds, how="likelihood")

    def _written(
        self, prompts: Sequence[Prompt], allowed: Sequence[Texts]
    ) -> Iterator[tuple[int, Answer]]:
        """What the model writes, of ``allowed`` texts where there are some."""
        settings.wait_passively()
        from midchart.core.readers.local_engine import GenerationConfig, shared_engine

        same: dict[tuple[str, Texts], list[int]] = {}
        for index, prompt in enumerate(prompts):
            texts = allowed[index] if allowed else None
            same.setdefault((prompt.text, texts), []).append(index)
        options = self.options
        new = self.protocol.answer_tokens + options.reasoning_tokens
        opened = self.frame.tail.rstrip().endswith("<think>")
        by_length: dict[bool, list[tuple[list[int], Any, Texts]]] = {False: [], True: []}
        for (text, texts), indices in same.items():
            ids = np.array(self._ids(text), dtype=np.int64)
            if len(ids) + new > self._longest or not len(ids):
                for index in indices:
                    yield index, self._too_long(len(ids))
            else:
                by_length[len(ids) + new > self.trained].append((indices, ids, texts))
        for stretched, group in by_length.items():
            if not group:
                continue
            config = GenerationConfig(
                new,
                self._stop,
                stretched,
                options.batch_tokens,
                options.share,
                {at: self._tree(texts) for at, (_, _, texts) in enumerate(group) if texts},
                self.protocol.preset != "published",
            )
            engine = shared_engine(self.folder, options.dtype, options.offload)
            for at, reply in engine.read([ids for _, ids, _ in group], config):
                indices, ids, texts = group[at]
                if reply.reason:
                    answer = Answer("", "failed", reply.reason, prompt_tokens=len(ids))
                else:
                    written = self._tokenizer.decode(reply.ids, skip_special_tokens=True)
                    reasoning, text = split_reasoning(written, opened and not texts)
                    answer = Answer(
                        text,
                        ended=_ended(reply, text),
                        reasoning=reasoning,
                        reasoning_tokens=len(self._ids(reasoning)),
                        prompt_tokens=len(ids),
                        output_tokens=len(reply.ids),
                        seconds=reply.seconds,
                        reused_tokens=reply.reused,
                        peak_mb=reply.peak_mb,
                    )
                for index in indices:
                    yield index, answer

    def _tree(self, texts: tuple[str, ...]) -> Tree:
        return tree([*self._ids(text), self._end] for text in texts)


def _ended(reply: Generated, text: str) -> Ended:
    """How an answer of this text ended."""
    if reply.looped:
        return "loop"
    return "length" if reply.cut else "stop" if text else "empty"


def _config(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "config.json").read_text(encoding="utf-8"))


def _end_ids(folder: Path) -> list[int]:
    """The ids of the tokens that end an answer, as a folder's ``generation_config.json`` has them,
    or else its ``config.json``."""
    for name in ("generation_config.json", "config.json"):
        if (folder / name).is_file():
            ids = json.loads((folder / name).read_text(encoding="utf-8")).get("eos_token_id")
            if ids is not None:
                return [ids] if isinstance(ids, int) else list(ids)
    return []
