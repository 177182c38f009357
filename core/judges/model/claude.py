"""Claude as an engine of judges: calls side by side or one batch, within a budget.

Without ``batch`` every prompt is a call of its own, ``concurrency`` at a time. Prompts that share
a start worth caching go one after another, so that the second finds what the first stored.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from pathlib import Path

from core.client.calls import Caller, CallFailed, Patience, each
from core.config import Secret
from core.egress import Gate
from core.errors import MidchartError
from core.judges.model.batches import Batches
from core.judges.model.budget import JudgeBudget
from core.judges.model.claude_api import Asking, ClaudeAPI, Price, Wordless, about
from core.judges.model.engine import Request, Said

LARGEST_GROUP = 10_000
"""Answers that wait for one batch; the API takes more, memory and patience do not."""


class ClaudeEngine:
    """The Claude API behind a judge.

    key: gives the key, when the connection is opened. file: where a run keeps what was spent and
    which batches are under way (None: nowhere). watch: told how a batch stands (or nothing), and
    raises to end the wait.
    """

    def __init__(
        self,
        asking: Asking,
        url: str,
        gate: Gate,
        key: Callable[[bool], Secret | None],
        *,
        concurrency: int = 8,
        retries: int = 5,
        batch: bool = False,
        poll_s: float = 30.0,
        budget_usd: float = 0.0,
        file: Path | None = None,
        watch: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.asking, self.url, self.gate, self.key = asking, url, gate, key
        self.concurrency, self.batch = concurrency, batch
        self.group = LARGEST_GROUP if batch else max(4 * concurrency, 16)
        self.watch = watch
        self._caller = Caller(Patience(retries))
        self._poll_s, self._budget, self._file = poll_s, budget_usd, file
        self._connected: tuple[ClaudeAPI, JudgeBudget] | None = None

    def _open(self) -> tuple[ClaudeAPI, JudgeBudget]:
        if self._connected is None:
            permit = self.gate.permit(self.url, "base_url")
            api = ClaudeAPI(permit, self.key(permit.local), self.asking)
            self._connected = api, JudgeBudget(self._file, self._budget)
        return self._connected

    def ask_many(self, requests: Sequence[Request]) -> Generator[tuple[int, Said | MidchartError]]:
        """Each request's index and what was said, as they come in."""
        api, budget = self._open()
        self._caller.begin()
        if self.batch:
            batches = Batches(api, budget, self._caller, self._file, self._poll_s, self.watch)
            return batches.ask_many(requests)
        budget.charge_lost()
        return self._side_by_side(api, budget, requests)

    def _side_by_side(
        self, api: ClaudeAPI, budget: JudgeBudget, requests: Sequence[Request]
    ) -> Generator[tuple[int, Said | MidchartError]]:
        chains = cache_chains(requests, self.asking.price)

        def work(chain: Sequence[int]) -> list[tuple[int, Said | MidchartError]]:
            said: list[tuple[int, Said | MidchartError]] = []
            for index in chain:
                try:
                    said.append((index, self._one(api, budget, requests[index], len(chain) > 1)))
                except MidchartError as error:
                    said.append((index, error))
            return said

        stop = self._caller.stop
        with closing(
            each(chains, work, self.concurrency, stop, lambda: self.watch(""))
        ) as finished:
            for _, done in finished:
                if isinstance(done, MidchartError):
                    raise done
                yield from done

    def _one(self, api: ClaudeAPI, budget: JudgeBudget, request: Request, cached: bool) -> Said:
        def ask() -> Said:
            claim = budget.reserve(api.most(request, cached))
            cost: float | None = None
            try:
                said = api.ask(request, cached)
                cost = said.usage.cost_usd or 0.0
                return said
            except Wordless as failed:
                cost = failed.usage.cost_usd or 0.0
                raise
            except CallFailed as failed:
                cost = None if failed.billed else 0.0
                raise
            finally:
                budget.charge(claim, cost)

        return self._caller.call(ask)


def cache_chains(requests: Sequence[Request], price: Price | None) -> list[list[int]]:
    """Indexes of requests, grouped where a shared start is worth caching, else one by one.

    Storing costs a quarter more than reading, a hit a tenth: from the second prompt on it pays.
    """
    least = price.cached_from if price is not None else 0
    shared: dict[str, list[int]] = {}
    chains: list[list[int]] = []
    for index, request in enumerate(requests):
        if not least or about(len(request.start)) < least:
            chains.append([index])
            continue
        if request.start not in shared:
            shared[request.start] = []
            chains.append(shared[request.start])
        shared[request.start].append(index)
    return chains
