"""Pair scores equal those of transformers, are computed once, and depend on the batch by rounding
only."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from midchart.core.embedding.pairs import (
    ENTAILMENT,
    Entailment,
    PairModel,
    PairScorer,
    relevance,
    require,
    shared,
)
from midchart.core.errors import MissingModel
from midchart.core.weights import NLI, RELEVANCE
from tests.reference import pairs as plain
from tests.support import pair_models
from tests.support.rounding import bound

TEXTS = [
    "Patient takes metformin at a dose of 50 milligram",
    "no fever",
    "Glucose: 104 mg/dL",
    "what dose of metformin does the patient take",
    "chest pain denied; stable on day 3 " * 4,
    "",
    "a plan",
]
PAIRS = list(itertools.permutations(TEXTS, 2))
TERMS = 2 * (4 * 32 + 2 * 32 + 64 + 64)
"""Summed up from input to output by a model of two layers, 32 wide (64 between), 64 tokens:
queries, keys, values and output, scores and their softmax, and both halves of what follows."""


@pytest.fixture(scope="module")
def tiny_models(tmp_path_factory):
    """The two tiny models, made once, under the names of the real ones."""
    torch.set_num_threads(1)  # on busy cores two threads wait for one another
    folder = tmp_path_factory.mktemp("made")
    pair_models.bert(folder / RELEVANCE)
    pair_models.deberta(folder / NLI)
    return folder


@pytest.fixture(autouse=True)
def place(tiny_models, tmp_path, monkeypatch):
    """The models where the program looks first, a cache of the test's own, plain numbers."""
    monkeypatch.setenv("MIDCHART_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MIDCHART_MODELS", str(tiny_models))
    monkeypatch.setattr("midchart.core.embedding.pairs.hardware", lambda: ("cpu", "float32"))
    return tmp_path


def own_models(tiny_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the models that the test may change."""
    shutil.copytree(tiny_models, tmp_path / "own")
    monkeypatch.setenv("MIDCHART_MODELS", str(tmp_path / "own"))
    return tmp_path / "own"


@pytest.mark.parametrize("name", [RELEVANCE, NLI])
def test_outputs_equal_transformers(tiny_models, name):
    scorer = PairScorer(name)
    outputs = scorer.outputs(PAIRS)
    expected = plain.outputs(tiny_models / name, PAIRS, 64)
    assert outputs.shape == expected.shape == (42, len(scorer.labels))
    assert np.abs(outputs - expected).max() < 1e-5
    assert expected.std(axis=0).min() > 0.1, "scores differ, or the comparison says nothing"


def test_relevance_is_the_logit_of_question_and_text(tiny_models):
    scores = relevance(shared(RELEVANCE), TEXTS[3], TEXTS)
    expected = plain.outputs(tiny_models / RELEVANCE, [(TEXTS[3], text) for text in TEXTS], 64)[
        :, 0
    ]
    assert scores == pytest.approx(expected.astype(float), abs=1e-5)
    assert (scores == np.round(scores, 6)).all() and scores.dtype == np.float64
    assert relevance(shared(RELEVANCE), "anything", []).shape == (0,)


@pytest.mark.parametrize("order", list(itertools.permutations(pair_models.LABELS)))
def test_entailment_is_found_by_its_label_in_any_order(tiny_models, tmp_path, monkeypatch, order):
    folder = own_models(tiny_models, tmp_path, monkeypatch) / NLI
    config = json.loads((folder / "config.json").read_text())
    config["id2label"] = {str(i): name.upper() for i, name in enumerate(order)}
    (folder / "config.json").write_text(json.dumps(config))
    require()
    logits = plain.outputs(tiny_models / NLI, PAIRS, 64).astype(np.float64)
    share = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    column = order.index("entailment")
    assert Entailment().classes(PAIRS, ENTAILMENT)[0] == pytest.approx(share[:, column], abs=1e-5)


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        (["LABEL_0", "LABEL_1", "LABEL_2"], "LABEL_0, LABEL_1, LABEL_2"),
        (["not_entailment", "neutral", "no"], "not_entailment"),
        (["entailment", "Entailment", "neutral"], "no single"),
    ],
)
def test_without_one_entailment_label_the_model_is_refused(
    tiny_models, tmp_path, monkeypatch, labels, reason
):
    folder = own_models(tiny_models, tmp_path, monkeypatch) / NLI
    config = json.loads((folder / "config.json").read_text())
    config["id2label"] = dict(enumerate(labels))
    (folder / "config.json").write_text(json.dumps(config))
    for refused in (require, Entailment):
        with pytest.raises(MissingModel, match=reason):
            refused()


def test_a_pair_is_scored_once_and_its_order_counts(place):
    scorer = PairScorer(RELEVANCE)
    first = scorer.outputs([*PAIRS, *PAIRS, ("no   fever\n", "a plan")])
    assert scorer.once.made == len(PAIRS)
    assert (first[: len(PAIRS)] == first[len(PAIRS) : 2 * len(PAIRS)]).all()
    assert (first[-1] == first[PAIRS.index(("no fever", "a plan"))]).all(), "white space is folded"
    again = PairScorer(RELEVANCE)
    assert (again.outputs(PAIRS[::-1]) == first[: len(PAIRS)][::-1]).all() and again.once.made == 0
    assert [p.name for p in (place / "cache" / "pairs").iterdir()] == [
        scorer.id.replace("@", "-").replace("/", "-")
    ]


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", [RELEVANCE, NLI])
def test_batching_changes_scores_only_by_rounding(tiny_models, name, precision):
    model = PairModel(tiny_models / name, "cpu", precision)
    together = model.logits(PAIRS)
    assert (model.logits(PAIRS) == together).all(), "the same call on one machine: the same bits"
    expected = plain.outputs(tiny_models / name, PAIRS, 64)
    most = bound(TERMS, float(np.abs(together).max()), getattr(torch, precision))
    rng = np.random.default_rng(0)
    for size in (1, 2, 9, 30):
        some = rng.permutation(len(PAIRS))[:size]
        logits = model.logits([PAIRS[i] for i in some])
        assert np.abs(logits - together[some]).max() <= most, size
        assert np.abs(logits - expected[some]).max() < (1e-5 if precision == "float32" else 0.1)
    off = np.abs(together - expected).max()
    assert off < 1e-5 if precision == "float32" else 1e-5 < off < 0.1
    # The bound is narrow enough to notice a pair that was given another's score, or other padding.
    if precision == "float32":
        assert most < 1e-3 * expected.std(axis=0).min()
