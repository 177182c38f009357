"""The judge nli: both directions of a small pair model, its labels by name, missing weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from midchart.core import api, weights
from midchart.core.embedding.pairs import NLI, Entailment
from midchart.core.errors import MissingModel, SpecError
from midchart.core.interfaces import GroupJudge
from midchart.core.judges import JUDGES
from midchart.core.protocol import Protocol
from midchart.core.types import Answer, Gold, Instruction
from tests.support import app_data, pair_models
from tests.support.run_helpers import finished_run

ASKED = Instruction("i1", "p1", "What does the patient take?")
ITEMS = [
    (ASKED, Gold("i1", reference), Answer(answer))
    for reference, answer in (
        ("metformin", "the patient takes metformin"),
        ("warfarin at a dose of 5 milligram", "no fever"),
        ("lisinopril", "lisinopril"),
        ("chest pain", "denied chest pain"),
        ("atorvastatin", "amlodipine"),
        ("glucose and hemoglobin", "stable on day 2"),
    )
]


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A models folder with a tiny NLI model."""
    folder = tmp_path_factory.mktemp("nli")
    pair_models.deberta(folder / NLI, seed=3)
    return folder


@pytest.fixture
def models(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MIDCHART_MODELS", str(tiny_model))
    monkeypatch.setenv("MIDCHART_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MIDCHART_DATA", str(tmp_path / "data"))
    return tiny_model


def by_hand() -> list[tuple[float, float]]:
    """Entailment and contradiction of each item, by the model's own label names."""
    entailment = Entailment()
    labels = list(entailment.scorer.labels)
    rows = []
    for asked, gold, answer in ITEMS:
        both = [
            (f"{asked.question} {gold.answer}", answer.text),
            (f"{asked.question} {answer.text}", gold.answer),
        ]
        logits = entailment.scorer.outputs(both).astype(np.float64)
        share = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        best = share.max(axis=0)
        rows.append((best[labels.index("entailment")], best[labels.index("contradiction")]))
    return rows


def test_a_verdict_is_the_larger_direction_at_the_threshold(models):
    probabilities = by_hand()
    cut = float(np.median([yes for yes, _ in probabilities]))
    judge = JUDGES.build("nli", Protocol(), threshold=cut)
    assert isinstance(judge, GroupJudge)
    verdicts = dict(judge.judge_many(ITEMS))
    expected = ["correct" if yes >= cut and yes > no else "incorrect" for yes, no in probabilities]
    assert [verdicts[i].outcome for i in range(len(ITEMS))] == expected
    for i, (yes, no) in enumerate(probabilities):
        assert verdicts[i].raw == f"entailment {yes:.3f}, contradiction {no:.3f}"
        assert judge.judge(*ITEMS[i]) == verdicts[i], "alone as in a group"


def test_contradiction_above_entailment_is_incorrect(models, monkeypatch):
    def classes(self, pairs, *names):
        return tuple(
            np.full(len(pairs), {"entailment": 0.6, "contradiction": 0.7}[n]) for n in names
        )

    monkeypatch.setattr(Entailment, "classes", classes)
    assert JUDGES.build("nli", Protocol()).judge(*ITEMS[0]).outcome == "incorrect"


def test_a_run_uses_it_and_is_refused_with_the_remedy_without_weights(models, monkeypatch):
    cohort = app_data.make_cohort(models.parent / "data-of-nli")
    spec = {"kind": "answers", "data": str(cohort), "arms": ["bm25"], "readers": ["extractive"],
            "judges": ["nli"]}  # fmt: skip
    run = finished_run(spec)
    rows = [row for row in api.rows(run, "verdicts") if row["status"] == "ok"]
    assert rows and {row["outcome"] for row in rows} <= {"correct", "incorrect"}
    assert all(row["raw"].startswith(("entailment ", "the answer is empty")) for row in rows)
    with pytest.raises(SpecError, match="'threshold' of the judge 'nli' is"):
        api.start({**spec, "judges": [{"name": "nli", "threshold": 1.5}]})
    monkeypatch.setenv("MIDCHART_MODELS", str(models / "nowhere"))
    (card,) = [card for card in api.members("judge") if card.name == "nli"]
    assert card.problem == weights.problem(NLI) and "judge nli" in card.problem
    with pytest.raises(MissingModel, match="hf download cross-encoder/nli-deberta-v3-small"):
        api.start(spec)
