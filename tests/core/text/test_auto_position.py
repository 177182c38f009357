"""The position kind of a run: tokens where records have few events, unless one is named."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from midchart.core.arms.hits import question_of
from midchart.core.experiments.curve.rows import _places
from midchart.core.loaders.check import FEW_EVENTS, resolve_position
from midchart.core.loaders.open import open_cohort
from midchart.core.protocol import Protocol, parse
from midchart.core.results.items import rows
from midchart.core.results.report import report
from midchart.core.runs.planner import plan
from midchart.core.runs.spec import read_spec
from tests.support.run_helpers import finished_run


def write(folder: Path, notes: list[int]) -> Path:
    """A record for each number of notes; the first one's last note ends with the evidence."""
    folder.mkdir(parents=True)
    lines = [
        {"patient_id": f"p{p}", "time": "", "type": "note", "text": f"Note {i}. " + "Well. " * 40}
        for p, count in enumerate(notes)
        for i in range(count)
    ]
    lines[notes[0] - 1]["text"] += "\nShe takes warfarin."
    (folder / "notes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "questions.tsv").write_text(
        "instruction_id\tfilename\tquestion\tevidence\tclinician_response\n"
        "q\tp0\tWhich drug?\tShe takes warfarin.\tWarfarin\n"
    )
    return folder


@pytest.fixture
def one_note(elsewhere: Path) -> Path:
    return write(elsewhere / "cohorts" / "one_note", [1, 1, 1])


def spec(cohort: Path, **more: Any) -> dict[str, Any]:
    return {"name": "t", "kind": "selection", "data": str(cohort), "arms": ["bm25"], **more}


def test_a_run_on_records_of_one_note_uses_token_positions_with_the_reason(one_note: Path):
    run = finished_run(spec(one_note))
    run_report = report(run)
    assert run_report["protocol"]["position"] == "token"
    fields = ("used", "named", "median_events", "records")
    assert {name: run_report["position"][name] for name in fields} == {
        "used": "token", "named": False, "median_events": 1.0, "records": 3,
    }  # fmt: skip
    assert run_report["position"]["words"].endswith("the median record has 1 event (under 20)")
    (row,) = rows(run, "selections")
    assert (row["order_position"], row["band"]) == (0.0, "90-100")
    assert not any("position" in line for line in run_report["warnings"]), (
        "it is no change of protocol"
    )


def test_a_named_position_is_used(one_note: Path):
    run = finished_run(spec(one_note, protocol={"position": "order"}))
    run_report = report(run)
    assert (run_report["protocol"]["position"], run_report["position"]["named"]) == ("order", True)
    (row,) = rows(run, "selections")
    assert row["band"] == "0-10"
    assert "the protocol differs from the corrected one: position = order" in run_report["warnings"]


def test_the_published_protocol_goes_by_the_order_of_events(one_note: Path):
    run_plan = plan(read_spec(spec(one_note, protocol="published")))
    assert run_plan["protocol"]["position"] == run_plan["position"]["used"] == "order"


@pytest.mark.parametrize(
    ("notes", "used"),
    [([FEW_EVENTS - 1, FEW_EVENTS - 1, 90], "token"), ([1, FEW_EVENTS, 90], "order")],
)
def test_the_median_record_decides(tmp_path: Path, notes: list[int], used: str):
    cohort = open_cohort(write(tmp_path / "notes", notes))
    protocol, why = resolve_position(Protocol(), cohort)
    assert (protocol.position, why["used"], why["median_events"]) == (used, used, sorted(notes)[1])
    named, why = resolve_position(parse({"position": "time"}), cohort)
    assert (named.position, why["used"], why["named"]) == ("time", "time", True)


@pytest.fixture
def notes_of_one_record(tmp_path: Path):
    """A record of one note of 100 one-word sentences; the evidence is the 71st."""
    folder = tmp_path / "one_note"
    folder.mkdir()
    text = "\n".join(f"Item{i} noted." for i in range(100))
    (folder / "notes.jsonl").write_text(
        json.dumps({"patient_id": "p", "time": "2020-01-01", "text": text, "type": "note"}) + "\n"
    )
    (folder / "questions.tsv").write_text(
        "instruction_id\tfilename\tquestion\tevidence\tclinician_response\n"
        "q\tp\tWhich item?\tItem70 noted.\tItem70\n"
    )
    return open_cohort(folder)


def test_in_a_record_of_one_note_only_the_token_position_says_where_the_evidence_is(
    notes_of_one_record,
):
    (instruction,) = notes_of_one_record.instructions
    by_order = question_of(notes_of_one_record, instruction, parse({"position": "order"}))
    by_token = question_of(notes_of_one_record, instruction, parse({"position": "token"}))
    assert by_order.position == 0.0
    # 70 of 100 sentences of three tokens each come before the evidence.
    assert by_token.position == pytest.approx(0.7)


def test_the_curve_has_every_kind_of_position_of_every_piece(notes_of_one_record):
    cohort, gold = notes_of_one_record, notes_of_one_record.gold["q"]

    def places(snippets, gold):
        by_kind = _places(cohort, cohort.instructions, [gold], lambda done, of: None)
        return {
            p: table["at"].tolist() for (p, of), (table, _) in by_kind.items() if of == snippets
        }

    assert places("best", gold).keys() == {"order", "time", "token"}
    assert places("best", gold)["token"] == pytest.approx([0.7])
    twice = replace(gold, spans=(gold.spans[0], replace(gold.spans[0], start=0, end=13)))
    assert sorted(places("all", twice)["token"]) == pytest.approx([0.0, 0.7])
    assert places("all", twice)["order"] == [0.0, 0.0]
