"""What the app asks of sign-in, and who may reach it without.

A package signs people in by a module named under the entry-point group ``midchart.sign_in``. It
has ``required()``, whether sign-in is set up; ``refusal()``, why the app may not be served as it is
set up, in a line; ``gate()``, which stops a page where nobody is signed in who must be;
``trusted_origins()`` and ``middleware()``, which add to the app's own. Without one, or where it is
not set up, the account acts, and the app serves this machine alone.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

import streamlit as st
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from midchart.core import api

INSTALLED: Any = next((p.load() for p in entry_points(group="midchart.sign_in")), None)


def required() -> bool:
    """Whether people sign in to this app."""
    return INSTALLED is not None and INSTALLED.required()


def gate() -> None:
    """Stop a page where nobody is signed in who must be."""
    if INSTALLED is not None:
        INSTALLED.gate()


def trusted_origins() -> tuple[str, ...]:
    """Origins of pages that are the app's own, in addition to that of the address."""
    listed = tuple(st.get_option("server.corsAllowedOrigins") or ())
    return (*listed, *INSTALLED.trusted_origins()) if INSTALLED is not None else listed


def middleware() -> list[Middleware]:
    """What every request of the server passes."""
    return [Middleware(OwnMachine), *(INSTALLED.middleware() if INSTALLED is not None else ())]


def refusal() -> str:
    """Why the app may not be served as it is set up, in one line; "" where it may."""
    if INSTALLED is not None and (problem := INSTALLED.refusal()):
        return problem
    if st.secrets.load_if_toml_exists() and st.secrets.get("auth"):
        missing = "[auth] in the secrets file needs a package that signs people in"
        return missing if INSTALLED is None else ""
    return "" if api.without_sign_in() else _open_addresses()


def later(function: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    """A call for a download button, which Streamlit makes at the click without a session: in the
    name of the person that the button is drawn for."""
    person = api.acting_person()

    def call() -> Any:
        with api.acting_as(person):
            return function(*arguments)

    return call


def download_button(
    label: str, name: str, mime: str, content: Callable[[], Any], **options: Any
) -> None:
    """A button that downloads a file, which is made at the click and noted in the audit log."""
    make = later(api.download, name, content)
    options = {"key": f"save_{name}", "icon": ":material/download:", "on_click": "ignore"} | options
    st.download_button(label, make, name, mime, **options)


def lacking(function: Callable[..., Any]) -> str:
    """Why the acting person may not call a function of the interface, "" where it may."""
    if api.may(function):
        return ""
    role = api.acting_person().role
    return f"This needs the role {api.role_needed(function)}; your role is {role}."


def _is_loopback(host: str, named: bool = False) -> bool:
    """Whether a host is this machine's own address; of another name than localhost: ``named``."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return named


def _open_addresses() -> str:
    """Why others could reach the app that has no sign-in, "" where they could not."""
    address = st.get_option("server.address")
    others = [host for host in st.get_option("server.allowedHosts") or () if not _is_loopback(host)]
    if address and _is_loopback(address) and not others:
        return ""
    where = f"under the name {others[0]}" if address and _is_loopback(address) else (
        f"at the address {address}" if address else "at every address of this machine")  # fmt: skip
    return (
        f"the app would be reached {where} without sign-in; set up [auth] and [roles] in "
        ".streamlit/secrets.toml, or set MIDCHART_WITHOUT_SIGN_IN=yes"
    )


class OwnMachine:
    """ASGI middleware: without sign-in, connections to another address than loopback are refused,
    whichever server runs the app."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a permitted request on; refuse others with status 403."""
        host = (scope.get("server") or ("", 0))[0]
        local = _is_loopback(host, named=True)
        to_others = required() or api.without_sign_in()
        if scope["type"] not in ("http", "websocket") or local or to_others:
            return await self.app(scope, receive, send)
        problem = "without sign-in this app serves its own machine alone"
        if scope["type"] == "websocket":
            await receive()
            return await send({"type": "websocket.close", "code": 1008, "reason": problem})
        return await PlainTextResponse(problem + "\n", 403)(scope, receive, send)
