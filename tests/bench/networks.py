"""Networks: the QCCS gate and the served reader."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from midchart.core.gate.checkpoint import Gate, GateConfig, Split
from midchart.core.gate.scoring import Scorer
from midchart.core.protocol import Protocol
from midchart.core.readers import READERS
from midchart.core.text.prompt import HEAD, MIDDLE, TAIL
from midchart.core.types import Prompt
from tests.bench import BENCHES, QUESTION, compare, reference, texts

if TYPE_CHECKING:
    from midchart.core.gate.training import GateModel


def _gate() -> tuple[GateModel, Scorer]:
    """An untrained gate as both sides take it; speed does not hang on the weights."""
    from midchart.core.gate.training import GateModel
    from midchart.core.training.trainer import forked_rng

    with forked_rng(seed=0):
        model = GateModel(GateConfig())
    weights = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    return model, Scorer(Gate(model.config, weights, Split((), (), ())))


@BENCHES.register("gate_score")
def score() -> dict[str, Any]:
    """A question to a record whose parts are kept, and one sentence at a time, hashed before, in
    one thread."""
    from midchart.core.training.trainer import one_thread

    plain = reference("gate")
    with one_thread():
        model, scorer = _gate()
        model.eval()
        hashing = model.config.hashing
        parts = scorer.parts(texts())
        asked, bags = plain.bag(hashing, QUESTION), [plain.bag(hashing, text) for text in texts()]
        return compare(
            f"one question, parts kept, {len(bags):,} sentences, {len({*texts()}):,} distinct",
            "one sentence at a time",
            lambda: plain.scores_of_bags(model, asked, bags),
            lambda: scorer.scores(parts, QUESTION),
            at_most=0.01,
            calls=100,
        )


_DELAY_S = 0.05
_PROMPTS = 32


@BENCHES.register("served")
def served() -> dict[str, Any]:
    """The served reader, with retries and egress checks, compared with a plain loop of requests."""
    plain = reference("served")
    asked = [
        f"{HEAD}[2020-01-02] Patient takes lisinopril {i} mg{MIDDLE}What dose of lisinopril?{TAIL}"
        for i in range(_PROMPTS)
    ]
    prompts = [Prompt(text, "What dose of lisinopril?", (), 40) for text in asked]
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
            f"{_PROMPTS} prompts, {1e3 * _DELAY_S:.0f} ms each, 8 at a time",
            "one prompt at a time",
            lambda: plain.one_by_one(server.url, asked, 128),
            lambda: list(reader.read_many(prompts)),
            at_most=0.25,
            rounds=3,
            clock=time.perf_counter,
        )
