"""Networks: attentions, the QCCS gate, and readers.

Attentions of the EHRSHOT encoder: a training step compared with the plain one, on a CPU. A step is
forward and backward of 64 sequences of 256 events, three quarters of them filled on average, on one
thread. The plain side makes every n×n map and every row of the last layer; both have the same
weights and no dropout.

The QCCS gate: a record of 2,000 sentences scored for a question, and steps of its training, on a
synthetic record of notes and readings, in which many short sentences come again, as they do in real
ones. Both sides work in one thread.
"""

from __future__ import annotations

import importlib
import tempfile
from contextlib import redirect_stderr
from functools import cache
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from midchart.core.attention import ATTENTIONS
from midchart.core.errors import WorkFailed
from midchart.core.gate.checkpoint import Gate, GateConfig, GateRecipe, Split
from midchart.core.gate.examples import Pairs
from midchart.core.gate.scoring import Scorer
from midchart.core.loaders.open import read_cohort
from midchart.core.protocol import Protocol
from midchart.core.readers import READERS
from midchart.core.readers.local_batches import Ids
from midchart.core.text import sentences
from midchart.core.text.prompt import HEAD, MIDDLE, TAIL
from midchart.core.types import Prompt
from midchart.extras.lab.synthetic.cohort import make_clinical
from tests.bench import BENCHES, compare, reference

if TYPE_CHECKING:
    from torch import Tensor

    from midchart.core.gate.training import GateModel
    from midchart.core.training_experiments.forecast.training import Encoder


_BATCH, _WINDOW, _CODES = 64, 256, 2000
_MAP_BATCH = 16
"""Sequences of the map benches: bisection takes seconds even for these."""


def _batch() -> tuple[Tensor, Tensor, Tensor]:
    """Codes, mask and gate [batch, events]; half of the sequences fill the window."""
    import torch

    draw = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 2 * _WINDOW, (_BATCH, 1), generator=draw).clamp_max(_WINDOW)
    mask = torch.arange(_WINDOW) >= _WINDOW - lengths
    codes = torch.randint(1, _CODES, mask.shape, generator=draw) * mask
    return codes, mask, torch.rand(mask.shape, generator=draw)


def _encoder(name: str) -> Encoder:
    import torch

    from midchart.core.training_experiments.forecast.training import Encoder, EncoderConfig

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Encoder(EncoderConfig(_CODES, name, dropout=0.0))


def _step(name: str, title: str) -> dict[str, Any]:
    """An encoder's step and the plain encoder's with the same weights."""
    from midchart.core.training.trainer import one_thread

    plain, model = reference("encoder"), _encoder(name)
    codes, mask, gate = _batch()
    gates = (gate,) if model.attention.gated else ()

    def fast() -> None:
        model(codes, mask, *gates)[0].square().sum().backward()

    def slow() -> None:
        plain.logits(model, codes, mask, *gates).square().sum().backward()

    size = f"a step of {_BATCH} × {_WINDOW} events, 2 layers"
    with one_thread():
        return compare(title, size, slow, fast, ask=2, rounds=3)


@BENCHES.register("attention_differential")
def differential() -> dict[str, Any]:
    """Two fused calls and CLS's row alone in the last layer, and explicit maps throughout."""
    return _step("differential", "attention_differential")


@BENCHES.register("attention_gated")
def gated() -> dict[str, Any]:
    """The same with the values scaled by the gate in the place of a map's columns."""
    return _step("gated_differential", "attention_gated")


@BENCHES.register("attention_h2o")
def h2o() -> dict[str, Any]:
    """What is dropped is gone before the first layer, and is masked after computing."""
    return _step("h2o", "attention_h2o")


def _map(name: str) -> dict[str, Any]:
    """One attention, forward and backward, by the exact solution and by bisection."""
    import torch

    from midchart.core.attention.base import Shape
    from midchart.core.training.trainer import one_thread

    plain = getattr(reference("attention"), name)
    module = ATTENTIONS.build(name, Shape())
    draw = torch.Generator().manual_seed(0)
    q, k, v = (
        torch.randn(_MAP_BATCH, 4, 1 + _WINDOW, 16, generator=draw).requires_grad_()
        for _ in range(3)
    )
    mask = torch.arange(1 + _WINDOW) < torch.arange(_WINDOW, 0, -_WINDOW // _MAP_BATCH)[:, None]
    with one_thread():
        return compare(
            f"attention_{name}",
            f"{_MAP_BATCH} × 4 maps of {1 + _WINDOW}², forward and backward; bisection of 50",
            lambda: plain(q, k, v, mask).square().sum().backward(),
            lambda: module(q, k, v, mask)[0].square().sum().backward(),
            ask=4,
            rounds=3,
        )


@BENCHES.register("attention_entmax15")
def entmax15() -> dict[str, Any]:
    """1.5-entmax to the last bits by Newton's steps, and by bisection."""
    return _map("entmax15")


@BENCHES.register("attention_sparsemax")
def sparsemax() -> dict[str, Any]:
    """Sparsemax the same way, and by bisection."""
    return _map("sparsemax")


_EVENTS, _VOCABULARY, _EPOCHS = 256, 20_000, 40


_SENTENCES, _GATE_STEPS = 2000, 100
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


@BENCHES.register("gate_cold")
def cold() -> dict[str, Any]:
    """From text to scores with nothing kept, and one sentence hashed and scored at a time."""
    from midchart.core.training.trainer import one_thread

    plain = reference("gate")
    texts = _texts()
    with one_thread():
        model, scorer = _gate()
        return compare(
            "gate_cold",
            _size("one question, from text"),
            lambda: plain.scores(model, _QUESTION, texts),
            lambda: scorer.scores(scorer.parts(texts), _QUESTION),
            ask=50,
            fast_calls=10,
        )


@BENCHES.register("gate_training")
def training() -> dict[str, Any]:
    """A hundred steps of training on texts that are hashed already, and a DataLoader loop."""
    from midchart.core.gate.training import GateModel, GateTrainer
    from midchart.core.training.trainer import epoch_order, one_thread

    plain = reference("gate")
    texts = tuple(dict.fromkeys(_texts()))
    rng = np.random.default_rng(0)
    rows = 32 * _GATE_STEPS
    pairs = Pairs(
        tuple(f"{_QUESTION} {i}" for i in range(60)),
        texts,
        rng.integers(0, 60, rows),
        rng.integers(0, len(texts), rows),
        (rng.random(rows) < 0.25).astype(np.float32),
    )
    with one_thread():
        trainer = GateTrainer(GateConfig(), pairs, pairs, GateRecipe())
        model = GateModel(GateConfig())
        hashed = plain.Rows(pairs, model.config.hashing)
        order = epoch_order(trainer.recipe.seed, 1, rows)
        return compare(
            "gate_training",
            f"{_GATE_STEPS} steps of 32 pairs",
            lambda: plain.train(model, hashed, [order]),
            lambda: trainer.epoch(1),
            ask=5,
            fast_calls=3,
        )


_DELAY_S = 0.05
_PROMPTS = 32
_NEW = 40
_ARMS, _QUESTIONS, _RECORD_LINES, _RECORD = 7, 4, 20, 100


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


def _prompts() -> list[str]:
    """The prompts of seven arms and four questions about one record."""
    lines = [f"[2019-{i % 12 + 1:02d}-04] Glucose: {80 + 7 * i % 90} mg" for i in range(_RECORD)]
    prompts: list[str] = []
    for q in range(_QUESTIONS):
        question = f"What was the glucose on day {q}?"
        for arm in range(_ARMS):
            shown = lines if arm == 0 else lines[(arm * 7 + q * 3) :: 2][: _RECORD_LINES + arm]
            prompts.append(HEAD + "\n".join(shown) + MIDDLE + question + TAIL)
    return prompts


@BENCHES.register("qwen")
def qwen() -> dict[str, Any]:
    """transformers' generation prompt by prompt, and the reader's batches, with equal answers.

    Seven arms ask four questions about one record: six with some twenty lines each, and ``full``
    with all of it, so that its four prompts share their opening. Weights are random.
    """
    plain = reference("qwen")
    tiny = importlib.import_module("tests.support.tiny_models")
    import torch

    from midchart.core.readers.local_engine import Engine, GenerationConfig

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # small matrices: more threads wait for one another, on either side
    with tempfile.TemporaryDirectory() as place, redirect_stderr(StringIO()):
        folder = Path(place)
        tiny.make_qwen(folder, hidden=256, layers=4, talkative=0.0)
        model, tokenizer = plain.load(folder)
        engine = Engine(folder, "float32")
    texts = _prompts()
    ids: list[Ids] = [tokenizer(text, return_tensors="np").input_ids[0] for text in texts]
    options = GenerationConfig(
        _NEW, frozenset(tokenizer.convert_tokens_to_ids(list(tiny.CHAT_TOKENS)))
    )

    def fast() -> list[str]:
        responses = dict(engine.read(ids, options))
        outputs = (list(responses[i].ids) for i in range(len(ids)))
        return [tokenizer.decode(output, skip_special_tokens=True).strip() for output in outputs]

    def slow() -> list[str]:
        return plain.answers(model, tokenizer, texts, _NEW)

    try:
        if fast() != slow():
            raise WorkFailed("the reader's answers are not those of one prompt after another")
        tokens = sum(len(one) for one in ids)
        size = f"{len(ids)} prompts, {tokens:,} tokens, {_NEW} new each"
        return compare("qwen", size, slow, fast, ask=3, rounds=3)
    finally:
        torch.set_num_threads(threads)
