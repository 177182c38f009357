"""Who acts: the account of the operating system, or the person who signed in to a page.

The command line, notebooks and an app without sign-in act as the account, which may do everything
that its files allow. A server with sign-in resolves the person of each request (:func:`resolve`),
a worker the person who started its run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from midchart.core import config as settings
from midchart.core.errors import NotPermitted, read_messages_by

ROLES = ("viewer", "reviewer", "researcher", "owner")
"""Each role may do what those before it may."""


@dataclass(frozen=True, slots=True)
class Person:
    """Name for the audit log (account, email, or issuer and subject) and role (:data:`ROLES`).

    ``is_account``: the account that this process runs as, which may name any file that it can
    read; others reach what the installation knows, by name
    (:mod:`midchart.core.services.objects`). Two are equal where they are the same person, whatever
    the role; nobody who signed in is the account, whatever the name.
    """

    name: str
    role: str = field(compare=False)
    is_account: bool = False

    def may(self, role: str) -> bool:
        """Whether this person may do what ``role`` may."""
        return ROLES.index(self.role) >= ROLES.index(role)


def account() -> Person:
    """The account that this process runs as."""
    return Person(settings.user(), ROLES[-1], is_account=True)


_resolver: list[Callable[[], Person | None]] = [account]
_acting: ContextVar[Person | None] = ContextVar("acting", default=None)


def resolve(resolver: Callable[[], Person | None]) -> None:
    """Ask ``resolver`` in this process who acts; None means that nobody is signed in."""
    _resolver[0] = resolver


@contextmanager
def acting_as(person: Person) -> Generator[None]:
    """Act as ``person`` in the enclosed block, in this thread."""
    token = _acting.set(person)
    try:
        yield
    finally:
        _acting.reset(token)


def person() -> Person:
    """Who acts now; raises NotPermitted where nobody is signed in who must be."""
    acting = _acting.get() or _resolver[0]()
    if acting is None:
        raise NotPermitted("nobody is signed in here; sign in and try again")
    return acting


def by_name_alone() -> bool:
    """Whether who acts now, if anybody, reaches what the installation knows and no other file."""
    acting = _acting.get() or _resolver[0]()
    return acting is None or not acting.is_account


_ROOT = (
    r"(?:file:)?(?<!https:)(?<!http:)(?<!ray:)(?<![\w./~-])(?!(?<=<)/\w+>)"
    r"(?:~(?:[A-Za-z_][\w.-]*)?/++|(?:\.{1,2}/++)++|/++)"
)
"""Where a path begins: at the root, a home or the current folder; not in an address or a tag."""
_NOT = r"/'\",;:()\[\]{}<>—~"
_FOLDER = rf"[^\s/]*+/++|(?:[^\n{_NOT}]|\([^\n/()]*+\))*+(?<=\S)/++(?=\S)"
_PATH = re.compile(rf"{_ROOT}(?=[^\s{_NOT}])(?:{_FOLDER})*+[^\s{_NOT}]*+")
"""Folders may have blanks in their names; a last name ends at a blank."""
_LONGEST = 4096
"""Bytes of a path, on Linux."""
_QUOTED = re.compile(rf"(?<=(['\"])){_ROOT}(?:(?!\1)[^\n]){{1,{_LONGEST}}}+(?=\1)")
"""Each ends at the next quote of its kind, so that the time grows with the text's length alone."""
_ESCAPED = (("\\'", "\ufdd0"), ('\\"', "\ufdd1"))
"""Quotes within quotes, and noncharacters that stand for them meanwhile."""
_FIRST = re.compile(rf"^{_ROOT}[^\n]{{1,{_LONGEST}}}?(?=:\d+: |: (?![^\s/]+/\S))", re.MULTILINE)


def without_places(text: str) -> str:
    """A text in which no path of this machine is left, for people who sign in; else the text.

    The installation's folders become ``data``, ``cache`` and ``models``, and another path, absolute
    or from a home or the current folder, its last name.
    """
    if "/" not in text or not by_name_alone():
        return text
    folders = {
        settings.data_folder(): "data",
        settings.models_folder(): "models",
        settings.cache_folder(): "cache",
        settings.ROOT: "",
        Path.home(): "",
    }
    names = {str(one): name for place, name in folders.items() for one in (place, place.resolve())}
    for folder in sorted(names, key=len, reverse=True):
        text = text.replace(f"{folder}/", f"{names[folder]}/".removeprefix("/"))
        text = re.sub(rf"{re.escape(folder)}(?![\w.-])", names[folder] or "midchart", text)
    for escaped, mark in _ESCAPED:
        text = text.replace(escaped, mark)
    for pattern in (_FIRST, _QUOTED, _PATH):
        text = pattern.sub(_last_name, text)
    for escaped, mark in _ESCAPED:
        text = text.replace(mark, escaped)
    return text


def _last_name(path: re.Match[str]) -> str:
    return path[0].rstrip("/").rpartition("/")[2]


read_messages_by(without_places)


def require(role: str, action: str) -> None:
    """Raise NotPermitted unless the acting person may do what ``role`` may."""
    acting = person()
    if not acting.may(role):
        raise NotPermitted(
            f"{action.replace('_', ' ')} needs the role {role}; {acting.name} has the role "
            f"{acting.role}. The owner of this installation assigns roles"
        )
