"""Faulty judges and readers through the real engine: after each, a run's tables are right.

One run asks every faulty reader and has every faulty judge judge it, beside a sound one of each.
What a sound member would have said of each item is known, so for every fault that loses verdicts
without changing them the truth must lie within the bounds that the tables state.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from midchart.core import api
from midchart.core.results.items import rows
from midchart.core.results.report import failed_in_words, report, report_csv
from tests.support import fault_members
from tests.support.fault_members import (
    ANSWERS_KEPT,
    JUDGES_OF_BATTERY,
    READERS_OF_BATTERY,
    SOUND_JUDGE,
    SOUND_READER,
)
from tests.support.run_helpers import finished_run, spec

pytestmark = pytest.mark.slow

MEMBERS, RECORDS = fault_members, 6
ARMS, QUESTIONS = ("full", "recency"), 24
RULES = ("exact", "token_overlap")


@pytest.fixture(scope="module")
def run(cohort: Path) -> str:
    """Every reader under the sound judge, the rules and the one that says yes."""
    return finished_run(
        spec(cohort, arms=list(ARMS), protocol={"resamples": 200},
             readers=[SOUND_READER, *READERS_OF_BATTERY],
             judges=[SOUND_JUDGE, *RULES, "j_says_yes"])
    )  # fmt: skip


@pytest.fixture(scope="module")
def judged(cohort: Path) -> str:
    """Every judge on the answers of the sound reader."""
    return finished_run(
        spec(cohort, arms=list(ARMS), protocol={"resamples": 200}, readers=[SOUND_READER],
             judges=[SOUND_JUDGE, *JUDGES_OF_BATTERY])
    )  # fmt: skip


@cache
def tables_of(run: str) -> dict:
    return report(run)["tables"]


@cache
def verdicts_of(run: str) -> list[dict]:
    return rows(run, "verdicts")


def overall(run: str, **fixed: str) -> dict[str, dict]:
    """Label → its row of accuracy over all questions."""
    rows_of_run = [
        row
        for row in tables_of(run)["accuracy"]
        if row["band"] == "overall" and all(row[k] == v for k, v in fixed.items())
    ]
    assert [row["label"] for row in rows_of_run] == list(ARMS)
    return {row["label"]: row for row in rows_of_run}


def right(run: str, **fixed: str) -> dict[tuple[str, str], str]:
    """(arm, instruction) → outcome, each once."""
    verdicts = [row for row in verdicts_of(run) if all(row[k] == v for k, v in fixed.items())]
    keyed = {(row["label"], row["instruction"]): row["outcome"] for row in verdicts}
    assert len(keyed) == len(verdicts) == len(ARMS) * QUESTIONS, "each item once"
    return keyed


def check(run: str, truth: dict[tuple[str, str], str], recoverable: bool, **fixed: str) -> Counter:
    """Denominators, duplicates, what is apart and the bounds of one reader and judge."""
    outcomes = right(run, **fixed)
    counted = Counter(outcomes.values())
    for label, row in overall(run, **fixed).items():
        of_arm = Counter(outcome for (arm, _), outcome in outcomes.items() if arm == label)
        assert row["n"] == of_arm["correct"] + of_arm["incorrect"]
        assert (row["correct"], row["unparsed"], row["failed"]) == (
            of_arm["correct"], of_arm["unparsed"], of_arm["failed"],
        )  # fmt: skip
        assert row["n"] + row["unparsed"] + row["failed"] == QUESTIONS
        if row["n"]:
            assert row["bound_low"] <= row["accuracy"] <= row["bound_high"]
        width = (row["unparsed"] + row["failed"]) / QUESTIONS
        assert row["bound_high"] - row["bound_low"] == pytest.approx(width)
        if recoverable:
            share = sum(truth[label, i] == "correct" for arm, i in truth if arm == label)
            assert row["bound_low"] <= share / QUESTIONS <= row["bound_high"]
    if recoverable:
        changed = [key for key in truth if outcomes[key] not in (truth[key], "failed", "unparsed")]
        assert not changed, "no verdict is that of another item"
    return counted


@pytest.mark.parametrize("reader", READERS_OF_BATTERY)
def test_tables_are_right_under_a_faulty_reader(run: str, reader: str):
    truth = right(run, reader=SOUND_READER, judge=SOUND_JUDGE)
    counted = check(run, truth, reader in ANSWERS_KEPT, reader=reader, judge=SOUND_JUDGE)
    if reader == "r_reorders":
        assert not counted["failed"] and right(run, reader=reader, judge=SOUND_JUDGE) == truth
    elif reader in ANSWERS_KEPT:
        assert counted["failed"] > 0
    else:
        assert not counted["failed"] and not counted["unparsed"], "an answer, though a bad one"


@pytest.mark.parametrize("judge", JUDGES_OF_BATTERY)
def test_tables_are_right_under_a_faulty_judge(judged: str, judge: str):
    truth = right(judged, reader=SOUND_READER, judge=SOUND_JUDGE)
    counted = check(judged, truth, True, reader=SOUND_READER, judge=judge)
    if judge in ("j_reorders", "j_strange_text"):
        assert right(judged, reader=SOUND_READER, judge=judge) == truth
    elif judge == "j_hedges":
        assert counted["unparsed"] > 0 and not counted["failed"]
    else:
        assert counted["failed"] > 0 and not counted["unparsed"]


def test_an_empty_answer_is_not_correct_whatever_its_judge_says(run: str):
    for row in overall(run, reader="r_empty", judge="j_says_yes").values():
        assert (row["n"], row["correct"]) == (QUESTIONS, 0)
    for row in overall(run, reader="r_truncates", judge="j_says_yes").values():
        assert row["correct"] == QUESTIONS
    kinds = {row["failure_kind"] for row in rows(run, "answers") if row["reader"] == "r_empty"}
    assert kinds == {"empty"}
    hedged = {row["failure_kind"] for row in rows(run, "answers") if row["reader"] == "r_hedges"}
    assert hedged == {"hedged"}


def test_no_difference_is_claimed_that_lost_answers_could_overturn(run: str, judged: str):
    for of in (run, judged):
        tables = tables_of(of)
        for row in (*tables["paired"], *tables["readers"]):
            assert row["n"] + row["unscored"] == (QUESTIONS if row["n"] else row["unscored"])
            if row["n"]:
                assert row["bound_low"] <= row["bound_high"]
            if row["verdict"] in ("better", "worse"):
                assert row["bound_low"] > 0 or row["bound_high"] < 0
        verdicts = Counter(row["verdict"] for row in tables["paired"])
        assert verdicts["better"] + verdicts["worse"], "sound ones are claimed"


@pytest.mark.parametrize("of", ["run", "judged"])
def test_every_output_of_a_run_can_be_made(of: str, request, place: Path, run: str, judged: str):
    run_id = request.getfixturevalue(of)
    json.dumps(tables_of(run_id), allow_nan=False)
    sheets = {path.stem: path for path in report_csv(run_id, place / f"csv-{of}")}
    assert sheets.keys() == tables_of(run_id).keys() and sheets["accuracy"].stat().st_size
    text = api.export_html(run_id, place / f"{of}.html").read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert "items failed" in failed_in_words(run_id)
    assert of == "run" or api.compare_runs([run, judged])["results"]
    reasons = {r["reason"] for table in ("answers", "verdicts") for r in rows(run_id, table)}
    assert not [reason for reason in reasons if reason and "Patient" in reason], "no record text"
