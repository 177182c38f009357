"""Runs of order and filler: known sensitivities are recovered, filler is what it says it is."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from midchart.core.errors import InputError
from midchart.core.loaders.open import open_cohort
from midchart.core.protocol import Protocol
from midchart.core.results.items import rows
from midchart.core.results.report import report
from midchart.core.runs.directory import make_run
from midchart.core.runs.estimate import estimate
from midchart.core.runs.planner import plan
from midchart.core.runs.process import status
from midchart.core.runs.spec import read_spec
from midchart.core.text import content_words, count_tokens, event_text, words
from midchart.core.text.prompt import LINE_DATE
from midchart.core.types import Answer, Instruction, Kept, Sentence, Span
from midchart.extras.audit.order_and_filler.conditions import (
    ORDERS,
    Arrangement,
    ordered,
    spread,
    varied_cohort,
)
from midchart.extras.audit.order_and_filler.experiment import same_answer
from midchart.extras.audit.order_and_filler.filler import FILLERS, LEAST
from tests.extras.audit.order_and_filler import System, coverage
from tests.support import order_members
from tests.support.run_helpers import (
    contents,
    continue_run,
    finished_run,
    members_place,
    read_questions,
    write_cohort,
    write_questions,
)

TABLES = ("answers", "verdicts", "comparisons")
FILLER_TOKENS = 200


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    with members_place(tmp_path_factory.mktemp("order"), order_members) as folder:
        yield folder


def cohort_at(folder: Path, records: int) -> Path:
    """Records of some length, with two questions each."""
    write_cohort(folder, records, events=28)
    lines = [
        f'<entry timestamp="2020-{month:02d}-{day:02d} 08:00"><event type="measurement" '
        f'code="L/1" name="{name}">{90 + day}</event></entry>'
        for month, name in ((2, "Serum potassium"), (3, "Dose of radiation"))
        for day in range(1, 26)
    ]
    for file in (folder / "ehrs").iterdir():
        text = file.read_text().replace("</events>", "".join(lines) + "</events>")
        file.write_text(text)
    write_questions(
        folder, [row for row in read_questions(folder) if row["instruction_id"][-1] in "12"]
    )
    return folder


@pytest.fixture(scope="module")
def cohort(place: Path) -> Path:
    return cohort_at(place / "data" / "cohorts" / "tiny", records=6)


def spec(cohort: Path, **changes: object) -> dict[str, object]:
    return {
        "name": "order and filler",
        "kind": "order_and_filler",
        "data": str(cohort),
        "readers": ["test_first_line", "test_by_words", "test_counts", "test_noisy"],
        "judges": ["exact"],
        "filler_tokens": [FILLER_TOKENS],
        "protocol": {"resamples": 300},
        "seed": 7,
        **changes,
    }


@pytest.fixture(scope="module")
def run(cohort: Path) -> str:
    return finished_run(spec(cohort))


finished_report = cache(report)
"""The report of a finished run, which does not change."""


def table(run: str, name: str, **wanted: object) -> list[dict[str, object]]:
    listed = finished_report(run)["tables"][name]
    return [row for row in listed if all(row[key] == value for key, value in wanted.items())]


def one(run: str, name: str, **wanted: object) -> dict[str, object]:
    (row,) = table(run, name, **wanted)
    return row


def lines_of(prompt: str) -> list[str]:
    context = prompt.partition("PATIENT RECORD:\n")[2].partition("\n\nQUESTION: ")[0]
    return context.split("\n")


def by_condition(run: str, reader: str) -> dict[tuple[str, str, int], dict[str, object]]:
    """Answers of a reader by question, condition and draw."""
    return {
        (row["own_question"], row["condition"], row["draw"]): row
        for row in rows(run, "answers")
        if row["reader"] == reader
    }


def test_items_are_counted_before_it_starts(cohort: Path, run: str):
    conditions = 1 + 5 + 3 * 2
    answers = 6 * 2 * (1 + conditions) * 4
    comparisons = 6 * 2 * conditions * 4
    forecast = estimate(spec(cohort))
    assert forecast["items"] == 2 * answers + comparisons
    now = status(run)
    assert (now["planned"], now["done"], now["failed"]) == (forecast["items"], now["planned"], 0)
    assert forecast["records"] == 6  # lines of all patients may be in a prompt
    longer = estimate(spec(cohort, filler_tokens=[FILLER_TOKENS + 100]))
    assert longer["tokens"] - forecast["tokens"] == 100 * 6 * 2 * 6 * 4
    few = estimate(spec(cohort, first_questions=2, fillers=["same_patient"], repeats=3))
    assert few["records"] == 1 and few["instructions"] == 2 * (1 + (1 + 5 + 2) * 3)


def test_a_reader_without_regard_to_order_changes_under_no_order(run: str):
    order = one(run, "factors", reader="test_by_words", factor="any order")
    again = one(run, "factors", reader="test_by_words", factor="same prompt again")
    assert order["share"] == again["share"] == order["difference"] == 0 and order["n"] == 60
    assert order["p_holm"] == 1
    shown = finished_report(run)["conclusion"]
    assert "the same prompt again none of 12" in shown["headline"]
    assert "order is more than noise" in shown["headline"]  # of the first reader
    assert any("shows no noise" in text for text in shown["details"])


def test_a_reader_of_the_first_line_changes_where_that_line_does(run: str):
    answers = by_condition(run, "test_first_line")
    for order in ("reversed", "shuffled", "evidence first"):
        pairs = [
            (lines_of(row["prompt"])[0], lines_of(answers[question, "base", 0]["prompt"])[0])
            for (question, condition, _), row in answers.items()
            if condition == order and row["prompt"] != answers[question, "base", 0]["prompt"]
        ]
        row = one(run, "changes", reader="test_first_line", condition=order)
        assert row["n"] == len(pairs)
        assert row["changed"] == sum(first[13:] != base[13:] for first, base in pairs)
    reversed_row = one(run, "changes", reader="test_first_line", condition="reversed")
    assert reversed_row["share"] == 1 and reversed_row["p"] < 0.1
    low, high = reversed_row["patient_low"], reversed_row["patient_high"]
    assert low <= reversed_row["difference"] == 1 <= high


def test_a_reader_misled_by_the_questions_words_changes_where_filler_repeats_them(run: str):
    of_words = "question's words"
    avoided = one(run, "factors", reader="test_counts", factor=of_words, level="avoided")
    assert avoided["share"] == 0 == avoided["question_words"]
    repeated = one(
        run, "changes", reader="test_counts",
        condition=f"neutral, {FILLER_TOKENS} tokens, words repeated",
    )  # fmt: skip
    assert repeated["share"] == 1 and repeated["question_words"] > 0
    pair = one(run, "levels", reader="test_counts", factor=of_words)
    assert (pair["first"], pair["second"]) == ("avoided", "repeated")
    assert pair["difference"] < 0 and pair["patient_high"] < 0


def test_noise_is_measured_and_no_order_is_said_to_be_more(run: str):
    expected = 1 - (1 - order_members.OTHER_ANSWER) ** 2
    again = one(run, "changes", reader="test_noisy", condition="same prompt again")
    assert again["share_patient_low"] < expected < again["share_patient_high"]
    order = one(run, "factors", reader="test_noisy", factor="any order")
    assert order["patient_low"] < 0 < order["patient_high"] and order["p_holm"] > 0.05
    assert abs(order["noise_share"] - again["share"]) < 1e-9


def test_orders_have_the_lines_of_the_base_and_filler_adds_to_them(run: str):
    answers = by_condition(run, "test_by_words")
    for (question, _, _), row in answers.items():
        base, lines = (
            lines_of(one["prompt"]) for one in (answers[question, "base", 0], row)
        )  # fmt: skip
        if row["factor"] == "filler":
            assert [line for line in lines if line in set(base)] == base
            assert LEAST * FILLER_TOKENS <= row["added_tokens"] <= FILLER_TOKENS
            tokens = sum(map(count_tokens, lines)) - sum(map(count_tokens, base))
            assert tokens == row["added_tokens"]
        else:
            assert sorted(lines) == sorted(base) and row["added_tokens"] == 0
        assert row["prompt"].count("QUESTION: ") == 1
    shuffled = {
        answers[question, "shuffled", draw]["prompt"]
        for question, condition, draw in answers
        if condition == "shuffled"
    }
    assert len(shuffled) == 6 * 2


def test_filler_holds_no_evidence_no_answer_and_only_lines_of_its_kind(cohort: Path, run: str):
    texts = {
        id: {event_text(event) for event in record.events}
        for id, record in open_cohort(str(cohort)).records.items()
    }
    golds = open_cohort(str(cohort)).gold
    questions = {one.id: one for one in open_cohort(str(cohort)).instructions}
    answers = by_condition(run, "test_by_words")
    seen = set()
    for (question, _, _), row in answers.items():
        if row["factor"] != "filler":
            continue
        base = set(lines_of(answers[question, "base", 0]["prompt"]))
        added = [line for line in lines_of(row["prompt"]) if line not in base]
        seen.add(row["level"])
        asked = content_words(questions[question].question)
        for line in added:
            text = line.partition("] ")[2]
            assert golds[question].snippets[0] not in text
            assert " ".join(words(golds[question].answer)) not in " ".join(words(text))
            if row["words"] == "avoided":
                assert not asked & set(words(text))
            elif row["level"] == "neutral":
                assert asked & set(words(text))
            inside = [id for id, of in texts.items() if text in of]
            if row["level"] == "neutral":
                assert not inside
            elif row["level"] == "same_patient":
                assert row["record"] in inside
            else:
                assert set(inside) - {row["record"]}
    assert seen == {"same_patient", "other_patients", "neutral"}


@pytest.mark.parametrize("kind", FILLERS)
def test_no_line_is_after_the_questions_date(cohort: Path, kind: str):
    source, last = open_cohort(str(cohort)), datetime(2020, 2, 20, 23)
    asked = [replace(one, cutoff=last) for one in source.instructions]
    options = {"orders": [], "fillers": [kind], "filler_tokens": [200], "words": ["repeated"]}
    protocol = Protocol(position="order")
    varied = varied_cohort(source, asked, options | {"repeats": 1}, protocol)
    arrangement = Arrangement(varied, protocol)
    shown = [Kept(replace(ENTRIES[0].sentence, id="none"), None, "arm")]
    for instruction in varied.instructions:
        question = arrangement.question(instruction)
        filler = arrangement.source.draw(question, shown, (kind, "repeated", 200), ("1",))
        assert filler.lines and max(line.time for line in filler.lines) <= last
        others = {line.id.partition(":")[0] for line in filler.lines}
        assert kind != "other_patients" or others <= set(source.records) - {instruction.record_id}


def test_a_cancelled_run_is_resumed_to_the_same_rows(cohort: Path, monkeypatch):
    table = spec(cohort, readers=["test_first_line"], first_questions=4)
    complete = contents(finished_run(table), TABLES)
    folder = make_run(plan(read_spec(table)))
    monkeypatch.setenv("TEST_CANCEL_AT", f"20:{folder.cancel}")
    assert continue_run(folder) == "cancelled"
    assert 0 < len(rows(folder.id, "answers")) < len(complete["answers"])
    monkeypatch.delenv("TEST_CANCEL_AT")
    assert continue_run(folder) == "done"
    assert contents(folder.id, TABLES) == complete


def test_what_does_not_fit_fails_by_name_without_text(cohort: Path):
    narrow = {"name": "test_first_line", "window": 700}
    run = finished_run(
        spec(cohort, readers=[narrow], orders=[], fillers=["neutral"], filler_tokens=[600])
    )
    kept_back = [row for row in rows(run, "answers") if row["status"] == "failed"]
    assert kept_back and {row["factor"] for row in kept_back} == {"filler"}
    assert all("longer than the 700 tokens" in row["reason"] for row in kept_back)
    row = one(run, "factors", factor="any filler")
    assert row["n"] == 0 and row["not_compared"] == len(kept_back)
    short = finished_run(
        spec(cohort, readers=["test_first_line"], orders=[], fillers=["same_patient"],
             filler_tokens=[5000], words=["avoided"])
    )  # fmt: skip
    reasons = {row["reason"] for row in rows(short, "answers") if row["status"] == "failed"}
    assert reasons and all("of 5000 tokens" in reason for reason in reasons)
    assert report(short)["conclusion"]["headline"] == ""


def test_evidence_that_is_not_located_is_not_moved(place: Path):
    folder = cohort_at(place / "data" / "cohorts" / "unlocated", records=2)
    asked = read_questions(folder)
    asked[0]["evidence"] = "Nothing of this kind was ever written anywhere"
    write_questions(folder, asked)
    run = finished_run(spec(folder, readers=["test_by_words"], fillers=[]))
    moved = {row["own_question"] for row in rows(run, "answers") if "evidence" in row["condition"]}
    assert len(moved) == 3
    assert any("evidence of 1 question" in text for text in report(run)["warnings"])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"limit": 5}, "first_questions"),
        ({"orders": [], "fillers": []}, "no condition"),
        ({"orders": ["sideways"]}, "reversed"),
        ({"fillers": ["poetry"]}, "neutral"),
        ({"words": []}, "'words'"),
        ({"filler_tokens": [50]}, "'filler_tokens'"),
        ({"repeats": 0}, "'repeats'"),
        ({"readers": []}, "'readers'"),
    ],
)
def test_a_wrong_spec_is_one_line(cohort: Path, change: dict[str, object], says: str):
    with pytest.raises(InputError) as error:
        read_spec(spec(cohort, **change))
    assert says in str(error.value) and "\n" not in str(error.value)


def test_a_cohort_of_one_record_has_no_other_patients(place: Path):
    folder = write_cohort(place / "data" / "cohorts" / "single", records=1)
    with pytest.raises(InputError, match="one record"):
        plan(read_spec(spec(folder)))


@pytest.mark.parametrize("system", [System(8, 0.1, 0.0), System(20, 0.1, 0.2, 3)])
def test_intervals_hold_the_true_difference_and_noise_alone_is_not_claimed(system: System):
    runs = 40
    holding, claiming, _ = coverage(system, runs, np.random.default_rng(3))
    # Below: what a coverage of 95 % has with a probability below .001.
    assert holding * runs >= binom.ppf(0.001, runs, 0.95)
    if not system.sensitivity:
        assert claiming * runs <= binom.ppf(0.999, runs, 0.05)
    else:
        assert claiming > 0.2


ENTRIES = [
    Kept(Sentence(f"e{i}", Span(i, 0, 1), datetime(2020, 1, i + 1), "note", "x", 1), None, "arm")
    for i in range(5)
]


@pytest.mark.parametrize(
    ("order", "ids"),
    [
        ("reversed", "43210"),
        ("evidence_first", "13024"),
        ("evidence_middle", "01324"),
        ("evidence_last", "02413"),
    ],
)
def test_orders_of_lines(order: str, ids: str):
    evidence = {"e1": (), "e3": ()}
    arranged = ordered(order, ENTRIES, evidence, np.random.default_rng(0))
    assert "".join(entry.sentence.id[1:] for entry in arranged) == ids
    assert order in ORDERS


def test_filler_without_dates_has_that_of_the_line_before_it():
    filler = [Sentence(f"f{i}", Span(0, 0, 1), None, "note", "y", 1) for i in range(40)]
    arranged = spread(ENTRIES, filler, np.random.default_rng(1), with_dates=True)
    assert [entry for entry in arranged if entry.kept_by == "arm"] == ENTRIES
    assert len(arranged) == 45
    time = ENTRIES[0].sentence.time
    for entry in arranged:
        time = entry.sentence.time if entry.kept_by == "arm" else time
        assert entry.sentence.time == time
    plain = spread(ENTRIES, filler, np.random.default_rng(1))
    assert {entry.sentence.time for entry in plain if entry.kept_by == "filler"} == {None}


@pytest.mark.parametrize(
    ("first", "second", "options", "same"),
    [
        ("Metoprolol 50 mg daily.", "metoprolol 50 MG daily", (), True),
        ("Metoprolol 50 mg daily", "Metoprolol 25 mg daily", (), False),
        ("50 mg", "It was 50 mg, since 2019", (), False),
        ("Yes.", "Yes, she does", (), True),
        ("Yes", "No, she does not", (), False),
        ("It is not documented in the record.", "The record does not mention it.", (), True),
        ("It is not documented in the record.", "asthma", (), False),
        ("", "", (), True),
        ("", "asthma", (), False),
        ("chronic asthma of childhood", "childhood asthma", (), True),
        ("The correct answer is A: left lung", "A", ("left lung", "right lung"), True),
        ("The correct answer is A: left lung", "B: right lung", ("left lung", "right lung"), False),
    ],
)
def test_same_answer(first: str, second: str, options: tuple[str, ...], same: bool):
    asked = Instruction("i", "p", "What is documented?", options=options)
    assert same_answer(asked, Answer(first), Answer(second)) is same
    assert same_answer(asked, Answer(second), Answer(first)) is same


def test_every_line_of_filler_begins_with_a_date(run: str):
    for row in rows(run, "answers"):
        assert all(re.match(rf"\[{LINE_DATE}\] ", line) for line in lines_of(row["prompt"]))
