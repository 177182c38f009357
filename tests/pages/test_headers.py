"""The server sets its headers on every answer, and runs the same pages."""

from __future__ import annotations

import tomllib
import urllib.request
from pathlib import Path

import pytest

from midchart.pages.ui.headers import HEADERS, SecurityHeaders
from tests.browser.conftest import serve

ROOT = Path(__file__).parents[2]


def test_the_headers_forbid_framing_and_guessed_types():
    assert "frame-ancestors 'none'" in HEADERS["Content-Security-Policy"]
    assert HEADERS["X-Content-Type-Options"] == "nosniff"
    assert HEADERS["Referrer-Policy"] == "same-origin"


def test_a_header_of_the_app_is_replaced_and_a_websocket_is_left():
    sent = []

    async def inner(scope, receive, send):
        await send({"type": "http.response.start", "headers": [(b"x-frame-options", b"ALLOW")]})

    async def send(message):
        sent.append(message)

    for kind in ("http", "websocket"):
        # Driven by hand: a browser test of the same process may have left an event loop running.
        call = SecurityHeaders(inner)({"type": kind}, None, send)
        with pytest.raises(StopIteration):
            call.send(None)
    assert (b"x-frame-options", b"DENY") in sent[0]["headers"]
    assert len(sent[0]["headers"]) == len(HEADERS)
    assert sent[1]["headers"] == [(b"x-frame-options", b"ALLOW")]


@pytest.mark.parametrize("path", ["/", "/Patient", "/_stcore/health", "/_stcore/host-config"])
@pytest.mark.slow
def test_the_server_sends_them_on_every_path(server, path):
    with urllib.request.urlopen(server + path, timeout=10) as answer:
        assert {name: answer.headers[name] for name in HEADERS} == dict(HEADERS)


@pytest.fixture(name="server", scope="module")
def running_server(tmp_path_factory):
    with serve(tmp_path_factory.mktemp("served")) as server:
        yield server.url


def test_a_table_s_own_csv_is_the_only_one():
    """Streamlit's built-in CSV and clipboard keep formulas."""
    settings = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())
    assert settings["client"]["disableDataExport"] is True
