"""The replication and its page: published faults removed one at a time, with the paper's
figures."""

from __future__ import annotations

import dataclasses
import itertools
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from midchart.core import api, weights
from midchart.core import config as settings
from midchart.core.cli import main
from midchart.core.errors import UnknownName
from midchart.core.experiments.replication import paper as figures
from midchart.core.experiments.replication.comparison import ARMS, FAULTS, REPORTING, alone, steps
from midchart.core.experiments.replication.paper import TABLES, paper_rows
from midchart.core.protocol import PRESETS, parse
from midchart.core.results.tables import read_published
from midchart.core.services import runs as run_services
from midchart.core.training_experiments.gate.evaluation import published as published_gates
from midchart.pages.ui.replication import runs, view
from tests.core.experiments.curve.test_run_curve import write_responses
from tests.support import app_data, compressors, forecast_report, pair_models
from tests.support.claude_server import ClaudeFake
from tests.support.openai_server import OpenAIFake
from tests.support.pages import figures_of, open_page, page_text
from tests.support.run_helpers import finished_run, set_workspace, workspace_at, write_cohort

NAMES = [step.name for step in steps()]


def bare(protocol):
    return dataclasses.replace(protocol, preset="")


def test_the_steps_go_from_the_published_to_the_corrected_protocol():
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


def test_a_fault_alone_is_the_corrected_protocol_with_its_published_fields():
    by_fault = {step.fault.name: step for step in alone()}
    assert list(by_fault) == [fault.name for fault in FAULTS]
    for fault in FAULTS:
        differs = {
            field: value
            for field, (_, value) in by_fault[fault.name].protocol.differences().items()
        }
        published = {field: getattr(PRESETS["published"], field) for field in fault.fields}
        assert differs == published and differs


def test_each_fault_has_fields_of_its_own():
    fields = [name for fault in FAULTS for name in fault.fields]
    assert len(fields) == len(set(fields))


def test_a_spec_of_a_step_is_read_back_as_its_protocol():
    specs = api.step_specs("demo", ["full"], "extractive", ["exact"])
    assert len(specs) == len(steps()) + len(FAULTS)
    for step in (*steps(), *alone()):
        assert bare(parse(specs[step.name]["protocol"])) == bare(step.protocol)


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
        done = finished_run({k: v for k, v in specs["published"].items() if k != "part"})
        api.replicate(cohort, "extractive")
    assert api.status(done)["group"] == "replication, extractive"
    assert len(queued) == 32 and NAMES[0] not in {spec["name"] for spec in queued}


def test_the_paper_s_rows_are_shares_and_each_table_has_some():
    rows = paper_rows()
    assert {row["table"] for row in rows} == set(TABLES)
    assert all(row["value"] is not None for row in rows)
    assert all(0 <= row["value"] <= 1 for row in rows if row["unit"] == "share")
    (headline,) = [
        row for row in rows
        if (row["table"], row["label"], row["what"]) == ("stage2", "qccs", "overall")
    ]  # fmt: skip
    # Table of Stage 2 in the paper: 25.3 % of 83 questions.
    assert headline["value"] == pytest.approx(21 / 83, abs=5e-4)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A cohort and the first and last step of its replication, run."""
    with workspace_at(tmp_path_factory.mktemp("replication")) as home:
        cohort = app_data.make_cohort(home / "data")
        arms = ["full", "bm25", {"name": "bm25", "k": 1}]
        specs = api.step_specs(str(cohort), arms, "extractive", ["token_overlap"])
        names = [step.name for step in steps()]
        done = {}
        for name in (names[0], names[-1], "only_evidence_join", "only_whole_events"):
            done[name] = finished_run(specs[name])
    only = {name: done.pop(name) for name in list(done) if name.startswith("only_")}
    return cohort, done, only


@pytest.fixture
def ran_cohort(ran, monkeypatch):
    """The cohort and its runs, in force for this test."""
    set_workspace(monkeypatch, ran[0].parents[2])
    return ran


def test_findings_name_the_cell_or_the_document_of_each_figure():
    by_finding = {row["finding"]: row for row in api.findings()}
    assert all(row["means"] and row["paper"] for row in by_finding.values())
    figures = {name: row["figure"] for name, row in by_finding.items()}
    assert figures["judged_on_nan"] == "22 of 83"
    assert figures["qccs_correct_on_nan"] == "14 of 21"
    assert figures["qccs_correct_with_evidence"] == "7 of 61"
    assert "11.5 % in place of the 25.3 %" in by_finding["qccs_correct_with_evidence"]["means"]
    assert figures["continuations"] == "93 to 100 %" and figures["continuations_qccs"] == "23 %"
    assert figures["dos_rag_equals_bm25"] == "83 of 83"
    assert figures["salted_hash"] == "34.9 / 39.8 / 33.7 %"
    assert figures["anemia_test_rows"] == "75 rows"
    assert "is that of hyponatremia (28.5 %)" in by_finding["prevalence_anemia"]["means"]
    assert "is that of thrombocytopenia (33.2 %)" in by_finding["prevalence_hyponatremia"]["means"]
    assert "is that of anemia (69 %)" in by_finding["prevalence_thrombocytopenia"]["means"]
    null = {row["quantity"]: row["value"] for row in read_published("clitm_null.csv")}
    assert (
        f"{null['gap_expected_without_position_effect']} points" in by_finding["curve_gap"]["means"]
    )
    assert f"p = {null['p_of_gap']}" in by_finding["curve_gap"]["means"]
    contradictions = {n: row["figure"] for n, row in by_finding.items() if row["in_paper"]}
    assert contradictions["split_of_patients"] == "208 + 74 = 282 of 275"
    assert contradictions["impossible_share_mmr"] == "2.9 % of 30"
    assert "0.0 and 3.3 %" in by_finding["impossible_share_dos_rag"]["means"]
    assert contradictions["best_in_every_band"] == "23.8 against 19 %"
    assert "0 to 11.4 %" in by_finding["interval_of_none"]["means"]
    # Every number of a figure stands in a named cell or document, or follows from one that does.
    for row in by_finding.values():
        assert row["published"] or row["stated"]
        assert all(
            part.endswith(tuple("0123456789")) for part in row["published"].split("; ") if part
        )
        assert all("row " in p and "column " in p for p in row["published"].split("; ") if p)
        assert all(".md (" in part for part in row["stated"].split("; ") if part)


def test_a_finding_follows_the_published_table_and_not_a_copied_number(tmp_path, monkeypatch):
    place = tmp_path / "published"
    shutil.copytree(settings.published_folder(), place)
    monkeypatch.setattr(settings, "published_folder", lambda: place)
    table = place / "stage2_judge_accuracy.csv"
    table.write_text(table.read_text().replace("overall,83,qccs,25.3", "overall,80,qccs,50.0"))
    by_finding = {row["finding"]: row for row in api.findings()}
    assert by_finding["judged_on_nan"]["figure"] == "22 of 80"
    assert by_finding["qccs_correct_on_nan"]["figure"] == "14 of 40"
    assert (
        "row overall/qccs, column accuracy_pct: 50.0"
        in by_finding["qccs_correct_on_nan"]["published"]
    )


def test_a_fault_alone_that_did_not_act_is_stated_and_is_no_bar_of_0(ran_cohort):
    _, done, only = ran_cohort
    corrected = list(done.values())[-1]
    rows = {r["fault"]: r for r in api.faults_alone(corrected, only, "bm25", "token_overlap")}
    assert list(rows) == [fault.name for fault in FAULTS]
    joined = rows["evidence_join"]
    assert joined["acted"] == 0 and "100 characters" in joined["silent"]
    assert "qccs" in rows["gate_examples"]["silent"], "a fault of another arm"
    assert rows["short_answers"]["silent"] == "" and rows["short_answers"]["run"] is None
    whole_events = rows["whole_events"]
    assert whole_events["acted"] > 0 and not whole_events["silent"] and whole_events["n"] == 2
    pair = api.compare_runs([corrected, only["only_whole_events"]])["results"]
    (bm25_row,) = [r for r in pair if (r["arm"], r["judge"]) == ("bm25", "token_overlap")]
    assert whole_events["difference"] == bm25_row["difference"]


def test_runs_are_matched_by_their_protocol_and_data(ran_cohort):
    cohort, done, only = ran_cohort
    replication = api.replication(cohort, "extractive")
    assert {row["name"]: row["run"] for row in replication["alone"] if row["run"]} == only
    assert api.readers_of(cohort) == {"extractive": "extractive"}
    assert {row["name"]: row["run"] for row in replication["steps"] if row["run"]} == done
    assert [run for run in replication["runs"] if run] == list(done.values())
    assert all(row["run"] is None for row in api.replication(cohort, "qwen")["steps"])


def test_a_run_of_other_files_or_fewer_arms_is_not_a_step(ran_cohort):
    cohort, done, _ = ran_cohort
    first = Path(api.status(done["published"])["folder"])

    def another(id, **changes):
        """The published step once more, newer and finished, on other files or with one arm."""
        folder = first.parent / id
        shutil.copytree(first, folder)
        spec = json.loads((folder / "spec.json").read_text())
        spec["spec"] |= changes.get("spec", {})
        spec["cohort"] |= changes.get("cohort", {})
        (folder / "spec.json").write_text(json.dumps({**spec, "run": id}))
        return folder

    asked = (["full", "bm25", {"name": "bm25", "k": 1}], ["token_overlap"])
    arms = json.loads((first / "spec.json").read_text())["spec"]["arms"]
    runs = [
        another("29991231-000000-aaaaaa", cohort={"digest": "of other files"}),
        another("29991231-000001-bbbbbb", spec={"arms": arms[1:2]}),
        another("29991231-000002-cccccc", spec={"judges": []}),
    ]
    try:
        assert api.replication(cohort, "extractive", *asked)["runs"][0] == done["published"]
        same = another("29991231-000003-dddddd")
        runs.append(same)
        assert api.replication(cohort, "extractive", *asked)["runs"][0] == same.name, "the newest"
        runs.append(
            another("29991231-000004-eeeeee", spec={"readers": ["abstaining"], "judges": []})
        )
        unjudged = api.replication(cohort, "abstaining", *asked)
        assert not any(unjudged["runs"]), "nobody judged it, so it has no outcome to compare"
    finally:
        for folder in runs:
            shutil.rmtree(folder)


def test_a_waterfall_pairs_each_step_with_the_one_before(ran_cohort):
    _, done, _ = ran_cohort
    rows = api.waterfall(list(done.values()), "bm25", "token_overlap")
    assert [row["run"] for row in rows] == list(done.values())
    assert rows[0]["difference"] is None
    for row in rows:
        accuracy = api.report(row["run"])["tables"]["accuracy"]
        key = ("bm25", "token_overlap", "overall")
        (overall,) = (r for r in accuracy if (r["label"], r["judge"], r["band"]) == key)
        columns = ("n", "accuracy", "patient_low", "patient_high")
        assert [row[name] for name in columns] == [overall[name] for name in columns]
    for before, row in itertools.pairwise(rows):
        assert row["n"] == before["n"] > 0, "q3 cannot be judged in any of them"
        assert row["difference"] == pytest.approx(row["accuracy"] - before["accuracy"])


def test_published_rows_are_shown_beside_our_rows(ran_cohort):
    _, done, _ = ran_cohort
    first, last = done["published"], list(done.values())[-1]
    rows = {
        (row["table"], row["label"], row["what"]): row
        for row in api.paper_comparison(first, last, "token_overlap")
    }
    paper = {
        (row["label"], row["band"]): row
        for row in api.report(last)["tables"]["accuracy"]
        if row["judge"] == "token_overlap"
    }
    ours = rows["stage2", "bm25", "overall"]
    assert ours["corrected"] == paper["bm25", "overall"]["accuracy"]
    assert ours["corrected_n"] == paper["bm25", "overall"]["n"]
    assert rows["k_sweep", "bm25 k=1", "overall"]["published"] is not None
    assert rows["stage2", "qccs", "overall"]["corrected"] is None, "no such arm in these runs"
    assert all(
        row["published"] is None for row in api.paper_comparison(None, last, "token_overlap")
    )


@pytest.fixture(scope="module")
def joined(tmp_path_factory):
    """A demo of six patients, and its runs around the step that mends the join of evidence."""
    with workspace_at(tmp_path_factory.mktemp("replication-demo")) as home:
        place = home / "data" / "cohorts" / "demo"
        api.prepare_demo(str(place), 6, 150, 42)
        specs = api.step_specs(str(place), ["bm25", "oracle"], "extractive", ["token_overlap"])
        before = NAMES[NAMES.index("evidence_join") - 1]
        done = {}
        for name in (before, "evidence_join", NAMES[-1], "only_evidence_join"):
            done[name] = finished_run(specs[name])
    return home, place, before, done


@pytest.mark.slow
def test_evidence_lost_in_a_join_shows_on_the_demo_or_says_on_how_many_questions_it_acted(
    joined, monkeypatch
):
    home, place, before, done = joined
    set_workspace(monkeypatch, home)
    asked = api.open_data(str(place)).instructions
    long = sum(len(one.question) > 100 for one in asked)
    assert len(asked) / 5 < long < len(asked) / 3, "about a quarter"
    pair = [done[before], done["evidence_join"]]
    for label in ("bm25", "oracle"):
        _, step = api.waterfall(pair, label, "token_overlap")
        runs = {"only_evidence_join": done["only_evidence_join"]}
        rows = api.faults_alone(done[NAMES[-1]], runs, label, "token_overlap")
        (alone_row,) = [row for row in rows if row["fault"] == "evidence_join"]
        assert step["acted"] == alone_row["acted"] == long and step["both"] == len(asked)
        assert not alone_row["silent"]
        if label == "oracle":
            assert step["changed"] > 0 < step["difference"]
            assert alone_row["right_there"] > 0 > alone_row["difference"]
        else:
            sentence = f"affected {long} of {len(asked)} questions; no verdict changed"
            assert view.change_text({**step, "why": ""}) == view.alone_text(alone_row) == sentence


def test_a_step_that_changed_no_text_has_a_reason():
    nothing = {"difference": 0.0, "acted": 0, "changed": 0, "unscored": 0}
    for alone_row, reason in (
        ({"silent": "no question is long", "acted": 0}, "not measurable here: no question is long"),
        (
            {"silent": "", "acted": 3},
            "on its own it affects 3 questions, so a fault that is still on",
        ),
        (None, "changed no prompt, answer or judged text"),
        ({"silent": "", "acted": None}, "changed no prompt, answer or judged text"),
    ):
        assert reason in view.change_text({**nothing, "why": view.why_unchanged(alone_row)})


@pytest.fixture(scope="module")
def curved(tmp_path_factory):
    """A cohort with responses and its finished curve run."""
    with workspace_at(tmp_path_factory.mktemp("replication-curve")) as home:
        cohort = write_cohort(home / "data" / "cohorts" / "tiny", records=12, events=31)
        write_responses(cohort)
        spec = {"kind": "curve", "data": str(cohort), "name": "my *curve*"}
        run = finished_run({**spec, "protocol": {"resamples": 200}})
    return home, cohort, run


@pytest.fixture
def curve_here(curved, monkeypatch):
    home, cohort, run = curved
    set_workspace(monkeypatch, home)
    return cohort, run


def test_a_finished_curve_run_is_shown_with_the_paper_s_curve(curve_here):
    cohort, run = curve_here
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


def test_figures_of_gates_and_attentions_are_those_of_the_paper_s_cells(monkeypatch):
    """Every figure of such a run has a place in a table of the paper."""
    cells = {(row["table"], row["label"], row["what"]) for row in paper_rows()}
    gate = published_gates([])
    for row in gate:
        row |= {"recall": 0.5, "low": 0.4, "high": 0.6, "n": 7}
    forecast = forecast_report.tables()
    focal = {**forecast["summary"][2], "variant": "gated_differential loss=focal"}
    forecast["summary"].append(focal)
    for kind, figure_rows, all_of in (
        ("gate", {"published": gate}, {"gate_ablation", "query_ablation"}),
        (
            "forecast",
            forecast,
            {"ehrshot_attention", "ehrshot_mean", "ehrshot_focal", "ehrshot_sparse"},
        ),
    ):
        plan = SimpleNamespace(kind=kind)
        monkeypatch.setattr(figures, "find_run", lambda run, p=plan: Holder(p))
        monkeypatch.setattr(figures, "report", lambda run, m=figure_rows: {"tables": m})
        figures_by_name = figures.figures("any")
        # The paper prints no AUROC in validation of its gated attention.
        spare = {what.partition(", ")[2] for _, _, what in figures_by_name.keys() - cells}
        assert spare <= {"AUROC in validation"}
        assert {table for table, _, _ in figures_by_name} == all_of
    assert figures_by_name["ehrshot_attention", "qccs differential", "anemia, AUROC"][0] == 0.712
    mean = figures_by_name["ehrshot_mean", "differential", "mean difference over tasks"]
    assert mean == pytest.approx((0.5, -1.5, 2.5, len(forecast_report.TASKS)))
    assert figures_by_name["ehrshot_focal", "qccs focal", "anemia, AUROC"][0] == focal["auroc_mean"]
    assert figures_by_name["ehrshot_focal", "gate mean", "anemia, gate"][0] == focal["gate_mean"]
    assert (
        figures_by_name["ehrshot_focal", "positive labels", "anemia, prevalence as printed"][0]
        == 0.69
    )
    assert figures_by_name["ehrshot_sparse", "sparsemax", "anemia, mean sparsity"][0] == 0.4
    gates = {key for key in cells if key[0] == "gate_ablation"}
    monkeypatch.setattr(figures, "report", lambda run: {"tables": {"published": gate}})
    monkeypatch.setattr(figures, "find_run", lambda run: Holder(SimpleNamespace(kind="gate")))
    assert gates <= figures.figures("any").keys()


@dataclasses.dataclass
class Holder:
    """A run's folder that has a plan and nothing else."""

    held: object

    def plan(self):
        return self.held


def test_the_page_shows_the_figures_of_a_finished_run_or_where_one_is_made(curve_here):
    _, run = curve_here
    app = opened(table=api.PAPER_TABLES["clitm_curve"].title)
    (frame,) = [f.value for f in app.dataframe if "paper" in f.value]
    assert (frame["corrected protocol (this installation)"] != "–").any()
    assert run in page_text(app) and "my \\*curve\\*" in page_text(app)
    app = opened(table=api.PAPER_TABLES["gate_ablation"].title)
    (frame,) = [f.value for f in app.dataframe if "paper" in f.value]
    assert (frame["corrected protocol (this installation)"] == "–").all() and (
        frame["paper"] != "–"
    ).all()
    assert "No finished run of this installation has these figures" in page_text(app)


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
    assert queued[len(NAMES) - 1]["protocol"] == {"preset": "corrected"}
    assert queued[-1]["protocol"] == {"preset": "corrected", "judge_prompt": "plain"}


def test_the_runs_may_hold_any_reader_and_judge(workspace, monkeypatch):
    app_data.make_cohort(workspace / "data")
    queued = []
    monkeypatch.setattr("midchart.core.services.runs.enqueue", queued.append)
    app = opened()
    app.text_area(key="replication_with").set_value(
        'reader = { name = "served", url = "http://127.0.0.1:8000/v1", model = "m", '
        'path = "completions", template = "chatml" }\n'
        'judges = ["exact", { name = "served", url = "http://127.0.0.1:8000/v1", model = "m" }]\n'
        'arms = ["bm25", "shortest"]'
    ).run()
    app.button(key="start_replication").click().run()
    assert not app.exception and not app.error
    assert queued[0]["readers"][0]["name"] == "served"
    assert [j if isinstance(j, str) else j["name"] for j in queued[0]["judges"]] == [
        "exact",
        "served",
    ]
    assert queued[0]["arms"] == ["bm25", "shortest"]
    app.text_area(key="replication_with").set_value("judge = 1").run()
    assert "judge" in app.error[0].value


@pytest.fixture
def tiny(workspace, tmp_path, monkeypatch):
    """A cohort, and tiny models of every arm that needs weights of its own."""
    monkeypatch.setenv("MIDCHART_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-planted")
    pair_models.bert(tmp_path / "models" / weights.RELEVANCE)
    compressors.xlm_roberta(
        tmp_path / "models" / "llmlingua-2-xlm-roberta-large-meetingbank", longest=64
    )
    return app_data.make_cohort(tmp_path / "data")


@pytest.mark.slow
def test_the_runs_take_a_served_reader_claude_a_second_judge_a_blind_one_and_every_arm(
    tiny, monkeypatch
):
    """On stub servers of this machine: the first step and the last are run whole."""
    arms = [arm for arm in ARMS if arm not in ("qccs", "qccs_plus")]
    with OpenAIFake(window=8192) as site, ClaudeFake() as claude:
        monkeypatch.setenv("MIDCHART_HOSTS", f"{claude.url}=ANTHROPIC_API_KEY")
        reader = {
            "name": "served", "url": f"{site.url}/v1", "model": "tiny",
            "path": "completions", "template": "chatml",
        }  # fmt: skip
        judges = [
            {"name": "claude", "base_url": claude.url},
            {"name": "claude", "base_url": claude.url, "model": "claude-sonnet-4-6"},
            {"name": "blind", "base_url": claude.url},
            {"name": "served", "url": f"{site.url}/v1", "model": "tiny"},
        ]
        specs = api.step_specs(str(tiny), arms, reader, judges)
        done = {}
        for name in (NAMES[0], NAMES[-1]):
            done[name] = finished_run(specs[name])
            now, answers = api.status(done[name]), api.rows(done[name], "answers")
            assert now["done"] + now["failed"] == now["planned"]
            lost = {(a["label"], a["instruction"], a["reason"]) for a in answers if a["reason"]}
            assert {label for label, _, _ in lost} <= {"oracle"}, lost
            verdicts = api.rows(done[name], "verdicts")
            failed = {v["instruction"] for v in verdicts if v["status"] == "failed"}
            assert failed == {"q2", "q3"}, "they have no evidence for a judge that sees it"
            assert len({v["judge"] for v in verdicts if v["outcome"] == "correct"}) == 4
        label = next(iter(api.readers_of(tiny)))
        assert runs.specs(tiny.name, label)["published"]["readers"] == [reader]
        answered = {row["label"] for row in api.rows(done[NAMES[-1]], "answers")}
        assert {"map_reduce", "llmlingua2", "cross_encoder", "bm25_temporal"} <= {
            one.split(" ")[0] for one in answered
        }
    replication = api.replication(tiny, label, arms, judges)
    assert {
        row["name"]: row["run"]
        for row in (*replication["steps"], *replication["alone"])
        if row["run"]
    } == done
    names = api.arms_and_judges(done[NAMES[-1]])[1]
    first, _, blind, served = names
    assert (blind.split(" ")[0], served.split(" ")[0]) == ("blind", "served")
    rows = {
        (row["table"], row["label"], row["what"]): row
        for row in api.paper_comparison(done[NAMES[0]], done[NAMES[-1]], first)
    }
    for table, what in (
        ("stage2", "overall"), ("judge_agreement", "second judge"), ("blind_judge", "blind"),
        ("blind_judge", "agreement"),
    ):  # fmt: skip
        assert rows[table, "bm25", what]["corrected_n"], (table, what)


def test_the_waterfall_and_the_paper_s_tables_stand_with_their_numbers(ran_cohort):
    app = opened()
    text = page_text(app)
    assert "under the published protocol" in text and "paper: " in text
    assert "Not every step has finished" in text
    charts = figures_of(app)
    assert len(charts) == 1 and all(chart.alt for chart in charts)
    steps_shown = app.dataframe[0].value
    assert list(steps_shown["step"]) == ["As published", "Without: answers not marked as data"]
    assert steps_shown["n"].tolist() == [2, 2]
    assert (
        app.button(key="start_replication").label
        == f"Start the {len(NAMES) - 2 + len(FAULTS) - 2} runs"
    )
    assert "Each row: the corrected protocol with this one fault" in page_text(opened(view="alone"))
    assert "released outcomes" in page_text(opened(view="findings"))
    assert "each of a single comparison" in page_text(opened(view="claims"))


@pytest.mark.parametrize(
    "table", ["stage1", "k_sweep", "clitm_curve", "gate_ablation", "ehrshot_sparse"]
)
def test_a_table_of_the_paper_can_be_chosen(ran_cohort, table):
    app = opened(view="tables", table=api.PAPER_TABLES[table].title)
    (frame,) = [f.value for f in app.dataframe if "paper" in f.value]
    assert frame["paper"].str.contains(r"\d").all()
    assert app.selectbox(key="table").value == table
    assert api.PAPER_TABLES[table].file in page_text(app)
    ours = frame[frame["arm"] == "bm25"]
    if len(ours) and table in ("stage1", "k_sweep"):
        assert (ours["corrected protocol (this installation)"] != "–").any()


def test_a_table_of_hits_says_that_the_paper_counts_any_sentence():
    for name, table in TABLES.items():
        hits = any(source.table in ("recall", "overlap", "hit_miss") for source in table.report)
        ablation = name in ("query_ablation", "gate_ablation")
        assert ("any kept sentence" in table.counts) == (hits or ablation), name


def test_no_run_from_elsewhere_says_which_reader_a_name_means(workspace, tmp_path):
    cohort = write_cohort(settings.cohorts_folder() / "ward", records=1)
    spec = {"kind": "answers", "data": "data/cohorts/ward", "arms": ["bm25"], "judges": ["exact"]}
    run = finished_run(spec | {"readers": ["extractive"]})
    assert api.readers_of(cohort) == {"extractive": "extractive"}
    api.export_run(run, tmp_path / "run.zip")
    api.remove_run(run)
    assert api.readers_of(cohort) == {}
    assert api.import_run(tmp_path / "run.zip")["cohort"] == "same"
    assert api.readers_of(cohort) == {}
