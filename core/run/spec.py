"""A run's spec: read from TOML or a mapping, every name checked before a folder is made.

What is wrong is told in one line that names the field, the value and what would be right.
"""

from __future__ import annotations

import dataclasses
import inspect
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from core.arms import ARMS
from core.errors import InputError, MissingModel, SpecError, UnknownName
from core.judges import JUDGES
from core.protocol import Protocol, parse
from core.readers import READERS
from core.registry import Registry
from core.run.kinds import KINDS
from core.types import Budget

FIELDS = ("name", "kind", "data", "protocol", "seed", "limit")
LISTS = ("arms", "readers", "judges")
LATER_KINDS: Mapping[str, str] = {
    "curve": "the position curve",
    "needles": "controlled needle runs",
    "gate": "the QCCS gate",
    "forecast": "the EHRSHOT experiment",
}
BUDGET_FIELDS = ("k", "recency", "tokens")
GIVEN_BY_THE_RUN = frozenset({"protocol", "pinned"})
"""Constructor arguments of arms that the run fills in, so that a spec cannot."""


@dataclass(frozen=True, slots=True)
class ArmEntry:
    """One entry of a spec's arms: the arm, its budget, its options, and its label.

    ``label`` tells entries of one run apart: the arm's name, and what differs from the protocol.
    """

    name: str
    k: int
    recency: int
    tokens: int | None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    label: str = ""

    @property
    def budget(self) -> Budget:
        """What the arm may keep."""
        return Budget(self.k, self.recency, self.tokens)


@dataclass(frozen=True, slots=True)
class Spec:
    """What a run is to do.

    ``data`` is as it was written; ``options`` are the kind's own fields; ``base`` is the spec
    file's folder.
    """

    name: str
    kind: str
    data: str
    arms: tuple[ArmEntry, ...]
    readers: tuple[str, ...]
    judges: tuple[str, ...]
    protocol: Protocol
    limit: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    base: str = ""


def read_spec(source: str | Path | Mapping[str, Any]) -> Spec:
    """A spec from a TOML file's path or from a mapping with the same fields.

    Raises SpecError, ProtocolError, UnknownName or MissingModel, each one line.
    """
    if isinstance(source, Mapping):
        return parse_spec(source)
    path = Path(source).expanduser()
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SpecError(f"{path}: there is no such spec file") from None
    except OSError as error:
        raise SpecError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise SpecError(f"{path}: is not UTF-8 text (byte {error.start})") from None
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"{path}: is not valid TOML: {error}") from None
    table.setdefault("name", path.stem)
    return dataclasses.replace(parse_spec(table), base=str(path.resolve().parent))


def parse_spec(table: Mapping[str, Any]) -> Spec:
    """A spec from a mapping; raises as :func:`read_spec` does."""
    name = _text(table, "kind")
    if name in LATER_KINDS:
        raise SpecError(
            f"kind {name!r} belongs to {LATER_KINDS[name]}, which this version does not have yet. "
            f"Valid: {', '.join(KINDS.names())}"
        )
    kind = KINDS.build(name)
    for given in table:
        if given in LISTS and given not in kind.lists:
            raise SpecError(f"a run of kind {name!r} takes no {given}")
        if given not in (*FIELDS, *LISTS, *kind.fields):
            valid = (*FIELDS, *kind.lists, *kind.fields)
            raise UnknownName("field of a spec", str(given), valid)
    protocol = _protocol(table)
    return Spec(
        name=_text(table, "name") if "name" in table else name,
        kind=name,
        data=_text(table, "data"),
        arms=_arms(table, protocol, kind.lists.get("arms", False)),
        readers=_members(table, "readers", READERS, kind.lists.get("readers", False)),
        judges=_members(table, "judges", JUDGES, kind.lists.get("judges", False)),
        protocol=protocol,
        limit=_whole(table, "limit", 1) if "limit" in table else None,
        options=kind.options(table, protocol),
    )


def _text(table: Mapping[str, Any], name: str) -> str:
    if name not in table:
        valid = f" Valid: {', '.join(KINDS.names())}" if name == "kind" else ""
        raise SpecError(f"the spec lacks {name!r}.{valid}")
    value = table[name]
    if not isinstance(value, str) or not value.strip():
        raise SpecError(f"{name!r} of the spec is {value!r}; it takes a text")
    return value


def _whole(table: Mapping[str, Any], name: str, least: int, where: str = "the spec") -> int:
    value = table[name]
    if type(value) is not int or value < least:
        raise SpecError(f"{name!r} of {where} is {value!r}; it takes a whole number from {least}")
    return value


def _protocol(table: Mapping[str, Any]) -> Protocol:
    choice = table.get("protocol", "corrected")
    if not isinstance(choice, str | Mapping):
        raise SpecError(
            f"'protocol' of the spec is {choice!r}; it takes a preset's name or a table"
        )
    protocol = parse(cast("str | Mapping[str, Any]", choice))
    if "seed" in table:
        protocol = dataclasses.replace(protocol, seed=_whole(table, "seed", 0))
    return protocol


def _list(table: Mapping[str, Any], name: str, required: bool) -> Sequence[Any]:
    value = table.get(name, [])
    if not isinstance(value, list | tuple):
        raise SpecError(f"{name!r} of the spec is {value!r}; it takes a list")
    if required and not value:
        raise SpecError(f"the spec names no {name}; at least one is needed")
    return cast("Sequence[Any]", value)


def _members(
    table: Mapping[str, Any], name: str, registry: Registry[Any], required: bool
) -> tuple[str, ...]:
    found: list[str] = []
    for value in _list(table, name, required):
        if not isinstance(value, str):
            raise SpecError(f"{name!r} of the spec holds {value!r}; it takes names")
        refuse_missing(registry.get(value))
        if value in found:
            raise SpecError(f"{name!r} of the spec names {value!r} twice")
        found.append(value)
    return tuple(found)


def refuse_missing(factory: Callable[..., Any]) -> None:
    """Raise MissingModel where a member's weights are not on this machine."""
    needs = getattr(factory, "needs", None)
    if needs:
        from core.embedding import models

        problem = models.problem(needs)
        if problem:
            raise MissingModel(problem)


def _arms(table: Mapping[str, Any], protocol: Protocol, required: bool) -> tuple[ArmEntry, ...]:
    entries: list[ArmEntry] = []
    seen: set[tuple[Any, ...]] = set()
    for value in _list(table, "arms", required):
        entry = _arm(value, protocol)
        same = (entry.name, entry.budget, tuple(sorted(entry.options.items())))
        if same in seen:
            raise SpecError(f"'arms' of the spec holds {entry.label!r} twice")
        seen.add(same)
        entries.append(entry)
    return tuple(entries)


def _arm(value: Any, protocol: Protocol) -> ArmEntry:
    if not isinstance(value, str | Mapping):
        raise SpecError(f"'arms' of the spec holds {value!r}; it takes names or tables with a name")
    table = {"name": value} if isinstance(value, str) else cast("Mapping[str, Any]", value)
    name = table.get("name")
    if not isinstance(name, str):
        raise SpecError(f"'arms' of the spec holds a table whose name is {name!r}")
    factory = ARMS.get(name)
    refuse_missing(factory)
    options = {key: table[key] for key in table if key not in ("name", *BUDGET_FIELDS)}
    taken = set(inspect.signature(factory).parameters) - GIVEN_BY_THE_RUN
    for key, option in options.items():
        if key not in taken:
            raise UnknownName(f"option of the arm {name!r}", key, {*BUDGET_FIELDS, *taken})
        if not isinstance(option, str | int | float):
            raise SpecError(f"option {key!r} of the arm {name!r} is {option!r}")
    given = {key: _whole(table, key, 0, f"arm {name!r}") for key in BUDGET_FIELDS if key in table}
    own = protocol.budget()
    k = given.get("k", own.k)
    recency = given.get("recency", own.recency)
    tokens = given["tokens"] or None if "tokens" in given else own.tokens
    changed = [
        f"{key}={here}"
        for key, here, usual in (
            ("k", k, own.k),
            ("recency", recency, own.recency),
            ("tokens", tokens or 0, own.tokens or 0),
        )
        if here != usual
    ]
    changed += [f"{key}={option}" for key, option in sorted(options.items())]
    if options:
        _try_options(factory, name, protocol, options)
    return ArmEntry(name, k, recency, tokens, options, " ".join([name, *changed]))


def _try_options(
    factory: Callable[..., Any], name: str, protocol: Protocol, options: Mapping[str, Any]
) -> None:
    """Let the arm itself refuse an option's value before anything is written."""
    try:
        factory(protocol, **options)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise SpecError(f"the arm {name!r} refuses its options: {error}") from None
