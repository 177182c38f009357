"""The QCCS gate: a record of 2,000 sentences scored for a question, and steps of its training.

On a synthetic record of notes and readings, in which many short sentences come again, as they do
in real ones. Both sides work in one thread.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from core.bench import BENCHES, compare, reference
from core.gate.checkpoint import Gate, GateConfig, Recipe, Split
from core.gate.examples import Pairs
from core.gate.scoring import Scorer
from core.loaders.open import open_cohort
from core.protocol import Protocol
from core.synthetic.cohort import make_clinical
from core.text import sentences

if TYPE_CHECKING:
    from core.gate.training import GateModel

SENTENCES, STEPS = 2000, 100
QUESTION = "What dose of metformin did the patient take in 2014?"


@cache
def _texts() -> tuple[str, ...]:
    """The first 2,000 sentences of a synthetic record."""
    with tempfile.TemporaryDirectory() as folder:
        make_clinical(Path(folder), 2, 800, 1)
        records = open_cohort(folder).records
        notes = [tuple(s.text for s in sentences(records[id], Protocol())) for id in records]
    return next(texts for texts in notes if len(texts) >= SENTENCES)[:SENTENCES]


def _gate() -> tuple[GateModel, Scorer]:
    """An untrained gate as both sides take it; speed does not hang on the weights."""
    from core.gate.training import GateModel
    from core.training.repeatable import forked_rng

    with forked_rng(seed=0):
        model = GateModel(GateConfig())
    weights = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    return model, Scorer(Gate(model.config, weights, Split((), (), ())))


def _size(what: str) -> str:
    return f"{what}, {SENTENCES:,} sentences, {len(set(_texts())):,} distinct"


@BENCHES.register("gate_score")
def score() -> dict[str, Any]:
    """A question to a record whose parts are kept, and one sentence at a time, hashed before."""
    from core.training.repeatable import one_thread

    plain = reference("gate")
    texts = _texts()
    with one_thread():
        model, scorer = _gate()
        model.eval()
        hashing = model.config.hashing
        parts = scorer.parts(texts)
        asked, bags = plain.bag(hashing, QUESTION), [plain.bag(hashing, text) for text in texts]
        return compare(
            "gate_score",
            _size("one question, parts kept"),
            lambda: plain.scores_of_bags(model, asked, bags),
            lambda: scorer.scores(parts, QUESTION),
            ask=300,
            fast_calls=100,
        )


@BENCHES.register("gate_cold")
def cold() -> dict[str, Any]:
    """From text to scores with nothing kept, and one sentence hashed and scored at a time."""
    from core.training.repeatable import one_thread

    plain = reference("gate")
    texts = _texts()
    with one_thread():
        model, scorer = _gate()
        return compare(
            "gate_cold",
            _size("one question, from text"),
            lambda: plain.scores(model, QUESTION, texts),
            lambda: scorer.scores(scorer.parts(texts), QUESTION),
            ask=50,
            fast_calls=10,
        )


@BENCHES.register("gate_training")
def training() -> dict[str, Any]:
    """A hundred steps of training on texts that are hashed already, and a DataLoader loop."""
    from core.gate.training import GateModel, GateTrainer
    from core.training.repeatable import epoch_order, one_thread

    plain = reference("gate")
    texts = tuple(dict.fromkeys(_texts()))
    rng = np.random.default_rng(0)
    rows = 32 * STEPS
    pairs = Pairs(
        tuple(f"{QUESTION} {i}" for i in range(60)),
        texts,
        rng.integers(0, 60, rows),
        rng.integers(0, len(texts), rows),
        (rng.random(rows) < 0.25).astype(np.float32),
    )
    with one_thread():
        trainer = GateTrainer(GateConfig(), pairs, pairs, Recipe())
        model = GateModel(GateConfig())
        hashed = plain.Rows(pairs, model.config.hashing)
        order = epoch_order(trainer.recipe.seed, 1, rows)
        return compare(
            "gate_training",
            f"{STEPS} steps of 32 pairs",
            lambda: plain.train(model, hashed, [order]),
            lambda: trainer.epoch(1),
            ask=5,
            fast_calls=3,
        )
