"""Options of judges that ask a language model, and what a call costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from midchart.core.client.claude import HAIKU, ClaudeFields, Seconds, ServiceOptions
from midchart.core.client.prices import PRICE_DATE, Price, estimated_tokens
from midchart.core.egress import read_address
from midchart.core.errors import InputError

SERVED_KEY = "MIDCHART_SERVED_KEY"


class JudgeOptions(ServiceOptions):
    """Options of every judge that asks a language model."""

    max_tokens: Annotated[int, Field(ge=1, le=64_000)] = 16
    """Most tokens of a verdict: one word, and a few more to see what was written instead."""
    repeats: Annotated[int, Field(ge=1, le=100)] = 1
    """Verdicts per answer."""
    rule: Literal["protocol", "any_form", "strict"] = "protocol"
    """How a verdict is read: in "any_form" in which models write yes and no, or "strict", as one
    word; "protocol": strict under the preset "published", else any_form."""

    @property
    def address(self) -> str:
        """The server that is called."""
        raise NotImplementedError

    @property
    def price(self) -> Price | None:
        """What the model costs; None where that is not known."""
        return None

    def require(self, component: str) -> None:
        """Raise InputError or MissingKey where the model cannot be asked; opens no connection.

        ``component``: what asks it, in words ("judge 'claude'").
        """


class ServedJudgeOptions(JudgeOptions):
    """Options of an on-site model behind an OpenAI-compatible server."""

    url: str = ""
    """The server, for example http://127.0.0.1:8000/v1."""
    timeout: Seconds = 120.0
    """Seconds a call may take."""

    @property
    def address(self) -> str:
        return self.url

    def require(self, component: str) -> None:
        if not self.url:
            raise InputError(
                f"the {component} needs 'url', its server's address, like http://127.0.0.1:8000/v1"
            )
        read_address(self.url)
        if not self.model:
            raise InputError(f"the {component} needs 'model', the model's name on its server")


class ClaudeOptions(ClaudeFields, JudgeOptions):
    """Options of a judge that asks Claude."""


class BlindOptions(ClaudeOptions):
    """Options of the blind judge: those of Claude, or of a served model where ``url`` is given."""

    url: str = ""
    """An on-site server; without one Claude is asked."""
    one_word: bool = False
    """Whether the prompt ends with the sighted prompt's demand for one word."""

    @property
    def address(self) -> str:
        return self.url or self.base_url

    @property
    def price(self) -> Price | None:
        return None if self.url else super().price

    def require(self, component: str) -> None:
        if not self.url:
            return super().require(component)
        read_address(self.url)
        if not self.model or self.model == HAIKU:
            raise InputError(f"the {component} with 'url' needs 'model', its name on that server")
        default = ClaudeOptions()
        names = ("base_url", "budget_usd")
        wrong = [name for name in names if getattr(self, name) != getattr(default, name)]
        if wrong:
            raise InputError(
                f"{', '.join(wrong)} of the {component} belong to Claude; leave them out with 'url'"
            )


_VERDICT_TOKENS = 4
"""Tokens of a verdict of one word and what surrounds it."""


@dataclass(frozen=True, slots=True)
class CallEstimate:
    """Of one call: tokens read and written, dollars (None: no price is known), and the basis of the
    price in words."""

    read_tokens: int
    written_tokens: int
    cost_usd: float | None
    price: str


def estimate_call(options: JudgeOptions, shared: float, response: float) -> CallEstimate:
    """A call whose prompt has ``shared`` characters besides the response, and so many in it."""
    start, price, model = estimated_tokens(round(shared)), options.price, options.model
    read, written = (
        start + estimated_tokens(round(response)),
        min(_VERDICT_TOKENS, options.max_tokens),
    )
    if price is None:
        return CallEstimate(read, written, None, f"no price of {model} is known")
    return CallEstimate(read, written, price.of(read, written), f"prices of {PRICE_DATE}")
