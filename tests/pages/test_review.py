"""Review: cards do not reveal their origin, verdicts are append-only, agreement is counted."""

from __future__ import annotations

import csv
import io
import json
import shutil
import zipfile

import pytest

from midchart.core import api
from midchart.core import config as settings
from midchart.core.errors import InputError
from midchart.pages.ui.review.view import CODE
from tests.support.pages import (
    click,
    clickable,
    figures_of,
    frame_with,
    open_page,
    page_html,
    page_text,
    pages_opened,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def data(finished, tmp_path_factory):
    """A copy of the finished comparison's data folder, for verdicts."""
    return shutil.copytree(finished.folder / "data", tmp_path_factory.mktemp("review") / "data")


@pytest.fixture
def run(run, data, monkeypatch):
    monkeypatch.setenv("MIDCHART_DATA", str(data))
    return run


def test_a_later_verdict_replaces_an_earlier_one_and_both_lines_stay(run):
    card = api.review_cards(run, "ben")[0]
    api.add_review(run, "ben", card.key, "correct", 2.5)
    api.add_review(run, "ben", card.key, "incorrect", comment=" wrong dose ")
    (again,) = [c for c in api.review_cards(run, "ben") if c.key == card.key]
    assert (again.outcome, again.comment) == ("incorrect", "wrong dose")
    file = settings.data_folder() / "reviews" / run / "ben.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["outcome"] for line in lines] == ["correct", "incorrect"]
    fields = {"time", "card", "outcome", "reason", "comment", "seconds"}
    assert set(lines[0]) == fields, "no text of a record"


@pytest.mark.parametrize("name", ["", "Dr. Smith", "../up", "a" * 33, "-x", "consensus"])
def test_a_name_that_could_leave_its_folder_is_refused(run, name):
    with pytest.raises(InputError, match="reviewer's code"):
        api.add_review(run, name, "c", "correct")


@pytest.fixture
def alone(run, monkeypatch, tmp_path):
    """The run with verdicts of nobody but this test's reviewers."""
    target = tmp_path / "data"
    shutil.copytree(settings.data_folder(), target)
    shutil.rmtree(target / "reviews", ignore_errors=True)
    monkeypatch.setenv("MIDCHART_DATA", str(target))
    return run


def machine(run: str, judge: str = "exact") -> dict[str, str]:
    """Key of an answer → what a judge of the run said, where it scored it."""
    return {
        row["answer_key"]: row["outcome"]
        for row in api.rows(run, "verdicts")
        if row["judge"] == judge and row["outcome"] in ("correct", "incorrect")
    }


def test_agreement_counts_cards_and_not_the_arms_that_gave_the_words(alone):
    judged = machine(alone)
    cards = [c for c in api.review_cards(alone, "cleo") if set(c.answers) & set(judged)]
    unsure, *sure = sorted(cards, key=lambda c: len(c.answers))
    api.add_review(alone, "cleo", unsure.key, "cannot_judge", reason="evidence")
    for card in sure:
        outcome = judged[next(key for key in card.answers if key in judged)]
        api.add_review(alone, "cleo", card.key, outcome)
    (row,) = [
        row for row in api.review_agreement(alone)
        if (row["first"], row["second"]) == ("review:cleo", "exact")
    ]  # fmt: skip
    copies = sum(len(card.answers) for card in sure)
    assert row["n"] == len(sure) < copies == row["answers"], "four arms, one card"
    assert row["raw"] == 1.0 and row["both_yes"] + row["neither"] == len(sure)
    patients = {row["key"]: row["record"] for row in api.rows(alone, "answers")}
    assert row["patients"] == len({patients[card.answers[0]] for card in sure})


def reviewed(run: str) -> api.Card:
    """A card of the run, judged by two reviewers, one of whom changed a verdict."""
    card = api.review_cards(run, "cleo")[0]
    api.add_review(run, "cleo", card.key, "correct", 2.0, comment="=1+1 private words")
    api.add_review(run, "cleo", card.key, "incorrect", 1.0)
    api.add_review(run, "dan", card.key, "correct")
    return card


@pytest.mark.parametrize("with_text", [True, False])
def test_verdicts_leave_with_an_export_and_are_imported(alone, monkeypatch, tmp_path, with_text):
    card = reviewed(alone)
    before = api.report(alone)["tables"]
    assert [row["counts"] for row in before["review_verdicts"]] == [False, True, True]
    out = tmp_path / "run.zip"
    tag = (api.status(alone)["data"], "external_services_allowed")
    api.set_data_use(*tag, True, "the tests' own cohort")
    try:
        api.export_run(alone, out, with_text=with_text)
    finally:
        api.set_data_use(*tag, False, "as it was")
    with zipfile.ZipFile(out) as file:
        words = [name for name in file.namelist() if not name.endswith(".parquet")]
        held = {name: file.read(name).decode() for name in words}
    lines = [json.loads(line) for line in held["reviews/cleo.jsonl"].splitlines()]
    assert [line["outcome"] for line in lines] == ["correct", "incorrect"]
    assert [bool(line["comment"]) for line in lines] == [with_text, False]
    written = list(csv.DictReader(io.StringIO(held["tables/review_verdicts.csv"])))
    assert [row["reviewer"] for row in written] == ["cleo", "cleo", "dan"]
    assert card.key in held["report.html"] and "review verdicts" in held["report.html"]
    assert "private" not in held["tables/review_verdicts.csv"] + held["report.html"]
    monkeypatch.setenv("MIDCHART_DATA", str(tmp_path / "there"))
    brought = api.import_run(out)
    assert sorted(brought["reviews"]) == ["cleo", "dan"]
    assert api.reviewers(alone) == ["cleo", "dan"]
    there = api.report(alone)
    if with_text:
        assert there["tables"] == before
        api.add_review(alone, "cleo", card.key, "correct")
        return
    assert api.review_cards(alone, "cleo") == []
    assert any("cleo, dan reviewed this run" in line for line in there["warnings"])


def test_it_opens_on_a_card_and_lists_needle_answers_on_which_judges_differ(home, monkeypatch):
    api.prepare_demo()
    api.open_examples()
    app = open_page("review")
    assert "Answer to judge" in page_html(app)
    run = next(run for run in api.status(None) if run["run"] in app.query_params["run"])
    first = api.review_cards(run["run"], CODE)[0]
    app.button(key="review_correct").click().run()
    assert card_of(run["run"], CODE, first.key).outcome == "correct"
    cards = len(api.review_cards(run["run"], CODE))
    assert f"1 of {cards} distinct answers judged" in page_text(app), "the next one follows"
    needles = next(run["run"] for run in api.status(None) if run["kind"] == "needles")
    for card in api.review_cards(needles, "eve"):
        api.add_review(needles, "eve", card.key, "incorrect")
    clickable(monkeypatch)
    opened = pages_opened(monkeypatch)
    app = click(open_page("review", run=needles, view="Agreement"), "review-agreement", 0, "pair")
    assert opened == [("curve", {"run": needles})]
    curve = open_page("curve", run=needles)
    cell = curve.session_state["needle_cell"] = app.session_state["needle_cell"]
    items = api.needle_items(needles, judge=cell["otherwise"])
    right = [row["outcome"] for row in items].count("correct")
    assert right and len(frame_with(curve.run(), "fact")) == right


def card_of(run: str, name: str, key: str) -> api.Card:
    (card_found,) = [card for card in api.review_cards(run, name) if card.key == key]
    return card_found


def test_a_verdict_is_kept_and_the_next_answer_comes(run):
    app = open_page("review")
    app.text_input(key="reviewer").input("").run()
    assert not [b for b in app.button if b.key == "review_correct"], "nobody judges without a code"
    app.text_input(key="reviewer").input("dora").run()
    first = api.review_cards(run, "dora")[0]
    app.text_area(key=f"review_comment_dora_{first.key}").input("the dose is missing")
    app.button(key="review_incorrect").click().run()
    assert card_of(run, "dora", first.key).comment == "the dose is missing"
    second = next(c for c in api.review_cards(run, "dora") if c.outcome is None)
    assert second.key != first.key
    app.button(key="review_reason_evidence").click().run()
    assert card_of(run, "dora", second.key).reason == "evidence"
    app.button(key="review_undo").click().run()
    app.button(key="review_correct").click().run()
    assert card_of(run, "dora", second.key).outcome == "correct", "gone back and changed"
    assert card_of(run, "dora", second.key).reason == ""


def test_what_is_shown_names_no_arm_reader_or_judge(run):
    app = open_page("review")
    app.text_input(key="reviewer").input("emil").run()
    shown = "".join(e.proto.body for e in app.get("html"))
    assert "Answer to judge" in shown and "<script>" not in shown
    for name in ("bm25", "recency", "extractive", "token_overlap"):
        assert name not in shown


def test_a_pair_of_the_agreement_opens_the_answers_on_which_the_two_differ(alone, monkeypatch):
    for card in api.review_cards(alone, "eve"):
        api.add_review(alone, "eve", card.key, "incorrect")
    clickable(monkeypatch)
    opened = pages_opened(monkeypatch)
    app = open_page("review", run=alone, view="Agreement")
    assert all(figure.alt for figure in figures_of(app))
    assert {"judge", "cards"} <= set(frame_with(app, "answers with this text").columns)
    assert {"n", "agreement", "patients"} <= set(app.dataframe[0].value.columns)
    pairs = list(app.dataframe[0].value["pair"])
    click(app, "review-agreement", next(i for i, p in enumerate(pairs) if "eve and" in p), "pair")
    ((page, address),) = opened
    assert page == "arms" and address["judge"] == "review:eve"
    arms = open_page("arms", **address)
    judge = address["q_otherwise"]
    expected = {
        row["instruction"]
        for row in api.outcomes(alone, "extractive", judge)
        if row["outcome"] == "correct"
    }
    assert expected and len(frame_with(arms, "question")) == len(expected)
