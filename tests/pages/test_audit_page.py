"""Page Results of an audit: what was lost, and the questions to look at first."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from midchart.core import api
from midchart.core.cohorts.gold import gold_under
from midchart.core.loaders.open import open_cohort
from midchart.core.protocol import Protocol
from midchart.pages.ui.patient import audited as audit_marks
from midchart.pages.ui.shared.pickers import token
from tests.simulations.audited_systems import Losses, questions_of, write_log
from tests.support.pages import frame_with, open_page, page_text
from tests.support.run_helpers import finished_run


def test_the_page_of_an_audit_has_its_conclusion_its_ledger_and_the_worst_questions(run, tmp_path):
    data = api.status(run)["data"]
    cohort = gold_under(open_cohort(data), Protocol())
    log = tmp_path / "answers.jsonl"
    lost = Losses(retrieval=1.0, middle=1.0)
    truth = write_log(cohort, questions_of(cohort), lost, log, np.random.default_rng(0))
    audited = finished_run(
        {"name": "audited", "kind": "audit", "data": data, "log": str(log), "arms": ["bm25"],
         "judges": ["exact_else_overlap"]}
    )  # fmt: skip
    try:
        n = len(truth.parts)
        page = open_page("results", run=audited)
        assert f"between “in the chart” and “retrieved” ({n})" in page_text(page)
        ledger = frame_with(page, "lost")
        assert list(ledger["lost"])[1] == n
        worst = frame_with(open_page("results", run=audited, view="worst"), "lost at")
        assert set(worst["lost at"]) == {"retrieved"} and len(worst) == n
        # The chart of one of them, with the marks of the system.
        row = api.report(audited)["tables"]["worst"][0]
        name = Path(data).name
        asked = {
            "patient": token(name, row["record"]),
            "question": token(name, row["own_question"]),
        }
        sample = audit_marks.address(audited, row["instruction"])
        chart = page_text(open_page("patient", cohort=name, **asked, **sample))
        assert "What else was in the system's prompt?" in chart
        assert row["instruction"] not in str(sample), "an address has no identifier of a log"
        alone = page_text(open_page("patient", cohort=name, **asked))
        assert "What else was in the system's prompt?" not in alone
    finally:
        api.remove_run(audited)


def test_page_review_deals_blinded_cards_of_an_audit_and_says_what_they_say(run, tmp_path):
    data = api.status(run)["data"]
    cohort = gold_under(open_cohort(data), Protocol())
    log, asked = tmp_path / "answers.jsonl", questions_of(cohort)
    write_log(cohort, asked, Losses(retrieval=0.5, middle=0.5), log, np.random.default_rng(0))
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        line["question"] = f"Please say {line['question']}"
        line["answer"] = "The answer of the audited system."
    log.write_text("\n".join(map(json.dumps, lines)))
    audited = finished_run(
        {"name": "audited", "kind": "audit", "data": data, "log": str(log), "arms": ["bm25"],
         "judges": ["exact_else_overlap"]}
    )  # fmt: skip
    try:
        page = open_page("review", run=audited)
        assert "0 of 0 cards marked" in page_text(page)
        page.button(key="card_deal").click().run()
        assert not page.exception
        cards = api.audit_cards(audited)
        dealt = min(10, len(lines))
        assert f"0 of {dealt} cards marked" in page_text(page)
        assert cards[0]["text"] in page_text(page)
        assert "answer of the audited system" not in page_text(page), "cards are blind"
        gold = {(q.record_id, f"Please say {q.question}"): cohort.gold[q.id] for q in asked}
        for card in cards:
            api.mark_evidence(data, card["question"], gold[card["record"], card["text"]].spans)
        page = open_page("review", run=audited)
        assert f"{dealt} of {dealt} cards marked" in page_text(page)
        assert f"by {dealt} card{'s' * (dealt > 1)} and the machine" in page_text(page)
        corrected = frame_with(open_page("results", run=audited, view="corrected"), "cards")
        assert set(corrected["cards"]) == {dealt}
    finally:
        for card in api.audit_cards(audited):
            api.withdraw_question(data, card["question"])
        api.remove_run(audited)
