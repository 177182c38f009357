"""An HTTP client with limits on a whole call: its seconds and its bytes.

The timeouts of httpx hold for one read each, so a server that sends a byte a second would never
end a call. Here the body is read until the call's time is over.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from functools import cache
from typing import Any

import httpx2

from midchart.core.client.calls import CallFailed, read_as_utf8

LARGEST_ANSWER = 8 << 20
"""Bytes of an answer."""


@cache
def _tls_context() -> ssl.SSLContext:
    """The settings of TLS that all clients share: reading the certificates takes 40 ms."""
    return httpx2.create_ssl_context()


class LimitedClient(httpx2.Client):
    """A client whose calls end about ``timeout`` seconds after their headers came, at most.

    A call that breaks a limit raises CallFailed. Its callers bound the number of connections, and
    all stay open.
    """

    def __init__(self, service: str, timeout: float, **options: Any) -> None:
        options.setdefault("verify", _tls_context())
        super().__init__(timeout=timeout, limits=httpx2.Limits(), **options)
        self.headers["accept-encoding"] = "identity"  # so that the bytes are those of the text
        self.service, self.timeout_s = service, timeout

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """The response to a request, within the limits."""
        until = time.monotonic() + self.timeout_s
        stream = options.pop("stream", False)
        response = super().send(request, stream=True, **options)
        response.stream = _LimitedStream(response.stream, self.service, until, LARGEST_ANSWER)
        read_as_utf8(response)
        if not stream:
            try:
                response.read()
            finally:
                response.close()
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
                raise CallFailed(f"{self._service} did not answer in time", True, billed=True)
            yield data

    def close(self) -> None:
        """Give the connection back, or close it."""
        self._stream.close()
