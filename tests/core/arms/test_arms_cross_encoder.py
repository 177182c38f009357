"""The cross-encoder arm ranks the BM25 shortlist by the model."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from midchart.core.arms import ARMS
from midchart.core.bm25 import BM25Index
from midchart.core.errors import MissingModel
from midchart.core.protocol import Protocol
from midchart.core.runs.spec import parse_spec
from midchart.core.text import words
from midchart.core.types import Budget, Instruction
from midchart.core.weights import RELEVANCE
from tests.reference import pairs as plain
from tests.support import pair_models
from tests.support.charts import chart

TEXTS = [
    f"{drug} {state} day {i}"
    for i, (drug, state) in enumerate(
        (drug, state)
        for drug in ("metformin", "warfarin", "glucose", "fever", "chest pain", "amlodipine")
        for state in [
            "started on",
            "stable",
            "denied",
            "dose of the",
            "no",
            "plan",
            "at a",
            "is",
            "and",
            "what",
        ]
    )
]
RECORD = chart(*TEXTS, kind="x", digest="cross-encoder")
ASKED = Instruction("i1", "p1", "what dose of metformin is started on day 7")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.set_num_threads(1)  # on busy cores two threads wait for one another
    return pair_models.bert(tmp_path_factory.mktemp("models") / RELEVANCE)


@pytest.fixture(autouse=True)
def place(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("MIDCHART_CACHE", str(tmp_path))
    monkeypatch.setenv("MIDCHART_MODELS", str(folder.parent))
    monkeypatch.setattr("midchart.core.embedding.pairs.hardware", lambda: ("cpu", "float32"))


PLAIN = Protocol(order="relevance", unmatched="kept", ties="earliest", bm25_idf="rank_bm25")


def select_lines(k: int = 20, protocol: Protocol = PLAIN, **options: object):
    arm = ARMS.build("cross_encoder", protocol, **options)
    return arm.select(RECORD, ASKED, Budget(k, 0)).kept


def expected(folder, shortlist: int) -> list[tuple[int, float]]:
    """Plainly: BM25's best, then the model's order; (sentence, logit), best first."""
    bm25 = BM25Index([words(t) for t in TEXTS]).scores(words(ASKED.question))
    first = np.argsort(-bm25, kind="stable")[:shortlist]
    logits = plain.outputs(folder, [(ASKED.question, TEXTS[i]) for i in first], 64)[:, 0]
    return sorted(
        zip(first.tolist(), np.round(logits.astype(float), 6).tolist(), strict=True),
        key=lambda pair: (-pair[1], pair[0]),
    )


def test_the_fifty_best_of_bm25_are_ranked_by_the_model(folder):
    ranked = select_lines()
    plainly = expected(folder, 50)[:20]
    assert len(TEXTS) == 60
    assert [k.sentence.id for k in ranked] == [f"e{i}" for i, _ in plainly]
    assert [k.score for k in ranked] == pytest.approx([s for _, s in plainly], abs=1e-5)
    by_bm25 = ARMS.build("bm25_ranked", PLAIN).select(RECORD, ASKED, Budget(20, 0)).kept
    assert [k.sentence.id for k in ranked] != [k.sentence.id for k in by_bm25]


def test_without_weights_the_arm_and_a_spec_that_names_it_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("MIDCHART_MODELS", str(tmp_path / "none"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    spec = {"kind": "selection", "data": "demo", "arms": ["bm25", "cross_encoder"]}
    for refused in (lambda: ARMS.build("cross_encoder", Protocol()), lambda: parse_spec(spec)):
        with pytest.raises(MissingModel, match=r"ms-marco-MiniLM-L-6-v2 \(91 MB.*hf download"):
            refused()
