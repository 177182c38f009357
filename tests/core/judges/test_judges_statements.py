"""The judge ``statements``: clinical answers by kind of claim, units, and the model of words."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from midchart.core.cli import main
from midchart.core.judges import JUDGES
from midchart.core.judges.agreement import card, kind_of, measured
from midchart.core.judges.statements import FEATURES, feature_rows, probability, same_statement
from midchart.core.judges.values import quantities, take_dates
from midchart.core.protocol import Protocol
from midchart.core.types import Answer, Gold, Instruction, Verdict

PAIRS = [
    *csv.DictReader(Path(__file__).with_name("answers.tsv").open(encoding="utf-8"), delimiter="\t")
]


def judge(question: str, reference: str, answer: str, **options: float) -> Verdict:
    built = JUDGES.build("statements", Protocol(), **options)
    return built.judge(Instruction("q", "r", question), Gold("q", reference), Answer(answer))


@pytest.mark.parametrize("row", PAIRS, ids=lambda row: f"{row['reference']}: {row['answer']}"[:60])
def test_an_answer_is_correct_where_it_states_what_the_reference_states(row):
    verdict = judge(row["question"], row["reference"], row["answer"])
    assert (verdict.outcome == "correct") == (row["expected"] == "correct"), verdict.raw


@pytest.mark.parametrize(
    ("reference", "answer", "outcome"),
    [
        ("Not documented in the record", "The record does not mention it", "correct"),
        ("Not documented in the record", "lisinopril", "incorrect"),
        ("lisinopril", "No documentation of an ACE inhibitor was found.", "incorrect"),
        ("aspirin | acetylsalicylic acid", "acetylsalicylic acid", "correct"),
        ("7.2 % | 55 mmol/mol", "7.9 %", "incorrect"),
        ("Yes", "She had an operation", "unparsed"),
    ],
)
def test_refusals_alternatives_and_what_cannot_be_said(reference, answer, outcome):
    assert judge("Which drug is taken?", reference, answer).outcome == outcome


def test_within_the_margin_the_judge_cannot_say():
    answer = ("Which organism grew?", "Staphylococcus aureus", "Staph epidermidis")
    assert judge(*answer).outcome != "unparsed"
    assert judge(*answer, margin=0.3).outcome == "unparsed"


@pytest.mark.parametrize(
    ("one", "other", "item", "same"),
    [
        ("5.6 mmol/L", "5.6 mEq/L", "potassium", True), ("5.6 mmol/L", "5.6 mEq/L", "", False),
        (".4 ng/mL", "400 pg/mL", "", True), ("7.1 g/dL", "71 g/L", "", True),
        ("37.2 °C", "99.0 °F", "", True), ("126 mg/dL", "7.0 mmol/L", "glucose", True),
        ("126 mg/dL", "7.9 mmol/L", "glucose", False), ("1 g", "1,400 mg", "", False),
        ("24 months", "2 years", "", True), ("2 weeks", "14 days", "", True),
        ("7.2 %", "55 mmol/mol", "hba1c", True), ("150,000", "150 K/uL", "", True),
        ("90 kg", "198 lb", "", True), ("90 kg", "190 lb", "", False),
        ("8.9 mg/dL", "2.2 mmol/L", "calcium", True), ("4.5 mEq/L", "9.0 mg/dL", "calcium", True),
        ("60 mL/min/1.73m2", "60 ml/min", "", True), ("72 bpm", "72/min", "", True),
    ],
)  # fmt: skip
def test_amounts_in_other_units_are_equal_both_ways(one, other, item, same):
    (first,), (second,) = quantities(one), quantities(other)
    assert first.says(second, item) is second.says(first, item) is same


@pytest.mark.parametrize(
    "text",
    ["4.3.2019", "4. März 2019", "le 04/03/2019", "4 de marzo de 2019", "03/04/2019",
     "March 4th, 2019", "2019-03-04"],
)  # fmt: skip
def test_dates_are_read_in_national_order(text):
    ((day,), _) = take_dates(text)
    assert (day.year, day.month, day.day) == (2019, 3, 4)


@limits(deadline=None, max_examples=60)
@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=40))
def test_any_texts_have_a_verdict_and_equal_answers_state_the_same(question, reference, answer):
    assert judge(question, reference, answer).outcome in (
        "correct", "incorrect", "unparsed", "failed",
    )  # fmt: skip
    word = f"lisinopril {answer}"
    assert same_statement(question, word, answer) == same_statement(question, answer, word)


def test_a_batch_judges_as_one_by_one():
    built = JUDGES.build("statements", Protocol())
    items = [
        (
            Instruction(str(i), "r", row["question"]),
            Gold(str(i), row["reference"]),
            Answer(row["answer"]),
        )
        for i, row in enumerate(PAIRS[:12])
    ]
    assert dict(built.judge_many(items)) == {i: built.judge(*item) for i, item in enumerate(items)}


def test_the_model_is_a_logistic_function_of_scaled_features():
    (row,) = feature_rows([("Which drug?", "warfarin and heparin", "She took heparin")])
    model = card()["model"]
    assert model["features"] == list(FEATURES)
    logit = model["intercept"] + sum(
        weight * (value - mean) / scale
        for weight, value, mean, scale in zip(
            model["coefficients"], row, model["mean"], model["scale"], strict=True
        )
    )
    assert probability(row) == pytest.approx(1 / (1 + np.exp(-logit)))
    assert row[FEATURES.index("overlap")] == 0.5


@pytest.mark.parametrize(
    ("reference", "kind"),
    [("7.2 %", "numbers and dates"), ("2019-03-04", "numbers and dates"), ("No.", "yes or no"),
     ("warfarin", "words")],
)  # fmt: skip
def test_kinds_of_references(reference, kind):
    assert kind_of(reference) == kind


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory) -> Path:
    """Forty answers to ten questions, of which people accept those that hold the reference."""
    lines = ["id\tquestion\treferences\tanswer\tpeople"]
    names = (
        "apixaban digoxin insulin lithium morphine naproxen quinine sertraline timolol verapamil"
    )
    for number, drug in enumerate(names.split()):
        for answer, people in (
            (drug, "correct"), (f"She takes {drug}", "correct"),
            ("aspirin", "incorrect"), ("It was some other substance", "incorrect"),
        ):  # fmt: skip
            lines.append(f"{number}\tWhich drug?\t{drug} | unnamed\t{answer}\t{people}")
    path = tmp_path_factory.mktemp("verdicts") / "verdicts.tsv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_agreement_is_measured_and_a_model_trained_by_one_command(verdicts, tmp_path, capsys):
    new = tmp_path / "card.json"
    call = ["agreement", str(verdicts), "--judge", "statements", "--judge", "token_overlap"]
    assert not main([*call, "--train", str(new), "--json"])
    document = json.loads(capsys.readouterr().out)
    assert (document["answers"], document["questions"]) == (40, 10)
    for row in document["agreement"]:
        assert (row["n"], row["agreement"], row["kappa"]) == (40, 1.0, 1.0), row
    written = json.loads(new.read_text())
    assert written["model"]["features"] == list(FEATURES)
    assert written["sha256"] == document["sha256"]
    mismatched = written["model"]["answers_to_other_questions"]
    assert mismatched["n"] == 60 and mismatched["judged_correct"] <= 0.03


def test_a_file_without_verdicts_is_refused_with_its_line(tmp_path, capsys):
    path = tmp_path / "bad.tsv"
    path.write_text("question\treferences\tanswer\tpeople\nWho?\tA\tB\tmaybe\n")
    assert main(["agreement", str(path)]) == 2
    assert "line 2" in capsys.readouterr().err


def test_the_card_has_the_agreement_of_every_rule():
    for name in ("exact", "token_overlap", "exact_else_overlap", "statements"):
        rows = {row["kind"]: row for row in measured(name)}
        assert rows["all"]["n"] == card()["answers"]
    assert card()["model"]["answers_to_other_questions"]["judged_correct"] <= 0.03
    assert measured("claude") == []
