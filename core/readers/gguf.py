"""GGUF: a language model in one file on this machine, run by llama.cpp (package ``xllamacpp``).

A chat model is asked by its own chat template, which the file contains and llama.cpp renders
(:mod:`midchart.core.text.chat_template`). Decoding is greedy. Letters are constrained by a grammar
of llama.cpp; a likelihood is the sum of log-probabilities of a text that a grammar allows alone.
Prompts are read one after another in the order of their text, so that those of one record
are neighbours: what a prompt shares with the one before is not read again.

llama.cpp runs in this process. Tokens are counted and templates rendered over its HTTP interface,
which listens on the loopback address, at a free port, for holders of a random key.
"""

from __future__ import annotations

import importlib
import importlib.util
import mmap
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from midchart.core import weights
from midchart.core.errors import MissingModel, SpecError, WorkFailed, missing_package
from midchart.core.options import Count, Options, Whole
from midchart.core.protocol import Protocol
from midchart.core.provenance import digest
from midchart.core.readers import READERS
from midchart.core.readers.qwen import Choose, LocalReader
from midchart.core.text import one_line
from midchart.core.text.chat_template import frame_of_template, with_control
from midchart.core.text.prompt import LETTERS, Frame, option_text
from midchart.core.text.reasoning import split_reasoning
from midchart.core.types import Answer, Prompt

_TIMEOUT_S = 60.0


class GgufOptions(Options):
    """Options of the reader ``gguf``."""

    model: str = ""
    """A file in the models folder, by its name with ".gguf"."""
    window: Annotated[int, Field(ge=1)] = 8192
    """Longest prompt and answer in the model's tokens; memory for them is taken at once."""
    threads: Count = 2
    """Threads of llama.cpp."""
    group: Count = 64
    """Prompts collected before they are sorted."""
    reasoning_tokens: Whole = 0
    """Tokens for reasoning, in addition to those of the answer."""
    choose: Choose = "text"
    """How a multiple-choice question is answered, as of the reader ``qwen``."""


class LlamaEngine:
    """llama.cpp with one model in memory; raises WorkFailed where it cannot load the file."""

    def __init__(self, file: Path, window: int, threads: int) -> None:
        from midchart.core.client.limits import LimitedClient

        xllamacpp: Any = importlib.import_module("xllamacpp")
        parameters = xllamacpp.CommonParams()
        parameters.model.path, parameters.n_ctx = str(file), window
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
        parameters.n_parallel, parameters.cache_ram_mib = 1, 0
        parameters.fit_params = parameters.warmup = False
        parameters.ui = parameters.endpoint_slots = False
        parameters.verbosity = -1  # no text of a prompt in its log
        key = secrets.token_hex(16)
        parameters.api_keys = [key]
        try:
            self._server = xllamacpp.Server(parameters)
        except (RuntimeError, ValueError, OSError):
            raise WorkFailed(f"{file}: llama.cpp cannot load this file as a model") from None
        self._client = LimitedClient(
            "llama.cpp",
            _TIMEOUT_S,
            trust_env=False,
            base_url=self._server.listening_address,
            headers={"Authorization": f"Bearer {key}"},
        )

    def tokens(self, text: str) -> list[int]:
        """The model's tokens of a text."""
        # A lone surrogate cannot be encoded; a question mark replaces it.
        clean = text.encode("utf-8", "replace").decode("utf-8")
        return self._post("/tokenize", content=clean)["tokens"]

    def start(self) -> str:
        """The token that the model expects before any text; "" where there is none."""
        pieces = self._post("/tokenize", content="", add_special=True, with_pieces=True)["tokens"]
        return "".join(piece["piece"] for piece in pieces)

    def render(self, messages: list[dict[str, str]]) -> str:
        """The model's chat template of messages; "" where it refuses them."""
        return self._post("/apply-template", messages=messages).get("prompt", "")

    def template(self) -> str:
        """The model's chat template, as its file has it."""
        return self._client.get("/props").json()["chat_template"]

    def _post(self, path: str, **body: Any) -> dict[str, Any]:
        return self._client.post(path, json=body).json()

    def complete(self, ids: list[int], new: int, grammar: str) -> Any:
        """llama.cpp's greedy completion of a prompt, with the log-probability of each token."""
        request = {
            "prompt": ids,
            "max_tokens": new,
            "temperature": 0,
            "cache_prompt": True,
            "repeat_penalty": 1.0,
        }
        if grammar:
            request |= {"grammar": grammar, "logprobs": 1}
        response = self._server.handle_completions(request)
        if "error" in response:
            raise WorkFailed(f"llama.cpp refuses the prompt ({response['error'].get('type')})")
        return response


shared_engine = cache(LlamaEngine)
"""The engine of a file, loaded once a process however many readers use it."""


def _added(file: Path) -> list[tuple[str, bool]]:
    """The tokens that llama.cpp looks for in a text before all others, each with whether it is a
    control token, as a GGUF file has them."""
    gguf: Any = importlib.import_module("gguf")
    fields = gguf.GGUFReader(file).fields
    tokens, kinds = fields["tokenizer.ggml.tokens"], fields.get("tokenizer.ggml.token_type")
    if kinds is None:
        return []
    numbers = np.concatenate([kinds.parts[at] for at in kinds.data])
    control, added = gguf.TokenType.CONTROL, gguf.TokenType.USER_DEFINED
    return [
        (bytes(tokens.parts[tokens.data[at]]).decode("utf-8", "replace"), numbers[at] == control)
        for at in np.flatnonzero(np.isin(numbers, (control, added)))
    ]


def _grammar(texts: Sequence[Sequence[int]]) -> str:
    """The grammar (llama.cpp's GBNF, of tokens) of an answer that is one of the texts."""
    return "root ::= " + " | ".join(" ".join(f"<[{i}]>" for i in text) for text in texts)


@READERS.register("gguf")
class Gguf(LocalReader):
    """Greedy answers of a model in a GGUF file.

    Raises what :meth:`check` raises; the weights are loaded when the first token is counted.
    """

    name: ClassVar[str] = "gguf"
    title: ClassVar[str] = "GGUF model by llama.cpp (on this machine)"
    listens: ClassVar[bool] = True
    options_model = GgufOptions

    def __init__(self, protocol: Protocol, **options: Any) -> None:
        self.check(protocol, **options)
        chosen: GgufOptions = self.read_options(options)
        self.protocol, self.options, self.group = protocol, chosen, chosen.group
        self.file = self.model_file(chosen.model)
        self.window = chosen.window - chosen.reasoning_tokens

    @classmethod
    def check(cls, protocol: Protocol, **options: Any) -> None:
        """Refuse what this machine cannot do, without loading anything.

        Raises MissingModel for a file or a package that are not installed, SpecError for an
        option's value and for a file without a chat template.
        """
        chosen: GgufOptions = cls.read_options(options)
        if not chosen.model:
            raise SpecError(
                "the reader 'gguf' needs 'model', the name of a file in the models folder: "
                '{ name = "gguf", model = "Llama-3.2-3B-Instruct-Q4_K_M.gguf" }'
            )
        file = cls.model_file(chosen.model)
        for package in ("xllamacpp", "gguf"):
            if importlib.util.find_spec(package) is None:
                raise missing_package(package, "gguf")
        with (
            file.open("rb") as content,
            mmap.mmap(content.fileno(), 0, prot=mmap.PROT_READ) as all_,
        ):
            if all_[:4] != b"GGUF" or all_.find(b"tokenizer.chat_template") < 0:
                raise SpecError(f"{file} is not a GGUF file with a chat template")

    @classmethod
    def model_file(cls, model: str) -> Path:
        """The file of a model; raises MissingModel, SpecError for a name that is none."""
        file = weights.in_models_folder(model)
        if file.suffix != ".gguf":
            raise SpecError(f"'model' of the reader 'gguf' names a file with \".gguf\": {model}")
        if not file.is_file() or not file.stat().st_size:
            raise MissingModel(f"there is no model at {file}; put the GGUF file there")
        return file

    @classmethod
    def mark(cls, model: str = "", **others: Any) -> str:
        """A hash of the model's weights; raises as :meth:`check` does."""
        return weights.mark(cls.model_file(model))

    @cached_property
    def frame(self) -> Frame:
        """The model's own chat template."""
        engine = self._engine
        frame = frame_of_template(engine.render, self.file, digest(engine.template()))
        # llama.cpp leaves the first token out of a rendered text where it adds it itself.
        start = engine.start()
        if not frame.head.startswith(start):
            frame = replace(frame, head=start + frame.head)
        return with_control(frame, _added(self.file))

    @cached_property
    def _engine(self) -> LlamaEngine:
        return shared_engine(self.file, self.options.window, self.options.threads)

    def _ids(self, text: str) -> list[int]:
        return self._engine.tokens(text)

    def read_many(self, prompts: Sequence[Prompt]) -> Iterator[tuple[int, Answer]]:
        """Answers to prompts, in the order of their text."""
        for index in sorted(range(len(prompts)), key=lambda at: prompts[at].text):
            yield index, self._answer(prompts[index])

    def _answer(self, prompt: Prompt) -> Answer:
        start = time.perf_counter()
        ids, options = self._engine.tokens(prompt.text), self.options
        new = self.protocol.answer_tokens + options.reasoning_tokens
        if not ids or len(ids) + new > options.window:
            return self._too_long(len(ids))
        try:
            if prompt.options and options.choose != "text":
                answer = self._choice(ids, prompt)
            else:
                answer = self._written(ids, new)
        except WorkFailed as error:
            answer = Answer("", "failed", str(error), prompt_tokens=len(ids))
        return replace(answer, seconds=time.perf_counter() - start)

    def _written(self, ids: list[int], new: int, allowed: Sequence[str] = ()) -> Answer:
        """What the model writes, one of the ``allowed`` texts where there are some."""
        texts = [self._engine.tokens(text) for text in allowed]
        grammar = _grammar(texts) if texts else ""
        response = self._engine.complete(ids, new, grammar)
        opened = self.frame.tail.rstrip().endswith("<think>") and not allowed
        reasoning, text = split_reasoning(response["choices"][0]["text"], opened)
        cut = response["choices"][0]["finish_reason"] == "length"
        return Answer(
            text,
            ended="length" if cut else "stop" if text else "empty",
            reasoning=reasoning,
            reasoning_tokens=len(self._ids(reasoning)) if reasoning else 0,
            prompt_tokens=len(ids),
            output_tokens=response["usage"]["completion_tokens"],
            reused_tokens=response["usage"]["prompt_tokens_details"]["cached_tokens"],
        )

    def _choice(self, ids: list[int], prompt: Prompt) -> Answer:
        """The most probable letter, or the option of the largest log-likelihood a character."""
        letters = LETTERS[: len(prompt.options)]
        if self.options.choose == "letter":
            answer = self._written(ids, self.protocol.answer_tokens, letters)
            index = letters.find(answer.text or "-")
            return (
                replace(answer, text=option_text(prompt.options, index)) if index >= 0 else answer
            )
        each: list[float] = []
        for option in map(one_line, prompt.options):
            tokens = self._engine.tokens(option)
            response = self._engine.complete(ids, len(tokens) + 1, _grammar([tokens]))
            read = response["choices"][0]["logprobs"]["content"][: len(tokens)]
            each.append(sum(token["logprob"] for token in read) / len(option))
        text = option_text(prompt.options, each.index(max(each)))
        return Answer(text, prompt_tokens=len(ids), how="likelihood")
