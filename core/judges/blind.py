"""Blind: asks whether an answer is specific, without showing the evidence (PROTOCOL, Stage 2).

Through Claude, or with ``url`` through an on-site model. It judges the same answers as the sighted
judges, so that the two can be compared. The paper's prompt asks for no form of answer; a model
that answers in prose is unparsed. ``one_word`` adds the sighted prompt's last line.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from core.egress import CLOSED, Gate
from core.judges import JUDGES
from core.judges.model import options
from core.judges.model.claude import ClaudeEngine
from core.judges.model.engine import Engine
from core.judges.model.judge import LanguageJudge
from core.judges.model.options import Forecast, forecast
from core.judges.model.served_engine import ServedEngine
from core.protocol import Protocol


@JUDGES.register("blind")
class Blind(LanguageJudge):
    """A language model with the blind prompt.

    url: an on-site server; without one Claude is asked, at ``base_url``. model: its id there. The
    other options are those of ``claude``; batch, poll and the money belong to Claude alone.
    """

    name, title = "blind", "Blind judge (sees no evidence)"

    def __init__(
        self,
        protocol: Protocol,
        url: str = "",
        model: str = options.HAIKU,
        base_url: str = options.CLAUDE,
        one_word: bool = False,
        concurrency: int = 8,
        timeout: float = 60.0,
        retries: int = 5,
        max_tokens: int = options.MAX_TOKENS,
        batch: bool = False,
        poll: float = 30.0,
        budget_usd: float = 0.0,
        price_in: float = 0.0,
        price_out: float = 0.0,
        repeats: int = 1,
        egress: Gate = CLOSED,
        folder: Path | None = None,
        label: str = "blind",
        watch: Callable[[str], None] = lambda _: None,
    ) -> None:
        engine: Engine
        if url:
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
        else:
            engine = ClaudeEngine(
                options.asking(model, max_tokens, timeout, price_in, price_out, stream=False),
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
        super().__init__(protocol, engine, sighted=False, one_word=one_word)

    @classmethod
    def check(cls, protocol: Protocol, **given: Any) -> None:
        """Refuse options that cannot be, and a key that is not there, without a connection."""
        chosen = options.of(cls, given)
        options.check_numbers(cls.name, chosen)
        if chosen.url:
            options.check_served(cls.name, chosen)
            options.check_no_claude(cls.name, chosen)
        else:
            options.check_claude(cls.name, chosen)

    @classmethod
    def forecast(cls, question: float, evidence: float, response: float, **given: Any) -> Forecast:
        """What a call about texts of so many characters takes."""
        chosen = options.of(cls, given)
        return forecast(
            question, evidence, response, False, chosen, None if chosen.url else chosen.price
        )

    @classmethod
    def addresses(cls, **given: Any) -> tuple[str, ...]:
        """Where questions and answers would go."""
        chosen = options.of(cls, given)
        return (chosen.url or chosen.base_url,)
