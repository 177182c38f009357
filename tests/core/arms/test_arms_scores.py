"""Scores of all sentences by each arm: the axis, the selected sentences and the threshold."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from midchart.core import api
from midchart.core.errors import UnknownName
from midchart.core.protocol import parse
from midchart.core.runs import gate_checkpoints
from midchart.core.runs.gate_checkpoints import arm_options
from midchart.core.types import Instruction
from tests.support.calibrations import calibration_file
from tests.support.charts import START, chart
from tests.support.gates import gate_folder

SAID = ["fever and rash", "PLAN", "cough", "fever", "pain in the knee", "no fever", "rash seen"]
TEXTS = SAID + [f"visit {i}" for i in range(20)]
RECORD = chart(*TEXTS, kind="note", digest="scores")
ASKED = Instruction("i1", "p1", "fever or rash?")


@pytest.fixture(autouse=True)
def small_gate(tmp_path_factory, monkeypatch):
    """Random gates in place of the default ones, which take seconds to train, and a calibration of
    drawn ranks, as there is no cohort."""
    monkeypatch.setenv("MIDCHART_CACHE", str(tmp_path_factory.getbasetemp() / "scores"))
    monkeypatch.setattr(
        gate_checkpoints, "default_gate", lambda protocol: Path(gate_folder(protocol))
    )
    file = tmp_path_factory.getbasetemp() / "scores" / "calibration.json"

    def options(name, protocol, written, cohort):
        filled = arm_options(name, protocol, written, cohort)
        return filled | (
            {"calibration": calibration_file(file, protocol)} if name == "certain" else {}
        )

    monkeypatch.setattr(gate_checkpoints, "arm_options", options)


def table(*arms: str, instruction: Instruction = ASKED, **protocol):
    return api.scores(None, RECORD, instruction, arms, parse({"k": 3, "recency": 2, **protocol}))


@pytest.mark.parametrize("name", [n for n in api.scored_arms() if n != "oracle"])
def test_scores_mark_the_selected_sentences_of_every_arm(name):
    if next(c for c in api.members("arm") if c.name == name).problem:
        pytest.skip("its weights are not on this machine")
    scores = table(name)
    (arm,) = scores.arms
    protocol = parse({"k": 3, "recency": 2})
    selection = api.select(None, RECORD, ASKED, name, protocol)
    ids = {k.sentence.id: k.score for k in selection.kept}
    assert {
        s.id for s, selected in zip(scores.sentences, arm.kept, strict=True) if selected
    } == set(ids)
    picks = {s.id for s, p in zip(scores.sentences, arm.picked, strict=True) if p}
    assert picks == {id for id, score in ids.items() if score is not None}
    if arm.threshold is not None:
        ranked = ~np.isnan(arm.values)
        assert (arm.values[arm.picked] >= arm.threshold).all()
        assert not (arm.values[ranked & ~arm.picked] > arm.threshold).any()
        for place in np.flatnonzero(arm.picked):
            assert ids[scores.sentences[place].id] == arm.values[place]


def test_scores_cover_the_record_up_to_the_cutoff():
    scores = table("bm25", instruction=Instruction("i1", "p1", "fever", cutoff=START))
    assert [s.id for s in scores.sentences] == ["e0"]
    scores = table("bm25")
    assert scores.events.tolist() == list(range(len(TEXTS)))
    assert (scores.order[0], scores.order[-1]) == (0.0, 1.0)
    assert scores.times[2] == np.datetime64(START + timedelta(days=2))


def test_an_arm_that_cannot_score_gives_a_reason_and_hides_no_other():
    oracle, bm25 = table("oracle", "bm25").arms
    assert "no located evidence" in oracle.problem
    assert np.isnan(oracle.values).all() and not oracle.kept.any()
    assert not bm25.problem and bm25.kept.any()
    with pytest.raises(UnknownName, match="bm52"):
        api.explain(RECORD, ASKED, "bm52", "e0", parse())


def test_only_arms_with_terms_explain():
    explaining = {name for name, can in api.scored_arms().items() if can}
    assert "bm25" in explaining and "random" not in explaining
    for name in explaining:
        why = api.explain(RECORD, ASKED, name, "e0", parse())
        assert why.total == pytest.approx(table(name).arms[0].values[0], abs=1e-5)
        assert all(
            RECORD.events[0].text[a:b].lower() == t.text for t in why.terms for a, b in t.spans
        )
    assert api.explain(RECORD, ASKED, "random", "e0", parse()) is None
