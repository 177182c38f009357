"""Who acts: names in the audit log and in a run's folder, roles of every function, codes."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable

import pytest

from midchart.core import api
from midchart.core import config as settings
from midchart.core.egress import audit
from midchart.core.egress.owners_list import check_unlisted, read_address
from midchart.core.errors import (
    DataError,
    EgressRefused,
    NotPermitted,
)
from midchart.core.identity import (
    Person,
    account,
    acting_as,
    person,
)
from midchart.core.results.reviews import take_code
from midchart.core.runs import pool, process
from midchart.core.runs.directory import find_run
from tests.support.run_helpers import finished_run, workspace_at, write_cohort

VERA, RUTH, RUBEN, RITA, OLGA = (
    Person("vera@ward.org", "viewer"),
    Person("ruth@ward.org", "reviewer"),
    Person("ruben@ward.org", "reviewer"),
    Person("rita@ward.org", "researcher"),
    Person("olga@ward.org", "owner"),
)


@pytest.fixture(autouse=True)
def place(tmp_path):
    with workspace_at(tmp_path):
        yield tmp_path


@pytest.fixture
def spec(place):
    cohort = write_cohort(settings.cohorts_folder() / "ward")
    return {
        "kind": "answers",
        "data": str(cohort),
        "arms": ["bm25"],
        "readers": ["extractive"],
        "judges": ["exact"],
        "limit": 2,
    }


def test_the_command_line_acts_as_the_account():
    assert person() == Person(settings.user(), "owner", is_account=True)


def test_a_signed_in_person_of_the_account_s_name_is_not_the_account(spec, monkeypatch):
    namesake = Person(account().name, "owner")
    assert namesake != account() and namesake == Person(account().name, "viewer")
    run = finished_run(spec)
    people = find_run(run).people
    for acting in (namesake, account()):
        with acting_as(acting):
            find_run(run).note("resumed")
            assert find_run(run).started_by().is_account is acting.is_account
    with acting_as(account()):
        card = api.review_cards(run, "r1")[0].key
        api.add_review(run, "r1", card, "correct")
    with acting_as(namesake):
        with pytest.raises(NotPermitted, match="another person"):
            api.add_review(run, "r1", card, "incorrect")
        with pytest.raises(EgressRefused, match="with sign-in"):
            check_unlisted(read_address("http://127.0.0.1:9", "test"))
    resolved: list[Callable[[], Person]] = []
    monkeypatch.setattr(pool, "resolve", resolved.append)
    for acting in (namesake, account()):
        with acting_as(acting):
            find_run(run).note("resumed")
        pool._opened.__wrapped__(run, 1)  # as a worker opens it
        assert resolved[-1]() == acting
    people.write_text("")
    with pytest.raises(DataError, match="does not say who started the run — resume the run"):
        find_run(run).started_by()


@pytest.mark.slow
def test_the_signed_in_person_is_in_the_audit_log_and_in_the_run(spec):
    with acting_as(RITA):
        run = api.start(spec)
        api.wait(run)
        api.export_bytes(run)
    with acting_as(RUTH), pytest.raises(NotPermitted):
        api.resume(run)
    lines = [(line["event"], line["who"], line["run"]) for line in audit.lines()]
    assert lines == [("started", RITA.name, run), ("exported", RITA.name, run)]
    noted = [json.loads(line) for line in find_run(run).people.read_text().splitlines()]
    assert [(line["action"], line["who"]) for line in noted] == [
        ("started", RITA.name),
        ("exported", RITA.name),
    ]
    assert find_run(run).started_by() == Person(RITA.name, "owner")


def test_a_reviewers_code_belongs_to_the_person_who_took_it(spec):
    run = finished_run(spec)
    with acting_as(RUTH):
        card = api.review_cards(run, "r1")[0]
        api.add_review(run, "r1", card.key, "correct")
    with acting_as(RUBEN):
        with pytest.raises(NotPermitted, match="'r1' belongs to another person"):
            api.add_review(run, "r1", card.key, "incorrect")
        with pytest.raises(NotPermitted, match="'r1' belongs to another person"):
            api.review_cards(run, "r1")
        with pytest.raises(NotPermitted, match="'r1' belongs to another person"):
            api.keep_question(spec["data"], "1", "Which dose?", by="r1")
        api.add_review(run, "r2", card.key, "incorrect")
    judged = [line for line in audit.lines() if line["event"] == "judged"]
    assert [(line["who"], line["reviewer"], line["card"]) for line in judged] == [
        (RUTH.name, "r1", card.key),
        (RUBEN.name, "r2", card.key),
    ]
    assert {row["reviewer"]: row["outcome"] for row in api.review_rows(run)} == {
        "r1": "correct",
        "r2": "incorrect",
    }


def test_a_code_used_before_codes_were_registered_is_the_accounts(spec):
    run = finished_run(spec)
    card = api.review_cards(run, "r1")[0]
    api.add_review(run, "r1", card.key, "correct")
    (settings.data_folder() / "reviews" / "codes.jsonl").unlink()
    with acting_as(RUTH), pytest.raises(NotPermitted):
        api.add_review(run, "r1", card.key, "incorrect")
    api.add_review(run, "r1", card.key, "incorrect")


@pytest.mark.parametrize("lost", ["file", "line"])
@pytest.mark.parametrize("used", ["question", "answer", "question set", "verdict"])
def test_without_the_list_of_codes_a_used_code_is_nobody_else_s(spec, used, lost):
    data, codes = spec["data"], settings.data_folder() / "reviews" / "codes.jsonl"
    id = api.keep_question(data, "1", "Which dose?")
    run = finished_run(spec) if used == "verdict" else ""
    with acting_as(RUTH):
        if used == "question":
            api.withdraw_question(data, api.keep_question(data, "1", "Which drug?", "r1"), "r1")
        elif used == "answer":
            api.answer_question(data, id, "5 mg", by="r1")
        elif used == "question set":
            api.save_question_set(data, "doses", ["Which dose?"], by="r1")
        else:
            api.add_review(run, "r1", api.review_cards(run, "r1")[0].key, "correct")
    codes.unlink() if lost == "file" else codes.write_text("")
    for somebody in (RUBEN, OLGA):
        with acting_as(somebody), pytest.raises(NotPermitted, match="'r1' was used before"):
            api.answer_question(data, id, "7 mg", by="r1")
    with acting_as(RUBEN):
        api.answer_question(data, id, "7 mg", by="r2")
    assert "7 mg" not in [
        one.answer for by, one in api.own_question(data, id).annotations.items() if by != "r2"
    ]


@pytest.mark.parametrize("by", ["", "r1"])
def test_a_question_is_changed_and_withdrawn_by_its_author_or_the_account_alone(spec, by):
    data = spec["data"]
    with acting_as(RUTH):
        questions = [api.keep_question(data, "1", f"Which {one}?", by) for one in ("dose", "drug")]
        sets = [api.save_question_set(data, one, [f"{one}?"], by) for one in ("first", "second")]
    before = api.own_questions(data), api.question_sets(data)
    for other in (RUBEN, OLGA, Person(account().name, "owner")):
        with acting_as(other):
            for code in ("", "r2"):
                with pytest.raises(NotPermitted, match="its author alone"):
                    api.keep_question(data, "1", "Reworded?", code, id=questions[0])
                with pytest.raises(NotPermitted, match="its author alone"):
                    api.withdraw_question(data, questions[0], code)
                with pytest.raises(NotPermitted, match="its author alone"):
                    api.withdraw_question_set(data, sets[0], code)
    assert (api.own_questions(data), api.question_sets(data)) == before
    for number, author in enumerate((RUTH, person())):
        with acting_as(author):
            api.keep_question(data, "1", f"Reworded {number}?", id=questions[number])
            api.withdraw_question(data, questions[number])
            api.withdraw_question_set(data, sets[number])
    assert (api.own_questions(data), api.question_sets(data)) == ([], [])


def test_the_name_of_the_account_is_nobody_s_code(spec, monkeypatch):
    monkeypatch.setattr(settings, "user", lambda: "Midchart")
    with acting_as(RUBEN), pytest.raises(NotPermitted, match="belongs to another person"):
        api.keep_question(spec["data"], "1", "Which dose?", by="midchart")
    with acting_as(account()):
        id = api.keep_question(spec["data"], "1", "Which dose?", by="midchart")
    assert api.own_question(spec["data"], id).by == "midchart"


@pytest.mark.slow
def test_no_export_names_a_person(spec, place):
    with acting_as(RITA):
        run = api.start(spec)
        api.wait(run)
        api.add_review(run, "r1", api.review_cards(run, "r1")[0].key, "correct")
    api.export_run(run, place / "out")
    for file in (place / "out").rglob("*"):
        assert not file.is_file() or RITA.name.encode() not in file.read_bytes(), file


def test_an_import_names_who_brought_it(spec, place):
    run = finished_run(spec)
    api.export_run(run, place / "run.zip")
    with workspace_at(place / "other"):
        settings.received_folder().mkdir(parents=True)
        (place / "run.zip").rename(settings.received_folder() / "run.zip")
        with acting_as(RITA):
            api.import_run("run.zip")
        assert json.loads(find_run(run).imported.read_text())["by"] == RITA.name
        assert [(line["event"], line["who"]) for line in audit.lines()] == [
            ("run imported", RITA.name)
        ]


def test_an_imported_reviewer_s_code_is_not_that_of_somebody_here(spec, place):
    run = finished_run(spec)
    card = api.review_cards(run, "r1")[0].key
    for code in ("r1", "r2"):
        api.add_review(run, code, card, "incorrect")
    api.export_run(run, place / "run.zip")
    with workspace_at(place / "other"):
        settings.received_folder().mkdir(parents=True)
        (place / "run.zip").rename(settings.received_folder() / "run.zip")
        with acting_as(RUBEN):
            take_code("r1")
        with acting_as(RUTH):
            take_code("r1-2")
        with acting_as(RITA):
            take_code("r2")
            brought = api.import_run("run.zip")
        assert sorted(brought["reviews"]) == ["r1-3", "r2"]
        assert brought["reviewers_renamed"] == {"r1": "r1-3"}
        assert api.reviewers(run) == ["r1-3", "r2"]


def test_reasons_why_no_run_starts_hold_no_place_of_the_server(spec, place, monkeypatch):
    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    finished_run(spec)
    monkeypatch.setattr(process, "waiting", full)
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    with acting_as(RITA):
        reasons = [process.tick(), *api.preflight({**spec, "data": "ward"})["problems"]]
    assert [reason.split(": ")[-1] for reason in reasons] == [
        "data/runs (No space left on device)",
        "data/runs cannot be written to, which a run needs",
    ]
    assert str(place) in process.tick()
