"""Settings of the HTTP server: response headers, the check of a request's origin, third-party
scripts, and the release of unused memory.

Plotly's distribution of charts on two axes (npm ``plotly.js-cartesian-dist-min``, MIT licence) is a
third of the one that Streamlit's own charts load; its version is that of the Python package. It is
served compressed, as it is stored.
"""

from __future__ import annotations

import ctypes
import gzip
import platform
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "frame-ancestors 'none'; object-src 'none'; base-uri 'self'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}
"""No page may frame the app, types are not guessed, and no address is sent to another site."""


class SecurityHeaders:
    """ASGI middleware that sets :data:`HEADERS`."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; its answer gets the headers."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self.app(scope, receive, send_with_headers if scope["type"] == "http" else send)


PORTS = {"http": 80, "https": 443}
READING = ("GET", "HEAD", "OPTIONS")
"""Methods that change nothing."""


def own_origin(origin: str, host: str, trusted: Iterable[str] = ()) -> bool:
    """Whether an Origin header names the page that the Host header does, its port included, or one
    of ``trusted``; a Host without a port stands for the usual port of the origin's scheme."""
    if origin.rstrip("/") in {one.strip().rstrip("/") for one in trusted if one}:
        return True
    try:
        page, server = urlsplit(origin), urlsplit(f"//{host}")
        usual = PORTS.get(page.scheme)
        names = [(one.hostname or "").rstrip(".") for one in (page, server)]
        ports = [one.port or usual for one in (page, server)]
    except ValueError:
        return False
    return usual is not None and bool(names[0]) and names[0] == names[1] and ports[0] == ports[1]


class OwnOrigin:
    """ASGI middleware: a page of another origin, such as another port of this machine, opens no
    websocket and changes nothing. Requests without an Origin header come from no page.

    ``trusted``: gives further origins, asked at each request.
    """

    def __init__(self, app: ASGIApp, trusted: Callable[[], Iterable[str]] = tuple) -> None:
        self.app, self.trusted = app, trusted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request of the app's own pages on; refuse others with status 403."""
        if scope["type"] not in ("http", "websocket") or scope.get("method") in READING:
            return await self.app(scope, receive, send)
        headers = Headers(scope=scope)
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        trusted = tuple(self.trusted())
        if all(len(hosts) == 1 and own_origin(one, hosts[0], trusted) for one in origins):
            return await self.app(scope, receive, send)
        if scope["type"] == "websocket":
            await receive()
            return await send({"type": "websocket.close", "code": 1008, "reason": "foreign origin"})
        return await PlainTextResponse("foreign origin\n", 403)(scope, receive, send)


# Scripts


PLOTLY = Path(__file__).parent / "assets" / "plotly-cartesian-4.1.1.min.js.gz"
PLOTLY_SHA256 = "79542150855a52c567260e3137095dbe2b744e6d702a5cabe67da246942fba7a"
"""Of the script as npm has it."""
ADDRESS = f"midchart-scripts/{PLOTLY.stem}"
"""Where pages load Plotly from, relative to a page's address; it names the version."""
CACHING = {"Cache-Control": "public, immutable, max-age=31536000", "Vary": "Accept-Encoding"}


def _answer(request: Request) -> Response:
    body, headers = PLOTLY.read_bytes(), CACHING
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        headers = CACHING | {"Content-Encoding": "gzip"}
    else:
        body = gzip.decompress(body)
    return Response(body, media_type="text/javascript", headers=headers)


def routes(base: str = "") -> list[Route]:
    """The routes of the scripts; ``base``: the path under which the server has its pages."""
    return [Route("/" + "/".join(filter(None, (base.strip("/"), ADDRESS))), _answer)]


# Memory


M_MMAP_THRESHOLD = -3
"""Parameter of glibc's ``mallopt``: the size in bytes from which a block is allocated by mmap."""
INITIAL_THRESHOLD = 128 << 10
"""Glibc's own value of it at the start of a process."""


def return_freed_blocks() -> bool:
    """Return every freed block of 128 KiB or more to the operating system; gives whether the
    allocator was set so.

    Glibc raises its threshold up to 32 MB when larger blocks are freed. Later blocks are then taken
    from its heaps, which the short-lived threads of a server fragment: the heaps grow with the
    number of reruns while most of their memory is free. Other C libraries are not changed.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    return bool(ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, INITIAL_THRESHOLD))
