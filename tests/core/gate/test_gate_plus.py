"""QCCS plus: arrays equal the network, parts sum to the score, training ranks evidence, bad cards
are refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from midchart.core import api
from midchart.core.errors import DataError
from midchart.core.gate.checkpoint import PlusRecipe
from midchart.core.gate.cohort_training import (
    questions_with_evidence,
    recall,
    split_of,
    train_plus_gate,
)
from midchart.core.gate.plus import (
    FEATURES,
    HASHING,
    POWER,
    PlusWeights,
    explain,
    features,
    load_plus,
    question_words,
    ready,
    record_words,
    save_plus,
    scores,
)
from midchart.core.gate.training import PlusModel
from tests.reference import plus as reference
from tests.support.gates import random_plus

TEXTS = [
    "Metformin 500 mg BID started.",
    "Glucose: 143 mg/dL",
    "",
    "Blood pressure 130/80, pulse 72; İstanbul visit.",
    "Home-kit vitamin D of 09/26/2008: 28 ng/mL.",
    "???",
    "Glucose: 143 mg/dL",
]
COSINE = np.array([0.6, 0.2, -0.1, 0.3, 0.2, 0.0, 0.2])
lines = st.lists(st.text("abc 12é<|", max_size=12), min_size=1, max_size=8)


def network(plus) -> PlusModel:
    model = PlusModel(HASHING.buckets, plus.weights.embedding.shape[1])
    model.load_state_dict(
        {
            "embedding.weight": torch.from_numpy(plus.weights.embedding),
            "weight.weight": torch.from_numpy(plus.weights.weight[:, None]),
            "idf": torch.from_numpy(plus.weights.idf),
            "head": torch.from_numpy(plus.weights.head),
        }
    )
    return model


@pytest.mark.parametrize("question", ["What dose of metformin?", "vitamin vitamin D", "unseen"])
def test_arrays_score_as_the_network_does(question: str):
    plus, record = random_plus(), record_words(TEXTS)
    with torch.no_grad():
        expected = network(plus)(record, question_words(question, record, COSINE)).numpy()
    scored = scores(plus.weights, ready(plus.weights, TEXTS), question, COSINE)
    np.testing.assert_allclose(scored, expected, atol=1e-5)
    plain = reference.scores(plus.weights, TEXTS, question, COSINE.tolist())
    np.testing.assert_allclose(scored, plain, atol=1e-4)


@given(lines, st.text("abc 12é", max_size=12))
def test_equal_texts_score_alike_and_parts_add_up(texts: list[str], question: str):
    plus = random_plus()
    record = ready(plus.weights, [*texts, *texts])
    n = len(texts)
    place_of = {text: i for i, text in enumerate(texts)}
    cosine = np.array([place_of[text] / 10 for text in (*texts, *texts)])
    scored = scores(plus.weights, record, question, cosine)
    assert np.isfinite(scored).all()
    np.testing.assert_allclose(scored[:n], scored[n:], atol=2e-6)
    for place, text in enumerate(texts):
        explanation = explain(plus.weights, record, question, cosine, place, text)
        assert explanation.total == pytest.approx(scored[place], abs=1e-4)
        for term in explanation.terms:
            for start, end in term.spans:
                assert text[start:end].lower() == term.text


def test_an_exact_match_is_nearer_than_any_other_word():
    plus = random_plus()
    record = ready(plus.weights, TEXTS)
    asked = question_words("glucose", record.words, COSINE)
    nearest = features(plus.weights, record, asked)[:, FEATURES.index("nearest_4")]
    assert nearest[1] ** (1 / POWER) == pytest.approx(1.0, abs=1e-6)
    assert nearest[[0, 2, 3, 4, 5]].max() ** (1 / POWER) < 0.999


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plus") / "demo"
    api.prepare_demo(folder, patients=12, events_per_patient=60, seed=5)
    return api.open_data(folder)


@pytest.mark.slow
def test_training_ranks_the_evidence_of_patients_it_never_saw_above_chance(cohort, tmp_path):
    protocol = api.parse()
    plus = train_plus_gate(cohort, protocol, tmp_path, recipe=PlusRecipe(epochs=16, warm=5))
    split = split_of(cohort, protocol)
    assert plus.patients == {*split.train, *split.validation}
    assert plus.patients.isdisjoint(split.test)
    assert plus.facts["losses"][-1] < 0.5 * plus.facts["losses"][0]
    digests: dict[str, str] = {}
    test = questions_with_evidence(cohort, split.test, protocol, digests)
    assert set(digests) <= set(split.test) and digests
    trained = recall(load_plus(tmp_path).weights, test, 20)
    blank = {name: np.zeros_like(getattr(plus.weights, name)) for name in PlusWeights.__slots__}
    untrained = recall(PlusWeights(**blank), test, 20)
    assert trained["n"] == len(test) > 0
    assert trained["any_piece"] > untrained["any_piece"]
    assert untrained["all_pieces"] < trained["all_pieces"] <= trained["any_piece"]
    assert 0 < trained["all_pieces_chance"] <= trained["any_piece_chance"] < 1
    assert trained == plus.facts["test"]


def test_a_saved_gate_is_loaded_unchanged_and_other_versions_are_refused(tmp_path):
    plus = random_plus()
    save_plus(tmp_path, plus)
    back = load_plus(tmp_path)
    np.testing.assert_array_equal(back.weights.embedding, plus.weights.embedding)
    assert back.patients == plus.patients
    card = json.loads((tmp_path / "plus.json").read_text())
    (tmp_path / "plus.json").write_text(json.dumps({**card, "format": "x"}))
    with pytest.raises(DataError, match="format"):
        load_plus(tmp_path)
    (tmp_path / "plus.json").write_text(json.dumps(card))
    (tmp_path / "plus.safetensors").write_bytes(b"broken")
    with pytest.raises(DataError, match="broken"):
        load_plus(tmp_path)
    with pytest.raises(DataError, match="no trained gate is here"):
        load_plus(tmp_path / "nowhere")
