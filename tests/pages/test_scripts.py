"""The script of the figures is the one of its version, and is served compressed."""

from __future__ import annotations

import gzip
import hashlib
import re
from importlib.resources import files
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from midchart.pages.ui import server

ROOT = Path(__file__).parents[2]
VERSION = re.compile(r"plotly\.js(?: \(\w+ - minified\))? v([\d.]+)")
DRAWN = {"Bar", "Heatmap", "Scatter"}
"""Kinds of trace among those of charts on two axes."""
OTHER = {"Figure", "Layout", "layout"}


def test_the_script_is_the_one_that_npm_has_of_the_version_of_the_python_package():
    script = gzip.decompress(server.PLOTLY.read_bytes())
    assert hashlib.sha256(script).hexdigest() == server.PLOTLY_SHA256
    package = files("plotly").joinpath("package_data/plotly.min.js").read_bytes()
    versions = {VERSION.search(text[:300].decode())[1] for text in (script, package)}
    assert versions == {re.search(r"[\d.]+\d", server.ADDRESS)[0]}


def test_the_program_draws_only_what_the_script_can_draw():
    folders = (ROOT / "core", ROOT / "pages")
    sources = (path.read_text() for folder in folders for path in folder.rglob("*.py"))
    used = {kind for source in sources for kind in re.findall(r"\bgo\.(\w+)", source)}
    assert used and used <= DRAWN | OTHER


@pytest.mark.parametrize("base", ["", "charts", "/charts/"])
def test_it_is_served_compressed_to_whoever_takes_that(base):
    client = TestClient(Starlette(routes=server.routes(base)))
    address = f"/{base.strip('/')}/{server.ADDRESS}".replace("//", "/")
    script = gzip.decompress(server.PLOTLY.read_bytes())
    packed = client.get(address, headers={"Accept-Encoding": "gzip, br"})
    assert packed.headers["Content-Encoding"] == "gzip" and packed.content == script
    assert int(packed.headers["Content-Length"]) == server.PLOTLY.stat().st_size
    plain = client.get(address, headers={"Accept-Encoding": "identity"})
    assert "Content-Encoding" not in plain.headers and plain.content == script
    assert {one.headers["Vary"] for one in (packed, plain)} == {"Accept-Encoding"}
    assert plain.headers["Content-Type"].startswith("text/javascript")
    assert "immutable" in plain.headers["Cache-Control"]
