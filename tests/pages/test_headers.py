"""The server sets its headers on every answer, and runs the same pages."""

from __future__ import annotations

import http.client
import tomllib
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from midchart.pages.ui.server import HEADERS, OwnOrigin, SecurityHeaders, own_origin
from tests.browser.conftest import serve

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / ".streamlit" / "config.toml"


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


SAME = [
    ("http://127.0.0.1:8501", "127.0.0.1:8501"),
    ("http://localhost:8501", "LOCALHOST:8501"),
    ("http://[::1]:8501", "[::1]:8501"),
    ("https://charts.ward.org", "charts.ward.org"),
    ("https://charts.ward.org", "charts.ward.org:443"),
    ("http://charts.ward.org", "charts.ward.org:80"),
    ("https://charts.ward.org", "charts.ward.org."),
]
OTHER = [
    ("http://127.0.0.1:8502", "127.0.0.1:8501"),
    ("http://127.0.0.1", "127.0.0.1:8501"),
    ("http://127.0.0.1:8501", "127.0.0.1"),
    ("http://localhost:8501", "127.0.0.1:8501"),
    ("http://127.0.0.2:8501", "127.0.0.1:8501"),
    ("http://[::1]:8501", "127.0.0.1:8501"),
    ("https://charts.ward.org:8443", "charts.ward.org"),
    ("https://charts.ward.org", "charts.ward.org:80"),
    ("https://charts.ward.org.evil.example", "charts.ward.org"),
    ("https://evil.example", "charts.ward.org"),
    ("http://127.0.0.1:8501@evil.example", "127.0.0.1:8501"),
    ("null", "127.0.0.1:8501"),
    ("", "127.0.0.1:8501"),
    ("", ""),
    ("file://", ""),
    ("file://127.0.0.1:8501", "127.0.0.1:8501"),
    ("chrome-extension://127.0.0.1:8501", "127.0.0.1:8501"),
    ("http://127.0.0.1:99999", "127.0.0.1:8501"),
    ("http://[::1", "[::1"),
]


@pytest.mark.parametrize(("origin", "host"), SAME)
def test_a_page_of_the_app_has_its_own_origin(origin, host):
    assert own_origin(origin, host)


@pytest.mark.parametrize(("origin", "host"), OTHER)
def test_another_page_of_the_machine_has_another_origin(origin, host):
    assert not own_origin(origin, host)
    assert own_origin(origin, host, ["https://x.org", origin]) is bool(origin)


def answered(kind: str, method: str, *headers: tuple[bytes, bytes]) -> str:
    """What the middleware does with a request: "passed", or the type of its first answer."""
    sent: list[str] = []

    async def inner(scope, receive, send):
        sent.append("passed")

    async def receive():
        return {"type": "websocket.connect"}

    async def send(message):
        sent.append(message["type"])

    scope = {"type": kind, "headers": list(headers), **({"method": method} if method else {})}
    call = OwnOrigin(inner)(scope, receive, send)
    with pytest.raises(StopIteration):
        call.send(None)
    return sent[0]


def test_a_foreign_origin_opens_no_websocket_and_changes_nothing():
    host, other = (b"host", b"127.0.0.1:1"), (b"origin", b"http://127.0.0.1:2")
    app = (b"origin", b"http://127.0.0.1:1")
    for kind, method, refused in (
        ("websocket", "", "websocket.close"),
        ("http", "PUT", "http.response.start"),
        ("http", "POST", "http.response.start"),
        ("http", "DELETE", "http.response.start"),
    ):
        assert answered(kind, method, host, app) == "passed"
        assert answered(kind, method, host) == "passed"
        assert answered(kind, method, host, other) == refused
        assert answered(kind, method, host, app, other) == refused
        assert answered(kind, method, host, (b"host", b"127.0.0.1:2"), other) == refused
        assert answered(kind, method, app) == refused
    assert answered("http", "GET", host, other) == "passed"


def opened(address: str, **headers: str) -> int:
    """Status of a websocket's handshake with the running server."""
    connection = http.client.HTTPConnection(address, timeout=60)
    shake = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    connection.request("GET", "/_stcore/stream", headers=shake | headers)
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.mark.slow
def test_a_page_of_another_port_opens_no_websocket_with_the_running_server(server):
    address = urlsplit(server).netloc
    port = int(address.rpartition(":")[2])
    assert opened(address, Origin=f"http://{address}") == 101
    assert opened(address) == 101
    names = (f"127.0.0.1:{port + 1}", "127.0.0.1", f"localhost:{port}", "evil.example")
    for other in (*names, f"localhost:{port + 1}", f"0.0.0.0:{port}"):
        assert opened(address, Origin=f"http://{other}") == 403, other
    assert opened(address, Origin="null") == 403


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


def test_the_shipped_configuration_allows_loopback_alone():
    server = tomllib.loads(CONFIG.read_text(encoding="utf-8"))["server"]
    assert set(server["allowedHosts"]) == {"127.0.0.1", "localhost", "::1"}
    assert server["address"] == "127.0.0.1"
