"""A service at work while a run goes on: every item has one outcome, and a bounded number waits."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midchart.core.client.calls import map_concurrently
from midchart.core.client.streams import ServiceStream
from midchart.core.errors import DataError, MidchartError
from midchart.core.results.items import rows
from tests.support.openai_server import OpenAIFake
from tests.support.run_helpers import finished_run, spec, until


def failed(reason: str) -> str:
    return f"failed: {reason}"


def stream(work, size: int = 4) -> ServiceStream[int, str, str]:
    return ServiceStream(work, size, failed, lambda: None)


def given_to(service: ServiceStream[int, str, str], items: Iterable[int]) -> list[tuple[str, str]]:
    outcomes: list[tuple[str, str, float]] = []
    for item in items:
        outcomes += service.put(item, f"item {item}")
    return [outcome[:2] for outcome in (*outcomes, *service.finish())]


@given(n=st.integers(0, 40), workers=st.integers(1, 6), size=st.integers(1, 9))
def test_every_item_has_its_outcome(n: int, workers: int, size: int):
    def work(items: Iterable[int]) -> Iterator[tuple[int, object]]:
        return map_concurrently(items, lambda item: f"done {item}", workers, threading.Event())

    outcomes = given_to(stream(work, size), range(n))
    assert sorted(outcomes) == sorted((f"item {i}", f"done {i}") for i in range(n))


@given(n=st.integers(1, 20), before=st.integers(0, 19), fault=st.sampled_from(["ends", "error"]))
def test_what_a_service_leaves_out_fails_with_the_reason(n: int, before: int, fault: str):
    def work(items: Iterable[int]) -> Iterator[tuple[int, str]]:
        for index, item in enumerate(items):
            if index == before and fault == "error":
                raise DataError("the service", None, "went away", "start it")
            if index == before:
                return
            yield index, f"done {item}"

    outcomes = dict(given_to(stream(work, 50), range(n)))
    assert outcomes.keys() == {f"item {i}" for i in range(n)}
    expected = "went away" if fault == "error" else "without an outcome"
    for name, outcome in outcomes.items():
        assert outcome == name.replace("item", "done") or expected in outcome
    lost = [name for name, outcome in outcomes.items() if outcome.startswith("failed")]
    assert bool(lost) == (n > before)


@pytest.mark.parametrize("index", [0, 7])
def test_an_outcome_of_no_item_fails_what_is_missing(index: int):
    def work(items: Iterable[int]) -> Iterator[tuple[int, str]]:
        taken = iter(items)
        next(taken), next(taken)
        yield 0, "done 0"
        yield index, "done twice, or of no item"

    outcomes = dict(given_to(stream(work), [0, 1]))
    assert outcomes["item 0"] == "done 0" and "came twice or is none of it" in outcomes["item 1"]


def test_outcomes_come_while_items_are_made_and_no_more_than_the_size_waits():
    at_work, most = [], 0
    go = threading.Semaphore(0)

    def ask(item: int) -> str:
        at_work.append(item)
        go.acquire()
        return f"done {item}"

    def work(items: Iterable[int]) -> Iterator[tuple[int, object]]:
        return map_concurrently(items, ask, 2, threading.Event())

    service, outcomes = stream(work, 3), []
    for item in range(3):
        outcomes += service.put(item, f"item {item}")
    until(lambda: len(at_work) == 2, "two are at work, one waits")
    assert outcomes == []
    for item in range(3, 10):
        go.release()
        outcomes += service.put(item, f"item {item}")
        most = max(most, item + 1 - len(outcomes))
    assert most == 3 and len(outcomes) == 7  # each was awaited before the next item was given
    for _ in range(3):
        go.release()
    outcomes += service.finish()
    assert len(outcomes) == 10


def test_a_wait_can_be_ended():
    ended = threading.Event()

    def work(items: Iterable[int]) -> Iterator[tuple[int, str]]:
        for _ in items:
            ended.wait(30)
            yield 0, "late"

    def cancelled() -> None:
        raise MidchartError("cancelled")

    service: ServiceStream[int, str, str] = ServiceStream(work, 1, failed, cancelled)
    assert list(service.put(0, "item 0")) == []
    with pytest.raises(MidchartError, match="cancelled"):
        list(service.put(1, "item 1"))
    service.stop()
    ended.set()
    assert list(service.finish()) == []


def test_items_that_cannot_be_made_end_the_calls():
    def items() -> Iterator[int]:
        yield 1
        raise DataError("the chart", None, "cannot be read", "restore it")

    with pytest.raises(DataError):
        list(map_concurrently(items(), str, 3, threading.Event()))


def test_a_run_has_the_same_rows_by_any_number_of_calls_at_once(cohort: Path):
    contents = []
    with OpenAIFake() as server:
        server.delay_s = 0.02
        for concurrency in (1, 5):
            reader = {"name": "served", "url": f"{server.url}/v1", "model": "tiny",
                      "concurrency": concurrency}  # fmt: skip
            judge = {"name": "served", "url": f"{server.url}/v1", "model": "tiny"}
            run = finished_run(spec(cohort, readers=[reader], judges=["token_overlap", judge]))
            read = {(r["label"], r["instruction"], r["answer"]) for r in rows(run, "answers")}
            judged = sorted(
                (r["label"], r["instruction"], r["judge"].split(" ")[0], r["outcome"])
                for r in rows(run, "verdicts")
            )
            assert len(read) == len(rows(run, "answers"))
            contents.append((read, judged))
        assert server.busiest > 1
    assert contents[0] == contents[1]
