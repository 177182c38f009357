"""Cards of an audit: dealt with recorded probabilities, marked, and the rates that they correct."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest

from midchart.core import api
from midchart.core.cli import main
from midchart.core.cohorts.gold import gold_under
from midchart.core.cohorts.kept_questions import QUESTIONS_FILE
from midchart.core.errors import MidchartError
from midchart.core.loaders.open import open_cohort
from midchart.core.protocol import Protocol
from midchart.core.results.items import rows
from midchart.core.results.reviews import review_mark
from midchart.core.storage.jsonl import read_lines
from midchart.extras.audit.cards import audit_cards, deal_cards, dealt_file, mark_cards
from tests.extras.audit.audited_systems import Losses, outcomes, questions_of, write_log
from tests.support.run_helpers import finished_run, workspace_at

LOSSES = Losses(retrieval=0.4, middle=0.4, fillers=6)


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """An audit of questions that the cohort does not know, with whether all evidence was in the
    prompt, by sample; and the cohort's gold by sample."""
    with workspace_at(tmp_path_factory.mktemp("cards")) as home:
        api.prepare_demo(patients=8, events_per_patient=40)
        path = home / "data" / "cohorts" / "demo"
        cohort = gold_under(open_cohort(str(path)), Protocol())
        log = home / "answers.jsonl"
        asked = questions_of(cohort)
        truth = write_log(cohort, asked, LOSSES, log, np.random.default_rng(1))
        reworded = [
            {**line, "question": f"Please say: {line['question']}"}
            for line in map(json.loads, log.read_text().splitlines())
        ]
        log.write_text("\n".join(map(json.dumps, reworded)))
        run = finished_run(
            {"name": "unknown", "kind": "audit", "data": str(path), "log": str(log),
             "judges": ["exact_else_overlap"], "arms": ["bm25"], "readers": ["extractive"]}
        )  # fmt: skip
        yield run, path, outcomes(truth, "prompt", True), cohort


@pytest.fixture(autouse=True)
def as_dealt(audited):
    """Each test begins without cards."""
    run, path, *_ = audited
    dealt_file(run).unlink(missing_ok=True)
    (path / QUESTIONS_FILE).unlink(missing_ok=True)


def mark(audited, cards, undocumented=()) -> None:
    """Mark the evidence of cards as the cohort's gold has it; of some, that there is none."""
    run, path, _, cohort = audited
    samples = {line["question"]: line["instruction"] for line in read_lines(dealt_file(run))}
    for card in cards:
        gold = cohort.gold[samples[card["question"]]]
        if card["question"] in undocumented:
            api.answer_question(path, card["question"], "", documented=False)
        else:
            api.mark_evidence(path, card["question"], gold.spans)
            api.answer_question(path, card["question"], gold.answer)


def in_prompt(run: str) -> dict:
    [row] = [
        row for row in api.report(run)["tables"]["corrected"]
        if (row["step"], row["criterion"]) == ("prompt", "all pieces")
    ]  # fmt: skip
    return row


def test_the_second_reading_predicts_where_no_evidence_is_known(audited):
    run, *_ = audited
    systems = [row for row in rows(run, "audited") if row["role"] == "system"]
    assert all(row["evidence_pieces"] is None for row in systems)
    predicted = {row["prompt_predicted"] for row in systems if row["documented_predicted"]}
    assert predicted == {True, False}
    judged = {row["judged_predicted"] for row in systems}
    assert {"correct", "incorrect"} <= judged


def test_cards_are_blind_and_continue_where_the_last_deal_ended(audited):
    run, _, truth, _ = audited
    first = deal_cards(run, 4, "clinician-1")
    assert [card["state"] for card in first] == ["open"] * 4
    assert first[0].keys() == {"question", "record", "text", "state", "counts"}
    both = deal_cards(run, 3)
    assert both[:4] == first and len({card["question"] for card in both}) == 7
    once = [card["text"] for card in both]
    dealt_file(run).unlink()
    assert [card["text"] for card in deal_cards(run, 7)] == once, "the draw is seeded"
    assert len(deal_cards(run, 1000)) == len(truth)


def test_a_report_has_no_corrected_rate_before_a_card_is_marked(audited):
    run, *_ = audited
    before = review_mark(run)
    cards = deal_cards(run, 3)
    assert api.report(run)["tables"]["corrected"] == []
    dealt = review_mark(run)
    mark(audited, cards[:1])
    assert len({before, dealt, review_mark(run)}) == 3, "pages read the report again"


def test_with_every_card_marked_the_corrected_rates_are_the_true_ones(audited):
    run, _, truth, _ = audited
    mark(audited, deal_cards(run, 1000))
    row = in_prompt(run)
    assert row["share"] == pytest.approx(np.mean(list(truth.values())))
    assert (row["n"], row["cards"], row["known"]) == (len(truth), len(truth), 0)
    assert row["share_width_after_ten"] is row["cards_to_halve"] is None
    read = [r for r in api.report(run)["tables"]["corrected"] if r["step"] == "read"]
    # The simulated system answers rightly where its prompt has all of the evidence.
    assert read[0]["share"] == pytest.approx(row["share"], abs=0.05)


def test_a_few_cards_correct_the_machine_and_the_interval_holds_the_truth(audited):
    run, _, truth, _ = audited
    mark(audited, deal_cards(run, 14))
    row, rate = in_prompt(run), np.mean(list(truth.values()))
    assert row["cards"] == 14
    assert row["patient_low"] <= rate <= row["patient_high"]
    assert row["share_width_after_ten"] < row["share_width"]
    conclusion = api.report(run)["conclusion"]["headline"]
    assert "by 14 cards and the machine" in conclusion
    assert f"[{100 * row['patient_low']:.0f}, {100 * row['patient_high']:.0f}]" in conclusion
    assert "with ten more cards" in conclusion


def test_marks_after_an_open_card_wait_for_it(audited):
    run, *_ = audited
    cards = deal_cards(run, 5)
    mark(audited, [*cards[:2], *cards[3:]])
    assert [card["counts"] for card in audit_cards(run)] == [True, True, False, False, False]
    assert in_prompt(run)["cards"] == 2


def test_a_withdrawn_card_neither_counts_nor_holds_up_others(audited):
    run, path, *_ = audited
    cards = deal_cards(run, 1000)
    api.withdraw_question(path, cards[1]["question"])
    mark(audited, [cards[0], *cards[2:]])
    assert audit_cards(run)[1]["state"] == "withdrawn"
    row = in_prompt(run)
    assert row["cards"] == row["n"] == len(cards) - 1


def test_what_the_chart_does_not_document_does_not_count(audited):
    run, _, truth, _ = audited
    cards = deal_cards(run, 1000)
    mark(audited, cards, undocumented={card["question"] for card in cards[:3]})
    row = in_prompt(run)
    samples = [line["instruction"] for line in read_lines(dealt_file(run))]
    assert row["not_documented"] == 3
    assert row["share"] == pytest.approx(np.mean([truth[id] for id in samples[3:]]))


def test_a_table_of_marks_is_written_as_a_whole_or_not_at_all(audited):
    run, _, _, cohort = audited
    first, second = deal_cards(run, 2)
    samples = {line["question"]: line["instruction"] for line in read_lines(dealt_file(run))}

    def table(*lines: tuple[str, str]) -> str:
        text = io.StringIO()
        csv.writer(text).writerows([("question", "evidence"), *lines])
        return text.getvalue()

    evidence = "|||".join(cohort.gold[samples[first["question"]]].snippets)
    wrong = table((first["question"], evidence), (second["question"], "zyzzyva quark flim"))
    with pytest.raises(MidchartError, match="row 3 of the marks: 1 of 1 pieces"):
        mark_cards(run, wrong)
    assert [card["state"] for card in audit_cards(run)] == ["open", "open"]
    right = table((first["question"], evidence), (second["question"], ""))
    states = [card["state"] for card in mark_cards(run, right, "clinician-1")]
    assert states == ["marked", "not documented"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda run: deal_cards(run, 0), "1 to 1,000 cards"),
        (lambda run: mark_cards(run, "a,b\n1,2\n"), "columns question and evidence"),
        (
            lambda run: mark_cards(
                run, f"question,evidence\n{deal_cards(run, 1)[0]['question']}\n"
            ),
            "row 2 of the marks has no cell",
        ),
        (lambda run: mark_cards(run, "question,evidence\nown-1,\n"), "card of the run"),
    ],
)
def test_what_cards_refuse(audited, call, message):
    with pytest.raises(MidchartError, match=message):
        call(audited[0])


def test_the_command_deals_and_shows(audited, capsys):
    run, *_ = audited
    assert main(["cards", run, "--deal", "3", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert len(shown["cards"]) == 3 and shown["corrected"] == []
    assert main(["cards", run, "--marks", "nowhere.csv"]) == 2
    assert "nowhere.csv: cannot be read" in capsys.readouterr().err
