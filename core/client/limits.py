"""An HTTP client with limits on a whole call: its seconds, its bytes and the depth of its JSON.

The timeouts of httpx hold for one read each, so a server that sends a byte a second would never
end a call. Here the headers are awaited, and the body is read, until the call's time is over.
"""

from __future__ import annotations

import queue
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import copy_context
from functools import cache, partial
from typing import Any

import httpx2

from midchart.core.client.calls import CallFailed, read_as_utf8
from midchart.core.parsing import DEEPEST, json_depth

LARGEST_ANSWER = 8 << 20
"""Bytes of an answer."""
LARGEST_BATCH = 1 << 30
"""Bytes of the results of a batch."""
BATCH_S = 3600.0
"""Seconds that sending a batch, or reading its results, may take."""
_BATCHES = "/messages/batches"


@cache
def _tls_context() -> ssl.SSLContext:
    """The settings of TLS that all clients share: reading the certificates takes 40 ms."""
    return httpx2.create_ssl_context()


class LimitedClient(httpx2.Client):
    """A client whose calls end about ``timeout`` seconds after they began, at most.

    A call that breaks a limit raises CallFailed. Its callers bound the number of connections, and
    all stay open.
    """

    def __init__(self, service: str, timeout: float, **options: Any) -> None:
        options.setdefault("verify", _tls_context())
        super().__init__(timeout=timeout, limits=httpx2.Limits(), **options)
        self.headers["accept-encoding"] = "identity"
        self.service, self.timeout_s = service, timeout

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """The response to a request, within the limits."""
        batch = _BATCHES in request.url.path
        until = time.monotonic() + (max(self.timeout_s, BATCH_S) if batch else self.timeout_s)
        stream = options.pop("stream", False)
        send = partial(super().send, request, stream=True, **options)
        response = _within(send, until, self.service)
        largest = LARGEST_BATCH if batch else LARGEST_ANSWER
        response.stream = _LimitedStream(response.stream, self.service, until, largest)
        read_as_utf8(response)
        try:
            if response.headers.get("content-encoding", "identity") != "identity":
                raise self._refused("a compressed answer, which is not read")
            if not stream:
                if b"\0" in response.read():
                    raise self._refused("an answer that is no text in UTF-8")
                if json_depth(response.content) > DEEPEST:
                    raise self._refused(f"an answer nested more than {DEEPEST} levels deep")
        except BaseException:
            response.close()
            raise
        return response

    def _refused(self, what: str) -> CallFailed:
        return CallFailed(f"{self.service} sent {what}", billed=True)


def _late(service: str) -> CallFailed:
    return CallFailed(f"{service} did not answer in time", True, billed=True)


def _within(send: Callable[[], httpx2.Response], until: float, service: str) -> httpx2.Response:
    """The response once its headers are there; raises CallFailed where they are late, and leaves
    the connection to its thread."""
    ready: queue.SimpleQueue[tuple[httpx2.Response | None, BaseException | None]]
    ready = queue.SimpleQueue()

    def work() -> None:
        try:
            ready.put((send(), None))
        except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
            ready.put((None, error))

    threading.Thread(target=copy_context().run, args=(work,), name="call", daemon=True).start()
    try:
        response, error = ready.get(timeout=max(until - time.monotonic(), 0.0))
    except queue.Empty:
        raise _late(service) from None
    if response is None:
        raise error or _late(service)
    return response


class _LimitedStream(httpx2.SyncByteStream):
    """A response's body, of so many bytes at most, read until a moment."""

    def __init__(self, stream: Any, service: str, until: float, largest: int) -> None:
        self._stream, self._service = stream, service
        self._until, self._left = until, largest
        self._largest = largest

    def __iter__(self) -> Iterator[bytes]:
        for data in self._stream:
            self._left -= len(data)
            if self._left < 0:
                raise CallFailed(
                    f"{self._service} sent more than {self._largest >> 20} MiB in one answer",
                    billed=True,
                )
            if time.monotonic() > self._until:
                raise _late(self._service)
            yield data

    def close(self) -> None:
        """Give the connection back, or close it."""
        self._stream.close()
