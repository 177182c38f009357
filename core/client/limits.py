"""An HTTP client with limits on a whole call: its seconds, its bytes and the depth of its JSON.

The timeouts of httpx hold for one read each, so a server that sends a byte a second would never
end a call. Here every read of a connection, headers included, has at most the time that is left.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable
from functools import cache
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
    """A client whose calls end ``timeout`` seconds after they began, at most.

    A call that breaks a limit raises CallFailed. ``connecting`` is called before and after a
    connection is made, before anything is sent on it, and may raise. Its callers bound the number
    of connections, and all stay open. Only for HTTP/1.1, where the calling thread reads its own
    connection.
    """

    def __init__(
        self,
        service: str,
        timeout: float,
        connecting: Callable[[], None] = lambda: None,
        **options: Any,
    ) -> None:
        options.setdefault("verify", _tls_context())
        super().__init__(timeout=timeout, limits=httpx2.Limits(), **options)
        self.connecting = connecting
        self.headers["accept-encoding"] = "identity"
        self.service, self.timeout_s = service, timeout
        self._call = threading.local()
        for transport in (self._transport, *self._mounts.values()):
            if isinstance(transport, httpx2.HTTPTransport):
                # Private names of the pinned version: one that lacks them fails here, at once.
                pool: Any = transport._pool  # pyright: ignore[reportPrivateUsage]
                pool._network_backend = _Backend(pool._network_backend, self)

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """The response to a request, within the limits."""
        batch = _BATCHES in request.url.path
        seconds = max(self.timeout_s, BATCH_S) if batch else self.timeout_s
        self._call.until = time.monotonic() + seconds
        self._call.bytes_left = LARGEST_BATCH if batch else LARGEST_ANSWER
        stream = options.pop("stream", False)
        response = super().send(request, stream=True, **options)
        read_as_utf8(response)
        try:
            if response.headers.get("content-encoding", "identity") != "identity":
                raise CallFailed(
                    f"{self.service} sent a compressed answer, which is not read", billed=True
                )
            if not stream:
                if b"\0" in response.read():
                    raise CallFailed(
                        f"{self.service} sent an answer that is no text in UTF-8", billed=True
                    )
                if json_depth(response.content) > DEEPEST:
                    raise CallFailed(
                        f"{self.service} sent an answer nested more than {DEEPEST} levels deep",
                        billed=True,
                    )
        except BaseException:
            response.close()
            raise
        return response

    def seconds_left(self, timeout: float | None) -> float:
        """The timeout of the next read or write; raises CallFailed where no time is left."""
        left = self._call.until - time.monotonic()
        if left <= 0:
            raise CallFailed(f"{self.service} did not answer in time", True, billed=True)
        return left if timeout is None else min(timeout, left)

    def count(self, data: bytes) -> bytes:
        """The data, counted; raises CallFailed where an answer becomes too long."""
        self._call.bytes_left -= len(data)
        if self._call.bytes_left < 0:
            raise CallFailed(
                f"{self.service} sent more than {LARGEST_ANSWER >> 20} MiB in one answer",
                billed=True,
            )
        return data


class _Stream:
    """A connection's stream within the limits of the call that uses it."""

    def __init__(self, stream: Any, client: LimitedClient) -> None:
        self._stream, self._client = stream, client

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        left = self._client.seconds_left(timeout)
        return self._client.count(self._stream.read(max_bytes, left))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._client.seconds_left(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> _Stream:
        left = self._client.seconds_left(timeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, left), self._client)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Backend:
    """A network backend whose connections have the limits of a client."""

    def __init__(self, backend: Any, client: LimitedClient) -> None:
        self._backend, self._client = backend, client

    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, **options: Any
    ) -> _Stream:
        self._client.connecting()
        left = self._client.seconds_left(timeout)
        stream = self._backend.connect_tcp(host, port, timeout=left, **options)
        try:
            self._client.connecting()
        except BaseException:
            stream.close()
            raise
        return _Stream(stream, self._client)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)
