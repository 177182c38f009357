"""The paper's claims: the rule of their verdicts, their figures, command and page."""

from __future__ import annotations

import json

import pytest

from midchart.core import api
from midchart.core.cli import main
from midchart.core.experiments.replication.claims import CLAIMS, Effect, PaperClaim
from midchart.core.experiments.replication.comparison import steps
from midchart.core.experiments.replication.paper import KINDS, TABLES, paper_rows
from midchart.pages.ui.replication import view
from tests.support import app_data
from tests.support.run_helpers import finished_run, set_workspace, workspace_at

A, B = ("stage2", "qccs", "overall"), ("stage2", "bm25", "overall")
NONE = (None, None, None, None)


def claim(**fields) -> PaperClaim:
    return PaperClaim(states="", paper="", setting="answers", **{"more": A, "less": B, **fields})


@pytest.mark.parametrize(
    ("fields", "effect", "verdict"),
    [
        ({}, Effect(0.2, 0.1, 0.3), "replicates"),
        ({}, Effect(-0.2, -0.3, -0.1), "does not replicate"),
        ({}, Effect(0.2, -0.1, 0.5), "not shown"),
        ({}, Effect(0.2, 0.0, 0.4), "not shown"),
        ({}, Effect(0.2), "not shown"),
        ({}, None, "no figure"),
        ({"claims": "lower"}, Effect(-0.2, -0.3, -0.1), "replicates"),
        ({"claims": "lower"}, Effect(0.2, 0.1, 0.3), "does not replicate"),
        ({"claims": "equal", "margin": 0.05}, Effect(0.01, -0.02, 0.04), "replicates"),
        ({"claims": "equal", "margin": 0.05}, Effect(0.01, -0.08, 0.1), "not shown"),
        ({"claims": "equal", "margin": 0.05}, Effect(-0.2, -0.3, -0.06), "does not replicate"),
        ({"range": True, "margin": 0.0625}, Effect(0.06), "replicates"),
        ({"range": True, "margin": 0.0625}, Effect(0.07), "does not replicate"),
        ({"p": A}, Effect(2.6, p=0.04), "replicates"),
        ({"p": A}, Effect(2.6, p=0.27), "not shown"),
        ({"p": A}, Effect(-2.6, p=0.04), "not shown"),
    ],
)
def test_a_verdict_follows_the_rule(fields, effect, verdict):
    assert claim(**fields).verdict(effect) == verdict


def test_an_effect_is_paired_where_the_run_pairs_it_else_from_both_intervals():
    known = {A: (0.3, 0.2, 0.42, 80), B: (0.1, 0.05, 0.18, 80)}
    paired = {("stage2", "qccs less bm25", "overall"): (0.2, 0.12, 0.28, 79)}
    assert claim().effect(known, paired) == Effect(0.2, 0.12, 0.28, 79)
    free = claim().effect(known, {})
    # Zou and Donner: .2 - sqrt(.1^2 + .08^2) and .2 + sqrt(.12^2 + .05^2).
    assert (free.value, free.low, free.high) == pytest.approx((0.2, 0.0719375, 0.33), abs=1e-6)
    assert claim().effect({A: known[A]}, {}) is None
    assert claim().effect({A: NONE, B: known[B]}, {}) is None
    above = claim(less=None, against=0.25).effect(known, {})
    assert (above.value, above.low, above.high) == pytest.approx((0.05, -0.05, 0.17))
    assert claim(range=True).effect(known, {}).value == pytest.approx(0.22)


def test_each_claim_names_figures_of_the_paper_and_a_setting_of_their_kind():
    cells = {(row["table"], row["label"], row["what"]) for row in paper_rows()}
    assert {c.setting for c in CLAIMS.claims.values()} == set(CLAIMS.settings)
    for name, one in CLAIMS.claims.items():
        keys = [key for key in (one.more, one.less, one.p) if key]
        assert set(keys) <= cells, name
        kinds = {KINDS.get(TABLES[key[0]].ours, "answers") for key in keys}
        assert not keys or kinds == {CLAIMS.settings[one.setting].kind}, name
        # An effect has one definition.
        assert (one.less is not None) + (one.against is not None) + one.range == bool(keys), name


def test_the_paper_s_own_figures_are_judged_by_the_same_rule():
    rows = {row["claim"]: row for row in api.paper_claims(None, None, "")}
    gap = rows["curve_gap"]
    # 21.9 points observed, 19.3 expected, p .27: tables of the paper and of its re-analysis.
    assert (gap["paper_effect"], gap["paper_effect_p"]) == (pytest.approx(2.6), 0.27)
    assert gap["in_paper"] == "not shown"
    assert rows["qccs_over_bm25"]["paper_effect"] == pytest.approx(0.253 - 0.024)
    assert rows["qccs_over_bm25"]["in_paper"] == "shown"
    assert "qccs, overall: 25.3 % [17, 35]" in rows["qccs_over_bm25"]["cells"]
    assert rows["recall_of_bm25"]["in_paper"] == "no interval printed"
    assert rows["gate_shapes"]["in_paper"] == "shown"
    assert rows["differential_mean"]["paper_effect"] == 1.7
    for row in rows.values():
        assert row["verdict"] == "cannot be tested here" and row["direction"] == "no figure"
        assert row["why"] and "midchart " in row["test"]


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    with workspace_at(tmp_path_factory.mktemp("claims")) as home:
        cohort = app_data.make_cohort(home / "data")
        arms = ["bm25", {"name": "bm25", "k": 1}, "oracle"]
        specs = api.step_specs(str(cohort), arms, "extractive", ["token_overlap"])
        done = [finished_run(specs[step.name]) for step in (steps()[0], steps()[-1])]
    return home, cohort, done


def test_a_run_of_other_records_or_models_tests_the_direction_and_not_the_claim(
    ran, monkeypatch, capsys
):
    home, cohort, done = ran
    set_workspace(monkeypatch, home)
    assert api.paper_runs(cohort, "extractive") == (*done, [])
    rows = {row["claim"]: row for row in api.paper_claims(*done, "token_overlap")}
    one = rows["one_sentence"]
    pairs = {r["label"]: r for r in api.report(done[1])["tables"]["paired"]}
    pair = pairs["bm25 k=1"]
    assert pair["baseline"] == "bm25" and pair["n"] == one["corrected_n"]
    assert one["corrected"] == pair["difference"]
    assert (one["corrected_low"], one["corrected_high"]) == (
        pair["patient_low"], pair["patient_high"],
    )  # fmt: skip
    assert one["verdict"] == "cannot be tested here" and one["direction"] != "no figure"
    assert "read by extractive, not by qwen" in one["why"]
    assert "judged by token_overlap, not by claude" in one["why"]
    assert "not MedAlign" in one["why"] and "replicate medalign --reader qwen" in one["test"]
    assert rows["qccs_over_bm25"]["direction"] == "no figure", "no such arm"
    assert main(["paper", str(cohort), "--json"]) == 0
    printed = {row["claim"]: row for row in json.loads(capsys.readouterr().out)}
    assert printed == rows


def test_the_page_s_sentence_counts_the_verdicts_and_states_what_another_text_can_say():
    rows = api.paper_claims(None, None, "")
    text = view.claims_text(rows)
    assert f"Of {len(rows)} claims: {len(rows)} cannot be tested here." in text
    assert "cannot test claims about MedAlign" in text
    tested = [{**row, "verdict": "replicates"} for row in rows]
    assert view.claims_text(tested) == f"Of {len(rows)} claims: {len(rows)} replicates."
