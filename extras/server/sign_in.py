"""Sign-in by OpenID Connect: who acts on a page, and what the start of the server requires.

Set up by ``[auth]`` (Streamlit's settings) and ``[roles]`` in ``.streamlit/secrets.toml``. The app
finds this module by its entry point (``midchart.sign_in``; :mod:`midchart.pages.ui.sign_in`).
"""

from __future__ import annotations

import re
import time
import tomllib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import streamlit as st
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.auth_util import get_origin_from_redirect_uri, get_secrets_auth_section

from midchart.core import api
from midchart.core.identity import resolve
from midchart.pages.ui.shared.marks import for_screen

HOURS = 12
"""Hours after which a person signs in again; Streamlit's cookie alone would do for 30 days."""
COOKIE_SECRET = 32
"""Characters that the key of the cookies has at least."""
COUNTERS = "/_stcore/metrics"
"""Path of the server's counters."""
CLOCKS = 60
"""Seconds by which the provider's clock may be ahead of this machine's."""
ROLES_REMEDY = "its owner assigns roles in [roles] of .streamlit/secrets.toml"

_ISSUER = re.compile(r"https?://[^/]+(/.*)?|[^/]+\.[^/]+")
"""An address, which one large provider writes without its scheme."""
_state = {"required": False}
_ended: set[tuple[Any, ...]] = set()
"""Sign-ins that a person ended in this process: their cookies are worth nothing any more."""


def required() -> bool:
    """Whether sign-in is set up; a secrets file that breaks later does not turn it off.

    Asked at the start of the server, at every request and at every run of a page.
    """
    _state["required"] = _state["required"] or bool(get_secrets_auth_section())
    return _state["required"]


def _sign_in_of(claims: Mapping[str, Any]) -> str:
    return repr([claims.get(name) for name in ("provider", "iss", "sub", "iat", "nonce")])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _in_time(claims: Mapping[str, Any]) -> bool:
    """Whether a token was issued within the last hours; NaN never is. Its own expiry ends the time
    in which a provider's token may be taken, often minutes, and not a sign-in."""
    issued, now = claims.get("iat"), time.time()
    return _is_number(issued) and now - 3600 * HOURS <= issued <= now + CLOCKS


def names_of(claims: Mapping[str, Any]) -> tuple[str, ...]:
    """The names under which ``[roles]`` may list the signed-in person; none where nobody is.

    First the issuer and the subject, which no other person has: ``https://issuer subject``. Then
    the email, where the token says that it is verified and no second provider could say so of
    another person. ``claims``: the identity token's, as ``st.user`` and the cookie hold them.
    """
    issuer, subject, email = (claims.get(name) for name in ("iss", "sub", "email"))
    if claims.get("is_logged_in") is not True or not _in_time(claims):
        return ()
    if _sign_in_of(claims) in _ended:
        return ()
    if not (_is_word(issuer) and isinstance(subject, str) and subject.strip()):
        return ()
    names = [f"{issuer} {subject}"]
    verified = claims.get("email_verified") is True and isinstance(email, str)
    if verified and _is_email(email) and len(_providers()) < 2:
        names.append(email.lower())
    return tuple(names)


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and not re.search(r"\s", value)


def _providers() -> list[str | None]:
    """The names of the providers; None for the one without a name."""
    section = st.secrets.get("auth", {}) if st.secrets.load_if_toml_exists() else {}
    named = [key for key, value in section.items()
             if isinstance(value, Mapping) and "client_id" in value]  # fmt: skip
    return [*([None] if "client_id" in section else []), *named]


def _is_email(key: str) -> bool:
    """Whether a name in ``[roles]``, or a claim, is an email; else it is an issuer and a subject.

    Of plain ASCII alone: other letters and blanks become an ASCII one's twin when they are folded.
    """
    return key.isascii() and key.isprintable() and " " not in key and key.count("@") == 1


def _no_person(key: str) -> str:
    """Why a name in ``[roles]`` is no signed-in person's, "" where it may be one's."""
    if _is_email(key):
        same = key.lower() == api.account().name.lower()
        return "is also the name of the account that runs Midchart" if same else ""
    issuer, _, subject = key.partition(" ")
    named = _ISSUER.fullmatch(issuer) and subject.strip() and key.isprintable()
    return "" if named else "is neither an email nor an issuer and a subject"


def person_of(claims: Mapping[str, Any]) -> api.Person | None:
    """The signed-in person with a role; None where nobody is signed in or the person has none.

    The person's name, in the audit log and of reviewers' codes, is the one that has the role.
    """
    names = names_of(claims)
    listed = st.secrets.get("roles", {}) if names and st.secrets.load_if_toml_exists() else {}
    roles = {
        key.lower() if _is_email(key) else key: role
        for key, role in listed.items()
        if not _no_person(key)
    }
    for name in names:
        if roles.get(name) in api.ROLES:
            return api.Person(name, roles[name])
    return None


def _acting() -> api.Person | None:
    return person_of(st.user.to_dict()) if _state["required"] else api.account()


resolve(_acting)


def gate() -> None:
    """Stop a page where nobody is signed in who must be; else show who is, with a sign-out."""
    if not required():
        return
    claims = st.user.to_dict()
    names = names_of(claims)
    if not names:
        st.info("This installation requires sign-in.", icon=":material/lock:")
        for provider in _providers() or [None]:
            label = f"Sign in with {provider}" if provider else "Sign in"
            st.button(label, type="primary", on_click=st.login, args=(provider,))
        st.stop()
    person = person_of(claims)
    if person is None:
        listed = " or ".join(repr(name) for name in reversed(names))
        st.error(for_screen(f"{listed} has no role in this installation; {ROLES_REMEDY}."))
        st.button("Sign out", on_click=sign_out)
        st.stop()
    with st.sidebar:
        st.text(f"Signed in as {person.name}, {person.role}")
        st.button("Sign out", key="sign_out", type="tertiary", icon=":material/logout:",
                  on_click=sign_out)  # fmt: skip


def sign_out() -> None:
    """End this sign-in, in every tab and for every copy of its cookie."""
    _ended.add(_sign_in_of(st.user.to_dict()))
    st.logout()


def refusal() -> str:
    """Why the app may not be served as its sign-in is set up, in one line; "" where it may."""
    for file in map(Path, st.get_option("secrets.files")):
        try:
            if file.is_file():
                tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            return f"{file}: cannot be read as TOML ({type(error).__name__}); fix it first"
    secrets = st.secrets if st.secrets.load_if_toml_exists() else {}
    auth, roles = secrets.get("auth"), secrets.get("roles")
    if not auth:
        return "[roles] in the secrets file needs [auth]: else nobody has a role" if roles else ""
    if len(str(auth.get("cookie_secret", ""))) < COOKIE_SECRET:
        return (
            f"cookie_secret in [auth] has fewer than {COOKIE_SECRET} characters; who guesses it "
            "can sign in as anybody. Make one: python -c 'import secrets; "
            "print(secrets.token_hex())'"
        )
    if not isinstance(roles, Mapping) or not roles:
        return (
            "[auth] in the secrets file needs [roles]: all people who are not listed there "
            "have no access"
        )
    for name in roles:
        if problem := _no_person(name):
            return (
                f"[roles] names {name!r}, which {problem}; name people by email, or as "
                '"https://ISSUER SUBJECT" (the page shows it to a person without a role)'
            )
    unknown = [name for name, role in roles.items() if role not in api.ROLES]
    if unknown:
        return f"[roles] gives {unknown[0]!r} no known role; the roles are {', '.join(api.ROLES)}"
    emails = [name for name in roles if _is_email(name)]
    folded = [name.lower() for name in emails]
    if twins := sorted({name for name in folded if folded.count(name) > 1}):
        return f"[roles] names {twins[0]!r} more than once, in other case; leave one line"
    if emails and len(_providers()) > 1:
        return (
            f"[roles] names {emails[0]!r} by email, which {len(_providers())} providers could give "
            "to different people; name people by issuer and subject, "
            '"https://ISSUER SUBJECT" = "role" (the page shows it to a person without a role)'
        )
    if not find_spec("authlib"):
        return (
            "sign-in is set up ([auth] in the secrets file) but Authlib is not installed: "
            "pip install -r docs/optional/sign_in.txt"
        )
    return ""


def trusted_origins() -> tuple[str, ...]:
    """The origin that providers send people back to, which is the app's own."""
    return (get_origin_from_redirect_uri() or "",) if required() else ()


class Requests:
    """ASGI middleware where people sign in: every cookie of an app that is reached by https has the
    attribute Secure, which Streamlit leaves out; the server's counters are shown to nobody."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it with status 403."""
        if not required() or scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
        elif scope["path"].endswith(COUNTERS):
            await PlainTextResponse("not served where people sign in\n", 403)(scope, receive, send)
        else:
            by_https = (get_origin_from_redirect_uri() or "").startswith("https:")
            await self.app(scope, receive, _secure_cookies(send) if by_https else send)


def middleware() -> list[Middleware]:
    """What every request of the server passes."""
    return [Middleware(Requests)]


def _secure_cookies(send: Send) -> Send:
    """Send every cookie with the attribute Secure, which Streamlit leaves out: never over http."""

    async def send_secure(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [
                (name, value + b"; Secure" if name == b"set-cookie" else value)
                for name, value in message["headers"]
            ]
        await send(message)

    return send_secure
