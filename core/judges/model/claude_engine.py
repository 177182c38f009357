"""Claude as an engine of judges: concurrent calls or one batch, within a budget.

Without ``batch`` every prompt is one call, ``concurrency`` at a time. Prompts that share a start
worth caching are sent one after another, so that the second reads what the first stored.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from pathlib import Path

from core.client.calls import Caller, CallFailed, RetryPolicy, map_concurrently
from core.egress import Gate
from core.errors import MidchartError
from core.judges.model.batches import Batches
from core.judges.model.budget import JudgeBudget
from core.judges.model.claude_api import ClaudeAPI, NoText
from core.judges.model.engine import Outcome, Reply, Request
from core.judges.model.options import ClaudeOptions, claude_key
from core.judges.model.prices import Price, about

LARGEST_GROUP = 10_000
"""Answers of one batch; the API takes more, but all of them wait in memory."""


class ClaudeEngine:
    """The Claude API behind a judge.

    log: where a run notes what was spent and which batches are under way (None: no log). watch:
    takes a batch's state as text, and raises to end the wait.
    """

    def __init__(
        self,
        options: ClaudeOptions,
        egress: Gate,
        log: Path | None,
        watch: Callable[[str], None],
    ) -> None:
        self.options, self.egress, self.log, self.watch = options, egress, log, watch
        self.price, self.poll_s = options.price, options.poll
        self.group = LARGEST_GROUP if options.batch else max(4 * options.concurrency, 16)
        self._caller = Caller(RetryPolicy(options.retries))
        self._connected: tuple[ClaudeAPI, JudgeBudget] | None = None

    def _open(self) -> tuple[ClaudeAPI, JudgeBudget]:
        if self._connected is None:
            options = self.options
            permit = self.egress.permit(options.base_url, "base_url")
            api = ClaudeAPI(permit, claude_key(permit.address), options)
            self._connected = api, JudgeBudget(self.log, options.budget_usd)
        return self._connected

    def ask_many(self, requests: Sequence[Request]) -> Generator[Outcome]:
        """Each request's index and its reply or failure, in order of completion."""
        api, budget = self._open()
        self._caller.begin()
        if self.options.batch:
            batches = Batches(api, budget, self._caller, self.log, self.poll_s, self.watch)
            return batches.ask_many(requests)
        budget.charge_lost()
        return self._ask_concurrently(api, budget, requests)

    def _ask_concurrently(
        self, api: ClaudeAPI, budget: JudgeBudget, requests: Sequence[Request]
    ) -> Generator[Outcome]:
        chains = cache_chains(requests, self.price)

        def ask_chain(chain: Sequence[int]) -> list[Outcome]:
            replies: list[Outcome] = []
            for index in chain:
                try:
                    reply = self._ask(api, budget, requests[index], len(chain) > 1)
                    replies.append((index, reply))
                except MidchartError as error:
                    replies.append((index, error))
            return replies

        stop, workers = self._caller.stop, self.options.concurrency
        with closing(
            map_concurrently(chains, ask_chain, workers, stop, lambda: self.watch(""))
        ) as finished:
            for _, replies in finished:
                if isinstance(replies, MidchartError):
                    raise replies
                yield from replies

    def _ask(self, api: ClaudeAPI, budget: JudgeBudget, request: Request, cached: bool) -> Reply:
        def ask() -> Reply:
            claim = budget.reserve(api.max_cost(request, cached))
            cost: float | None = None
            try:
                reply = api.ask(request, cached)
                cost = reply.usage.cost_usd or 0.0
                return reply
            except NoText as failed:
                cost = failed.usage.cost_usd or 0.0
                raise
            except CallFailed as failed:
                cost = None if failed.billed else 0.0
                raise
            finally:
                budget.charge(claim, cost)

        return self._caller.call(ask)


def cache_chains(requests: Sequence[Request], price: Price | None) -> list[list[int]]:
    """Indices of requests, grouped where a shared start is worth caching, else one by one.

    Storing costs a quarter more than reading, a hit a tenth: it pays from the second prompt on.
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
