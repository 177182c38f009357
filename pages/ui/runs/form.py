"""The form of a spec: its fields as widgets, whatever its kind; it reads and gives a mapping.

A member is a name, or a table in TOML with its options; a field of the kind's own is a TOML value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from core import api
from core.errors import MidchartError
from pages.ui import state

LISTS = {"arms": "arm", "readers": "reader", "judges": "judge"}
BEGIN = {"arms": ["full", "bm25"], "readers": ["extractive"], "judges": ["token_overlap"]}
"""What a list begins with where a kind that needs one is chosen."""
COMMON = ("name", "kind", "data", "protocol", "seed", "limit", "part", "allow_hosts")
OWN = {
    "semantic": "true: also test whether kept sentences entail the reference",
    "token_matched": "[900]: also run each arm with a budget of 900 tokens",
}


def form(table: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The spec as the widgets have it; a field that is not known stays as it is."""
    kinds = {kind["name"]: kind for kind in api.kinds()}
    made = dict(table)
    first, second = st.columns(2)
    with first:
        made["name"] = st.text_input("Name", str(table.get("name", "")), key=f"{key}_name")
        known = list(kinds)
        given = table.get("kind")
        index = known.index(given) if given in known else 0
        made["kind"] = st.selectbox(
            "Kind", known, index, format_func=lambda name: kinds[name]["title"],
            key=f"{key}_kind",
        )  # fmt: skip
    with second:
        made["data"] = _data(table, key)
        made["protocol"] = _protocol(table, key)
    kind = kinds[made["kind"]]
    if made["kind"] != table.get("kind"):
        made = _of_kind(made, kind)
    for name, must in kind["lists"].items():
        _list(made, name, must, f"{key}_{made['kind']}_{name}")
    third, fourth = st.columns(2)
    with third:
        made["seed"] = st.number_input(
            "Seed", 0, None, _whole(table.get("seed"), 42), key=f"{key}_seed"
        )
    with fourth:
        limit = st.number_input(
            "Number of questions (0: all)", 0, None, _whole(table.get("limit"), 0),
            key=f"{key}_limit",
        )  # fmt: skip
    made.pop("limit", None)
    if limit:
        made["limit"] = limit
    _where(made, kind, f"{key}_{made['kind']}")
    _own(made, kind, f"{key}_{made['kind']}")
    return {name: value for name, value in made.items() if value not in ("", None)}


def _whole(value: Any, usual: int) -> int:
    return value if type(value) is int and value >= 0 else usual


def _of_kind(made: dict[str, Any], kind: dict[str, Any]) -> dict[str, Any]:
    """The spec without what the kind does not take, and with what it must have."""
    taken = (*COMMON, *kind["lists"], *kind["fields"])
    kept = {name: value for name, value in made.items() if name in taken}
    for name, must in kind["lists"].items():
        if must:
            kept.setdefault(name, BEGIN[name])
    return kept


def _data(table: Mapping[str, Any], key: str) -> str:
    names = [name for name, _, problem in state.cohorts() if not problem]
    given = str(table.get("data", ""))
    if given and given not in names:
        names.append(given)
    return st.selectbox("Cohort", names, names.index(given) if given else 0, key=f"{key}_data")


def _protocol(table: Mapping[str, Any], key: str) -> Any:
    given = table.get("protocol", "corrected")
    if not isinstance(given, str):
        text = st.text_input("Protocol (TOML)", api.value_toml(given), key=f"{key}_protocol")
        return _value(text, given)
    names = list(api.PRESETS)
    if given not in names:
        names.append(given)
    return st.selectbox("Protocol", names, names.index(given), key=f"{key}_protocol")


def _list(made: dict[str, Any], name: str, must: bool, key: str) -> None:
    """The members of a list: chosen by name, or typed with options."""
    given = made.get(name, [])
    entries = [e if isinstance(e, str) else api.value_toml(e) for e in given]
    cards = {card.name: card for card in api.members(LISTS[name])}
    chosen = st.multiselect(
        name.capitalize() + ("" if must else " (none needed)"),
        [*dict.fromkeys([*entries, *cards])],
        list(dict.fromkeys(entries)),
        key=key,
        format_func=lambda entry: _words(entry, cards),
        accept_new_options=True,
        wrap=True,
        help='For options enter a table, for example { name = "bm25", k = 5 }',
    )
    made[name] = [_value(entry, entry) if entry.startswith("{") else entry for entry in chosen]
    if not made[name] and not must:
        del made[name]


def _where(made: dict[str, Any], kind: dict[str, Any], key: str) -> None:
    """Hosts off this machine that text may go to: the user's own word, never filled in."""
    given = made.get("allow_hosts", [])
    if not {"readers", "judges"} & set(kind["lists"]) and not given:
        return
    hosts = st.multiselect(
        "Hosts allowed to receive record text (none needed)",
        list(given),
        list(given),
        key=f"{key}_hosts",
        accept_new_options=True,
        placeholder="None: nothing leaves this machine",
        help="The cohort's data-use tag must also allow it.",
    )
    made.pop("allow_hosts", None)
    if hosts:
        made["allow_hosts"] = hosts


def _words(entry: str, cards: Mapping[str, api.MemberCard]) -> str:
    """An entry as people read it: the name, the options behind it, and whether it is installed."""
    table = _value(entry, None) if entry.startswith("{") else None
    if isinstance(table, dict) and "name" in table:
        name = str(table["name"])
        shown = " ".join([name, *(f"{k}={v}" for k, v in table.items() if k != "name")])
    else:
        name = shown = entry
    return shown if name not in cards or cards[name].installed else f"{shown} (not installed)"


def _own(made: dict[str, Any], kind: dict[str, Any], key: str) -> None:
    """The kind's own fields, each a TOML value; an empty one is left at its usual value."""
    fields = kind["fields"]
    if not fields:
        return
    with st.expander(f"Fields of a run of kind {kind['name']}", expanded=True):
        for place, column in zip(fields, st.columns(2) * len(fields), strict=False):
            given = api.value_toml(made[place]) if place in made else ""
            with column:
                text = st.text_input(
                    place, given, key=f"{key}_{place}", placeholder="default", help=OWN.get(place)
                )
            made.pop(place, None)
            if text.strip():
                made[place] = _value(text, text)


def _value(text: str, otherwise: Any) -> Any:
    """A TOML value; what is no TOML stays a text, and the engine says what is wrong with it."""
    try:
        return api.read_toml(f"value = {text}")["value"]
    except MidchartError:
        return otherwise
