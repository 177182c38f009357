"""An audit against an earlier one: what changed, and alarms that are rarely false."""

from __future__ import annotations

import json

import numpy as np
import pytest

from midchart.core import api
from midchart.core.cohorts.gold import gold_under
from midchart.core.errors import MidchartError
from midchart.core.loaders.open import open_cohort
from midchart.core.protocol import Protocol
from midchart.core.results.items import rows
from midchart.extras.audit.cards import deal_cards
from midchart.extras.audit.changes import AUDITS, alarms
from tests.extras.audit.audited_systems import Losses, outcomes, questions_of, write_log
from tests.extras.audit.watched_systems import Series, raised
from tests.support.run_helpers import finished_run, workspace_at

FEW = Losses(retrieval=0.1, middle=0.1, fillers=2)
MANY = Losses(retrieval=0.6, middle=0.7, fillers=2)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """A demo cohort, and a function that audits a system with losses, against another audit."""
    with workspace_at(tmp_path_factory.mktemp("changes")) as home:
        api.prepare_demo(patients=14, events_per_patient=40)
        path = home / "data" / "cohorts" / "demo"
        cohort = gold_under(open_cohort(str(path)), Protocol())

        def audited(
            losses: Losses, name: str, against: str = "", model: str = "", more=(), first: int = 100
        ):
            log = home / f"{name}.jsonl"
            rng = np.random.default_rng(len(name))
            asked = questions_of(cohort)[:first]
            truth = write_log(cohort, asked, losses, log, rng)
            lines = [{**json.loads(line), "model": model} for line in log.read_text().splitlines()]
            log.write_text("\n".join(map(json.dumps, [*lines, *more])))
            run = finished_run(
                {"name": name, "kind": "audit", "data": str(path), "log": str(log), "arms": [],
                 "against": against}
            )  # fmt: skip
            return run, np.mean(list(outcomes(truth, "prompt", True).values()))

        yield audited


@pytest.fixture(scope="module")
def cohort_path(first):
    return api.status(first[0])["data"]


@pytest.fixture(scope="module")
def first(demo):
    return demo(FEW, "first", model="one")


def of_prompt(run: str) -> dict:
    [row] = [
        row for row in api.report(run)["tables"]["changes"]
        if (row["step"], row["criterion"]) == ("prompt", "all pieces")
    ]  # fmt: skip
    return row


def test_a_system_that_loses_more_raises_an_alarm(demo, first):
    run, rate = demo(MANY, "worse", first[0], model="two")
    row = of_prompt(run)
    assert (row["share_before"], row["share"]) == pytest.approx((first[1], rate))
    assert row["difference"] == pytest.approx(rate - first[1])
    assert row["patient_low"] <= row["difference"] <= row["patient_high"] < 0
    assert row["in_both"] == row["patients"] == 14
    assert row["alarm"] is True and row["p_holm"] <= 0.05 / AUDITS
    [alarm] = [text for text in api.report(run)["conclusion"]["details"] if "Alarm" in text]
    assert f"{100 * first[1]:.0f} → {100 * rate:.0f} %" in alarm


def test_a_system_that_loses_as_much_raises_none(demo, first):
    run, _ = demo(FEW, "same again", first[0])
    row = of_prompt(run)
    assert row["alarm"] is False and row["patient_low"] < 0 < row["patient_high"]
    assert any("No alarm" in text for text in api.report(run)["conclusion"]["details"])


def test_without_an_earlier_audit_nothing_is_compared(demo, first):
    assert api.report(first[0])["tables"]["changes"] == []
    gone, _ = demo(FEW, "to be removed", first=3)
    run, _ = demo(FEW, "later", gone, first=3)
    assert api.report(run)["tables"]["changes"]
    api.remove_run(gone)
    report = api.report(run)
    assert report["tables"]["changes"] == []
    assert any(gone in line for line in report["warnings"])


def test_questions_that_were_cards_are_left_out(demo, first, cohort_path):
    """Cards are drawn for being uncertain: with their evidence known an audit is of harder ones."""
    record = api.open_data(cohort_path).instructions[0].record_id
    sample = {"id": "new", "patient": record, "question": "What else?", "answer": "x",
              "context": "y z"}  # fmt: skip
    unknown = demo(FEW, "unknown", more=[sample], first=3)[0]
    [card] = deal_cards(unknown, 1)
    api.mark_evidence(cohort_path, card["question"], [(0, 0, 5)])
    known, _ = demo(FEW, "known now", first[0], more=[sample], first=3)
    report = api.report(known)
    [(n, by_people)] = [
        (row["n"], row["from_reviewer"]) for row in report["tables"]["ledger"]
        if (row["step"], row["criterion"], row["band"]) == ("prompt", "all pieces", "overall")
    ]  # fmt: skip
    assert of_prompt(known)["n"] == n - 1
    assert by_people == 1, "the ledger counts it and names who marked it"
    assert any("people marked the evidence of 1 question of" in one for one in report["warnings"])
    [new] = [row for row in rows(known, "audited") if row["instruction"] == "new"]
    assert new["evidence_from"] == "reviewer"
    api.withdraw_question(cohort_path, card["question"])


def test_only_a_finished_audit_is_compared_with(demo, first):
    with pytest.raises(MidchartError, match="unknown run"):
        demo(FEW, "of nothing", "20260101-000000-abcdef")
    data = api.status(first[0])["data"]
    other = finished_run(
        {"name": "other", "kind": "selection", "data": data, "arms": ["bm25"], "limit": 1}
    )
    with pytest.raises(MidchartError, match="compared with a finished audit"):
        demo(FEW, "of another kind", other)


def test_an_alarm_takes_holm_over_the_steps_and_the_audits():
    level = 0.05 / AUDITS
    assert alarms([level / 3, level / 2, 1.0], AUDITS) == [True, True, False]
    assert alarms([level / 2, 1.0, 1.0], AUDITS) == [False, False, False]
    assert alarms([0.04], 1) == [True]


@pytest.mark.slow
@pytest.mark.parametrize("series", [Series(20, 0), Series(20, 20)], ids=str)
def test_over_50_audits_without_a_change_false_alarms_are_rare(series):
    rng = np.random.default_rng(20)
    assert sum(raised(series, AUDITS, rng) is not None for _ in range(20)) <= 2


@pytest.mark.slow
def test_a_change_is_seen_at_once_by_many_patients_or_pairs():
    rng = np.random.default_rng(21)
    for series in (Series(200, 0, 0.8, 0.6), Series(60, 60, 0.8, 0.6)):
        assert sum(raised(series, 1, rng, 6_000) is not None for _ in range(20)) >= 15, series
