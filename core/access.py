"""Who may call a function of the interface, and what its arguments name.

Each function that pages call through :mod:`midchart.core.api` states the role that it needs
(:func:`needs`) and types its arguments by what they name (:data:`CohortRef`, :data:`RunRef`, …).
The account that runs the program may call every function and name any path; people who sign in are
held to both by the package that signs them in (entry-point group ``midchart.access``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cache, wraps
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

from midchart.core.errors import NotPermitted
from midchart.core.identity import ROLES, person, require

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Names(Enum):
    """What an argument names; the metadata of the types below."""

    COHORT = "cohort"
    RUN = "run"
    SPEC = "spec"
    SPEC_TEXT = "spec text"
    ENTRIES = "entries"
    OPTIONS = "options"
    RECEIVED = "received file"
    UPLOADS = "uploads"
    PATH = "path"


CohortRef = Annotated[str | Path, Names.COHORT]
"""A cohort by name or path."""
CohortName = Annotated[str, Names.COHORT]
"""The same as text alone."""
RunRef = Annotated[str, Names.RUN]
"""A run's id."""
SpecRef = Annotated[str | Path | Mapping[str, Any], Names.SPEC]
"""A run's spec as a table, or the file that holds it."""
SpecText = Annotated[str | Path | Mapping[str, Any], Names.SPEC_TEXT]
"""A run's spec as a table, its text in TOML, or the file that holds it."""
Entries = Annotated[T, Names.ENTRIES]
"""Arms, readers or judges as a spec writes them, or several fields of a spec."""
ReaderOptions = Annotated[Mapping[str, Any], Names.OPTIONS]
"""Options of a reader, whichever reader."""
Received = Annotated[str | Path, Names.RECEIVED]
"""A file or folder that another system or person made."""
Upload = Annotated[T, Names.UPLOADS]
"""Files that a browser sent."""
LocalPath = Annotated[str | Path, Names.PATH]
"""A path of the caller's choice."""


def needs(role: str, paths: Iterable[str] = ()) -> Callable[[F], F]:
    """Decorator of a function of the interface: the least role that may call it.

    ``paths``: fields of its result, or of tables in it, that hold paths; people who sign in read
    names there.
    """

    def state(function: F) -> F:
        function.__dict__.update(needed_role=role, path_fields=tuple(paths))
        return function

    return state


def role_needed(function: Callable[..., Any]) -> str:
    """The role that a function needs: the last where it states none."""
    return getattr(function, "needed_role", ROLES[-1])


def may(function: Callable[..., Any]) -> bool:
    """Whether the acting person may call a function."""
    return person().may(role_needed(function))


def guarded(function: F) -> F:
    """A function that checks, at each call, the acting person's role and arguments; it raises
    NotPermitted."""

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        if person().is_account:
            return function(*arguments, **named)
        require(role_needed(function), function.__name__)
        if not hasattr(function, "needed_role"):
            raise NotPermitted(f"{function.__name__} states no role: it is for the account alone")
        return _for_people()(function, arguments, named)

    return cast("F", call)


@cache
def _for_people() -> Callable[..., Any]:
    """Calls a function in the name of a person who signed in, its arguments checked."""
    for point in entry_points(group="midchart.access"):
        return point.load()
    raise NotPermitted("no installed package signs people in: only the account may act")
