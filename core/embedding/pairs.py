"""A cross-encoder, and its scores of pairs cached on disk by the hash of model and pair.

Arms select the same sentences, and questions are asked again, so pairs are de-duplicated and looked
up, and only new ones are sent through the model, sorted by length. The model is loaded from its
folder by sentence-transformers, without network calls.

Other pairs of a batch change a pair's score by rounding alone: in float32 by about eps·√(number of
terms), some millionths; in bfloat16 by thousandths. On one machine the same pairs in the same calls
give the same bits, and a pair is scored once and then read from disk.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from midchart.core import config as settings
from midchart.core.errors import MissingModel, WorkFailed, missing_package
from midchart.core.storage.vectors import LoadedOnce, Once, Progress
from midchart.core.text import one_line
from midchart.core.weights import NLI, fingerprint, locate, no_progress_bar, shared_by_place

Precision = Literal["float32", "bfloat16"]

CPU_FLAGS = ("avx512_bf16", "amx_bf16", "bf16")
"""Instructions that multiply bfloat16 natively, as torch names them (x86, x86, Arm)."""


def hardware() -> tuple[str, Precision]:
    """Device ("cuda" or "cpu") and precision for this machine: bfloat16 where it computes in it."""
    import torch

    if torch.cuda.is_available():
        native = torch.cuda.is_bf16_supported(including_emulation=False)
        return "cuda", "bfloat16" if native else "float32"
    able: Any = torch.cpu.get_capabilities()
    return "cpu", "bfloat16" if any(able.get(flag) for flag in CPU_FLAGS) else "float32"


Pair = tuple[str, str]

LONGEST = 512
"""Most tokens of a pair that are read; the longer of the two texts is cut first."""
CPU_ROWS, GPU_ROWS = 8, 64
"""Rows of a batch. On two cores more are not faster; a GPU is fed enough by 64."""


def labels_of(folder: Path) -> tuple[str, ...]:
    """The labels of the model in ``folder``, in the order of its outputs.

    From the config's ``id2label``; raises MissingModel where it has none.
    """
    path = folder / "config.json"
    named = json.loads(path.read_text(encoding="utf-8")).get("id2label")
    if not named:
        raise MissingModel(f"{path}: id2label is missing")
    return tuple(named[id] for id in sorted(named, key=int))


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


class PairModel:
    """The cross-encoder in ``folder``, on ``device`` and in ``precision``.

    Raises WorkFailed where the model cannot be loaded.
    """

    def __init__(self, folder: Path, device: str, precision: Precision) -> None:
        import torch

        try:
            from sentence_transformers import CrossEncoder
        except ImportError:
            raise missing_package("sentence-transformers", "pairs") from None
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
                "missing or damaged, or memory too small"
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
        self._longest = min(int(model.max_seq_length or LONGEST), LONGEST)
        self.outputs = int(model.num_labels)

    def logits(self, pairs: Sequence[Pair]) -> NDArray[np.float32]:
        """The model's raw outputs for ``pairs``, float32 [n, outputs].

        Raises WorkFailed where an output is NaN or infinite.
        """
        # A lone surrogate cannot be encoded; it is replaced by a question mark.
        clean = [
            tuple(text.encode("utf-8", "replace").decode("utf-8") for text in pair)
            for pair in pairs
        ]
        outputs = self._model.predict(
            clean,
            batch_size=self._rows,
            show_progress_bar=False,
            activation_fn=self._identity,
            processing_kwargs={"text": {"truncation": True, "max_length": self._longest}},
        )
        out = np.asarray(outputs, np.float32).reshape(len(clean), self.outputs)
        if not np.isfinite(out).all():
            raise WorkFailed(
                "the pair model's outputs are NaN or infinite; its weights may be truncated"
            )
        return out


CHUNK = 512
"""Pairs scored between two writes; what is lost when a process is killed."""
DECIMALS = 6
"""Scores are rounded to so many decimals: further ones differ between libraries and machines."""


class PairScorer(LoadedOnce):
    """Scores pairs with the cross-encoder called ``name``; outputs are kept in the cache folder.

    ``labels`` are the model's outputs in order; ``id`` names model, weights and precision, which
    are distinguished on disk too. White space is normalised first. Raises MissingModel where the
    weights are not installed.
    """

    def __init__(self, name: str) -> None:
        weights = locate(name)
        digest = fingerprint(weights)
        self.name, self.labels = name, labels_of(weights.folder)
        refuse_tokenizer(weights.folder)
        device, precision = hardware()
        self.id = f"{name}@{digest[:16]}/{precision}"
        scores = settings.cache_folder() / "pairs" / f"{name}-{digest[:16]}-{precision}"
        super().__init__(
            Once(scores, digest, len(self.labels), CHUNK),
            lambda: PairModel(weights.folder, device, precision),
        )

    def outputs(self, pairs: Sequence[Pair]) -> NDArray[np.float32]:
        """Raw outputs of ``pairs`` [n, labels], float32; equal pairs have equal outputs.

        Raises WorkFailed where an output is NaN or infinite.
        """
        folded = [(one_line(first), one_line(second)) for first, second in pairs]
        order = sorted(range(len(folded)), key=lambda i: len(folded[i][0]) + len(folded[i][1]))
        sorted_pairs = [folded[i] for i in order]

        def make(missing: Sequence[int], report: Progress) -> NDArray[np.float32]:
            return self.loaded().logits([sorted_pairs[i] for i in missing])

        rows = self.once.rows([_content(pair) for pair in sorted_pairs], make)
        out = np.empty_like(rows)
        out[order] = rows
        return out


def _content(pair: Pair) -> bytes:
    """Both texts in one, with the length of the first, so that distinct pairs differ."""
    first, second = (text.encode("utf-8", "surrogatepass") for text in pair)
    return b"%d:" % len(first) + first + second


shared = shared_by_place(PairScorer)
"""The process's one scorer of a model."""


# How relevant a text is to a question, by a cross-encoder trained on MS MARCO (docs/methods.md,
# Arms).


def relevance(scorer: PairScorer, question: str, texts: Sequence[str]) -> NDArray[np.float64]:
    """The model's logit for each of ``texts`` with ``question``, float64 [n], higher is better.

    Rounded to six decimals. Raises MissingModel where the model has more outputs than one.
    """
    if len(scorer.labels) != 1:
        raise MissingModel(
            f"{scorer.name}: relevance is a model's single output; this one has "
            f"{len(scorer.labels)} ({', '.join(scorer.labels)})"
        )
    outputs = scorer.outputs([(question, text) for text in texts])
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
    """Probabilities by the project's NLI model; raises MissingModel where its weights are not
    installed or have no entailment label."""

    def __init__(self) -> None:
        self.scorer = shared(NLI)
        label_index(self.scorer.labels, NLI)

    def classes(self, pairs: Sequence[Pair], *wanted: str) -> tuple[NDArray[np.float64], ...]:
        """The probability of each label of ``wanted`` for each (premise, hypothesis), float64 [n]
        each, rounded to six decimals; raises MissingModel for a label that the model does not
        have."""
        places = [label_index(self.scorer.labels, NLI, name) for name in wanted]
        shares = np.round(softmax(self.scorer.outputs(pairs).astype(np.float64), axis=1), DECIMALS)
        return tuple(shares[:, place] for place in places)

    def either_way(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """The larger probability of entailment in the two directions of each pair, float64 [n]
        (docs/methods.md, Stage 1: semantic hit)."""
        both = [*pairs, *((second, first) for first, second in pairs)]
        (shares,) = self.classes(both, ENTAILMENT)
        return np.maximum(shares[: len(pairs)], shares[len(pairs) :])
