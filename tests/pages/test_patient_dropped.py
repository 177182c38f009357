"""The list of questions says which arm dropped evidence before a question is opened."""

from __future__ import annotations

from dataclasses import replace

import pytest

from midchart.core import api
from midchart.pages.ui.patient import dropped, model
from midchart.pages.ui.patient.controls import token
from tests.support.pages import page_at, plain_text

pytestmark = pytest.mark.slow


def counted(cohort: api.Cohort, arm: str) -> dict[str, int]:
    """Question → pieces of which a sentence is dropped, one question after another without the
    table."""
    protocol = api.parse({"k": 1})
    result: dict[str, int] = {}
    for one in cohort.instructions:
        record = cohort.records[one.record_id]
        kept_ids = model.kept_ids(api.select(cohort, record, one, arm, protocol))
        pieces = model.evidence_pieces(record, cohort.gold[one.id], protocol)
        result[one.id] = sum(not piece.ids <= kept_ids for piece in pieces)
    return result


@pytest.mark.parametrize("arm", ["bm25", "recency"])
def test_the_table_counts_what_each_selection_drops(cohort: api.Cohort, arm: str):
    table = dropped.DroppedEvidence(arm, api.parse({"k": 1}))
    assert table.seen(cohort) == 0 and not table.complete(cohort)
    table.look(cohort, wait_s=60)
    assert table.complete(cohort) and table.unknown(cohort) == 0
    expected = counted(cohort, arm)
    assert {one.id: table.number(cohort, one) for one in cohort.instructions} == expected
    assert {one.id for one in table.questions(cohort)} == {id for id, n in expected.items() if n}
    assert table.questions(cohort)


def test_a_patient_is_looked_at_first_and_a_question_whose_evidence_is_marked_anew_again(cohort):
    table = dropped.DroppedEvidence("bm25", api.Protocol())
    first = cohort.instructions[0]
    table.look_at(cohort, first.record_id, within_s=60)
    known = {one.record_id for one in cohort.instructions if table.number(cohort, one) is not None}
    assert known == {first.record_id}
    gold = cohort.gold[first.id]
    marked = api.Gold(first.id, gold.answer, gold.snippets, (api.Span(0, 0, 1),))
    assert table.number(replace(cohort, gold={first.id: marked}), first) is None


def test_an_arm_that_cannot_select_is_unknown_not_without_dropped_evidence(cohort):
    table = dropped.DroppedEvidence("no_such_arm", api.Protocol())
    table.look(cohort, wait_s=60)
    assert table.complete(cohort) and table.questions(cohort) == []
    assert table.unknown(cohort) == len(cohort.instructions)


def test_the_filter_lists_only_questions_with_dropped_evidence_and_steps_over_them(cohort):
    table = dropped.table(api.cohort_key(cohort), "recency", api.Protocol())
    table.look(cohort, wait_s=60)
    wanted = [one.id for one in table.questions(cohort)]
    assert len(wanted) > 2
    app = page_at("patient")
    app.session_state["patient_arms"] = ["bm25", "recency"]
    app.run()
    assert not app.exception
    shown = app.selectbox(key="patient_dropped")
    assert shown.options[0] == "All questions"
    assert (
        f"Recency only dropped the evidence ({len(wanted)} of {len(cohort.gold)})" in shown.options
    )
    shown.set_value("recency").run()
    assert not app.exception
    assert app.query_params["dropped"] == "recency"
    seen = [app.session_state["patient_question"]]
    for _ in wanted[1:]:
        app.button(key="patient_question_1").click().run()
        seen.append(app.session_state["patient_question"])
    assert seen == wanted, "over all patients, in their order"
    assert f"{len(wanted)} of {len(wanted)} questions where Recency only" in plain_text(app)
    app.button(key="patient_question_1").click().run()
    assert app.session_state["patient_question"] == wanted[0], "it goes round"


def test_the_list_says_which_arm_dropped_evidence_and_controls_are_left_out(cohort):
    app = page_at("patient", patient=token("demo", cohort.instructions[0].record_id))
    app.session_state["patient_arms"] = ["bm25", "recency"]
    app.session_state["k"] = 1
    app.run()
    record = app.session_state["patient_patient"]
    expected = counted(cohort, "bm25")
    labels = app.selectbox(key="patient_question").options
    questions = [one for one in cohort.instructions if one.record_id == record]
    assert [label.startswith("Dropped by BM25 · ") for label in labels[:-1]] == [
        expected[one.id] > 0 for one in questions
    ]
    assert any(expected[one.id] for one in questions)


def test_an_arm_that_drops_nothing_says_so_and_shows_all(cohort):
    dropped.table(api.cohort_key(cohort), "oracle", api.Protocol()).look(cohort, wait_s=60)
    app = page_at("patient")
    app.session_state["patient_arms"] = ["oracle"]
    app.session_state["patient_dropped"] = "oracle"
    app.run()
    assert not app.exception
    assert "dropped no evidence in this cohort" in plain_text(app)
