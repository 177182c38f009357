"""The audit of systems with known losses says what they lost, and names what it could not join."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import numpy as np
import pytest

from midchart.core import api
from midchart.core.cli import main
from midchart.core.cohorts.gold import gold_under
from midchart.core.errors import MidchartError
from midchart.core.loaders.open import open_cohort
from midchart.core.protocol import Protocol
from midchart.core.results.items import rows
from midchart.core.text import event_text, sentences
from midchart.core.text.evidence import evidence_parts
from midchart.extras.audit.audited_prompt import audited_prompt
from tests.extras.audit.audited_systems import (
    Losses,
    as_spans,
    outcomes,
    questions_of,
    write_log,
)
from tests.support.run_helpers import finished_run, workspace_at

STEPS = ("retrieved", "reranked", "prompt")
LOSSY = Losses(retrieval=0.3, middle=0.6, reranking=0.2, sentences=10, shuffled=True, foreign=1,
               invented=1)  # fmt: skip


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """A workspace with a small demo cohort, and the cohort with its evidence located."""
    with workspace_at(tmp_path_factory.mktemp("audit")) as home:
        api.prepare_demo(patients=8, events_per_patient=60)
        path = home / "data" / "cohorts" / "demo"
        yield path, gold_under(open_cohort(str(path)), Protocol())


def write_lines(log: Path, *lines: dict) -> Path:
    log.write_text("\n".join(map(json.dumps, lines)))
    return log


def audit(path, log, **fields) -> str:
    return finished_run(
        {"name": "audited", "kind": "audit", "data": str(path), "log": str(log),
         "judges": ["exact_else_overlap"], "arms": ["bm25"], **fields}
    )  # fmt: skip


@pytest.fixture(scope="module")
def lossy(demo, tmp_path_factory):
    """A run on the log of a lossy system, and what it lost."""
    path, cohort = demo
    log = tmp_path_factory.mktemp("log") / "answers.jsonl"
    truth = write_log(cohort, questions_of(cohort), LOSSY, log, np.random.default_rng(1))
    return audit(path, log), truth


def test_each_question_has_its_evidence_where_the_system_had_it(lossy):
    run, truth = lossy
    systems = {row["instruction"]: row for row in rows(run, "audited") if row["role"] == "system"}
    assert systems.keys() == truth.parts.keys()
    for step in STEPS:
        for every, column in ((False, step), (True, f"{step}_all")):
            expected = outcomes(truth, step, every)
            assert {id: systems[id][column] for id in expected} == expected, column
    lost = [sum(not v for v in outcomes(truth, step, True).values()) for step in STEPS]
    assert 0 < lost[0] < lost[1] < lost[2], "every step of the simulated system loses some"


def test_the_ledger_and_its_conclusion_count_these_losses(lossy):
    run, truth = lossy
    report = api.report(run)
    ledger = {
        row["step"]: row for row in report["tables"]["ledger"]
        if (row["role"], row["criterion"], row["band"]) == ("system", "all pieces", "overall")
    }  # fmt: skip
    hits = [sum(outcomes(truth, step, True).values()) for step in STEPS]
    assert [ledger[step]["hits"] for step in STEPS] == hits
    assert [ledger[step]["lost"] for step in STEPS] == [
        len(truth.parts) - hits[0], hits[0] - hits[1], hits[1] - hits[2],
    ]  # fmt: skip
    losses = [ledger[step]["lost"] for step in (*STEPS, "read")]
    assert f"({max(losses):,})" in report["conclusion"]["headline"]
    assert ledger["prompt"]["chance"] < ledger["prompt"]["share"]


def test_foreign_invented_and_own_lines_are_told_apart(lossy):
    run, _ = lossy
    systems = [row for row in rows(run, "audited") if row["role"] == "system"]
    assert all(row["foreign_tokens"] >= 9 for row in systems), "each prompt has an invented line"
    assert sum(row["other_patient_tokens"] > 0 for row in systems) > len(systems) / 3
    assert all(row["frame_tokens"] >= 10 for row in systems), "two lines of the system's own"
    assert all(row["record_tokens"] > row["changed_tokens"] for row in systems)


def test_an_arm_has_as_many_tokens_as_the_prompt(lossy):
    run, _ = lossy
    pairs: dict[str, dict[str, int]] = {}
    for row in rows(run, "audited"):
        pairs.setdefault(row["instruction"], {})[row["role"]] = row["context_tokens"]
    assert all(pair["arm"] <= pair["system"] for pair in pairs.values())
    assert any(pair["arm"] > 0.6 * pair["system"] for pair in pairs.values())


def test_traces_of_a_system_give_the_ledger_of_its_table(demo, lossy, tmp_path):
    path, cohort = demo
    table, traces = tmp_path / "answers.jsonl", tmp_path / "spans.jsonl"
    write_log(cohort, questions_of(cohort), LOSSY, table, np.random.default_rng(1))
    as_spans(table, traces)
    shown = ("criterion", "step", "band", "n", "hits", "lost")
    of_table, of_traces = (
        [
            {name: row[name] for name in shown}
            for row in api.report(run)["tables"]["ledger"]
            if row["role"] == "system"
        ]
        for run in (lossy[0], audit(path, traces, arms=[]))
    )
    assert of_traces == of_table


@pytest.mark.parametrize("with_text", [True, False])
def test_an_export_has_the_same_figures_elsewhere(lossy, tmp_path, with_text):
    run = lossy[0]
    report = api.report(run)
    assert report["tables"]["prompts"][0]["altered"] > 0
    written = api.export_run(run, tmp_path / "out", with_text=with_text, rows_only=True)
    assert written["with_text"] is with_text
    columns = {row[0] for row in duckdb.sql(
        f"DESCRIBE SELECT * FROM '{tmp_path}/out/items/audited.parquet'"
    ).fetchall()}  # fmt: skip
    assert columns.isdisjoint({"question", "answer", "place", "altered"}) is not with_text
    with workspace_at(tmp_path / "other"):
        api.import_run(tmp_path / "out")
        brought = api.report(run)
    assert brought["items"] == report["items"]
    figures_of_both = (
        {
            name: [{c: row[c] for c in row if c not in ("question", "place")} for row in rows]
            for name, rows in one["tables"].items()
        }
        for one in (brought, report)
    )
    assert next(figures_of_both) == next(figures_of_both)


def test_samples_without_a_name_are_joined_by_their_text(demo, tmp_path):
    path, cohort = demo
    log = tmp_path / "nameless.jsonl"
    asked = questions_of(cohort)
    losses = Losses(fillers=30)
    write_log(cohort, asked, losses, log, np.random.default_rng(2), named=False)
    run = audit(path, log, arms=[])
    joined = {row["instruction"]: row["record"] for row in rows(run, "audited")}
    records = {question.id: question.record_id for question in asked}
    assert len(joined) > 0.9 * len(records)
    assert all(records[id] == record for id, record in joined.items())


def test_what_joins_no_record_is_named_and_the_rest_is_audited(demo, tmp_path):
    path, cohort = demo
    log = tmp_path / "mixed.jsonl"
    write_log(cohort, questions_of(cohort)[:3], Losses(), log, np.random.default_rng(3))
    stranger = {"patient": "nobody", "question": "Which drug?", "context": "x", "answer": "y"}
    log.write_text(log.read_text() + "\n" + json.dumps(stranger) + "\n{broken")
    report = api.report(audit(path, log, arms=[]))
    assert report["items"]["done"] == 3
    assert any("mixed.jsonl:4" in line and "no single record" in line for line in
               report["warnings"])  # fmt: skip
    assert any("mixed.jsonl:5" in line for line in report["warnings"])


def test_a_log_of_nobody_in_the_cohort_is_refused_in_one_line(demo, tmp_path):
    path, _ = demo
    log = tmp_path / "strangers.csv"
    log.write_text("patient,question,context,answer\nnobody,Which drug?,none,none\n")
    with pytest.raises(MidchartError, match=r"strangers\.csv.*belongs to a record") as refusal:
        audit(path, log)
    assert "\n" not in str(refusal.value)


def test_a_table_of_ids_joins_other_names(demo, tmp_path):
    path, cohort = demo
    question = questions_of(cohort)[0]
    log, ids = tmp_path / "renamed.csv", tmp_path / "ids.csv"
    log.write_text(f'patient,question,context,answer\nMRN-1,"{question.question}",none,none\n')
    ids.write_text(f"MRN-1,{question.record_id}\n")
    [row] = rows(audit(path, log, ids=str(ids), arms=[]), "audited")
    assert (row["record"], row["evidence_from"]) == (question.record_id, "cohort")


def test_an_id_of_the_log_that_equals_another_questions_takes_nothing_of_it(demo, tmp_path):
    path, cohort = demo
    taken = questions_of(cohort)[0]
    record = next(id for id in cohort.records if id != taken.record_id)
    line = {"id": taken.id, "patient": record, "question": "What else?", "context": "x y",
            "answer": "Nothing."}  # fmt: skip
    log = write_lines(tmp_path / "ids.jsonl", line)
    [row] = rows(audit(path, log, arms=[]), "audited")
    assert (row["record"], row["instruction"]) == (record, taken.id)
    assert row["evidence_from"] is row["evidence_pieces"] is row["own_question"] is None
    assert row["judged"] is None


def test_without_known_evidence_the_conclusion_says_what_prompts_are_made_of(demo, tmp_path):
    path, cohort = demo
    record = next(iter(cohort.records))
    text = event_text(next(e for e in cohort.records[record].events if len(e.text) > 200))
    line = {"patient": record, "question": "What else?", "context": text, "answer": "Nothing."}
    report = api.report(audit(path, write_lines(tmp_path / "new.jsonl", line), arms=[]))
    assert report["conclusion"]["headline"].endswith(
        "no evidence is known, so no loss; 100 % of the prompts' text is the patient's record "
        "(1 prompt)."
    )


NOTEBOOK = Path(__file__).with_name("logs") / "notebook"


@pytest.mark.parametrize("file", ["console.json.gz", "otlp.jsonl.gz", "phoenix.parquet"])
def test_a_notebooks_own_pipeline_is_audited_from_its_export(demo, file):
    path, _ = demo
    run = audit(path, NOTEBOOK / file, arms=[])
    # Which step has the sentence, by a look into the export.
    expected = {
        "What was the result of the skin biopsy in 1995?": (True, True, False),
        "What is the most recent bone density at the hip?": (False, False, False),
        "Which Helicobacter result is on file?": (True, False, False),
        "What did the most recent outside urine specimen grow?": (True, True, True),
    }
    read = {
        row["question"].partition(" I am preparing")[0]: tuple(row[step] for step in STEPS)
        for row in rows(run, "audited")
    }
    assert read == expected
    report = api.report(run)
    assert {row["measure"]: row["count"] for row in report["tables"]["log"]}[
        "left out: in no record, or not readable"
    ] == 0
    [made_of] = report["tables"]["prompts"]
    assert made_of["record_share"] == 1, "words cut by a chunk's edge are the record's too"


def test_a_question_opens_with_what_the_system_kept_cut_and_added(demo, lossy):
    _, cohort = demo
    run, truth = lossy
    states = set()
    for row in (row for row in rows(run, "audited") if row["role"] == "system"):
        record = cohort.records[row["chart"]]
        shown = audited_prompt(run, row["instruction"], record, Protocol())
        assert not shown.problem
        sizes = {"record": 0, "foreign": 0}
        for text, source in shown.passages:
            sizes[source] = sizes.get(source, 0) + len(text)
        assert sizes["record"] and sizes["foreign"], "the record's text, and an invented line"
        gold = evidence_parts(
            sentences(record, Protocol()), cohort.gold[row["own_question"]].spans
        ).keys()
        selected = {one.sentence.id for one in shown.selection.kept}
        prompted = {line.sentence_id for line in shown.prompt.context}
        assert prompted <= selected
        if outcomes(truth, "prompt", True)[row["instruction"]]:
            assert gold <= prompted
        states |= {(id in selected, id in prompted) for id in gold}
    assert states == {(True, True), (True, False), (False, False)}


def test_the_marks_outlive_the_log(demo, tmp_path):
    path, cohort = demo
    log = tmp_path / "answers.jsonl"
    write_log(cohort, questions_of(cohort)[:2], Losses(), log, np.random.default_rng(8))
    run = audit(path, log, arms=[])
    [row, _] = rows(run, "audited")
    record = cohort.records[row["chart"]]
    before = audited_prompt(run, row["instruction"], record, Protocol())
    lines = map(json.loads, log.read_text().splitlines())
    write_lines(log, *(line for line in lines if line["id"] != row["instruction"]))
    after = audited_prompt(run, row["instruction"], record, Protocol())
    assert after.problem and not after.passages and before.passages
    assert after.selection == before.selection
    with pytest.raises(MidchartError):
        audited_prompt(run, "no such question", record, Protocol())


@pytest.mark.parametrize("name", ["Patient/{}", "https://ward.example/fhir/Patient/{}", "{}.0"])
def test_a_reference_and_a_number_name_their_record(demo, tmp_path, name):
    path, cohort = demo
    log = tmp_path / "answers.jsonl"
    write_log(cohort, questions_of(cohort)[:4], Losses(), log, np.random.default_rng(3))
    lines = list(map(json.loads, log.read_text().splitlines()))
    write_lines(log, *({**line, "patient": name.format(line["patient"])} for line in lines))
    audited = rows(audit(path, log, arms=[]), "audited")
    assert [row["joined_by"] for row in audited] == ["name"] * 4
    assert sorted(row["chart"] for row in audited) == sorted(line["patient"] for line in lines)


def test_models_of_one_system_are_told_apart(demo, tmp_path):
    path, cohort = demo
    log = tmp_path / "models.jsonl"
    write_log(cohort, questions_of(cohort)[:4], Losses(), log, np.random.default_rng(9))
    lines = list(map(json.loads, log.read_text().splitlines()))
    names = [("bot", "a"), ("bot", "b"), ("other", "a"), ("other", "a")]
    named = zip(lines, names, strict=True)
    write_lines(log, *({**line, "system": one, "model": other} for line, (one, other) in named))
    run = audit(path, log)
    sources = [row["source"] for row in rows(run, "audited") if row["role"] == "system"]
    assert sorted(sources) == ["bot, a", "bot, b", "other", "other"]
    stated = api.report(run)["conclusion"]
    assert stated["headline"].startswith("3 systems were audited")
    for name in ("bot, a", "bot, b", "other"):
        of_it = [one for one in stated["details"] if one.startswith(f"{name}: ")]
        assert of_it, f"what {name} loses"
        assert any(f"the prompt: {name} " in one for one in stated["details"]), f"{name} and arms"


def test_the_conclusion_names_the_system_that_keeps_most(demo, tmp_path):
    path, cohort = demo
    asked = questions_of(cohort)
    lines = []
    for name, losses in (("all", Losses()), ("few", Losses(retrieval=0.8))):
        log = tmp_path / f"{name}.jsonl"
        write_log(cohort, asked, losses, log, np.random.default_rng(6))
        lines += [{**json.loads(line), "system": name} for line in log.read_text().splitlines()]
    report = api.report(audit(path, write_lines(tmp_path / "both.jsonl", *lines), arms=[]))
    headline = report["conclusion"]["headline"]
    assert "most often with all for 100 %" in headline and "least often with few" in headline
    assert {row["source"] for row in report["tables"]["worst"]} == {"all", "few"}


@pytest.mark.slow
def test_the_command_prints_the_conclusion(demo, tmp_path, capsys):
    path, cohort = demo
    log = tmp_path / "answers.jsonl"
    write_log(cohort, questions_of(cohort)[:4], Losses(), log, np.random.default_rng(4))
    assert main(["audit", str(path), str(log), "--arm", "bm25"]) == 0
    printed = capsys.readouterr().out
    run = printed.split()[0]
    assert api.report(run)["conclusion"]["headline"] in printed
