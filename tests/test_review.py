"""Review: cards say nothing of their origin, verdicts are only added, agreement is counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core import api, settings
from core.errors import InputError
from tests import app_data

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A data folder with a cohort and a finished run; and the run."""
    home = tmp_path_factory.mktemp("review")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIDCHART_DATA", str(home / "data"))
        patch.setenv("MIDCHART_CACHE", str(home / "cache"))
        return home, app_data.make_run(app_data.make_cohort(home / "data"))


@pytest.fixture
def run(made, monkeypatch):
    home, run = made
    monkeypatch.setenv("MIDCHART_DATA", str(home / "data"))
    monkeypatch.setenv("MIDCHART_CACHE", str(home / "cache"))
    return run


def test_each_reviewer_has_an_order_of_their_own_and_keeps_it(run):
    orders = {
        name: [card.key for card in api.review_cards(run, name)]
        for name in ("anna", "ben", "cleo", "dora")
    }
    assert len({tuple(sorted(keys)) for keys in orders.values()}) == 1
    assert len({tuple(keys) for keys in orders.values()}) > 1
    assert [card.key for card in api.review_cards(run, "Anna ")] == orders["anna"]


def test_equal_answers_are_one_card_and_every_answer_is_on_one(run):
    cards = api.review_cards(run, "anna")
    rows = [row for row in api.rows(run, "answers") if row["status"] == "ok"]
    assert sorted(key for card in cards for key in card.answers) == sorted(r["key"] for r in rows)
    shown = [(card.instruction, card.answer) for card in cards]
    assert len(shown) == len(set(shown)) < len(rows)


def test_a_later_verdict_replaces_an_earlier_one_and_both_lines_stay(run):
    card = api.review_cards(run, "ben")[0]
    api.add_review(run, "ben", card.key, "correct", 2.5)
    api.add_review(run, "ben", card.key, "incorrect")
    assert api.review_cards(run, "ben")[0].outcome == "incorrect"
    file = settings.data_folder() / "reviews" / run / "ben.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["outcome"] for line in lines] == ["correct", "incorrect"]
    assert set(lines[0]) == {"time", "card", "outcome", "seconds"}, "no text of a record"


@pytest.mark.parametrize("name", ["", "Dr. Smith", "../up", "a" * 33, "-x"])
def test_a_name_that_could_leave_its_folder_is_refused(run, name):
    with pytest.raises(InputError, match="reviewer's code"):
        api.add_review(run, name, "c", "correct")


def test_agreement_counts_answers_and_leaves_out_who_cannot_tell(run):
    judged = {
        row["answer_key"]: row["outcome"]
        for row in api.rows(run, "verdicts")
        if row["judge"] == "exact" and row["outcome"] in ("correct", "incorrect")
    }
    cards = [c for c in api.review_cards(run, "cleo") if set(c.answers) & set(judged)]
    unsure, *sure = cards
    api.add_review(run, "cleo", unsure.key, "cannot_tell")
    for card in sure:
        said = judged[next(key for key in card.answers if key in judged)]
        api.add_review(run, "cleo", card.key, said)
    (row,) = [
        row for row in api.review_agreement(run)
        if (row["first"], row["second"]) == ("cleo", "exact")
    ]  # fmt: skip
    counted = [key for card in sure for key in card.answers if key in judged]
    assert row["n"] == len(counted) > 0
    assert row["raw"] == 1.0, "the same verdicts, and equal answers have equal verdicts"
    assert row["both_yes"] == sum(judged[key] == "correct" for key in counted)


def opened(**query: str) -> AppTest:
    app = AppTest.from_file(str(ROOT / "pages" / "review.py"), default_timeout=60)
    for name, value in query.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception, [e.value for e in app.exception]
    return app


def words(app: AppTest) -> str:
    kinds = ("title", "subheader", "markdown", "caption", "info", "error", "html")
    return "\n".join(str(getattr(e, "value", "") or "") for kind in kinds for e in app.get(kind))


def test_without_answers_it_says_where_to_begin(tmp_path, monkeypatch):
    monkeypatch.setenv("MIDCHART_DATA", str(tmp_path / "data"))
    app_data.make_cohort(tmp_path / "data")
    assert "No answers to review yet" in words(opened())


def test_a_verdict_is_kept_and_the_next_answer_comes(run):
    app = opened()
    assert not [b for b in app.button if b.key == "review_correct"], "nobody judges without a code"
    app.text_input(key="reviewer").input("dora").run()
    first = api.review_cards(run, "dora")[0]
    app.button(key="review_incorrect").click().run()
    assert api.review_cards(run, "dora")[0].outcome == "incorrect"
    second = next(c for c in api.review_cards(run, "dora") if c.outcome is None)
    assert second.key != first.key
    app.button(key="review_undo").click().run()
    app.button(key="review_correct").click().run()
    assert api.review_cards(run, "dora")[0].outcome == "correct", "gone back and changed"


def test_how_far_one_reviewer_went_back_is_nothing_to_another(run):
    for name in ("gus", "hal"):
        api.add_review(run, name, api.review_cards(run, name)[0].key, "correct")
    app = opened()
    app.text_input(key="reviewer").input("gus").run()
    app.button(key="review_undo").click().run()
    assert app.button(key="review_correct").proto.type == "primary", "back at a judged card"
    app.text_input(key="reviewer").input("hal").run()
    assert app.button(key="review_correct").proto.type == "secondary", "the next one to judge"


def test_what_is_shown_names_no_arm_reader_or_judge(run):
    app = opened()
    app.text_input(key="reviewer").input("emil").run()
    shown = "".join(e.proto.body for e in app.get("html"))
    assert "Answer to judge" in shown and "<script>" not in shown
    for name in ("bm25", "recency", "extractive", "token_overlap"):
        assert name not in shown


def test_agreement_is_shown_with_intervals_and_numbers(run):
    card = api.review_cards(run, "finn")[0]
    api.add_review(run, "finn", card.key, "correct")
    app = opened(view="Agreement")
    (chart,) = app.get("plotly_chart")
    assert chart.proto.alt
    assert {"pair", "n", "agreement", "Cohen's kappa"} <= set(app.dataframe[0].value.columns)


def test_a_bad_code_is_told_in_one_line(run):
    app = opened()
    app.text_input(key="reviewer").input("Dr. Smith").run()
    assert "reviewer's code is" in app.error[0].value
