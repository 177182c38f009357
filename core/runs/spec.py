"""A run's spec: read from TOML or a mapping, every name checked before a folder is made.

What is wrong is told in one line that names the field, the value and what would be right.
"""

from __future__ import annotations

import dataclasses
import inspect
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from core.arms import ARMS
from core.egress import read_host
from core.errors import InputError, SpecError, UnknownName
from core.judges import JUDGES
from core.protocol import Protocol, parse
from core.readers import READERS
from core.registry import Registry
from core.runs.components import ComponentSpec, named_table, read_member, read_members, try_options
from core.runs.experiment import EXPERIMENTS, MADE, Experiment
from core.runs.plan import BUFFER_ALONE, READER, UNLIMITED, ArmConfig, Spec

FIELDS = ("name", "kind", "data", "protocol", "seed", "limit", "part", "allow_hosts")
PARTS = ("train", "validation", "test")
LISTS = ("arms", "readers", "judges")
BUDGET_FIELDS = ("k", "recency", "tokens")


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
    kind = EXPERIMENTS.build(name)
    for given in table:
        if given in LISTS and given not in kind.lists:
            raise SpecError(f"a run of kind {name!r} takes no {given}")
        if given in kind.refuses:
            raise SpecError(f"a run of kind {name!r} takes no {given}: {kind.refuses[given]}")
        if given not in (*FIELDS, *LISTS, *kind.fields):
            valid = (*FIELDS, *kind.lists, *kind.fields)
            raise UnknownName("field of a spec", str(given), valid)
    protocol = _protocol(table)
    readers = _members(table, "readers", READERS, kind, protocol)
    named = table if "arms" in table else {**table, "arms": kind.usual_arms}
    arms = _arms(named, protocol, kind.lists.get("arms", False), readers)
    options = kind.options(table, protocol)
    return Spec(
        name=_text(table, "name") if "name" in table else name,
        kind=name,
        data=_data(table, kind),
        arms=(*arms, *token_twins(arms, options.get("token_matched", ()), protocol)),
        readers=readers,
        judges=_members(table, "judges", JUDGES, kind, protocol),
        protocol=protocol,
        limit=_whole(table, "limit", 1) if "limit" in table else None,
        part=_part(table),
        options=options,
        allow_hosts=_hosts(table),
    )


def _data(table: Mapping[str, Any], kind: Experiment) -> str:
    if not kind.makes_records:
        return _text(table, "data")
    if table.get("data", MADE) != MADE:
        raise SpecError(f"a run of kind {kind.name!r} makes its own records: leave 'data' out")
    return MADE


def _hosts(table: Mapping[str, Any]) -> tuple[str, ...]:
    found: list[str] = []
    for host in _list(table, "allow_hosts", False):
        if not isinstance(host, str):
            raise SpecError(f"'allow_hosts' of the spec holds {host!r}; it takes names of hosts")
        try:
            found.append(read_host(host))
        except InputError as error:
            raise SpecError(f"'allow_hosts' of the spec: {error}") from None
    return tuple(found)


def _text(table: Mapping[str, Any], name: str) -> str:
    if name not in table:
        valid = f" Valid: {', '.join(EXPERIMENTS.names())}" if name == "kind" else ""
        raise SpecError(f"the spec lacks {name!r}.{valid}")
    value = table[name]
    if not isinstance(value, str) or not value.strip():
        raise SpecError(f"{name!r} of the spec is {value!r}; it takes a text")
    return value


def _part(table: Mapping[str, Any]) -> str:
    value = table.get("part", "")
    if value not in ("", *PARTS):
        raise SpecError(f"'part' of the spec is {value!r}. Valid: {', '.join(PARTS)}")
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
    table: Mapping[str, Any],
    name: str,
    registry: Registry[Any],
    kind: Experiment,
    protocol: Protocol,
) -> tuple[ComponentSpec, ...]:
    values = _list(table, name, kind.lists.get(name, False))
    return read_members(values, name, registry, protocol)


def _arms(
    table: Mapping[str, Any],
    protocol: Protocol,
    required: bool,
    readers: tuple[ComponentSpec, ...],
) -> tuple[ArmConfig, ...]:
    entries: list[ArmConfig] = []
    for value in _list(table, "arms", required):
        entry = _arm(value, protocol, readers)
        same = (entry.name, entry.budget, entry.options)
        if same in [(other.name, other.budget, other.options) for other in entries]:
            raise SpecError(f"'arms' of the spec holds {entry.label!r} twice")
        entries.append(entry)
    return tuple(entries)


def token_twins(
    arms: Sequence[ArmConfig], budgets: Sequence[int], protocol: Protocol
) -> list[ArmConfig]:
    """For each budget of tokens every arm of a run once more, held to it instead of to a k.

    Entries that differ in k or tokens alone have one twin. A twin compares the arms' own picks:
    it has no recency buffer, the arm that is nothing else excepted, unless the protocol serves
    the buffer first (published).
    """
    own_picks = protocol.recency_rule == "share"
    twins: list[ArmConfig] = []
    for tokens in budgets:
        for entry in arms:
            without = own_picks and entry.name != BUFFER_ALONE
            left_out = ("k=", "tokens=", *(("recency=",) if without else ()))
            name, *changed = entry.label.split(" ")
            others = [part for part in changed if not part.startswith(left_out)]
            label = " ".join([name, "k=all", f"tokens={tokens}", *others])
            if label not in [twin.label for twin in twins]:
                recency = 0 if without else entry.recency
                twin = dataclasses.replace(
                    entry, k=UNLIMITED, recency=recency, tokens=tokens, label=label
                )
                twins.append(twin)
    return twins


def _arm(value: Any, protocol: Protocol, readers: tuple[ComponentSpec, ...]) -> ArmConfig:
    name, factory, options = named_table(value, "arms", ARMS, BUDGET_FIELDS)
    table: Mapping[str, Any] = {} if isinstance(value, str) else value
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
    shown = dict(options)
    if READER in inspect.signature(factory).parameters:
        reader = _reader_of(name, options.pop(READER, None), protocol, readers)
        if READER in shown:
            shown[READER] = reader.label
        try_options(factory, ARMS.family, name, protocol, options, made=False)
        options[READER] = dataclasses.asdict(reader)
    else:
        try_options(factory, ARMS.family, name, protocol, options)
    changed += [f"{key}={option}" for key, option in sorted(shown.items())]
    return ArmConfig(name, k, recency, tokens, options, " ".join([name, *changed]))


def _reader_of(
    arm: str, value: Any, protocol: Protocol, readers: tuple[ComponentSpec, ...]
) -> ComponentSpec:
    """The reader an arm works with: its own option, or else the run's first that writes."""
    named = readers if value is None else (read_member(value, "readers", READERS, protocol),)
    for entry in named:
        if _writes(entry.name):
            return entry
    able = [name for name in READERS.names() if _writes(name)]
    found = ", ".join(repr(entry.name) for entry in named)
    raise SpecError(
        f"the arm {arm!r} works with a reader that writes, and "
        + (f"{found} only picks lines of its prompt" if named else "this run has none")
        + f'; name one: {{ name = "{arm}", reader = "{able[0]}" }}. Valid: {", ".join(able)}'
    )


def _writes(reader: str) -> bool:
    return getattr(READERS.get(reader), "generative", True)
