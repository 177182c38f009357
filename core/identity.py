"""Who acts: the account of the operating system, or the person who signed in to a page.

The command line, notebooks and an app without sign-in act as the account, which may do everything
that its files allow. A server with sign-in resolves the person of each request (:func:`resolve`),
a worker the person who started its run.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from midchart.core import config as settings
from midchart.core.errors import NotPermitted

ROLES = ("viewer", "reviewer", "researcher", "owner")
"""Each role may do what those before it may."""


@dataclass(frozen=True, slots=True)
class Person:
    """Name for the audit log (account, email or subject) and role (:data:`ROLES`)."""

    name: str
    role: str

    def may(self, role: str) -> bool:
        """Whether this person may do what ``role`` may."""
        return ROLES.index(self.role) >= ROLES.index(role)


def account() -> Person:
    """The account that this process runs as."""
    return Person(settings.user(), ROLES[-1])


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


def require(role: str, action: str) -> None:
    """Raise NotPermitted unless the acting person may do what ``role`` may."""
    acting = person()
    if not acting.may(role):
        raise NotPermitted(
            f"{action.replace('_', ' ')} needs the role {role}; {acting.name} has the role "
            f"{acting.role}. The owner of this installation assigns roles"
        )
