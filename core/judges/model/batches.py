"""The Message Batches API: half the price, results within a day, safe against killed runs.

A batch is noted in the run's folder before it is awaited: first the intent, then its id. A resumed
run collects the noted batches before it submits another; a batch whose id was lost is searched
among the account's latest, and is this run's where its results carry the run's claim.

A request's ``custom_id`` is the hash of its prompt, its batch's claim and a count, so results are
matched by content. A result is noted as taken once its verdict is written.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from core.client.calls import Caller, CallFailed, broken_response, typed_failure
from core.errors import MidchartError
from core.judges.model.budget import JudgeBudget
from core.judges.model.claude_api import ClaudeAPI, NoText
from core.judges.model.engine import Outcome, Reply, Request
from core.storage.jsonl import add_line, read_lines


class BatchState:
    """The batches of a judge, restored from its log.

    open: batch id → its ``asked`` line, for batches not completely collected. lost: claim → its
    ``asking`` line, for intents whose batch's id is unknown. known: ids of all batches. mistaken:
    (claim, batch) that do not belong together. taken: ``custom_id`` of every result whose verdict
    is written.
    """

    def __init__(self, log: Path | None) -> None:
        self.log = log
        self.open: dict[str, dict[str, Any]] = {}
        self.lost: dict[str, dict[str, Any]] = {}
        self.known: set[str] = set()
        self.mistaken: set[tuple[str, str]] = set()
        self.taken: set[str] = set()
        self._intents: dict[str, dict[str, Any]] = {}
        for line in read_lines(log) if log is not None else ():
            self._apply(line)

    def _apply(self, line: dict[str, Any]) -> None:
        event = line.get("event")
        if event == "asking":
            self.lost[line["claim"]] = self._intents[line["claim"]] = line
        elif event == "asked":
            self.lost.pop(line["claim"], None)
            self.open[line["batch"]] = line
            self.known.add(line["batch"])
        elif event == "mistaken":
            self.open.pop(line["batch"], None)
            self.known.discard(line["batch"])
            self.mistaken.add((line["claim"], line["batch"]))
            self.lost[line["claim"]] = self._intents[line["claim"]]
        elif event == "dropped":
            self.lost.pop(line["claim"], None)
        elif event == "collected":
            self.open.pop(line["batch"], None)
        elif event == "taken":
            self.taken.add(line["id"])

    def note(self, event: str, durable: bool = False, **facts: Any) -> None:
        """Append an event to the log; ``durable``: return only once it survives a power cut.

        asking (claim, n, at): a batch of n prompts is about to be submitted. asked (claim, batch,
        n, tempered, found): it is under way, at temperature 0 if ``tempered``, matched by size and
        time alone if ``found``. mistaken (claim, batch): a batch that was found is another's.
        dropped (claim): it was never made. taken (id). collected (claim, batch).
        """
        line: dict[str, Any] = {"event": event, **facts}
        if self.log is not None:
            add_line(self.log, line, durable)
        self._apply(line)

    def claims(self) -> set[str]:
        """Reservations of everything under way."""
        return {line["claim"] for line in (*self.open.values(), *self.lost.values())}


MOST_BYTES = 100_000_000
"""Largest size of a batch's requests; the API takes 256 MB."""
SKEW = timedelta(minutes=10)
"""Largest difference between this machine's clock and the API's."""
FIRST_POLL_S = 1.0
Wanted = dict[str, deque[int]]
"""Prompt hash → indices of the requests that wait for its result."""


class Batches:
    """Batches of one judge of one run.

    ``log``: where they are noted (None: no log). ``watch`` takes a batch's state in words and
    raises to end the wait; the batch continues at the API, and the resumed run collects it.
    """

    def __init__(
        self,
        api: ClaudeAPI,
        budget: JudgeBudget,
        caller: Caller,
        log: Path | None,
        poll_s: float,
        watch: Callable[[str], None],
    ) -> None:
        self.api, self.budget, self.caller = api, budget, caller
        self.poll_s, self.watch = poll_s, watch
        self.state = BatchState(log)

    def ask_many(self, requests: Sequence[Request]) -> Generator[Outcome]:
        """Each request's index and its reply or failure, as batches end."""
        self.budget.charge_lost(self.state.claims())
        wanted: Wanted = {}
        for index, request in enumerate(requests):
            wanted.setdefault(request.digest, deque()).append(index)
        try:
            self._find_lost()
            while self.state.open:
                for batch in list(self.state.open):
                    yield from self._collect(batch, wanted)
                self._find_lost()  # again, where a batch that was found is another run's
            while left := _left(wanted):
                chosen = self._affordable(requests, left)
                claim = self.budget.reserve(self._most(requests, chosen))
                yield from self._collect(self._submit(requests, chosen, claim), wanted)
                for index in chosen:  # every request gets an outcome
                    waiting = wanted[requests[index].digest]
                    if index in waiting:
                        waiting.remove(index)
                        yield index, broken_response(self.api.service)
        except CallFailed as failed:
            for index in _left(wanted):
                yield index, failed

    def _most(self, requests: Sequence[Request], chosen: Sequence[int]) -> float:
        return sum(self.api.max_cost(requests[index], batch=True) for index in chosen)

    def _affordable(self, requests: Sequence[Request], left: Sequence[int]) -> list[int]:
        """The first of ``left`` within the budget and one batch's size, at least one."""
        chosen: list[int] = []
        money, size = self.budget.left, 0
        for index in left:
            money -= self.api.max_cost(requests[index], batch=True)
            size += len(requests[index].prompt.encode("utf-8", "replace")) + 500
            if chosen and (money < 0 or size > MOST_BYTES):
                break
            chosen.append(index)
        return chosen

    def _submit(self, requests: Sequence[Request], chosen: Sequence[int], claim: str) -> str:
        """A new batch's id. Its intent is noted before, its id right after."""
        tempered = self.api.temperature
        params: list[dict[str, Any]] = []
        count: Counter[str] = Counter()
        for index in chosen:
            digest = requests[index].digest
            parameters = self.api.parameters(requests[index], cached=False)
            if tempered:
                parameters["temperature"] = 0
            # The claim keeps the counts of two batches apart.
            custom = f"{digest}-{claim[:8]}-{count[digest]}"
            count[digest] += 1
            params.append({"custom_id": custom, "params": parameters})
        n = len(params)
        self.state.note("asking", durable=True, claim=claim, n=n, at=time.time())

        def create() -> str:
            try:
                batch = self.api.client.messages.batches.create(requests=params, **self.api.extra())
            except Exception as error:  # noqa: BLE001 - every failure is worded in one place
                raise self.api.failure(error) from None
            if not isinstance(getattr(batch, "id", None), str):
                raise broken_response(self.api.service)
            return batch.id

        try:
            batch = create_once(self.caller, create)
        except CallFailed as failed:
            if not failed.billed:
                self.state.note("dropped", claim=claim)
                self.budget.charge(claim, 0.0)
            raise
        self._note_asked(claim, batch, n, matched=False)
        return batch

    def _note_asked(self, claim: str, batch: str, n: int, matched: bool) -> None:
        facts = {"claim": claim, "batch": batch, "n": n, "tempered": self.api.temperature}
        self.state.note("asked", durable=True, **facts, found=matched)

    def _find_lost(self) -> None:
        """Search the account for submitted batches whose id is unknown."""
        for claim, intent in list(self.state.lost.items()):
            since = datetime.fromtimestamp(intent["at"], UTC) - SKEW
            submitted = self.caller.call(lambda since=since: self._latest(since))
            known = self.state.known
            near = [
                (abs(at - intent["at"]), id)
                for id, n, at in submitted
                if n == intent["n"] and id not in known and (claim, id) not in self.state.mistaken
            ]
            if near:
                _, batch = min(near)
                self._note_asked(claim, batch, intent["n"], matched=True)
            else:
                self.state.note("dropped", claim=claim)
                self.budget.charge(claim, 0.0)

    def _latest(self, since: datetime) -> list[tuple[str, int, float]]:
        """Ids, sizes and times (seconds since 1970) of the account's batches made since then."""
        batches: list[tuple[str, int, float]] = []
        try:
            for batch in self.api.client.messages.batches.list(limit=100):
                if batch.created_at < since:
                    break
                counts = batch.request_counts.model_dump()
                size = sum(n for n in counts.values() if type(n) is int)
                batches.append((batch.id, size, batch.created_at.timestamp()))
        except Exception as error:  # noqa: BLE001 - every failure is worded in one place
            raise self.api.failure(error) from None
        return batches

    def _collect(self, batch: str, wanted: Wanted) -> Generator[Outcome]:
        """Wait for a batch and yield the wanted results.

        A batch that was found and has no result with the claim is another run's and is left.
        """
        line = self.state.open[batch]
        self._wait(batch, line["n"])
        results = self.caller.call(lambda: self._results(batch, line["n"]))
        claim = line["claim"]
        if line.get("found") and not any(f"-{claim[:8]}-" in id for id, _ in results):
            self.state.note("mistaken", claim=claim, batch=batch)
            return
        read = [(id, self._read(result, line["tempered"])) for id, result in results]
        self.budget.charge(claim, sum(cost for _, (_, cost) in read))
        for id, (outcome, _) in read:
            waiting = wanted.get(id[:32])
            if not waiting or id in self.state.taken:
                continue
            try:
                yield waiting.popleft(), outcome
            finally:
                self.state.note("taken", id=id)  # also when the run stops just after writing it
        self.state.note("collected", claim=claim, batch=batch)

    def _wait(self, batch: str, n: int) -> None:
        start, pause = time.monotonic(), min(FIRST_POLL_S, self.poll_s)
        while True:
            status = self.caller.call(lambda: self._status(batch))
            if status.processing_status == "ended":
                return
            self.watch(_progress_text(status, n, time.monotonic() - start))
            until = time.monotonic() + pause
            while (rest := until - time.monotonic()) > 0:
                time.sleep(min(rest, 0.5))
                self.watch("")
            pause = min(pause * 1.5, self.poll_s)

    def _status(self, batch: str) -> Any:
        try:
            status = self.api.client.messages.batches.retrieve(batch)
        except Exception as error:  # noqa: BLE001 - every failure is worded in one place
            raise self.api.failure(error) from None
        if not isinstance(getattr(status, "processing_status", None), str):
            raise broken_response(self.api.service)
        return status

    def _results(self, batch: str, n: int) -> list[tuple[str, Any]]:
        """All results of a batch that has ended; a truncated stream is read again."""
        try:
            results = list(self.api.client.messages.batches.results(batch))
        except Exception as error:  # noqa: BLE001 - every failure is worded in one place
            raise self.api.failure(error) from None
        named = [(getattr(r, "custom_id", None), getattr(r, "result", None)) for r in results]
        if len(named) != n or not all(isinstance(id, str) for id, _ in named):
            raise broken_response(self.api.service)
        return [(str(id), result) for id, result in named]

    def _read(self, result: Any, tempered: bool) -> tuple[Reply | MidchartError, float]:
        """A result's reply or failure, and its cost."""
        service, kind = self.api.service, getattr(result, "type", None)
        if kind == "succeeded":
            try:
                reply = self.api.read_message(result.message, "batch", tempered)
            except NoText as failed:
                return failed, failed.usage.cost_usd or 0.0
            except CallFailed as failed:
                return failed, 0.0
            return reply, reply.usage.cost_usd or 0.0
        if kind == "errored":
            error: Any = getattr(getattr(result, "error", None), "error", None)
            if tempered and "temperature" in str(getattr(error, "message", "")).lower():
                self.api.temperature = False  # the resumed run asks without
            return typed_failure(str(getattr(error, "type", "")), service), 0.0
        words = {"expired": "did not process it within a day", "canceled": "canceled it"}
        return CallFailed(f"{service} {words.get(str(kind), 'sent a broken answer')}"), 0.0


def create_once(caller: Caller, create: Callable[[], str]) -> str:
    """Create a batch; retried only after failures that certainly created none.

    After a timeout or a broken response the batch may exist: submitting again would pay twice.
    """

    def careful() -> str:
        try:
            return create()
        except CallFailed as failed:
            if failed.billed:
                raise CallFailed(
                    f"{failed}; whether the batch was made is not known: resume the run, it looks "
                    "for it first",
                    billed=True,
                ) from None
            raise

    return caller.call(careful)


def _left(wanted: Wanted) -> list[int]:
    return sorted(index for waiting in wanted.values() for index in waiting)


def _progress_text(status: Any, n: int, seconds: float) -> str:
    """A batch's progress, with the time left as far as it is known."""
    waiting = getattr(getattr(status, "request_counts", None), "processing", n)
    waiting = waiting if type(waiting) is int else n
    done = max(n - waiting, 0)
    if done and seconds > 1:
        left = f"about {seconds / done * waiting / 60:.0f} min left"
    else:
        expires = getattr(status, "expires_at", None)
        at = expires.strftime("%d %b %H:%M UTC") if isinstance(expires, datetime) else "a day"
        left = f"most batches end within an hour, all by {at}"
    return f"batch of {n:,} prompts: {done:,} done after {seconds / 60:.0f} min; {left}"
