"""Served: an on-site model as judge, with the same prompt as Claude, behind any
OpenAI-compatible server. On this machine's own address nothing leaves it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from core.egress import CLOSED, Gate
from core.judges import JUDGES
from core.judges.model import options
from core.judges.model.judge import LanguageJudge
from core.judges.model.options import Forecast, forecast
from core.judges.model.served_engine import ServedEngine
from core.protocol import Protocol


@JUDGES.register("served")
class ServedJudge(LanguageJudge):
    """A served model with the sighted prompt.

    url: its server, ``http://127.0.0.1:8000/v1``. model: its name there. concurrency, timeout,
    retries, max_tokens, repeats: as for ``claude``. The key, where the server wants one, is
    ``MIDCHART_SERVED_KEY``. The run gives egress and watch.
    """

    name, title = "served", "Served model (sighted)"

    def __init__(
        self,
        protocol: Protocol,
        url: str = "",
        model: str = "",
        concurrency: int = 8,
        timeout: float = 120.0,
        retries: int = 5,
        max_tokens: int = options.MAX_TOKENS,
        repeats: int = 1,
        egress: Gate = CLOSED,
        watch: Callable[[str], None] = lambda _: None,
    ) -> None:
        engine = ServedEngine(
            model,
            url,
            egress,
            options.served_key,
            max_tokens=max_tokens,
            concurrency=concurrency,
            timeout_s=timeout,
            retries=retries,
            watch=watch,
        )
        super().__init__(protocol, engine, sighted=True)

    @classmethod
    def check(cls, protocol: Protocol, **given: Any) -> None:
        """Refuse options that cannot be, without a connection."""
        chosen = options.of(cls, given)
        options.check_numbers(cls.name, chosen)
        options.check_served(cls.name, chosen)

    @classmethod
    def forecast(cls, question: float, evidence: float, response: float, **given: Any) -> Forecast:
        """What a call about texts of so many characters takes; an on-site model has no price."""
        chosen = options.of(cls, given)
        return forecast(question, evidence, response, True, chosen, None)

    @classmethod
    def addresses(cls, **given: Any) -> tuple[str, ...]:
        """Where questions, evidence and answers would go."""
        return (options.of(cls, given).url,)
