"""The form of OpenAI-compatible servers' addresses and answers, read with suspicion.

Pure functions over what the client gives; the connection itself is a reader's or a judge's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from core.client.calls import CallFailed, broken, failure
from core.config import Secret
from core.egress import Permit


class NoSuchPath(CallFailed):
    """The server does not know the path, or the model: both answer 404."""


@dataclass(frozen=True, slots=True)
class Text:
    """A server's answer: its text, tokens read and written (0: not told), why it ended."""

    text: str
    prompt_tokens: int
    output_tokens: int
    ended: str


def client_options(permit: Permit, key: Secret | None, timeout_s: float) -> dict[str, Any]:
    """Arguments of ``openai.OpenAI`` for a permitted address; its HTTP client comes beside them.

    Retries are left to :mod:`core.client.calls`, in step with the other calls to the server.
    """
    address = permit.address
    return {
        "api_key": key.reveal() if key else "none",
        "base_url": address.url if address.path else f"{address.url}/v1",
        "max_retries": 0,
        "timeout": timeout_s,
    }


class Greedy:
    """How a server is asked for its model's likeliest words and nothing else.

    Temperature 0, and no penalty on what was said before: many servers take the penalty of the
    model's own generation settings (Qwen2.5's is 1.05) unless they are told otherwise. A server
    that does not know the field is asked without it.
    """

    def __init__(self, service: str) -> None:
        self.service = service
        self._penalty = True

    def ask(self, create: Callable[..., Any], **asked: Any) -> Any:
        """What ``create`` gives; raises CallFailed."""
        asked |= {"temperature": 0, "frequency_penalty": 0}
        try:
            if self._penalty:
                try:
                    return create(**asked, extra_body={"repetition_penalty": 1.0})
                except Exception as error:
                    if not _unknown_penalty(error):
                        raise
                    self._penalty = False
            return create(**asked)
        except Exception as error:  # noqa: BLE001 - every failure of a call is worded in one place
            raise worded(error, self.service) from None


def worded(error: Exception, service: str) -> CallFailed:
    """An error of the client in Midchart's own words."""
    told = failure(error, service)
    status = getattr(error, "status_code", None)
    if status in (404, 405, 501):
        return NoSuchPath(str(told))
    if status == 400 and _too_long(error):
        return CallFailed(f"{service} finds the prompt too long for its model (status 400)")
    return told


def answer(found: Any, service: str) -> Text:
    """The text of a completion or chat completion; raises CallFailed for any other form."""
    choices = getattr(found, "choices", None)
    if not isinstance(choices, list) or not choices:
        raise broken(service)
    first: Any = choices[0]
    message = getattr(first, "message", None)
    text = getattr(first, "text", None) if message is None else getattr(message, "content", None)
    if not isinstance(text, str):
        raise broken(service)
    usage = getattr(found, "usage", None)
    return Text(
        text,
        _whole(usage, "prompt_tokens"),
        _whole(usage, "completion_tokens"),
        str(getattr(first, "finish_reason", "") or ""),
    )


def _whole(usage: Any, name: str) -> int:
    value = getattr(usage, name, None)
    return value if type(value) is int and value > 0 else 0


def _unknown_penalty(error: Exception) -> bool:
    said = str(getattr(error, "body", "")).lower()
    return getattr(error, "status_code", 0) in (400, 422) and "repetition_penalty" in said


def _too_long(error: Exception) -> bool:
    """Whether a server refuses a prompt's length; its words are looked at and not passed on."""
    said = str(getattr(error, "body", "")).lower()
    return any(
        words in said
        for words in ("context length", "context_length", "too long", "maximum length", "max_model")
    )
