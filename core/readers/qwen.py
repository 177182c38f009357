"""Qwen2.5-Instruct on this machine: the paper's reader (PROTOCOL, Stage 2: reading).

Greedy, ``answer_tokens`` new tokens, ended by ``<|im_end|>``. Prompts come ready in ChatML from
:mod:`core.text.prompt` and are read as they are: the frame's marks become the model's own tokens,
and
marks inside a record were made harmless there. Many prompts are read together, by length, and
what prompts of one patient open with is read once.

On one machine the same prompts in the same order give the same answers. The company a prompt is
read in, a shared opening, the number of threads or another processor changes the last bits of
logits, in float32 by millionths, in bfloat16 by hundredths; an answer changes only where two tokens
are closer than that.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from core import weights
from core.errors import MissingModel, SpecError
from core.protocol import Protocol
from core.readers import READERS
from core.readers.local.constrained_decoding import Tree, tree
from core.types import Answer, Prompt

DEFAULT = "Qwen2.5-7B-Instruct"
SHORT = frozenset(f"Qwen2.5-{size}-Instruct" for size in ("0.5B", "1.5B", "3B"))
"""Models whose cards promise their trained length and no more; the others go to four times it."""
STRETCH = 4
FRAME = ("<|im_start|>", "<|im_end|>")
ENDS = ("<|im_end|>", "<|endoftext|>")
DTYPES = ("auto", "bfloat16", "float16", "float32")
PRESSES = ("", "snapkv", "h2o")
COUNTED = 2000
"""Characters up to which a text's length is remembered: lines come back, whole prompts do not."""
KVPRESS = "pip install --no-deps -r docs/optional/kvpress.txt"


Texts = tuple[str, ...] | None
"""What an answer may be, or None: anything."""


@READERS.register("qwen")
class Qwen:
    """A model of Qwen2.5's architecture that answers greedily.

    ``model``: a name of the catalogue, or of a folder in the models folder. ``window``: longest
    prompt and answer in its tokens, 0 for what the model's card promises. ``dtype``: auto is
    bfloat16 where the device computes in it, else float32. ``kv``: the key-value cache compressed
    by snapkv or h2o, which drop the share ``kv_ratio`` of it. ``batch_tokens``: padded tokens
    read together, 0 for what memory allows. ``share``: whether common openings are read once.

    Raises what :meth:`check` raises; the weights are loaded when the first prompt is read.
    """

    name: str = "qwen"
    title: str = "Qwen2.5-Instruct (on this machine)"
    needs: ClassVar[str] = DEFAULT

    def __init__(
        self,
        protocol: Protocol,
        model: str = DEFAULT,
        window: int = 0,
        dtype: str = "auto",
        kv: str = "",
        kv_ratio: float = 0.5,
        batch_tokens: int = 0,
        share: bool = True,
        group: int = 64,
    ) -> None:
        self.check(protocol, model, window, dtype, kv, kv_ratio, batch_tokens, share, group)
        from tokenizers import Tokenizer

        self.protocol, self.dtype, self.kv, self.kv_ratio = protocol, dtype, kv, kv_ratio
        self.batch_tokens, self.share, self.group = batch_tokens, share, group
        self.folder = weights.locate_own(model).folder
        self.trained = _config(self.folder)["max_position_embeddings"]
        self.window = window or self.trained * (1 if model in SHORT else STRETCH)
        self._tokenizer: Any = Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._count = lru_cache(maxsize=65_536)(self._length)
        found = (self._tokenizer.token_to_id(token) for token in ENDS)
        self._stop = frozenset(i for i in found if i is not None)

    @classmethod
    def check(
        cls,
        protocol: Protocol,
        model: str = DEFAULT,
        window: int = 0,
        dtype: str = "auto",
        kv: str = "",
        kv_ratio: float = 0.5,
        batch_tokens: int = 0,
        share: bool = True,
        group: int = 64,
    ) -> None:
        """Refuse what cannot be done, without loading anything.

        Raises MissingModel for weights or a package that are not here, UnknownName for a model
        nobody knows, SpecError for an option's value.
        """
        folder = weights.locate_own(model).folder
        config = _config(folder)
        if config.get("model_type") != "qwen2":
            raise SpecError(
                f"{folder} holds a model of type {config.get('model_type')!r}; the reader 'qwen' "
                "reads models of type 'qwen2'"
            )
        if not (folder / "tokenizer.json").is_file():
            raise MissingModel(f"{folder}: tokenizer.json is not there")
        for option, value, valid in (("dtype", dtype, DTYPES), ("kv", kv, PRESSES)):
            if value not in valid:
                shown = ", ".join(repr(v) for v in valid)
                raise SpecError(f"option {option!r} of the reader 'qwen' is {value!r}: {shown}")
        if kv and importlib.util.find_spec("kvpress") is None:
            raise MissingModel(f"kv = {kv!r} needs the package kvpress; get it with: {KVPRESS}")
        longest = STRETCH * config["max_position_embeddings"]
        for option, value, least, most in (
            ("window", window, 0, longest),
            ("batch_tokens", batch_tokens, 0, None),
            ("group", group, 1, None),
        ):
            if value < least or (most is not None and value > most):
                upto = f" to {most}" if most is not None else ""
                raise SpecError(
                    f"option {option!r} of the reader 'qwen' is {value}; it goes from {least}{upto}"
                )
        if not 0 <= kv_ratio < 1:
            raise SpecError(
                f"option 'kv_ratio' of the reader 'qwen' is {kv_ratio}; it is a share from 0, "
                "below 1"
            )

    @classmethod
    def mark(cls, model: str = DEFAULT, **others: Any) -> str:
        """A hash that tells the model's weights from others; raises as :meth:`check` does."""
        return weights.mark(weights.locate_own(model).folder)

    def _ids(self, text: str) -> list[int]:
        # A lone surrogate cannot be encoded; a question mark stands for it.
        clean = text.encode("utf-8", "replace").decode("utf-8")
        return self._tokenizer.encode(clean, add_special_tokens=False).ids

    def _length(self, text: str) -> int:
        return len(self._ids(text))

    @property
    def identity(self) -> str:
        """All that an answer depends on besides its prompt: the weights and the options."""
        options = (self.trained, self.dtype, self.kv, self.kv_ratio if self.kv else 0)
        return repr((weights.mark(self.folder), options))

    def count_tokens(self, text: str) -> int:
        """Length of ``text`` in the model's own tokens."""
        return self._count(text) if len(text) <= COUNTED else self._length(text)

    def read(self, prompt: Prompt) -> Answer:
        """The model's answer to ``prompt``."""
        return next(self.read_many([prompt]))[1]

    def read_many(
        self, prompts: Sequence[Prompt], within: Sequence[Texts] = ()
    ) -> Iterator[tuple[int, Answer]]:
        """Answers to prompts, as batches of them are done; equal prompts are read once.

        ``within``: of each prompt the texts of which its answer is to be one, written as they are
        from the first character on, or None.
        """
        from core.readers.local.engine import GenerationConfig, shared_engine

        same: dict[tuple[str, Texts], list[int]] = {}
        for index, prompt in enumerate(prompts):
            held = within[index] if within else None
            same.setdefault((prompt.text, held), []).append(index)
        new = self.protocol.answer_tokens
        ways: dict[bool, list[tuple[list[int], Any, Texts]]] = {False: [], True: []}
        for (text, held), indices in same.items():
            ids = np.array(self._ids(text), dtype=np.int64)
            if len(ids) + new > self.window or not len(ids):
                for index in indices:
                    yield index, self._refused(len(ids))
            else:
                ways[len(ids) + new > self.trained].append((indices, ids, held))
        engine = shared_engine(self.folder, self.dtype) if any(ways.values()) else None
        for stretched, asked in ways.items():
            if engine is None or not asked:
                continue
            way = GenerationConfig(
                new,
                self._stop,
                stretched,
                self.batch_tokens,
                self.share,
                self.kv,
                self.kv_ratio,
                {at: self._tree(held) for at, (_, _, held) in enumerate(asked) if held},
            )
            for at, reply in engine.read([ids for _, ids, _ in asked], way):
                indices, ids, _ = asked[at]
                if reply.reason:
                    answer = Answer("", "failed", reply.reason, prompt_tokens=len(ids))
                else:
                    said = self._tokenizer.decode(list(reply.ids), skip_special_tokens=True)
                    answer = Answer(
                        said.strip(),
                        prompt_tokens=len(ids),
                        output_tokens=len(reply.ids),
                        seconds=reply.seconds,
                        reused_tokens=reply.reused,
                        peak_mb=reply.peak_mb,
                    )
                for index in indices:
                    yield index, answer

    def _tree(self, texts: tuple[str, ...]) -> Tree:
        end = self._tokenizer.token_to_id(ENDS[0])
        return tree([*self._ids(text), end] for text in texts)

    def _refused(self, tokens: int) -> Answer:
        reason = (
            f"the prompt of {tokens:,} tokens with {self.protocol.answer_tokens:,} for the answer "
            f"is longer than the reader's window of {self.window:,}"
        )
        return Answer("", "failed", reason if tokens else "the prompt is empty")


def _config(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "config.json").read_text(encoding="utf-8"))
