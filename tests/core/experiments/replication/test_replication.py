"""The paper's tables, claims and findings, its faults one at a time, and page Paper."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from midchart.core import api
from midchart.core.cli import main
from midchart.core.errors import UnknownName
from midchart.core.experiments.replication import paper
from midchart.core.experiments.replication.paper import (
    KINDS,
    SETTINGS,
    TABLES,
    Figure,
    PaperClaim,
    claims,
    paper_rows,
)
from midchart.core.experiments.replication.steps import FAULTS, REPORTING, alone, steps
from midchart.core.protocol import PRESETS, parse
from midchart.core.results.tables import read_published
from midchart.core.services import runs as run_services
from midchart.core.training_experiments.gate.evaluation import published as published_gates
from midchart.pages.ui.replication import view
from tests.core.experiments.curve.test_run_curve import write_responses
from tests.support import app_data, forecast_report
from tests.support.pages import figures_of, open_page, page_text
from tests.support.run_helpers import finished_run, set_workspace, workspace_at, write_cohort

NAMES = [step.name for step in steps()]
A, B = ("stage2", "qccs", "overall"), ("stage2", "bm25", "overall")


def bare(protocol):
    return dataclasses.replace(protocol, preset="")


# Protocols


def test_each_step_takes_the_fields_of_one_fault_away():
    step_list = steps()
    assert bare(step_list[0].protocol) == bare(PRESETS["published"])
    assert bare(step_list[-1].protocol) == bare(PRESETS["corrected"])
    for before, after in itertools.pairwise(step_list):
        changed = {
            field.name
            for field in dataclasses.fields(before.protocol)
            if getattr(before.protocol, field.name) != getattr(after.protocol, field.name)
        }
        assert changed and after.fault and changed <= {*after.fault.fields, *REPORTING}
    fields = [name for fault in FAULTS for name in fault.fields]
    assert len(fields) == len(set(fields))


def test_a_fault_alone_is_the_corrected_protocol_with_its_published_fields():
    by_fault = {step.fault.name: step for step in alone()}
    assert list(by_fault) == [fault.name for fault in FAULTS]
    for fault in FAULTS:
        differs = by_fault[fault.name].protocol.differences()
        published = {field: getattr(PRESETS["published"], field) for field in fault.fields}
        assert {field: value for field, (_, value) in differs.items()} == published


def test_a_spec_of_a_step_is_read_back_as_its_protocol():
    specs = api.step_specs("demo", ["full"], "extractive", ["exact"])
    assert len(specs) == len(steps()) + len(FAULTS)
    for step in (*steps(), *alone()):
        assert bare(parse(specs[step.name]["protocol"])) == bare(step.protocol)


# The paper's figures, findings and claims


def test_the_paper_s_rows_are_shares_and_each_table_has_some():
    rows = {(row["table"], row["label"], row["what"]): row for row in paper_rows()}
    assert {table for table, _, _ in rows} == set(TABLES)
    assert all(row["value"] is not None for row in rows.values())
    assert all(0 <= row["value"] <= 1 for row in rows.values() if row["unit"] == "share")
    # Table of Stage 2 in the paper: 25.3 % of 83 questions.
    assert rows[A]["value"] == pytest.approx(21 / 83, abs=5e-4)


def test_a_table_of_hits_says_that_the_paper_counts_any_sentence():
    for name, table in TABLES.items():
        hits = any(re.search("FROM (recall|overlap|hit_miss)", sql) for sql in table.report)
        assert bool(table.counts) == (hits or name in ("query_ablation", "gate_ablation")), name


def test_each_cell_that_a_finding_names_is_in_the_published_tables():
    stated = {line["quantity"]: line for line in read_published("restated.csv")}
    for row in api.findings():
        assert row["means"] and row["paper"] and (row["published"] or row["stated"])
        for cell in filter(None, row["published"].split("; ")):
            file, of, column, value = re.fullmatch(
                r"(\S+), row (\S+), column (\w+): (\S+)", cell
            ).groups()
            matching = [
                line for line in read_published(file)
                if set(of.split("/")) <= set(line.values()) and line[column] == value
            ]  # fmt: skip
            assert matching, cell
        for part in filter(None, row["stated"].split("; ")):
            assert any(part.endswith(f"): {line['value']}") for line in stated.values()), part


def claim(**fields) -> PaperClaim:
    return PaperClaim("", "", "", "answers", **{"more": A, "less": B, **fields})


@pytest.mark.parametrize(
    ("fields", "effect", "verdict"),
    [
        ({}, Figure(0.2, 0.1, 0.3), "holds"),
        ({}, Figure(-0.2, -0.3, -0.1), "does not hold"),
        ({}, Figure(0.2, 0.0, 0.4), "not shown"),
        ({}, Figure(0.2), "not shown"),
        ({}, None, "no figure"),
        ({"claims": "lower"}, Figure(-0.2, -0.3, -0.1), "holds"),
        ({"claims": "lower"}, Figure(0.2, 0.1, 0.3), "does not hold"),
        ({"claims": "equal", "margin": 0.05}, Figure(0.01, -0.02, 0.04), "holds"),
        ({"claims": "equal", "margin": 0.05}, Figure(0.01, -0.08, 0.1), "not shown"),
        ({"claims": "equal", "margin": 0.05}, Figure(-0.2, -0.3, -0.06), "does not hold"),
        ({"claims": "range", "margin": 0.0625}, Figure(0.06), "holds"),
        ({"claims": "range", "margin": 0.0625}, Figure(0.07), "does not hold"),
        ({"p": A}, Figure(2.6, p=0.04), "holds"),
        ({"p": A}, Figure(2.6, p=0.27), "not shown"),
        ({"p": A}, Figure(-2.6, p=0.04), "not shown"),
    ],
)
def test_a_verdict_follows_the_rule(fields, effect, verdict):
    assert claim(**fields).verdict(effect) == verdict


def test_an_effect_is_paired_where_the_run_pairs_it_else_from_both_intervals():
    known = {A: Figure(0.3, 0.2, 0.42, 80), B: Figure(0.1, 0.05, 0.18, 80)}
    paired = {("stage2", "qccs less bm25", "overall"): Figure(0.2, 0.12, 0.28, 79)}
    assert claim().effect(known | paired) == Figure(0.2, 0.12, 0.28, 79)
    free = claim().effect(known)
    # Zou and Donner: .2 - sqrt(.1^2 + .08^2) and .2 + sqrt(.12^2 + .05^2).
    assert (free.value, free.low, free.high) == pytest.approx((0.2, 0.0719375, 0.33), abs=1e-6)
    assert claim().effect({A: known[A]}) is None
    assert claim().effect({A: Figure(None), B: known[B]}) is None
    above = claim(less=None, against=0.25).effect(known)
    assert (above.value, above.low, above.high) == pytest.approx((0.05, -0.05, 0.17))
    assert claim(claims="range").effect(known).value == pytest.approx(0.22)


def test_each_claim_names_figures_of_the_paper_and_a_setting_of_their_kind():
    cells = {(row["table"], row["label"], row["what"]) for row in paper_rows()}
    assert {one.setting for one in claims()} == set(SETTINGS)
    for one in claims():
        keys = [key for key in (one.more, one.less, one.p) if key]
        assert set(keys) <= cells, one.claim
        kinds = {KINDS.get(TABLES[key[0]].ours, "answers") for key in keys}
        assert not keys or kinds == {SETTINGS[one.setting].kind}, one.claim


def test_the_paper_s_own_figures_are_judged_by_the_same_rule():
    rows = {row["claim"]: row for row in api.paper_claims(None, None, "")}
    gap, qccs = rows["curve_gap"], rows["qccs_over_bm25"]
    # 21.9 points observed, 19.3 expected, p .27: tables of the paper and of its re-analysis.
    assert (gap["paper_effect"], gap["paper_effect_p"]) == (pytest.approx(2.6), 0.27)
    assert gap["in_paper"] == "not shown"
    assert qccs["paper_effect"] == pytest.approx(0.253 - 0.024) and qccs["in_paper"] == "shown"
    assert "qccs, overall: 25.3 % [17, 35]" in qccs["cells"]
    assert rows["recall_of_bm25"]["in_paper"] == "no interval printed"
    assert rows["gate_shapes"]["in_paper"] == "shown"
    for row in rows.values():
        assert row["verdict"] == "cannot be tested here" and row["direction"] == "no figure"
        assert row["why"] and "midchart " in row["test"]
    text, (below,) = view.claims_text(list(rows.values()))
    assert text.startswith(f"None of the paper's {len(rows)} claims can be tested here")
    assert below.endswith(f": no figure {len(rows)}.")
    held = [{"verdict": "holds"}] * 2 + [{"verdict": "does not hold"}]
    assert view.claims_text(held) == ("Of the paper's 3 claims: holds 2, does not hold 1.", [])


# Runs of a replication


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A cohort, the first and last step of its replication, and two faults alone."""
    with workspace_at(tmp_path_factory.mktemp("replication")) as home:
        cohort = app_data.make_cohort(home / "data")
        arms = ["full", "bm25", {"name": "bm25", "k": 1}]
        specs = api.step_specs(str(cohort), arms, "extractive", ["token_overlap"])
        wanted = (NAMES[0], NAMES[-1], "only_evidence_join", "only_whole_events")
        done = {name: finished_run(specs[name]) for name in wanted}
    only = {name: done.pop(name) for name in wanted[2:]}
    return cohort, done, only


@pytest.fixture
def ran_cohort(ran, monkeypatch):
    """The cohort and its runs, in force for this test."""
    set_workspace(monkeypatch, ran[0].parents[2])
    return ran


def test_runs_are_matched_by_their_protocol_and_data(ran_cohort):
    cohort, done, only = ran_cohort
    replication = api.replication(cohort, "extractive")
    assert {row["name"]: row["run"] for row in replication["alone"] if row["run"]} == only
    assert api.readers_of(cohort) == {"extractive": "extractive"}
    assert {row["name"]: row["run"] for row in replication["steps"] if row["run"]} == done
    assert [run for run in replication["runs"] if run] == list(done.values())
    assert all(row["run"] is None for row in api.replication(cohort, "qwen")["steps"])
    assert api.paper_runs(cohort, "extractive") == (*done.values(), [])


def test_a_run_of_other_files_or_fewer_arms_is_not_a_step(ran_cohort):
    cohort, done, _ = ran_cohort
    first = Path(api.status(done["published"])["folder"])
    arms = json.loads((first / "spec.json").read_text())["spec"]["arms"]
    asked = (["full", "bm25", {"name": "bm25", "k": 1}], ["token_overlap"])
    copies = []
    try:
        for number, (changes, step) in enumerate(
            (
                ({"cohort": {"digest": "of other files"}}, done["published"]),
                ({"spec": {"arms": arms[1:2]}}, done["published"]),
                ({"spec": {"judges": []}}, done["published"]),
                ({}, "29991231-000003-aaaaaa"),  # the newest of the same
            )
        ):
            copies.append(first.parent / f"29991231-00000{number}-aaaaaa")
            shutil.copytree(first, copies[-1])
            spec = json.loads((copies[-1] / "spec.json").read_text())
            spec |= {part: spec[part] | changed for part, changed in changes.items()}
            (copies[-1] / "spec.json").write_text(json.dumps({**spec, "run": copies[-1].name}))
            assert api.replication(cohort, "extractive", *asked)["runs"][0] == step, changes
    finally:
        for folder in copies:
            shutil.rmtree(folder)


def test_a_waterfall_pairs_each_step_with_the_one_before(ran_cohort):
    _, done, _ = ran_cohort
    rows = api.waterfall(list(done.values()), "bm25", "token_overlap")
    assert [row["run"] for row in rows] == list(done.values())
    assert rows[0]["difference"] is None
    for row in rows:
        key = ("bm25", "token_overlap", "overall")
        (overall,) = (
            r for r in api.report(row["run"])["tables"]["accuracy"]
            if (r["label"], r["judge"], r["band"]) == key
        )  # fmt: skip
        for name in ("n", "accuracy", "patient_low", "patient_high"):
            assert row[name] == overall[name]
    for before, row in itertools.pairwise(rows):
        assert row["n"] == before["n"] > 0, "q3 cannot be judged in any of them"
        assert row["difference"] == pytest.approx(row["accuracy"] - before["accuracy"])


def test_a_fault_alone_that_did_not_act_is_stated_and_is_no_bar_of_0(ran_cohort):
    _, done, only = ran_cohort
    corrected = list(done.values())[-1]
    rows = {r["fault"]: r for r in api.faults_alone(corrected, only, "bm25", "token_overlap")}
    assert list(rows) == [fault.name for fault in FAULTS]
    assert rows["evidence_join"]["acted"] == 0
    assert view.texts_changed(rows["evidence_join"]).startswith("changed no prompt")
    assert "qccs" in rows["gate_examples"]["silent"], "a fault of another arm"
    assert view.texts_changed(rows["short_answers"]) == "not run yet"
    whole_events = rows["whole_events"]
    assert whole_events["acted"] > 0 and not whole_events["silent"] and whole_events["n"] == 2
    pair = api.compare_runs([corrected, only["only_whole_events"]])["results"]
    (bm25_row,) = [r for r in pair if (r["arm"], r["judge"]) == ("bm25", "token_overlap")]
    assert whole_events["difference"] == bm25_row["difference"]


def test_a_run_of_other_records_or_models_tests_the_direction_and_not_the_claim(ran_cohort, capsys):
    cohort, done, _ = ran_cohort
    rows = {row["claim"]: row for row in api.paper_claims(*done.values(), "token_overlap")}
    one = rows["one_sentence"]
    pairs = api.report(done[NAMES[-1]])["tables"]["paired"]
    (pair,) = [row for row in pairs if row["label"] == "bm25 k=1"]
    against = api.compared(done[NAMES[-1]], "bm25")["paired"]
    (pair,) = [row for row in against if row["label"] == "bm25 k=1"]
    names = ("corrected", "corrected_low", "corrected_high", "corrected_n")
    columns = ("difference", "patient_low", "patient_high", "n")
    assert [one[name] for name in names] == [pair[name] for name in columns]
    assert one["verdict"] == "cannot be tested here" and one["direction"] != "no figure"
    for why in ("read by extractive, not by qwen", "by token_overlap, not by claude", "MedAlign"):
        assert why in one["why"]
    assert rows["qccs_over_bm25"]["direction"] == "no figure", "no such arm"
    assert main(["paper", str(cohort), "--json"]) == 0
    assert {row["claim"]: row for row in json.loads(capsys.readouterr().out)} == rows


def test_a_replication_queues_the_runs_that_are_missing_as_one_group(workspace, capsys):
    cohort = app_data.make_cohort(workspace / "data", "demo")
    options = "--arm bm25 --judge exact --part test --detach --json"
    with pytest.raises(UnknownName, match="field of a replication"):
        api.replication_specs("demo", "extractive", {"k": 3})
    specs = api.replication_specs("demo", "extractive", {"arms": ["bm25"], "part": "train"})
    assert all(spec["part"] == "train" and spec["arms"] == ["bm25"] for spec in specs.values())
    queued: list[dict] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_services, "enqueue", lambda spec: queued.append(spec) or "run")
        patch.setattr(api, "status", lambda run: {"run": run, "folder": "f", "status": "queued"})
        assert main(["replicate", "demo", *options.split()]) == 0
        assert len(json.loads(capsys.readouterr().out)) == len(queued) == 33
        assert {spec["group"] for spec in queued} == {"replication, extractive"}
        queued.clear()
        finished_run({k: v for k, v in specs["published"].items() if k != "part"})
        api.replicate(cohort, "extractive")
    assert len(queued) == 32 and NAMES[0] not in {spec["name"] for spec in queued}


# Runs of other kinds


@pytest.fixture(scope="module")
def curved(tmp_path_factory):
    """A cohort with responses and its finished curve run."""
    with workspace_at(tmp_path_factory.mktemp("replication-curve")) as home:
        cohort = write_cohort(home / "data" / "cohorts" / "tiny", records=12, events=31)
        write_responses(cohort)
        spec = {"kind": "curve", "data": str(cohort), "name": "my *curve*"}
        run = finished_run({**spec, "protocol": {"resamples": 200}})
    return home, cohort, run


def test_a_finished_curve_run_is_shown_with_the_paper_s_curve(curved, monkeypatch):
    home, cohort, run = curved
    set_workspace(monkeypatch, home)
    runs = api.other_runs(cohort)
    assert runs["Curve"]["run"] == run and runs["Gate"] is runs["Forecast"] is None
    rows = {
        (row["table"], row["label"], row["what"]): row
        for row in api.paper_comparison(None, None, "", [run])
    }
    tables = api.report(run)["tables"]
    for one in tables["curve"]:
        if one["stratum"] == "all":
            decile = f"{100 * one['low']:.0f}-{100 * one['high']:.0f} %"
            ours = rows["clitm_curve", "six models", decile]
            assert (ours["corrected"], ours["corrected_n"]) == (one["accuracy"], one["n"])
            assert ours["value"] is not None and ours["published"] is None
    (overall,) = [row for row in tables["summary"] if row["stratum"] == "all"]
    gap = rows["clitm_summary", "the paper's curve", "peak to trough gap"]
    assert (gap["value"], gap["corrected"]) == (21.9, 100 * overall["gap"])
    edge = rows["clitm_summary", "the paper's curve", "middle vs edge gap"]
    assert edge["corrected"] == pytest.approx(100 * (overall["edge"] - overall["middle"]))
    p = rows["clitm_summary", "re-analysis", "p of gap"]
    assert (p["value"], p["corrected"]) == (0.27, overall["gap_p"])
    app = opened(view="tables", table=TABLES["clitm_curve"].title)
    (frame,) = [f.value for f in app.dataframe if "corrected, here" in f.value]
    assert frame["corrected, here"].str.contains(" n ").any()
    assert api.for_screen(run) in page_text(app) and "my \\*curve\\*" in page_text(app)
    app = opened(view="tables", table=TABLES["gate_ablation"].title)
    assert "No finished run here has these figures" in page_text(app)


def test_figures_of_gates_and_attentions_are_those_of_the_paper_s_cells(monkeypatch):
    """Every figure of such a run has a place in a table of the paper."""
    cells = {(row["table"], row["label"], row["what"]) for row in paper_rows()}
    gate = published_gates([])
    for row in gate:
        row |= {"recall": 0.5, "low": 0.4, "high": 0.6, "n": 7}
    forecast = forecast_report.tables()
    focal = {**forecast["summary"][2], "variant": "gated_differential loss=focal"}
    forecast["summary"].append(focal)
    for kind, tables, named in (
        ("gate", {"published": gate}, {"gate_ablation", "query_ablation"}),
        ("forecast", forecast, {name for name in TABLES if name.startswith("ehrshot_")}),
    ):
        plan = SimpleNamespace(kind=kind)
        folder = SimpleNamespace(plan=lambda plan=plan: plan)
        monkeypatch.setattr(paper, "find_run", lambda run, folder=folder: folder)
        monkeypatch.setattr(paper, "report", lambda run, tables=tables: {"tables": tables})
        known = paper.figures("any", "")
        # The paper prints no AUROC in validation of its gated attention, and no paired difference.
        spare = {what for _, label, what in known.keys() - cells if " less " not in label}
        assert all(what.endswith("AUROC in validation") for what in spare)
        assert {table for table, _, _ in known} == named
        if kind == "gate":
            assert {key for key in cells if key[0] == "gate_ablation"} <= known.keys()
    assert known["ehrshot_attention", "qccs_differential", "anemia, AUROC"][0] == 0.712
    mean = known["ehrshot_mean", "differential", "mean difference over tasks"]
    assert mean[:4] == pytest.approx((0.5, -1.5, 2.5, len(forecast_report.TASKS)))
    assert known["ehrshot_focal", "qccs focal", "anemia, AUROC"][0] == focal["auroc_mean"]
    assert known["ehrshot_focal", "gate mean", "anemia, gate"][0] == focal["gate_mean"]
    prevalence = "anemia, prevalence as printed"
    assert known["ehrshot_focal", "positive labels", prevalence][0] == 0.69
    assert known["ehrshot_sparse", "sparsemax", "anemia, mean sparsity"][0] == 0.4


# The page


def opened(**query: str) -> AppTest:
    return open_page("replication", **{"reader": "extractive", **query})


def test_without_runs_it_says_what_it_does_and_queues_every_step(workspace, monkeypatch):
    app_data.make_cohort(workspace / "data")
    queued = []
    monkeypatch.setattr("midchart.core.services.runs.enqueue", queued.append)
    app = opened()
    assert "No replication yet" in page_text(app)
    app.button(key="start_replication").click().run()
    assert len(queued) == len(NAMES) + len(FAULTS)
    assert queued[0]["protocol"]["truncation"] == "right"
    assert queued[-1]["protocol"] == {"preset": "corrected", "judge_prompt": "plain"}


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"view": "waterfall"}, "Not every step has finished"),
        ({"view": "alone"}, "the corrected protocol with this one fault"),
        ({}, "Differences with 95 % intervals"),
        ({"view": "findings"}, "released outcomes"),
        *(
            ({"view": "tables", "table": TABLES[name].title}, TABLES[name].file)
            for name in ("stage1", "k_sweep", "ehrshot_sparse")
        ),
    ],
)
def test_each_view_shows_its_figure_and_its_table(ran_cohort, query, says):
    app = opened(**query)
    text = page_text(app).replace("\\", "")
    headline = "paper: " if query else "None of the paper's 41 claims can be tested here"
    assert headline in text.replace("&#x27;", "'") and says in text
    assert len(app.dataframe[0].value) and all(figure.alt for figure in figures_of(app))
    if not query:
        (figure,) = figures_of(app)
        assert app.dataframe[0].value.columns[0] == "verdict"
        assert ", on this text (" in figure.spec
        assert app.dataframe[1].value["claims"].sum() == 41
    if query.get("view") == "waterfall":
        shown = app.dataframe[0].value
        assert shown["n"].tolist() == [2, 2] and len(figures_of(app)) == 1
        left = len(NAMES) - 2 + len(FAULTS) - 2
        assert app.button(key="start_replication").label == f"Start the {left} runs"


def test_the_headline_says_what_the_paired_comparison_shows():
    ends = dict.fromkeys(("low", "high", *(f"{of}_{end}" for of in ("published", "corrected")
                                           for end in ("low", "high"))))  # fmt: skip
    row = {"table": "stage2", "label": "bm25", "what": "overall", "value": 0.2, "published": 0.3,
           "corrected": 0.4, "published_n": 30, "corrected_n": 30, **ends}  # fmt: skip
    pair = {"n": 28, "difference": 0.1, "patient_low": -0.05, "patient_high": 0.25,
            "verdict": "no difference shown"}  # fmt: skip
    text, below = view.headline([row], "bm25", "small", ("token_overlap", "exact"), pair)
    assert text == (
        "BM25 is correct on 30.0 % under the published protocol and 40.0 % under the corrected "
        "protocol (n = 30); paper: 20.0 %. Corrected less published, on the same 28 questions: "
        "+10.0 [−5.0, +25.0] points, no difference shown."
    )
    assert "not by the primary judge Exact values (offline)." in below[0]
