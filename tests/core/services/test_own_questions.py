"""Questions kept with a cohort are instructions of it, with the evidence that people mark."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from midchart.core import api
from midchart.core.cohorts.kept_questions import DOMAIN, QUESTIONS_FILE
from midchart.core.errors import InputError, UnknownName
from midchart.core.protocol import Protocol
from midchart.core.text import event_text, sentences

NOTE = "Seen in clinic.\nPotassium was 5.9 on admission. Ramipril was stopped.\nFollow-up in May."


@pytest.fixture
def cohort(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "p1.txt").write_text(NOTE)
    (folder / "p2.txt").write_text("Nothing of note.")
    return folder


def marked(folder: Path, text: str) -> tuple[int, int, int]:
    (event,) = api.open_data(folder).records["p1"].events
    start = event_text(event).index(text)
    return 0, start, start + len(text)


def test_a_kept_question_is_an_instruction_with_exact_evidence(cohort: Path) -> None:
    id = api.keep_question(cohort, "p1", "  Why was ramipril\nstopped? ", by="ann")
    (instruction,) = api.open_data(cohort).instructions
    assert (instruction.question, instruction.domain) == ("Why was ramipril stopped?", DOMAIN)
    assert id not in api.open_data(cohort).gold
    api.answer_question(cohort, id, "Potassium 5.9", by="ann")
    api.mark_evidence(cohort, id, [marked(cohort, "Potassium was 5.9 on admission.")], by="ann")
    gold = api.open_data(cohort).gold[id]
    assert gold.exact
    assert gold.answer == "Potassium 5.9"
    assert gold.snippets == ("Potassium was 5.9 on admission.",)
    assert gold.spans[0].start == NOTE.index("Potassium")
    selection = api.select_report(cohort, "p1", id, "bm25", 1, Protocol())
    assert selection["question"] == "Why was ramipril stopped?"


def test_questions_are_reworded_and_withdrawn_and_the_file_only_grows(cohort: Path) -> None:
    id = api.keep_question(cohort, "p1", "First wording?", by="ann")
    api.keep_question(cohort, "p1", "Second wording?", by="bob", id=id)
    assert [q.question for q in api.own_questions(cohort)] == ["Second wording?"]
    assert api.own_question(cohort, id).by == "ann"
    api.withdraw_question(cohort, id)
    assert api.own_questions(cohort) == []
    assert not api.open_data(cohort).instructions
    assert len((cohort / QUESTIONS_FILE).read_text().splitlines()) == 3
    assert stat.S_IMODE((cohort / QUESTIONS_FILE).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("question", "says"), [("  ", "1 to 2,000"), ("x" * 2001, "2,001"), ("Same?", "already")]
)
def test_questions_that_cannot_be_kept_are_refused(cohort: Path, question: str, says: str) -> None:
    api.keep_question(cohort, "p1", "Same?")
    with pytest.raises(InputError, match=says):
        api.keep_question(cohort, "p1", question)
    with pytest.raises(UnknownName):
        api.keep_question(cohort, "p9", "Who?")
    with pytest.raises(UnknownName):
        api.answer_question(cohort, "own-none", "x")


def test_evidence_of_a_record_that_changed_is_located_by_its_text(cohort: Path) -> None:
    id = api.keep_question(cohort, "p1", "Why?")
    api.answer_question(cohort, id, "5.9")
    api.mark_evidence(cohort, id, [marked(cohort, "Potassium was 5.9 on admission.")])
    (cohort / "p1.txt").write_text("A new first line of the letter.\n" + NOTE)
    data = api.open_data(cohort)
    gold = data.gold[id]
    text = event_text(data.records["p1"].events[0])
    assert not gold.exact
    assert "Potassium was 5.9" in text[gold.spans[0].start : gold.spans[0].end]
    assert any("record changed" in warning for warning in data.warnings)


def test_agreement_of_two_annotators_by_sentence_lists_disagreements(cohort: Path) -> None:
    id = api.keep_question(cohort, "p1", "Why?", by="ann")
    units = sentences(api.open_data(cohort).records["p1"], Protocol())
    api.mark_evidence(cohort, id, [units[1].span, units[2].span], by="ann")
    api.mark_evidence(cohort, id, [units[1].span], by="bob")
    (row,) = api.marking_agreement(cohort)
    assert (row["both"], row["only_first"], row["only_second"]) == (1, 1, 0)
    assert row["neither"] == len(units) - 2
    assert row["disagreements"] == [units[2].id]
    assert row["raw"] == pytest.approx((len(units) - 1) / len(units))
    assert len(api.open_data(cohort).gold[id].spans) == 2


def test_the_exported_table_loads_again_beside_the_same_records(
    cohort: Path, tmp_path: Path
) -> None:
    id = api.keep_question(cohort, "p1", "=Why?", by="ann")
    api.answer_question(cohort, id, "Potassium\t5.9", by="ann")
    api.mark_evidence(cohort, id, [marked(cohort, "Potassium was 5.9 on admission.")], by="ann")
    table = api.questions_table(cohort)
    assert "\t'=Why?\t" in table
    other = tmp_path / "other"
    other.mkdir()
    (other / "p1.txt").write_text(NOTE)
    (other / "questions.tsv").write_text(table)
    data = api.open_data(other)
    assert data.gold[id].spans == api.open_data(cohort).gold[id].spans
