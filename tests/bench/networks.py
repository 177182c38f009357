"""Networks: the QCCS gate and the served reader.

The gate scores a record of 2,000 sentences for a question, on a synthetic record of notes and
readings, in which many short sentences come again, as they do in real ones. Both sides work in one
thread.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from midchart.core.gate.checkpoint import Gate, GateConfig, Split
from midchart.core.gate.scoring import Scorer
from midchart.core.loaders.open import read_cohort
from midchart.core.protocol import Protocol
from midchart.core.readers import READERS
from midchart.core.text import sentences
from midchart.core.text.prompt import HEAD, MIDDLE, TAIL
from midchart.core.types import Prompt
from midchart.extras.lab.synthetic.cohort import make_clinical
from tests.bench import BENCHES, compare, reference

if TYPE_CHECKING:
    from midchart.core.gate.training import GateModel


_SENTENCES = 2000
_QUESTION = "What dose of metformin did the patient take in 2014?"


@cache
def _texts() -> tuple[str, ...]:
    """The first 2,000 sentences of a synthetic record."""
    with tempfile.TemporaryDirectory() as folder:
        make_clinical(Path(folder), 2, 800, 1)
        records = read_cohort(folder).records
        notes = [tuple(s.text for s in sentences(records[id], Protocol())) for id in records]
    return next(texts for texts in notes if len(texts) >= _SENTENCES)[:_SENTENCES]


def _gate() -> tuple[GateModel, Scorer]:
    """An untrained gate as both sides take it; speed does not hang on the weights."""
    from midchart.core.gate.training import GateModel
    from midchart.core.training.trainer import forked_rng

    with forked_rng(seed=0):
        model = GateModel(GateConfig())
    weights = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    return model, Scorer(Gate(model.config, weights, Split((), (), ())))


def _size(what: str) -> str:
    return f"{what}, {_SENTENCES:,} sentences, {len(set(_texts())):,} distinct"


@BENCHES.register("gate_score")
def score() -> dict[str, Any]:
    """A question to a record whose parts are kept, and one sentence at a time, hashed before."""
    from midchart.core.training.trainer import one_thread

    plain = reference("gate")
    texts = _texts()
    with one_thread():
        model, scorer = _gate()
        model.eval()
        hashing = model.config.hashing
        parts = scorer.parts(texts)
        asked, bags = plain.bag(hashing, _QUESTION), [plain.bag(hashing, text) for text in texts]
        return compare(
            "gate_score",
            _size("one question, parts kept"),
            lambda: plain.scores_of_bags(model, asked, bags),
            lambda: scorer.scores(parts, _QUESTION),
            ask=300,
            fast_calls=100,
        )


_DELAY_S = 0.05
_PROMPTS = 32


@BENCHES.register("served")
def served() -> dict[str, Any]:
    """The served reader, with retries and egress checks, compared with a plain loop of requests."""
    plain = reference("served")
    texts = [
        f"{HEAD}[2020-01-02] Patient takes lisinopril {i} mg{MIDDLE}What dose of lisinopril?{TAIL}"
        for i in range(_PROMPTS)
    ]
    prompts = [Prompt(text, "What dose of lisinopril?", (), 40) for text in texts]
    with plain.slow_server(_DELAY_S) as server:
        reader: Any = READERS.build(
            "served",
            Protocol(),
            url=f"{server.url}/v1",
            model="tiny",
            window=4096,
            path="completions",
            template="chatml",
        )
        return compare(
            "served",
            f"{_PROMPTS} prompts, {1e3 * _DELAY_S:.0f} ms each, 8 at a time",
            lambda: plain.one_by_one(server.url, texts, 128),
            lambda: list(reader.read_many(prompts)),
            ask=4,
            rounds=3,
        )
