"""A call to a service that came to nothing, in Midchart's own words.

What failed is worded from status codes and types alone, never from what the service wrote, as that
may quote a record or a key.
"""

from __future__ import annotations

import time
from email.utils import mktime_tz, parsedate_tz
from pathlib import Path
from typing import Any

from core.errors import EgressRefused, WorkFailed


class CallFailed(WorkFailed):
    """A call that came to nothing.

    again: another try may help, after ``wait_s`` if said. billed: the service may have done the
    work and may charge for it. away: nobody is there at all.
    """

    def __init__(
        self,
        reason: str,
        again: bool = False,
        wait_s: float | None = None,
        billed: bool = False,
        away: bool = False,
    ) -> None:
        super().__init__(reason)
        self.again, self.wait_s, self.billed, self.away = again, wait_s, billed, away


def retry_after(headers: Any) -> float | None:
    """Seconds that a response's ``retry-after-ms`` or ``retry-after`` header asks to wait."""
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        text = headers.get(name)
        if text is None:
            continue
        try:
            seconds = float(text) / scale
        except ValueError:
            date = parsedate_tz(text)
            seconds = mktime_tz(date) - time.time() if date else -1.0
        if 0.0 <= seconds < float("inf"):
            return seconds
    return None


_STATUS: dict[int, str] = {
    400: "does not accept the request",
    401: "does not accept the key",
    402: "asks for payment",
    403: "does not allow this key the request",
    404: "knows no such model or path",
    408: "timed out",
    413: "finds the request too large",
    429: "limits the rate",
    500: "has an error of its own",
    503: "is not available",
    529: "is overloaded",
}
_TYPES: dict[str, int] = {
    "rate_limit_error": 429,
    "overloaded_error": 529,
    "api_error": 500,
    "timeout_error": 408,
    "authentication_error": 401,
    "permission_error": 403,
    "billing_error": 402,
    "not_found_error": 404,
    "request_too_large": 413,
    "invalid_request_error": 400,
}
_AGAIN = frozenset({408, 409, 425, 429})


def failure(error: BaseException, service: str) -> CallFailed:
    """An error of the anthropic or openai client as a CallFailed, in Midchart's own words.

    ``service``: how the service is called in messages, its host for one. Both clients are made by
    one generator and name their errors alike, so they are told apart by shape, not by import.
    """
    step: BaseException | None = error
    while step is not None:
        if isinstance(step, CallFailed):
            return step
        if isinstance(step, EgressRefused):
            return CallFailed(str(step))
        step = step.__cause__
    status = getattr(error, "status_code", None)
    kind = type(error).__name__
    if isinstance(status, int) and kind != "APIResponseValidationError":
        if status < 300:  # an error told inside a stream that had begun well
            status = _TYPES.get(_error_type(error), 500)
        if status < 400:
            return CallFailed(
                f"{service} sends requests on to another address (status {status}); redirects are "
                "not followed"
            )
        words = _STATUS.get(status, "has an error of its own" if status > 500 else "refuses")
        again = status in _AGAIN or (status >= 500 and status not in (501, 505))
        headers = getattr(getattr(error, "response", None), "headers", {})
        return CallFailed(
            f"{service} {words} (status {status})", again, retry_after(headers) if again else None
        )
    names = {cls.__name__ for cls in type(error).__mro__}
    if "APITimeoutError" in names or "TimeoutException" in names or isinstance(error, TimeoutError):
        return CallFailed(f"{service} did not answer in time", True, billed=True)
    if "APIConnectionError" in names or "TransportError" in names or isinstance(error, OSError):
        cause = type(error.__cause__ or error).__name__
        away = cause.startswith("Connect")  # no connection, no work
        reason = f"{service} cannot be reached ({cause})"
        return CallFailed(reason, True, billed=not away, away=away)
    if "APIResponseValidationError" in names or isinstance(error, ValueError) or _stumbled(error):
        return broken(service)
    return CallFailed(f"the call to {service} failed ({kind})")


def _stumbled(error: BaseException) -> bool:
    """Whether the client itself fell over an answer's form, deep in its own code."""
    step, file = error.__traceback__, __file__
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        step = step.tb_next
    return isinstance(
        error, AssertionError | AttributeError | LookupError | TypeError
    ) and not Path(file).is_relative_to(Path(__file__).parent)


def told_failure(kind: str, service: str) -> CallFailed:
    """A failure that a service tells by an error type of the Claude API, not by a status."""
    status = _TYPES.get(kind, 500)
    return CallFailed(f"{service} {_STATUS[status]} ({status})")


def broken(service: str) -> CallFailed:
    """An answer that is cut off or not in the form it should have; another try may help."""
    return CallFailed(f"{service} sent a broken answer", True, billed=True)


def _error_type(error: BaseException) -> str:
    body = getattr(error, "body", None)
    inner = body.get("error") if isinstance(body, dict) else None
    return str(inner.get("type", "")) if isinstance(inner, dict) else ""
