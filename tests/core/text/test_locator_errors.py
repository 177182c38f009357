"""How often locating by text is wrong, counted on cohorts with known evidence."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from midchart.core.cohorts.gold import locator_errors
from midchart.core.loaders.check import check_cohort
from midchart.core.loaders.open import open_cohort
from midchart.core.protocol import Protocol, parse
from midchart.core.results.report import report
from midchart.core.results.tables import WRONG
from midchart.core.text.evidence import locate
from tests.support.run_helpers import finished_run

COLUMNS = ("instruction_id", "filename", "question", "evidence", "clinician_response")
NOTES = {
    "a": [
        "He takes metformin 500 mg twice daily.",
        "Copied. He takes metformin 500 mg twice daily.",
    ],
    "b": ["Potassium was 5.9 mmol/L on admission.", "She smokes ten cigarettes a day."],
}
ASKED = [
    ("q1", "a", "metformin 500 mg twice daily", "1:17-45"),
    ("q2", "b", "Potassium was 5.9 mmol/L", "0:0-24"),
    ("q3", "b", "nothing like it is written here", ""),
]


def cohort(folder: Path):
    with (folder / "notes.jsonl").open("w", encoding="utf-8") as file:
        for patient, texts in NOTES.items():
            for text in texts:
                row = {"patient_id": patient, "time": "", "text": text, "type": "note"}
                file.write(json.dumps(row) + "\n")
    with (folder / "questions.tsv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow([*COLUMNS, "evidence_spans"])
        for id, patient, evidence, spans in ASKED:
            writer.writerow([id, patient, f"What of {id}?", evidence, "x", spans])
    return open_cohort(folder)


def test_errors_are_counted_where_the_truth_is_known(tmp_path: Path):
    errors = locator_errors(cohort(tmp_path), Protocol(), "order")
    assert errors is not None
    assert (errors["pieces"], errors["located"], errors["containing"]) == (3, 2, 2)
    assert errors["several"] == 1, "the copied-forward line is at two places"
    assert (errors["known"], errors["unlocated"]) == (2, 0)
    assert (errors["wrong_event"], errors["wrong_decile"], errors["wrong_zone"]) == (1, 1, 0)
    assert (errors["foreign"], errors["foreign_refused"]) == (3, 3)
    lax = locator_errors(cohort(tmp_path), parse({"locate_threshold": 0.0}), "order")
    assert lax is not None and lax["foreign_refused"] == 0


def test_the_papers_score_takes_another_value_for_the_evidence_and_the_corrected_one_does_not(
    tmp_path: Path,
):
    record = cohort(tmp_path).records["b"]
    other = ["Potassium was 3.1 mmol/L at discharge."]
    paper = locate(record, other, parse({"locate": "paper", "locate_threshold": 0.2}))
    assert [match.event for match in paper.matches if match is not None] == [0]
    assert locate(record, other, Protocol()).matches == (None,)


def test_check_tells_positions_scores_and_candidates(tmp_path: Path):
    opened = cohort(tmp_path)
    checked = check_cohort(opened, locator=True)
    assert checked["locator"]["known"] == 2
    assert checked["unlocated"] == 1
    by_id = {row["instruction"]: row for row in checked["positions"]}
    assert by_id["q2"]["token"] == 0.0 and by_id["q2"]["score"] is None, "the source gives spans"
    (tmp_path / "questions.tsv").write_text(
        (tmp_path / "questions.tsv").read_text(encoding="utf-8").replace("1:17-45", ""),
        encoding="utf-8",
    )
    again = check_cohort(open_cohort(tmp_path))["positions"]
    first = next(row for row in again if row["instruction"] == "q1")
    assert (first["order"], first["score"], first["candidates"]) == (0.0, 1.0, 2)


def test_a_runs_report_holds_the_counts_and_the_errors(tmp_path: Path, elsewhere: Path):
    folder = tmp_path / "notes"
    folder.mkdir()
    opened = cohort(folder)
    counts = locator_errors(opened, Protocol(), "order")
    assert counts is not None
    for protocol in ({"position": "order"}, "published"):
        run = finished_run(
            {"name": "t", "kind": "selection", "data": str(folder), "arms": ["bm25", "recency"],
             "protocol": protocol}
        )  # fmt: skip
        table = {row["measure"]: row for row in report(run)["tables"]["location"]}
        assert {row["position"] for row in table.values()} == {"order"}
        spans = table["questions whose source gives exact spans"]
        assert (spans["count"], spans["n"]) == (2, 3), "each question once, however many arms"
        assert table["located by text: not found"]["count"] == 0
        lost = table["pieces of evidence not in the record"]
        assert (lost["count"], lost["n"]) == (1, 3)
        if protocol != "published":
            for name, words in WRONG.items():
                kind = name.removeprefix("text_")
                assert (table[words]["count"], table[words]["n"]) == (counts[f"wrong_{kind}"], 2)


def test_without_exact_spans_a_report_holds_no_errors(tmp_path: Path, elsewhere: Path):
    folder = tmp_path / "notes"
    folder.mkdir()
    cohort(folder)
    table = folder / "questions.tsv"
    table.write_text(table.read_text().replace("1:17-45", "").replace("0:0-24", ""))
    run = finished_run({"name": "t", "kind": "selection", "data": str(folder), "arms": ["bm25"]})
    rows = {row["measure"]: row for row in report(run)["tables"]["location"]}
    assert rows["questions whose source gives exact spans"]["count"] == 0
    assert rows["questions located at several places alike"]["count"] == 1
    assert not any(measure.startswith("located by text") for measure in rows)
