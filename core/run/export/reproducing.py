"""A finished run as a spec that another installation does again: every choice in full.

The spec names the cohort, not its place; its content's digest, the versions and the weights stand
in comments at the top. Whether the text is understood as the run's own plan is tried at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.errors import MidchartError
from core.run.compose.presets import read_toml, write_toml
from core.run.entries import READER, ArmEntry
from core.run.members import MemberEntry, gathering
from core.run.plan import Plan, Spec
from core.run.spec import parse_spec, token_twins


def reproduce(plan: Plan) -> tuple[str, str]:
    """The TOML of a spec that repeats a run, and why it may not ("" where nothing is known).

    Weights and keys that are not on this machine are no reason: the other machine may have them.
    """
    text = write_toml(_table(plan))
    problem = _problem(text, plan)
    return "".join(f"# {line}\n" for line in _told(plan, problem)) + "\n" + text, problem


def cohort_name(plan: Plan) -> str:
    """The name of a run's cohort's folder or file."""
    return Path(plan.data).name


def _told(plan: Plan, problem: str) -> list[str]:
    versions: Mapping[str, Any] = plan.raw["versions"]
    packages: Mapping[str, str] = versions["packages"]
    weights: Mapping[str, str] = plan.raw.get("weights", {})
    lines = [
        f"Repeats run {plan.raw['run']}. Put the cohort under data/cohorts/ by the name below, "
        "then: python -m core run REPRODUCE.toml",
        f"cohort content (blake2b): {plan.digest}",
        f"midchart {versions['midchart']}, code {versions['code']}, python {versions['python']}",
        *(f"{name} {version}" for name, version in packages.items() if version != "absent"),
        *(f"weights of {label}: {mark}" for label, mark in weights.items()),
        *([f"not an exact repeat: {problem}"] if problem else []),
    ]
    # A name may hold any character; a comment ends with its line.
    return [
        " ".join("".join(c if c.isprintable() else " " for c in line).split()) for line in lines
    ]


def _table(plan: Plan) -> dict[str, Any]:
    table: dict[str, Any] = {
        "name": plan.name,
        "kind": plan.kind,
        "data": cohort_name(plan),
        "seed": plan.protocol.seed,
        "protocol": plan.protocol.as_dict(),
    }
    if plan.limit is not None:
        table["limit"] = plan.limit
    if plan.part:
        table["part"] = plan.part
    if plan.allow_hosts:
        table["allow_hosts"] = list(plan.allow_hosts)
    arms = [_arm(entry, plan) for entry in _own_arms(plan)]
    lists = {
        "arms": arms,
        "readers": [_member(entry) for entry in plan.reader_entries],
        "judges": [_member(entry) for entry in plan.judge_entries],
    }
    table |= {name: values for name, values in lists.items() if values}
    # A field that is off ("", null or no value) is one that the spec did not name.
    return table | {k: v for k, v in plan.options.items() if v not in (None, "", [])}


def _own_arms(plan: Plan) -> list[ArmEntry]:
    """The arms that the spec named; those of a budget of tokens come of themselves."""
    budgets: list[int] = plan.options.get("token_matched", [])
    if not budgets:
        return list(plan.arms)
    for count in range(1, len(plan.arms)):
        own = plan.arms[:count]
        if [*own, *token_twins(own, budgets, plan.protocol)] == list(plan.arms):
            return list(own)
    return list(plan.arms)


def _arm(entry: ArmEntry, plan: Plan) -> dict[str, Any]:
    options = dict(entry.options)
    if READER in options:
        options[READER] = _member(MemberEntry.read(options[READER]))
    usual = plan.protocol.budget()
    given: dict[str, Any] = {"name": entry.name}
    if entry.k != usual.k:
        given["k"] = entry.k
    if entry.recency != usual.recency:
        given["recency"] = entry.recency
    if entry.tokens != usual.tokens:
        given["tokens"] = entry.tokens or 0
    return given | options


def _member(entry: MemberEntry) -> dict[str, Any]:
    return {"name": entry.name, **entry.options}


def _problem(text: str, plan: Plan) -> str:
    """What a reading of the spec gives that the run did not have."""
    try:
        with gathering():
            read: Spec = parse_spec(read_toml(text))
    except MidchartError as error:
        return str(error)
    pairs = {
        "arms": (read.arms, plan.arms),
        "readers": (read.readers, plan.reader_entries),
        "judges": (read.judges, plan.judge_entries),
        "protocol": (read.protocol, plan.protocol),
        "options": (_set(read.options), _set(plan.options)),
    }
    differs = [name for name, (here, there) in pairs.items() if here != there]
    return f"the spec reads back with other {', '.join(differs)}" if differs else ""


def _set(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are not off, as JSON gives them back; an older plan lacks newer ones."""
    given = {name: value for name, value in options.items() if value not in (None, "", [], ())}
    return json.loads(json.dumps(given))
