"""Readers and judges that take batches: no item lost or duplicated, patients together."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from midchart.core.arms.hits import Question
from midchart.core.client.streams import Stopped, outcomes
from midchart.core.errors import WorkFailed
from midchart.core.loaders.open import open_cohort
from midchart.core.results.items import rows
from midchart.core.results.report import report
from midchart.core.runs.answering import select, validated
from midchart.core.runs.plan import ArmConfig
from midchart.core.runs.process import cancel, start
from midchart.core.types import Answer, Usage, Verdict
from tests.support.run_helpers import finished_run, held, spec, until, wait_until

OWN = ("time", "seconds", "selection_seconds", "item", "key", "reader", "judge", "answer_key")


@pytest.fixture
def groups(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TEST_GROUPS", str(place / "groups"))
    (place / "groups").write_text("")
    return place / "groups"


def grouped(cohort: Path) -> dict[str, object]:
    return spec(cohort, readers=["test_group"], judges=["test_group_words"])


def contents(run: str, table: str) -> list[dict[str, object]]:
    table_rows = rows(run, table)
    assert (
        len({row["key"] for row in table_rows})
        == len({row["item"] for row in table_rows})
        == len(table_rows)
    )
    plain = [{k: v for k, v in row.items() if k not in OWN} for row in table_rows]
    return sorted(plain, key=lambda row: (str(row["label"]), str(row["instruction"])))


@pytest.fixture(scope="module")
def plain(cohort: Path) -> dict[str, list[dict[str, object]]]:
    run = finished_run(spec(cohort, judges=["test_words"]))
    return {table: contents(run, table) for table in ("answers", "verdicts")}


def test_batches_give_the_rows_of_single_calls_and_keep_patients_together(
    cohort: Path, plain, groups: Path
):
    run = finished_run(grouped(cohort))
    for table in ("answers", "verdicts"):
        assert contents(run, table) == plain[table]
    # Four arms ask four questions of each of three patients: 16 prompts a patient, groups of 10.
    read = [line.split("\t") for line in groups.read_text().splitlines()]
    assert [len(group) for group in read] == [16, 16, 16]
    overall = [r for r in report(run)["tables"]["accuracy"] if r["band"] == "overall"]
    assert {(r["reader"], r["judge"], r["n"]) for r in overall} == {
        ("test_group", "test_group_words", 12)
    }


@pytest.mark.slow
def test_a_cancel_takes_effect_within_a_batch(
    cohort: Path, groups: Path, tmp_path: Path, monkeypatch
):
    hold = held(monkeypatch, tmp_path / "hold", 3)
    run = start(grouped(cohort))
    until(lambda: rows(run, "answers"), "one is there")
    cancel(run)
    hold.unlink()
    wait_until(run, "cancelled")
    assert 0 < len(rows(run, "answers")) < 16
    assert len(groups.read_text().splitlines()) == 1


@given(
    st.lists(st.integers(0, 6), max_size=9),
    st.sampled_from([None, RuntimeError("a text of the record")]),
)
def test_every_item_of_a_batch_has_exactly_one_outcome(order, error):
    def begin(items):
        for index in order:
            yield index, f"answer {index}"
        if error is not None:
            raise error

    collected = list(outcomes(begin, range(5), {*range(5)}, lambda reason: f"failed: {reason}"))
    assert sorted(index for index, _ in collected) == [0, 1, 2, 3, 4]
    wrong = [i for i, index in enumerate(order) if index > 4 or index in order[:i]]
    good = order[: wrong[0]] if wrong else order
    for index, outcome in collected:
        assert outcome.startswith(f"answer {index}" if index in good else "failed: ")
        assert "record" not in outcome


def test_a_stopped_batch_is_not_a_failure():
    closed = []

    def begin(items):
        try:
            yield 0, "answer 0"
            raise Stopped
        finally:
            closed.append(True)

    going = outcomes(begin, range(3), {0, 1, 2}, lambda reason: f"failed: {reason}")
    assert next(going) == (0, "answer 0")
    with pytest.raises(Stopped):
        next(going)
    assert closed == [True]


def test_an_arm_stopped_during_selection_is_not_a_failure(cohort: Path):
    class Waits:
        def select(self, record, instruction, budget):
            raise Stopped

    opened = open_cohort(cohort)
    question = Question(opened.instructions[0], opened, None, {}, None)
    job = SimpleNamespace(arm=lambda entry: Waits())
    with pytest.raises(Stopped):
        select(job, ArmConfig("waits", 20, 5, None), question)


@pytest.mark.parametrize(
    ("value", "of", "field"),
    [
        (Answer("a", prompt_tokens=True), Answer, "prompt_tokens"),
        (Answer("a", output_tokens=-1), Answer, "output_tokens"),
        (Answer("a", seconds=float("nan")), Answer, "seconds"),
        (Answer("a", "lost"), Answer, "status"),
        (Answer("a", sources=(1,)), Answer, "sources"),
        (Verdict("right"), Verdict, "outcome"),
        (Verdict("correct", refusal=1), Verdict, "refusal"),
        (Usage("model", cost_usd=float("inf")), Usage, "cost_usd"),
    ],
)
def test_malformed_values_of_external_code_are_refused_by_field(value, of, field):
    with pytest.raises(
        WorkFailed, match=rf"a malformed {of.__name__.lower()}: its field '{field}'"
    ):
        validated(value, of)
    with pytest.raises(WorkFailed, match="a str instead of its"):
        validated("text", of)


def test_numbers_of_numpy_are_stored_as_plain_numbers():
    answer = validated(Answer("a", seconds=np.float32(2)), Answer)
    assert type(answer.seconds) is float and answer == Answer("a", seconds=2.0)
