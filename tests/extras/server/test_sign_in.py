"""The app does not start where others could reach it without a complete sign-in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import streamlit as st
from streamlit import config
from streamlit.runtime.secrets import Secrets

from midchart.core import config as settings
from midchart.extras.server import sign_in
from midchart.pages.ui import sign_in as app_sign_in
from tests.browser.conftest import serve

ROOT = Path(__file__).parents[3]
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
        return app_sign_in.refusal()

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
CLAIMS = {
    "is_logged_in": True,
    "iat": NOW,
    "iss": "https://a.org",
    "sub": "7",
    "email": "A@ward.org",
    "email_verified": True,
}
BY_SUBJECT = ("https://a.org 7",)
BY_EMAIL = (*BY_SUBJECT, "a@ward.org")
TWO = (
    AUTH
    + """[auth.first]
client_id = "1"
[auth.second]
client_id = "2"
"""
)


@pytest.fixture
def at_now(configured, monkeypatch):
    monkeypatch.setattr(sign_in.time, "time", lambda: float(NOW))
    configured(AUTH + 'client_id = "1"\n' + ROLES)
    return configured


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, BY_EMAIL),
        *(({"exp": value}, BY_EMAIL) for value in (NOW + 1, NOW - 1, None)),  # of the token alone
        ({"iat": NOW + sign_in.CLOCKS}, BY_EMAIL),
        ({"iat": NOW + 0.5}, BY_EMAIL),
        *(({"email_verified": value}, BY_SUBJECT) for value in (False, "true", "false", 1, None)),
        *(({"email": value}, BY_SUBJECT) for value in (None, "", " ", 7, ["a@ward.org"], "a b@c")),
        *(
            ({"email": value}, BY_SUBJECT)
            for value in (
                " a@ward.org", "a@ward.org\u2003", "\x1fa@ward.org", "\u212a@ward.org", "a@w@o",
                "a@ward.org\u200b", "root",
            )
        ),
        *(({"is_logged_in": value}, ()) for value in (False, "yes", 1, None)),
        *(
            ({"iat": value}, ())
            for value in (
                NOW - 3600 * sign_in.HOURS - 1, NOW + sign_in.CLOCKS + 1, 10**400, float("nan"),
                float("inf"), float("-inf"), -(10**400), str(NOW), None, True, [NOW], {},
            )
        ),
        *(({"sub": value}, ()) for value in (None, "", " ", 7, ["7"])),
        *(({"iss": value}, ()) for value in (None, "", 7, "https://a.org 8", "a\tb")),
    ],
)  # fmt: skip
def test_the_names_of_a_sign_in(at_now, changes, names):
    assert sign_in.names_of(CLAIMS | changes) == names


def test_a_claim_that_is_not_there_signs_nobody_in(at_now):
    for name in ("is_logged_in", "iat", "iss", "sub"):
        assert sign_in.names_of({k: v for k, v in CLAIMS.items() if k != name}) == ()
    without = {k: v for k, v in CLAIMS.items() if k != "email_verified"}
    assert sign_in.names_of(without) == BY_SUBJECT


def test_a_role_is_given_by_issuer_and_subject_or_by_a_verified_email(at_now):
    at_now(
        AUTH + 'client_id = "1"\n[roles]\n"A@Ward.org" = "owner"\n"https://a.org 8" = "viewer"\n'
    )
    person = sign_in.person_of(CLAIMS)
    assert (person.name, person.role, person.is_account) == ("a@ward.org", "owner", False)
    other = sign_in.person_of(CLAIMS | {"sub": "8"})
    assert (other.name, other.role) == ("https://a.org 8", "viewer")
    assert sign_in.person_of(CLAIMS | {"email_verified": False}) is None


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://b.org", "email_verified": False},
        {"iss": "https://b.org", "email": None},
        {"iss": "https://b.org", "sub": "a@ward.org", "email": None},
        {"iss": "https://b.org", "sub": "https://a.org 7", "email": None},
        {"iss": "https://a.org 7", "sub": "", "email": None},
        {"iss": "", "sub": "https://a.org 7", "email": None},
        {"iss": "https://a.org ", "sub": "7", "email": None},
        {"sub": "a@ward.org", "email": None},
        {"sub": "A@ward.org", "email": "b@ward.org"},
    ],
)
def test_another_provider_s_person_has_no_other_person_s_role(at_now, claims):
    at_now(
        AUTH + 'client_id = "1"\n[roles]\n"a@ward.org" = "owner"\n"https://a.org 7" = "owner"\n'
        '"7" = "owner"\n'
    )
    assert sign_in.person_of(CLAIMS | {"iss": "https://b.org", **claims}) is None


def test_a_person_who_is_listed_twice_in_other_case_is_refused_at_the_start(at_now):
    twice = at_now(AUTH + ROLES + '"A@ward.org" = "owner"\n')
    assert "'a@ward.org' more than once" in twice


@pytest.mark.parametrize(
    ("name", "words"),
    [
        *(
            (name, "neither an email nor an issuer and a subject")
            for name in (
                "anna", "root", "7", "anna smith", "https://a.org", "https://a.org ", " 7", "a@w@o",
                "a b@ward.org", "a@ward.org\u200b", "https:// 7", "https://a.org 7\u202e",
            )
        ),
        ("a@WARD.org", "also the name of the account"),
    ],
)  # fmt: skip
def test_a_name_that_is_no_signed_in_person_s_is_refused_and_has_no_role(
    at_now, monkeypatch, name, words
):
    monkeypatch.setattr(settings, "user", lambda: "A@ward.org")
    refusal = at_now(f'{AUTH}client_id = "1"\n[roles]\n{json.dumps(name)} = "owner"\n')
    assert words in refusal and '"https://ISSUER SUBJECT"' in refusal and "\n" not in refusal
    for subject in ("7", name, name.partition(" ")[2]):
        assert sign_in.person_of(CLAIMS | {"sub": subject}) is None


def test_an_issuer_may_be_written_as_its_tokens_write_it(at_now):
    at_now(AUTH + 'client_id = "1"\n[roles]\n"accounts.ward.org 7" = "viewer"\n')
    assert sign_in.person_of(CLAIMS | {"iss": "accounts.ward.org"}).role == "viewer"


def test_with_two_providers_an_email_gives_no_role_and_the_app_says_so(at_now):
    at_now(TWO + ROLES)
    assert sign_in.names_of(CLAIMS) == BY_SUBJECT
    assert sign_in.person_of(CLAIMS) is None
    assert "by email, which 2 providers" in at_now(TWO + ROLES)
    at_now(TWO + '[roles]\n"https://a.org 7" = "viewer"\n')
    assert sign_in.person_of(CLAIMS).role == "viewer"
    assert sign_in.person_of(CLAIMS | {"iss": "https://b.org"}) is None


@pytest.mark.parametrize(("host", "passes"), [("127.0.0.1", True), ("192.168.1.5", False)])
def test_a_connection_to_another_address_is_refused_under_any_server(host, passes, monkeypatch):
    """Of ``uvicorn app:app --host``, Streamlit's configuration knows nothing."""
    monkeypatch.setattr(sign_in, "_state", {"required": False})
    monkeypatch.setattr(sign_in, "get_secrets_auth_section", dict)
    reached: list[str] = []

    async def inner(scope, receive, send):
        reached.append("app")

    async def send(message):
        reached.append(message["type"])

    async def receive():
        return {}

    scope = {"type": "websocket", "path": "/", "server": (host, 8501)}
    with pytest.raises(StopIteration):
        app_sign_in.OwnMachine(inner)(scope, receive, send).send(None)
    assert reached == (["app"] if passes else ["websocket.close"])
