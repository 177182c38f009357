"""Scripts of other projects that pages load from this server, compressed as they are stored.

Plotly's distribution of charts on two axes (npm ``plotly.js-cartesian-dist-min``, MIT licence) is a
third of the one that Streamlit's own charts load; its version is that of the Python package.
"""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

PLOTLY = Path(__file__).parent / "assets" / "plotly-cartesian-4.1.1.min.js.gz"
PLOTLY_SHA256 = "79542150855a52c567260e3137095dbe2b744e6d702a5cabe67da246942fba7a"
"""Of the script as npm has it."""
ADDRESS = f"midchart-scripts/{PLOTLY.stem}"
"""Where pages load Plotly from, relative to a page's address; it names the version."""
HEADERS = {"Cache-Control": "public, immutable, max-age=31536000", "Vary": "Accept-Encoding"}


@cache
def _packed() -> bytes:
    return PLOTLY.read_bytes()


def _answer(request: Request) -> Response:
    body, headers = _packed(), HEADERS
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        headers = HEADERS | {"Content-Encoding": "gzip"}
    else:
        body = gzip.decompress(body)
    return Response(body, media_type="text/javascript", headers=headers)


def routes(base: str = "") -> list[Route]:
    """The routes of the scripts; ``base``: the path under which the server has its pages."""
    return [Route("/" + "/".join(filter(None, (base.strip("/"), ADDRESS))), _answer)]
