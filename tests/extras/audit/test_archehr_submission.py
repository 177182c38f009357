"""A run on ArchEHR-QA: factuality by hand-counted sentences, and its submission."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from midchart.core import api
from midchart.core.loaders.benchmarks import LabelledCase, labelled_cases
from midchart.core.protocol import Protocol
from midchart.core.runs.directory import find_run
from midchart.extras.audit.exports import (
    SubmittedCase,
    cases_of,
    scores_of,
    submission,
    to_archehr_qa,
)
from tests.support.run_helpers import finished_run, set_workspace, spec

CASES = """<annotations>{}</annotations>"""
CASE = """<case id="{id}">
<clinician_question>Why was catheterization recommended?</clinician_question>
<note_excerpt_sentences>
<sentence id="0" paragraph_id="0">Catheterization was recommended for a low fraction.</sentence>
<sentence id="1" paragraph_id="1">The patient slept well and walked in the corridor.</sentence>
<sentence id="2" paragraph_id="2">Enzymes were normal and stable during the stay.</sentence>
</note_excerpt_sentences></case>"""
LABELS = {"0": "essential", "1": "not-relevant", "2": "supplementary"}
PLACES = {"0": (0, 10), "1": (11, 20), "2": (21, 30)}
SPANS = {"a": (0, 10), "b": (11, 20), "c": (21, 30), "over both": (5, 15)}


def answer(record: str, sources: list[str], selection: list[str], text: str = "x") -> dict:
    return {"record": record, "sources": sources, "selection": [{"id": one} for one in selection],
            "answer": text}  # fmt: skip


def measured(rows: list[dict], of: str, criterion: str) -> tuple:
    (row,) = [one for one in rows if (one["of"], one["criterion"]) == (of, criterion)]
    return row["precision"], row["recall"], row["f1"]


def test_counts_are_over_all_cases_and_supplementary_sentences_count_leniently() -> None:
    case = SubmittedCase(LabelledCase(PLACES, LABELS), SPANS)
    cases = {"1": case, "2": case, "no key": SubmittedCase(LabelledCase(PLACES, {}), SPANS)}
    answers = [
        answer("1", ["a"], ["a", "c"]),
        answer("2", ["over both"], ["b"], "word " * 76),
        answer("no key", ["a"], ["a"]),
    ]
    rows = scores_of(cases, answers, Protocol())
    # Cited: 0 in the first case, 0 and 1 in the second; essential are 0 and 0.
    assert measured(rows, "cited", "strict") == (2 / 3, 1.0, pytest.approx(4 / 5))
    assert measured(rows, "cited", "lenient") == (2 / 3, 2 / 4, pytest.approx(4 / 7))
    # Selected: 0 and 2 in the first, 1 in the second.
    assert measured(rows, "selected", "strict") == (1 / 3, 1 / 2, pytest.approx(2 / 5))
    assert measured(rows, "selected", "lenient") == (2 / 3, 2 / 4, pytest.approx(4 / 7))
    assert {(one["cases"], one["long_answers"]) for one in rows} == {(2, 1)}
    assert {one["f1_low"] for one in rows} == {None}, "two cases have no interval"


def test_an_interval_holds_the_estimate_and_nothing_is_scored_without_a_key() -> None:
    case = SubmittedCase(LabelledCase(PLACES, LABELS), SPANS)
    cases = {str(n): case for n in range(8)}
    answers = [answer(str(n), ["a" if n % 2 else "b"], []) for n in range(8)]
    row = scores_of(cases, answers, Protocol())[0]
    assert row["f1_low"] < row["f1"] < row["f1_high"]
    nothing = scores_of(
        {"0": SubmittedCase(LabelledCase(PLACES, {}), SPANS)}, answers[:1], Protocol()
    )
    assert {(one["f1"], one["cases"]) for one in nothing} == {(None, 0)}


def test_a_submission_cites_by_the_task_s_ids() -> None:
    cases = {"7": SubmittedCase(LabelledCase(PLACES, LABELS), SPANS)}
    answers = [answer("7", ["over both"], [], "[2020-01-02] Low\n fraction."),
               answer("7", [], [], "Not documented."), answer("other", ["a"], [])]  # fmt: skip
    assert submission(cases, answers) == [
        {"case_id": "7", "answer": "Low fraction. |0,1|"},
        {"case_id": "7", "answer": "Not documented."},
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archehr") / "cases"
    folder.mkdir()
    text = CASES.format("".join(CASE.format(id=n) for n in range(1, 7)))
    (folder / "archehr-qa.xml").write_text(text)
    labels = [{"sentence_id": name, "relevance": label} for name, label in LABELS.items()]
    key = [{"case_id": str(n), "answers": labels} for n in range(1, 7)]
    (folder / "archehr-qa_key.json").write_text(json.dumps(key))
    return folder


def test_labels_and_places_are_those_of_the_files(folder: Path) -> None:
    cases = labelled_cases(folder)
    assert list(cases) == [str(n) for n in range(1, 7)]
    assert cases["3"].labels == LABELS and list(cases["3"].places) == ["0", "1", "2"]


def test_a_run_is_written_with_scores_and_with_text_as_a_submission(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_workspace(monkeypatch, tmp_path)
    api.set_data_use(folder, "external_services_allowed", True, "made for this test")
    arms = [{"name": "bm25", "k": 1}, "random"]
    protocol = {"recency": 0, "resamples": 200}
    run = finished_run(
        spec(folder, arms=arms, readers=["extractive"], judges=["token_overlap"], protocol=protocol)
    )
    assert cases_of(find_run(run)).keys() == {str(n) for n in range(1, 7)}
    without = to_archehr_qa(run, tmp_path / "scores")
    assert len(without["files"]) == 2
    written = to_archehr_qa(run, tmp_path / "all", with_text=True)
    assert len(written["files"]) == 4
    by_arm = {}
    for name in written["files"]:
        document = json.loads((tmp_path / "all" / name).read_text())
        if name.endswith("_scores.json"):
            by_arm[document["arm"].split(" ")[0]] = document["scores"]
        else:
            assert {one["case_id"] for one in document} == {str(n) for n in range(1, 7)}
    # BM25's one line is the sentence that shares the question's words, which is essential.
    assert measured(by_arm["bm25"], "selected", "strict") == (1.0, 1.0, 1.0)
    assert measured(by_arm["bm25"], "cited", "strict") == (1.0, 1.0, 1.0)
    assert measured(by_arm["bm25"], "cited", "lenient") == (1.0, 0.5, pytest.approx(2 / 3))
