"""Transformers: a language model in a folder of this machine, asked by its own chat template.

The folder is one that transformers saves or a hub gives: ``config.json``, ``tokenizer.json``,
weights as safetensors, and a chat template, by which prompts are rendered
(:mod:`midchart.core.text.chat_template`). Decoding is greedy, as of the reader ``qwen``, and ends
at the tokens that ``generation_config.json`` names. A model that reasons before it answers needs
``reasoning_tokens``.
"""

from __future__ import annotations

from typing import Any, ClassVar

from midchart.core.errors import SpecError
from midchart.core.protocol import Protocol
from midchart.core.readers import READERS
from midchart.core.readers.qwen import Qwen, QwenOptions
from midchart.core.text.chat_template import has_template


class TransformersOptions(QwenOptions):
    """Options of the reader ``transformers``."""

    model: str = ""
    """A folder in the models folder."""


@READERS.register("transformers")
class Transformers(Qwen):
    """A model of an architecture whose answers are tested against transformers' own.

    Raises what :meth:`check` raises; the weights are loaded when the first prompt is read.
    """

    name: ClassVar[str] = "transformers"
    title: ClassVar[str] = "Transformers model (on this machine)"
    needs: ClassVar[str] = ""
    options_model = TransformersOptions
    model_types: ClassVar[tuple[str, ...]] = (
        "gemma3_text", "llama", "mistral", "phi3", "qwen2", "qwen3",
    )  # fmt: skip
    ends: ClassVar[tuple[str, ...]] = ()
    stretch: ClassVar[int] = 1

    @classmethod
    def check(cls, protocol: Protocol, **options: Any) -> None:
        """As :meth:`core.readers.qwen.Qwen.check`; raises SpecError without a model or a chat
        template too."""
        model = cls.read_options(options).model
        if not model:
            raise SpecError(
                "the reader 'transformers' needs 'model', the name of a folder in the models "
                'folder: { name = "transformers", model = "Llama-3.1-8B-Instruct" }'
            )
        super().check(protocol, **options)
        folder = cls.model_folder(model)
        if protocol.preset != "published" and not has_template(folder):
            raise SpecError(
                f"{folder}: the tokenizer has no chat template, so there is no way to ask"
            )
