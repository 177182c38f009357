"""The app does not start where others could reach it without a complete sign-in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import streamlit as st
from streamlit import config
from streamlit.runtime.secrets import Secrets

from midchart.pages.ui import sign_in
from tests.browser.conftest import serve

ROOT = Path(__file__).parents[2]
KEY = "k" * 64
AUTH = f'[auth]\ncookie_secret = "{KEY}"\nredirect_uri = "http://127.0.0.1/oauth2callback"\n'
ROLES = '[roles]\n"a@ward.org" = "viewer"\n'


def start(*options: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", "0", *options],
        cwd=ROOT,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.slow
def test_another_address_than_loopback_is_refused_in_one_line(tmp_path):
    done = start("--server.address", "0.0.0.0", MIDCHART_DATA=str(tmp_path))
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("midchart: ")]
    assert "at the address 0.0.0.0 without sign-in" in line
    assert "MIDCHART_WITHOUT_SIGN_IN=yes" in line and "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_secrets_file_that_cannot_be_read_does_not_turn_sign_in_off(tmp_path):
    file = tmp_path / "secrets.toml"
    file.write_text(AUTH + ROLES + "cookie_secret = \n")
    done = start("--secrets.files", str(file), MIDCHART_DATA=str(tmp_path))
    assert done.returncode == 2 and "cannot be read as TOML" in done.stderr
    assert KEY not in done.stderr + done.stdout


@pytest.mark.slow
def test_the_owner_can_let_it_start(tmp_path, monkeypatch):
    monkeypatch.setenv("MIDCHART_WITHOUT_SIGN_IN", "yes")
    with serve(tmp_path, "--server.address", "0.0.0.0"):
        pass  # it answered


@pytest.fixture
def configured(tmp_path, monkeypatch):
    """Set the secrets file's text and options of the configuration; gives the reason of refusal."""

    def refusal(text: str = "", **options: object) -> str:
        file = tmp_path / "secrets.toml"
        file.write_text(text)
        options = {"secrets.files": [str(file)], **options}
        usual = config.get_option
        values = lambda name: options[name] if name in options else usual(name)  # noqa: E731
        monkeypatch.setattr(config, "get_option", values)
        monkeypatch.setattr(st, "get_option", values)
        monkeypatch.setattr(st, "secrets", Secrets())
        return sign_in.refusal()

    return refusal


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.0.1", "::1", "localhost"])
def test_loopback_needs_no_sign_in(configured, address):
    assert configured(**{"server.address": address}) == ""


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.168.1.5", "charts.ward.org", "", None])
def test_no_other_address_is_served_without_sign_in(configured, address):
    assert "without sign-in" in configured(**{"server.address": address})


def test_nor_is_the_name_of_a_proxy(configured):
    hosts = {"server.allowedHosts": ["127.0.0.1", "charts.ward.org"]}
    assert "under the name charts.ward.org without sign-in" in configured(**hosts)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (AUTH, "needs [roles]"),
        (ROLES, "needs [auth]"),
        (AUTH + '[roles]\n"a@ward.org" = "admin"\n', "'a@ward.org' no known role"),
        (AUTH.replace(KEY, "short") + ROLES, "fewer than 32 characters"),
    ],
)
def test_a_sign_in_that_is_half_set_up_is_refused(configured, text, words):
    refusal = configured(text)
    assert words in refusal and "\n" not in refusal and KEY not in refusal


def test_authlib_is_asked_for_where_sign_in_needs_it(configured, monkeypatch):
    monkeypatch.setattr(sign_in, "find_spec", lambda name: None)
    assert "docs/optional/sign_in.txt" in configured(AUTH + ROLES)
    monkeypatch.setattr(sign_in, "find_spec", lambda name: name)
    assert configured(AUTH + ROLES, **{"server.address": "0.0.0.0"}) == ""


NOW = 1_800_000_000
CLAIMS = {"is_logged_in": True, "iat": NOW, "sub": "7", "email": "A@ward.org"}


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "a@ward.org"),
        ({"email_verified": True}, "a@ward.org"),
        ({"email_verified": "true"}, "a@ward.org"),
        ({"email_verified": False}, "7"),
        ({"email_verified": "false"}, "7"),
        ({"email": None}, "7"),
        ({"is_logged_in": False}, ""),
        ({"is_logged_in": "yes"}, ""),
        ({"iat": NOW - 3600 * sign_in.HOURS - 1}, ""),
        ({"iat": None}, ""),
        ({"email": None, "sub": None}, ""),
    ],
)
def test_the_person_of_a_sign_in(monkeypatch, changes, name):
    monkeypatch.setattr(sign_in.time, "time", lambda: float(NOW))
    assert sign_in.name_of(CLAIMS | changes) == name


@pytest.mark.parametrize(("host", "passes"), [("127.0.0.1", True), ("192.168.1.5", False)])
def test_a_connection_to_another_address_is_refused_under_any_server(host, passes, monkeypatch):
    """Of ``uvicorn app:app --host``, Streamlit's configuration knows nothing."""
    monkeypatch.setattr(sign_in, "_state", {"required": False})
    monkeypatch.setattr(sign_in, "get_secrets_auth_section", dict)
    guard = sign_in.RequireSignIn(lambda scope, receive, send: None)
    problem = guard._problem({"type": "websocket", "path": "/", "server": (host, 8501)})
    assert bool(problem) is not passes
