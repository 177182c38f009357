"""What reaches real sockets of this machine: only the text and keys that the owner's list gives."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from midchart.core.client.calls import CallFailed
from midchart.core.client.claude import ClaudeEngine, ClaudeFields
from midchart.core.client.openai_server import OpenAIServer
from midchart.core.client.requests import Request
from midchart.core.egress import CLOSED, EgressCheck
from midchart.core.errors import MidchartError
from midchart.core.identity import Person, acting_as

KEY, TEXT = "sk-planted-key", "lisinopril at forty milligram"


class Recorder:
    """A listener that keeps every byte that reaches it and answers with a redirect."""

    def __init__(self, host: str, port: int = 0, to: str = "") -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind((host, port))
        self.socket.listen()
        self.port = self.socket.getsockname()[1]
        self.answer = f"HTTP/1.1 307 x\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode()
        self.received = b""
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self.socket.accept()
                with connection:
                    connection.settimeout(2)
                    data = connection.recv(1 << 16)
                    while data and b"milligram" not in data:
                        data += (more := connection.recv(1 << 16))
                        if not more:
                            break
                    self.received += data
                    connection.sendall(self.answer)


@contextmanager
def recorders(*hosts: str, port: int = 0) -> Iterator[list[Recorder]]:
    opened: list[Recorder] = []
    try:
        for host in hosts:
            opened.append(Recorder(host, port or (opened[0].port if opened else 0)))
        yield opened
    finally:
        for recorder in opened:
            recorder.socket.close()


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch, workspace: Path) -> None:
    monkeypatch.setenv("MIDCHART_SERVED_KEY", KEY)


def send(url: str, egress: EgressCheck = CLOSED) -> str:
    """Ask ``url`` with the text; why it was refused or failed."""
    try:
        permit = egress.permit(url)
        key = permit.key("MIDCHART_SERVED_KEY")
        OpenAIServer(permit, key, "m", 3.0).complete(TEXT, 1)
    except MidchartError as error:
        return str(error)
    return ""


@pytest.fixture
def both() -> Iterator[tuple[Recorder, Recorder]]:
    with recorders("127.0.0.1", "127.9.9.9") as (listed, other):
        yield listed, other


def test_a_key_reaches_the_listed_address_and_no_other(both, monkeypatch):
    listed, other = both
    monkeypatch.setenv("MIDCHART_HOSTS", f"http://127.0.0.1:{listed.port}=MIDCHART_SERVED_KEY")
    send(f"http://127.0.0.1:{listed.port}/v1")
    assert KEY.encode() in listed.received and TEXT.encode() in listed.received
    send(f"http://127.9.9.9:{other.port}/v1")
    # The account's own listener at another address: text, as it listens itself, and no key.
    assert TEXT.encode() in other.received and KEY.encode() not in other.received
    listed.received = b""
    send(f"http://localhost:{listed.port}/v1")
    assert KEY.encode() not in listed.received


SETTINGS = {
    "ANTHROPIC_CUSTOM_HEADERS": "Authorization: Bearer sk-gateway\nx-api-key: sk-other\n"
    "x-custom: sk-custom\nHost: elsewhere.org",
    "ANTHROPIC_AUTH_TOKEN": "sk-token",
    "OPENAI_API_KEY": "sk-openai",
    "OPENAI_ORG_ID": "sk-organization",
}
"""What packages of services read from the environment by themselves."""


@pytest.mark.parametrize("component", ["claude", "served"])
def test_no_header_of_the_environment_is_sent(both, monkeypatch, component):
    unlisted, listed = both
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MIDCHART_HOSTS", f"http://127.9.9.9:{listed.port}=MIDCHART_SERVED_KEY")
    for recorder, host in ((unlisted, "127.0.0.1"), (listed, "127.9.9.9")):
        url = f"http://{host}:{recorder.port}"
        if component == "served":
            send(f"{url}/v1")
        else:
            engine = ClaudeEngine(
                ClaudeFields(base_url=url, retries=0), 5, CLOSED, None, lambda _: None
            )
            assert [type(reply) for _, reply in engine.ask_many([Request(TEXT, "")])] == [
                CallFailed
            ]
        headers = recorder.received.partition(b"\r\n\r\n")[0].lower()
        assert TEXT.encode() in recorder.received
        assert f"host: {host}:{recorder.port}".encode() in headers
        assert b"elsewhere" not in headers and b"custom" not in headers
        assert (b"sk-" in headers) == (recorder is listed and component == "served")


def test_a_key_does_not_follow_a_redirect(both, monkeypatch):
    listed, other = both
    listed.answer = listed.answer.replace(
        b"Location: ", f"Location: http://127.9.9.9:{other.port}/v1/completions".encode()
    )
    monkeypatch.setenv("MIDCHART_HOSTS", f"http://127.0.0.1:{listed.port}=MIDCHART_SERVED_KEY")
    assert "redirects are not followed" in send(f"http://127.0.0.1:{listed.port}/v1")
    assert KEY.encode() in listed.received and other.received == b""


def test_with_sign_in_each_port_of_this_machine_is_listed(both, monkeypatch):
    listed, _ = both
    url = f"http://127.0.0.1:{listed.port}"
    with acting_as(Person("ben@example.org", "owner")):
        assert "the owner lists each" in send(f"{url}/v1") and listed.received == b""
        monkeypatch.setenv("MIDCHART_HOSTS", url)
        send(f"{url}/v1")
        assert TEXT.encode() in listed.received and KEY.encode() not in listed.received


def test_no_proxy_of_the_environment_sees_a_call_to_this_machine(both, monkeypatch):
    listed, proxy = both
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.9.9.9:{proxy.port}")
    send(f"http://127.0.0.1:{listed.port}/v1")
    assert TEXT.encode() in listed.received and proxy.received == b""
