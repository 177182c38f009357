"""Sources that do not contain what was asked, and how often their mark is right."""

from __future__ import annotations

import pytest

from midchart.core.protocol import PRESETS
from midchart.core.types import Answer, ContextLine, Prompt
from midchart.extras.lab.weak_sources import LEAST, error_rates, main, source_prominence
from tests.support.run_helpers import workspace_at, write_cohort

LINES = (
    "Vital signs stable overnight.",
    "Metoprolol 25 mg twice daily.",
    "Family visited yesterday evening.",
    "Smoke detectors present.",
    "Social History:",
    "No acute distress.",
)


@pytest.mark.parametrize(
    ("question", "at", "expected"),
    [
        ("What is the patient's smoking status?", 3, "weak"),
        ("What dose of metoprolol is taken?", 0, "weak"),
        ("What dose of metoprolol is taken?", 1, "near"),
        ("What is the social history?", 4, "heading"),
        ("What is the patient's smoking status?", None, "none"),
        (" ", 3, "none"),
    ],
)
def test_a_source_is_weak_where_it_is_a_heading_or_no_nearer_to_the_question_than_other_lines(
    question: str, at: int | None, expected: str
):
    lines = tuple(ContextLine(f"s{i}", f"[2015-03-0{i + 1}] {t}") for i, t in enumerate(LINES))
    sources = () if at is None else (f"s{at}",)
    answer = Answer("x", sources=sources)
    value = source_prominence(Prompt("", question, lines, 40), answer, PRESETS["corrected"])
    if expected == "none":
        assert value is None
    elif expected == "heading":
        assert value == 0
    else:
        assert (value < LEAST) == (expected == "weak")


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
