"""Who acts: the account of the operating system, or the person who signed in to a page.

The command line, notebooks and an app without sign-in act as the account, which may do everything
that its files allow. A server with sign-in resolves the person of each request (:func:`resolve`),
a worker the person who started its run.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from midchart.core import config as settings
from midchart.core.errors import NotPermitted

ROLES = ("viewer", "reviewer", "researcher", "owner")
"""Each role may do what those before it may."""


@dataclass(frozen=True, slots=True)
class Person:
    """Name for the audit log (account, email, or issuer and subject) and role (:data:`ROLES`).

    ``is_account``: the account that this process runs as, which may name any file that it can
    read; others reach what the installation knows, by name (:mod:`midchart.core.access`). Two are
    equal where they are the same person, whatever the role; nobody who signed in is the account,
    whatever the name.
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


def require(role: str, action: str) -> None:
    """Raise NotPermitted unless the acting person may do what ``role`` may."""
    acting = person()
    if not acting.may(role):
        raise NotPermitted(
            f"{action.replace('_', ' ')} needs the role {role}; {acting.name} has the role "
            f"{acting.role}. The owner of this installation assigns roles"
        )
