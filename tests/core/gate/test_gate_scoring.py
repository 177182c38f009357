"""Gate scores equal one sentence at a time, other checkpoints are refused, parts sum to the
score."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from midchart.core.errors import DataError
from midchart.core.gate.checkpoint import LAYERS, Gate, GateConfig, load_gate, save_gate
from midchart.core.gate.ngrams import Hashing
from midchart.core.gate.scoring import Scorer, explain
from midchart.core.gate.training import GateModel
from midchart.core.types import Cohort
from tests.reference import gate as plain
from tests.support import gate_cohort
from tests.support.gates import random_gate

QUESTIONS = ["What dose of metformin does the patient take?", "Was warfarin stopped in 2014?", ""]
LINES = [
    "Metformin 500 mg BID started.",
    "Glucose: 143 mg/dL",
    "",
    "Warfarin was stopped because of bleeding; İstanbul clinic.",
    "ok",
    "Glucose: 143 mg/dL",
    "Lungs clear to auscultation, no chest pain.",
]


def model_of(gate: Gate) -> GateModel:
    """The gate as a network in double precision, whose scores are exact to 1e-12."""
    model = GateModel(gate.config).double()
    model.load_state_dict({k: torch.from_numpy(v.astype(float)) for k, v in gate.weights.items()})
    return model


@pytest.fixture(scope="module")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Cohort:
    return gate_cohort.make(tmp_path_factory.mktemp("cohort"))


@pytest.fixture(scope="module")
def trained(cohort: Cohort, tmp_path_factory: pytest.TempPathFactory) -> Gate:
    return gate_cohort.train(cohort, tmp_path_factory.mktemp("gate"))


@pytest.mark.parametrize("query", [True, False])
@pytest.mark.parametrize("head", list(LAYERS))
@pytest.mark.parametrize("large", [1.0, 30.0])
def test_batched_scores_equal_scoring_one_sentence_at_a_time(head: str, query: bool, large: float):
    gate = random_gate(GateConfig(dim=32, head=head, query=query))
    gate.weights["layers.0.weight"][:] *= large
    scorer, model = Scorer(gate), model_of(gate)
    parts = scorer.parts(LINES)
    assert len(parts.rows) == 6  # one text stands twice
    for question in QUESTIONS:
        scores = scorer.scores(parts, question)
        assert scores == pytest.approx(np.array(plain.scores(model, question, LINES)), abs=1e-6)
        assert scores[1] == scores[5]
    single = GateModel(gate.config)
    single.load_state_dict({k: torch.from_numpy(v) for k, v in gate.weights.items()})
    close = np.array(plain.scores(single, QUESTIONS[0], LINES))
    scores = scorer.scores(parts, QUESTIONS[0])
    # Single precision loses some seven digits of the largest number on the way.
    assert (np.abs(scores - close) / np.maximum(1, np.abs(scores).max())).max() < 1e-5


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save_gate(tmp_path / "gate", random_gate(GateConfig(Hashing(buckets=50), dim=4)))
    return tmp_path / "gate"


def test_a_saved_gate_is_loaded_unchanged(saved: Path):
    gate = random_gate(GateConfig(Hashing(buckets=50), dim=4))
    loaded = load_gate(saved, gate.config.hashing)
    assert (loaded.config, loaded.split, loaded.temperature) == (gate.config, gate.split, 1.0)
    assert loaded.digest == load_gate(saved).digest != ""
    for name, array in gate.weights.items():
        assert loaded.weights[name].tobytes() == array.tobytes()
    assert sorted(p.name for p in saved.iterdir()) == ["gate.json", "gate.safetensors"]
    assert json.loads((saved / "gate.json").read_text())["hash"]["name"] == "blake2"


def refused(folder: Path, reason: str, asked: Hashing | None = None) -> None:
    with pytest.raises(DataError) as caught:
        load_gate(folder, asked)
    text = str(caught.value)
    assert reason in text and "\n" not in text and str(folder) in text
    assert "train-gate" in text and caught.value.exit_status == 2


def test_missing_and_broken_files_are_reported_in_one_line(saved: Path, tmp_path: Path):
    refused(tmp_path / "nowhere", "gate.json is missing")
    for name, text, reason in (
        ("gate.json", b"{", "gate.json"),
        ("gate.json", b"[1]", "gate.json"),
        ("gate.json", b"\xff\xfe", "gate.json"),
        ("gate.safetensors", b"", "gate.safetensors is broken"),
        ("gate.safetensors", b"garbage" * 99, "gate.safetensors is broken"),
        ("gate.safetensors", None, "gate.safetensors is missing"),
    ):
        other = tmp_path / "other"
        shutil.copytree(saved, other)
        if text is None:
            (other / name).unlink()
        else:
            (other / name).write_bytes(text)
        refused(other, reason)
        shutil.rmtree(other)


def test_the_parts_of_a_score_add_up_to_it(trained: Gate):
    for gate in (trained, random_gate(GateConfig(dim=8, head="deep")), random_gate()):
        scorer = Scorer(gate)
        for text in LINES:
            explanation = explain(scorer, QUESTIONS[0], text)
            exact = plain.scores(model_of(gate), QUESTIONS[0], [text])[0]
            scale = max(1.0, abs(explanation.base), *(abs(t.part) for t in explanation.terms), 0.0)
            assert abs(explanation.total - exact) < 1e-9 * scale
            parts = [abs(term.part) for term in explanation.terms]
            assert parts == sorted(parts, reverse=True)
            for term in explanation.terms:
                assert all(text[a:b].lower() == term.text or "İ" in text[a:b]
                           for a, b in term.spans)  # fmt: skip
