"""Readers and judges of a spec: a name, or a table with a name and options.

Every option's name and type are checked against the member's own constructor, and its value by the
member itself, before anything is written. A member may offer class methods for that:

``check(protocol, **options)`` refuses what cannot be done on this machine (weights, a package, a
key) without loading anything; a member without it is made once where it has options.
``addresses(**options)`` says which servers it would call; whether it may is asked when the cohort
is open, before the run's folder is made and again by its worker (:mod:`core.runs.planner`).
``preflight(protocol, egress, **options)`` asks these servers, once that is permitted, for what
every item needs (:mod:`core.runs.planner`).

What a constructor asks for under one of the names in :data:`GIVEN` is given by the run, and no
spec can set it: ``egress`` decides what may leave this machine, ``folder`` is the run's own,
``label`` the entry's, ``watch`` tells how a long wait stands and raises when the run is stopped.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, cast

from core import weights
from core.errors import InputError, MissingKey, MissingModel, SpecError, UnknownName
from core.protocol import Protocol
from core.registry import Registry

GIVEN = frozenset({"protocol", "pinned", "embedder", "egress", "folder", "label", "watch"})
"""Constructor arguments that the run fills in, so that a spec cannot."""


@dataclass(frozen=True, slots=True)
class ComponentSpec:
    """A reader or judge of a run: its name, its options, and the label its rows carry.

    ``label`` is the name and every option that differs from the constructor's own default, so
    two entries of one member are told apart.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    label: str = ""

    @property
    def repeats(self) -> int:
        """Verdicts that each answer gets of a judge."""
        return int(self.options.get("repeats", 1))

    @classmethod
    def read(cls, written: str | Mapping[str, Any]) -> ComponentSpec:
        """An entry as ``spec.json`` holds it; older runs hold bare names."""
        return cls(written, label=written) if isinstance(written, str) else cls(**written)


def read_members(
    values: Sequence[Any], where: str, registry: Registry[Any], protocol: Protocol
) -> tuple[ComponentSpec, ...]:
    """The entries of a list of a spec (``where``: "readers" or "judges").

    Raises SpecError, UnknownName, MissingModel, or what the member itself refuses with.
    """
    found: list[ComponentSpec] = []
    for value in values:
        entry = read_member(value, where, registry, protocol)
        if entry.label in [other.label for other in found]:
            raise SpecError(f"{where!r} of the spec names {entry.label!r} twice")
        found.append(entry)
    return tuple(found)


def read_member(
    value: Any, where: str, registry: Registry[Any], protocol: Protocol
) -> ComponentSpec:
    """One entry, from a name or a table; raises as :func:`read_members` does."""
    name, factory, options = named_table(value, where, registry)
    usual = inspect.signature(factory).parameters
    changed = {key: option for key, option in options.items() if option != usual[key].default}
    try_options(factory, registry.family, name, protocol, changed)
    differs = [f"{key}={option}" for key, option in sorted(changed.items())]
    return ComponentSpec(name, changed, " ".join([name, *differs]))


def named_table(
    value: Any, where: str, registry: Registry[Any], besides: Sequence[str] = ()
) -> tuple[str, Callable[..., Any], dict[str, Any]]:
    """Name, factory and options of a name or a table with a name; ``besides`` are no options."""
    if not isinstance(value, str | Mapping):
        raise SpecError(
            f"{where!r} of the spec holds {value!r}; it takes names or tables with a name"
        )
    table = {"name": value} if isinstance(value, str) else cast("Mapping[str, Any]", value)
    name = table.get("name")
    if not isinstance(name, str):
        raise SpecError(f"{where!r} of the spec holds a table whose name is {name!r}")
    factory = registry.get(name)
    options = {key: table[key] for key in table if key not in ("name", *besides)}
    taken = set(inspect.signature(factory).parameters) - GIVEN
    for key in options:
        if key not in taken:
            valid = {*besides, *taken}
            raise UnknownName(f"option of the {registry.family} {name!r}", key, valid)
    usual = inspect.signature(factory).parameters
    for key, option in options.items():
        told = f"option {key!r} of the {registry.family} {name!r} is {option!r}"
        if not isinstance(option, str | int | float) and not (
            key == "reader" and isinstance(option, Mapping)
        ):
            raise SpecError(told)
        takes = _refused(option, usual[key].default)
        if takes:
            raise SpecError(f"{told}; it takes {takes}")
    return name, factory, options


def _refused(option: Any, usual: Any) -> str:
    """What an option takes, where its value has another type than the constructor's default.

    A word in place of false would count as true, and fail or cost money only while the run goes.
    """
    for type_, words in (
        (bool, "true or false"),
        (int, "a whole number"),
        (float, "a number"),
        (str, "a text in quotes"),
    ):
        if type(usual) is type_:
            fits = type(option) is type_ or (type_ is float and type(option) is int)
            return "" if fits else words
    return ""


def try_options(
    factory: Callable[..., Any],
    family: str,
    name: str,
    protocol: Protocol,
    options: Mapping[str, Any],
    made: bool = True,
) -> None:
    """Let the member itself refuse its options before anything is written.

    ``made``: one without ``check`` may be made for that.
    """
    check = getattr(factory, "check", None)
    try:
        if check is not None:
            check(protocol, **options)
            return
        refuse_missing(factory)
        if options and made:
            factory(protocol, **options)
    except (MissingModel, MissingKey) as error:
        missing = _gathered.get()
        if missing is None:
            raise
        missing.append(str(error))
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise SpecError(f"the {family} {name!r} refuses its options: {error}") from None


_gathered: ContextVar[list[str] | None] = ContextVar("gathered", default=None)


@contextmanager
def gathering() -> Generator[list[str]]:
    """While a spec is read inside, weights and keys that are not here are gathered, not raised."""
    missing: list[str] = []
    token = _gathered.set(missing)
    try:
        yield missing
    finally:
        _gathered.reset(token)


def refuse_missing(factory: Callable[..., Any]) -> None:
    """Raise MissingModel where a member's weights are not on this machine."""
    needs = getattr(factory, "needs", None)
    if needs:
        problem = weights.problem(needs)
        if problem:
            raise MissingModel(problem)
