"""Claude: the paper's judge, shown the question, the evidence and the answer.

Haiku first, Sonnet as second judge (``model = "claude-sonnet-4-6"``). Text leaves this machine for
it, so the cohort's data-use tag and the run's spec must both allow it (:mod:`core.egress`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from core.egress import CLOSED, Gate
from core.judges import JUDGES
from core.judges.model import options
from core.judges.model.claude import ClaudeEngine
from core.judges.model.judge import LanguageJudge
from core.judges.model.options import Forecast, forecast
from core.protocol import Protocol


@JUDGES.register("claude")
class Claude(LanguageJudge):
    """Claude with the sighted prompt.

    model: its id. base_url: the API, or a gateway in its form. concurrency: calls at a time.
    timeout: seconds a call may take. retries: tries after the first, with backoff. max_tokens:
    most tokens of a verdict. stream: words come as they are made. batch: everything in one batch,
    at half the price, within a day; poll: seconds between two looks at it. budget_usd: what this
    judge may spend in a run, 0 for no limit; price_in, price_out: US dollars per million tokens,
    where the built-in table is not right. repeats: verdicts an answer gets.

    The run gives egress, folder, label and watch; without them only loopback is called.
    """

    name, title = "claude", "Claude (sighted)"

    def __init__(
        self,
        protocol: Protocol,
        model: str = options.HAIKU,
        base_url: str = options.CLAUDE,
        concurrency: int = 8,
        timeout: float = 60.0,
        retries: int = 5,
        max_tokens: int = options.MAX_TOKENS,
        stream: bool = False,
        batch: bool = False,
        poll: float = 30.0,
        budget_usd: float = 0.0,
        price_in: float = 0.0,
        price_out: float = 0.0,
        repeats: int = 1,
        egress: Gate = CLOSED,
        folder: Path | None = None,
        label: str = "claude",
        watch: Callable[[str], None] = lambda _: None,
    ) -> None:
        engine = ClaudeEngine(
            options.asking(model, max_tokens, timeout, price_in, price_out, stream),
            base_url,
            egress,
            options.claude_key,
            concurrency=concurrency,
            retries=retries,
            batch=batch,
            poll_s=poll,
            budget_usd=budget_usd,
            file=options.book(folder, label),
            watch=watch,
        )
        super().__init__(protocol, engine, sighted=True)

    @classmethod
    def check(cls, protocol: Protocol, **given: Any) -> None:
        """Refuse options that cannot be, and a key that is not there, without a connection."""
        chosen = options.of(cls, given)
        options.check_numbers(cls.name, chosen)
        options.check_claude(cls.name, chosen)

    @classmethod
    def forecast(cls, question: float, evidence: float, response: float, **given: Any) -> Forecast:
        """What a call about texts of so many characters takes."""
        chosen = options.of(cls, given)
        return forecast(question, evidence, response, True, chosen, chosen.price)

    @classmethod
    def addresses(cls, **given: Any) -> tuple[str, ...]:
        """Where questions, evidence and answers would go."""
        return (options.of(cls, given).base_url,)
