"""A cross-encoder, and its scores of pairs cached on disk by the hash of model and pair.

Arms select the same sentences, and questions are asked again, so pairs are de-duplicated and looked
up, and only new ones are sent through the model, sorted by length. The model is loaded from its
folder by sentence-transformers, without network calls.

Other pairs of a batch change a pair's score by rounding alone: a batch always has the same number
of rows and a width that depends only on the length of its pairs, so the matrix products have one
shape. Bits may still differ: on some processors (AMX) the order of summation depends on the row's
position. In float32 scores differ by about eps·√(number of terms), some millionths; in bfloat16 by
thousandths. On one machine the same pairs in the same calls give the same bits, and a pair is
scored once and then read from disk.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from midchart.core import config as settings
from midchart.core.errors import MissingModel, WorkFailed, missing_package
from midchart.core.storage.vectors import Once, Progress
from midchart.core.text import one_line
from midchart.core.weights import (
    MODELS,
    NLI,
    RELEVANCE,
    Found,
    fingerprint,
    locate,
    no_progress_bar,
)

Precision = Literal["float32", "bfloat16"]

CPU_FLAGS = ("avx512_bf16", "amx_bf16", "bf16")
"""Instructions that multiply bfloat16 natively, as torch names them (x86, x86, Arm)."""


def hardware() -> tuple[str, Precision]:
    """Device ("cuda" or "cpu") and precision for this machine."""
    import torch

    if torch.cuda.is_available():
        native = torch.cuda.is_bf16_supported(including_emulation=False)
        return "cuda", "bfloat16" if native else "float32"
    able: Any = torch.cpu.get_capabilities()
    return "cpu", "bfloat16" if any(able.get(flag) for flag in CPU_FLAGS) else "float32"


Pair = tuple[str, str]

LONGEST = 512
"""Most tokens of a pair that are read; the longer of the two texts is cut first."""
STEP = 16
"""Widths of batches are multiples of so many tokens."""
CPU_ROWS, GPU_ROWS = 8, 64
"""Rows of a batch. On two cores more are not faster; a GPU is fed enough by 64."""
MOST_CHARACTERS = 65_536
"""Most characters of a text: far more than 512 tokens of any language."""


def labels_of(folder: Path) -> tuple[str, ...]:
    """The labels of the model in ``folder``, in the order of its outputs.

    From the config's ``id2label``; one nameless label where it has a single output. Raises
    MissingModel where the config cannot be read or names fewer labels than outputs.
    """
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        named = {int(id): str(label) for id, label in (config.get("id2label") or {}).items()}
        count = len(named) or int(config.get("num_labels", 2))
        return tuple(named[i] for i in range(count))
    except (ValueError, KeyError, AttributeError, TypeError):
        raise MissingModel(f"{path}: id2label is missing or invalid") from None


def refuse_tokenizer(folder: Path) -> None:
    """Raise MissingModel where the tokenizer is a SentencePiece file that nothing here reads."""
    names = ("tokenizer.json", "vocab.txt")
    if any((folder / name).is_file() for name in names) or not (folder / "spm.model").is_file():
        return
    if importlib.util.find_spec("sentencepiece") is None:
        raise MissingModel(
            f"{folder}: its tokenizer is spm.model, which needs the package sentencepiece; get it "
            "with: pip install sentencepiece"
        )


_TOKENIZERS = (
    "tokenizer.json", "vocab.txt", "vocab.json", "spm.model", "spiece.model",
    "sentencepiece.bpe.model",
)  # fmt: skip
"""Files of which a tokenizer has one."""


def _missing_files(folder: Path) -> str:
    """Which files of a cross-encoder a folder lacks; empty where it has them all."""
    parts = {
        "config.json": ("config.json",),
        "the weights (model.safetensors)": ("model.safetensors", "pytorch_model.bin"),
        "the tokenizer": _TOKENIZERS,
    }
    return ", ".join(
        part for part, names in parts.items() if not any((folder / n).is_file() for n in names)
    )


class PairModel:
    """The cross-encoder in ``folder``, on ``device`` and in ``precision``.

    Raises MissingModel where a file is missing, WorkFailed where the model cannot be loaded.
    """

    def __init__(self, folder: Path, device: str, precision: Precision) -> None:
        import torch

        try:
            from sentence_transformers import CrossEncoder
        except ImportError:
            raise missing_package("sentence-transformers", "pairs") from None
        if missing := _missing_files(folder):
            raise MissingModel(
                f"{folder}: {missing} missing; get its config, weights and tokenizer again"
            )
        try:
            with no_progress_bar():
                model: Any = CrossEncoder(
                    str(folder),
                    device=device,
                    local_files_only=True,
                    model_kwargs={"dtype": getattr(torch, precision)},
                )
        except Exception as error:
            raise WorkFailed(
                f"{folder}: the model cannot be loaded ({type(error).__name__}); its files may be "
                "damaged, or memory too small"
            ) from error
        # The last product alone in float32: a bfloat16 logit of 9 is known to 0.06 only.
        last = [
            name
            for name, module in model.named_modules()
            if type(module) is torch.nn.Linear and name.endswith("classifier")
        ]
        model.set_keep_in_fp32_modules(last)
        self._model: Any = model
        self._identity: Any = torch.nn.Identity()
        self._rows = GPU_ROWS if device.startswith("cuda") else CPU_ROWS
        self._longest = min(int(model.max_seq_length or LONGEST), LONGEST) // STEP * STEP
        self.outputs = int(model.num_labels)

    def logits(
        self, pairs: Sequence[Pair], progress: Progress | None = None
    ) -> NDArray[np.float32]:
        """The model's raw outputs for ``pairs``, float32 [n, outputs].

        Raises WorkFailed where an output is NaN or infinite.
        """
        # A lone surrogate cannot be encoded; it is replaced by a question mark.
        clean = [
            tuple(t[:MOST_CHARACTERS].encode("utf-8", "replace").decode("utf-8") for t in pair)
            for pair in pairs
        ]
        out = np.zeros((len(clean), self.outputs), dtype=np.float32)
        done = 0
        for batch in self._batches(clean):
            texts = [clean[i] for i in batch]
            texts += texts[-1:] * (self._rows - len(texts))
            outputs = self._model.predict(
                texts,
                batch_size=self._rows,
                show_progress_bar=False,
                activation_fn=self._identity,
                processing_kwargs={
                    "text": {
                        "pad_to_multiple_of": STEP,
                        "truncation": True,
                        "max_length": self._longest,
                    }
                },
            )
            out[batch] = np.asarray(outputs, np.float32).reshape(self._rows, -1)[: len(batch)]
            done += len(batch)
            if progress is not None:
                progress(done, len(clean))
        if not np.isfinite(out).all():
            raise WorkFailed(
                "the pair model's outputs are NaN or infinite; its weights may be truncated"
            )
        return out

    def _batches(self, pairs: Sequence[tuple[str, ...]]) -> list[list[int]]:
        """Indices of pairs, the shortest first, each batch of one width."""
        if not pairs:
            return []
        ids = self._model.tokenizer(
            [pair[0] for pair in pairs],
            [pair[1] for pair in pairs],
            truncation=True,
            max_length=self._longest,
        )["input_ids"]
        widths = [-(-len(row) // STEP) for row in ids]
        batches: list[list[int]] = []
        for i in sorted(range(len(pairs)), key=widths.__getitem__):
            full = not batches or len(batches[-1]) == self._rows
            if full or widths[batches[-1][0]] != widths[i]:
                batches.append([])
            batches[-1].append(i)
        return batches


CHUNK = 512
"""Pairs scored between two writes; what is lost when a process is killed."""
DECIMALS = 6
"""Scores are rounded to so many decimals: further ones differ between libraries and machines."""


class PairScorer:
    """Scores pairs with the cross-encoder called ``name``; outputs are kept under ``cache``.

    ``labels`` are the model's outputs in order; ``id`` names model, weights and precision, which
    are distinguished on disk too. ``scored`` counts the pairs this object sent through the model.
    ``folder``: weights outside the usual folders (a benchmark's). White space is
    normalised first. Raises MissingModel where the weights are not installed or incomplete.
    """

    def __init__(self, name: str, cache: Path | None = None, folder: Path | None = None) -> None:
        weights = Found(MODELS[name], folder, "models folder") if folder else locate(name)
        digest = fingerprint(weights)
        self.name, self.labels = name, labels_of(weights.folder)
        refuse_tokenizer(weights.folder)
        device, self.precision = hardware()
        self._at: tuple[str, Precision] = device, self.precision
        self.id = f"{name}@{digest[:16]}/{self.precision}"
        self._folder = weights.folder
        scores = (cache or settings.cache_folder()) / "pairs"
        self._once = Once(
            scores / f"{name}-{digest[:16]}-{self.precision}", digest, len(self.labels), CHUNK
        )
        self._model: PairModel | None = None
        self._lock = Lock()

    @property
    def scored(self) -> int:
        """How many pairs this object sent through the model."""
        return self._once.made

    def outputs(
        self, pairs: Sequence[Pair], progress: Progress | None = None
    ) -> NDArray[np.float32]:
        """Raw outputs of ``pairs`` [n, labels], float32; equal pairs have equal outputs.

        ``progress`` is called with pairs done and pairs in all while the model works. Raises
        WorkFailed where an output is NaN or infinite.
        """
        folded = [(one_line(first), one_line(second)) for first, second in pairs]
        order = sorted(range(len(folded)), key=lambda i: len(folded[i][0]) + len(folded[i][1]))
        sorted_pairs = [folded[i] for i in order]

        def make(missing: Sequence[int], report: Progress) -> NDArray[np.float32]:
            return self._loaded().logits([sorted_pairs[i] for i in missing], report)

        rows = self._once.rows([_content(pair) for pair in sorted_pairs], make, progress)
        out = np.empty_like(rows)
        out[order] = rows
        return out

    def _loaded(self) -> PairModel:
        with self._lock:
            if self._model is None:
                self._model = PairModel(self._folder, *self._at)
            return self._model


def _content(pair: Pair) -> bytes:
    """Both texts in one, with the length of the first, so that distinct pairs differ."""
    first, second = (text.encode("utf-8", "surrogatepass") for text in pair)
    return b"%d:" % len(first) + first + second


_shared: dict[tuple[str, str, Path], PairScorer] = {}
_shared_lock = Lock()


def shared(name: str) -> PairScorer:
    """The process's one scorer for these weights and this cache folder; raises MissingModel.

    Arms are built for every question; the model is not.
    """
    key = (name, str(locate(name).folder), settings.cache_folder())
    with _shared_lock:
        if key not in _shared:
            _shared[key] = PairScorer(name)
        return _shared[key]


# How relevant a text is to a question, by a cross-encoder trained on MS MARCO (docs/methods.md,
# Arms).


def relevance(
    scorer: PairScorer, question: str, texts: Sequence[str], progress: Progress | None = None
) -> NDArray[np.float64]:
    """The model's logit for each of ``texts`` with ``question``, float64 [n], higher is better.

    Rounded to six decimals. Raises MissingModel where the model has more outputs than one.
    """
    if len(scorer.labels) != 1:
        raise MissingModel(
            f"{scorer.name}: relevance is a model's single output; this one has "
            f"{len(scorer.labels)} ({', '.join(scorer.labels)})"
        )
    outputs = scorer.outputs([(question, text) for text in texts], progress)
    return np.round(outputs[:, 0].astype(np.float64), DECIMALS)


# Whether one text follows from another, by a model of natural language inference.


ENTAILMENT, CONTRADICTION = "entailment", "contradiction"


def label_index(labels: Sequence[str], name: str, wanted: str = ENTAILMENT) -> int:
    """Which of a model's ``labels`` is ``wanted``; raises MissingModel unless exactly one is."""
    indices = [i for i, label in enumerate(labels) if label.strip().lower() == wanted]
    if len(indices) != 1:
        raise MissingModel(
            f"{name}: its id2label names no single {wanted!r} (it has: {', '.join(labels)}); "
            "a model of natural language inference is needed"
        )
    return indices[0]


def require(*wanted: str) -> None:
    """Raise MissingModel where the NLI weights are not installed or lack a label of ``wanted``
    (default: entailment).

    Reads the config alone, so a run can be refused before anything is made or loaded.
    """
    folder = locate(NLI).folder
    for label in wanted or (ENTAILMENT,):
        label_index(labels_of(folder), NLI, label)
    refuse_tokenizer(folder)


class Entailment:
    """Probabilities of entailment by ``scorer``'s model (default: the project's NLI model).

    Raises MissingModel where the weights are not installed or have no entailment label.
    """

    def __init__(self, scorer: PairScorer | None = None) -> None:
        self.scorer = scorer if scorer is not None else shared(NLI)
        self.index = label_index(self.scorer.labels, self.scorer.name)

    def probabilities(
        self, pairs: Sequence[Pair], progress: Progress | None = None
    ) -> NDArray[np.float64]:
        """Probability that each (premise, hypothesis) is an entailment, float64 [n], rounded to
        six decimals."""
        return self._shares(pairs, progress)[:, self.index]

    def classes(self, pairs: Sequence[Pair], *wanted: str) -> tuple[NDArray[np.float64], ...]:
        """The probability of each label of ``wanted`` for each (premise, hypothesis), float64 [n]
        each; raises MissingModel for a label that the model does not have."""
        places = [label_index(self.scorer.labels, self.scorer.name, name) for name in wanted]
        shares = self._shares(pairs)
        return tuple(shares[:, place] for place in places)

    def _shares(
        self, pairs: Sequence[Pair], progress: Progress | None = None
    ) -> NDArray[np.float64]:
        """Probabilities of all labels, float64 [n, labels], rounded to six decimals."""
        logits = self.scorer.outputs(pairs, progress).astype(np.float64)
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.round(powers / powers.sum(axis=1, keepdims=True), DECIMALS)

    def either_way(
        self, pairs: Sequence[Pair], progress: Progress | None = None
    ) -> NDArray[np.float64]:
        """The larger probability of the two directions of each pair, float64 [n]
        (docs/methods.md, Stage 1: semantic hit)."""
        both = [*pairs, *((second, first) for first, second in pairs)]
        shares = self.probabilities(both, progress)
        return np.maximum(shares[: len(pairs)], shares[len(pairs) :])


__all__ = ["DECIMALS", "NLI", "RELEVANCE", "Entailment", "PairScorer", "relevance", "shared"]
