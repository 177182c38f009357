"""The mark of a weak source: lines that do not contain what was asked, and its measured rates."""

from __future__ import annotations

import pytest

from midchart.core.protocol import PRESETS
from midchart.core.services.weak_sources import LEAST, error_rates, main, weak_source
from midchart.core.types import Answer, ContextLine, Prompt
from tests.support.run_helpers import workspace_at, write_cohort

PROTOCOL = PRESETS["corrected"]
LINES = (
    "Vital signs stable overnight.",
    "Metoprolol 25 mg twice daily.",
    "Family visited yesterday evening.",
    "Smoke detectors present.",
    "Social History:",
    "No acute distress.",
)


def mark(question: str, at: int | None) -> str:
    lines = tuple(ContextLine(f"s{i}", f"[2015-03-0{i + 1}] {t}") for i, t in enumerate(LINES))
    sources = () if at is None else (f"s{at}",)
    return weak_source(Prompt("", question, lines, 40), Answer("x", sources=sources), PROTOCOL)


def test_a_line_of_another_subject_is_weak_and_the_line_asked_for_is_not():
    assert "may not contain what was asked" in mark("What is the patient's smoking status?", 3)
    assert f"below {LEAST:g}" in mark("What dose of metoprolol is taken?", 0)
    assert mark("What dose of metoprolol is taken?", 1) == ""


def test_a_heading_states_nothing_though_its_words_are_those_of_the_question():
    assert mark("What is the social history?", 4).endswith("(a heading)")


def test_without_a_source_or_a_question_nothing_is_marked():
    assert mark("What is the patient's smoking status?", None) == ""
    assert mark(" ", 3) == ""


def test_rates_count_answers_by_whether_their_source_is_the_evidence(tmp_path, capsys):
    with workspace_at(tmp_path):
        cohort = write_cohort(tmp_path / "data" / "cohorts" / "tiny", records=2)
        rows = error_rates(str(cohort), below=(-9.0, 9.0))
        assert main([str(cohort)]) == 0
    assert [(row["below"], row["source"]) for row in rows] == [
        (-9.0, "the evidence"), (-9.0, "not the evidence"),
        (9.0, "the evidence"), (9.0, "not the evidence"),
    ]  # fmt: skip
    none, none_wrong, every, every_wrong = rows
    assert none["part"] == "all" and none["weak"] == none_wrong["weak"] == 0
    assert every["n"] + every_wrong["n"] == 8, "every question has located evidence and an answer"
    assert every["weak"] == every["n"] > 0 and every["share"] == pytest.approx(1.0)
    assert "marked as weak" in capsys.readouterr().out
