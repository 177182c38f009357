"""A new run: what to compare, on whose charts, by which reader; what it will do, before it starts.

One text, the spec's TOML, is kept between reruns; the three choices, the fields under Advanced and
the TOML view read and write it, so all show the same run. Only the engine validates it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from midchart.core import api
from midchart.core.errors import MidchartError
from midchart.pages.ui import state
from midchart.pages.ui.runs import presets
from midchart.pages.ui.shared.marks import for_screen, for_terminal

LIST, NEW = "All runs", "New run"
"""The views of page Runs."""
TEXT, ROUND = "compose_text", "compose_round"
PLACES = {
    "here": "This machine, one process",
    "cores": "This machine, all cores",
    "ray": "This machine, all cores or GPUs (Ray)",
}
"""Where the work may be done; the command line's --on says the same, and knows clusters too."""


def compose() -> None:
    """Three choices, what the run will do, its start, and everything else under Advanced."""
    if TEXT not in st.session_state:
        first = presets.spec(presets.FIRST)
        names = state.question_cohorts()
        first["data"] = first["data"] if first["data"] in names or not names else names[0]
        del first["name"]  # so that the name says what is compared
        _fresh(api.write_toml(first))
    choices, summary = st.columns((5, 3, 4)), st.container()
    with st.expander("Advanced", icon=":material/tune:", key="compose_advanced"):
        place = _advanced()
        try:
            table = api.read_toml(st.session_state[TEXT])
            changed = _widgets(table, f"compose_{st.session_state[ROUND]}", choices)
        except MidchartError as error:
            summary.warning(f"{for_screen(str(error))} Fix it in the TOML under Advanced.")
            return
    if changed != table:
        st.session_state[TEXT] = api.write_toml(changed)
    spec = changed if "name" in changed else {"name": _named(changed), **changed}
    with summary:
        if estimate := presets.button(spec, "Start run", "compose", on=place):
            _estimate(estimate)


def _fresh(text: str) -> None:
    """Take over a spec; widgets of a new round start from it, not from their last values."""
    st.session_state[TEXT] = text
    st.session_state[ROUND] = st.session_state.get(ROUND, 0) + 1


def _advanced() -> str:
    """The preset, the TOML and the place of the work, which is returned: the value of --on."""
    known = {preset.name: preset for preset in api.presets()}
    left, right = st.columns(2)
    left.selectbox(
        "Preset", list(known), None, format_func=lambda name: known[name].title,
        key="compose_preset", placeholder="Take over one of the included specs",
        on_change=lambda: _fresh(known[st.session_state["compose_preset"] or presets.FIRST].text),
        persist_state="session",
    )  # fmt: skip
    place = right.selectbox(
        "Run on", list(PLACES), format_func=PLACES.__getitem__, key="compose_on",
        persist_state="session",
        help="On all cores or Ray, several workers run in parallel; all else is the same.",
    )  # fmt: skip
    if left.toggle("Edit as TOML", key="compose_as_toml", persist_state="session"):
        key = f"compose_toml_{st.session_state[ROUND]}"
        st.text_area(
            "The spec, as TOML; `midchart run SPEC.toml --estimate` says what this page says",
            st.session_state[TEXT], height=420, key=key,
            on_change=lambda: _fresh(st.session_state[key]),
        )  # fmt: skip
    return place


def _named(spec: Mapping[str, Any]) -> str:
    """The name of a run that was given none: what it compares, on which cohort."""
    names = [api.title("arm", _label(arm)) for arm in spec.get("arms", ())]
    names = names[:3] + ["more"] * (len(names) > 3)
    kind = next(kind["title"] for kind in api.kinds() if kind["name"] == spec["kind"])
    return (
        f"{api.names_in_words(names) if names else kind} on {spec.get('data', 'its own records')}"
    )


def _estimate(estimate: dict[str, Any]) -> None:
    cost, needed = estimate["cost_usd"], estimate["weights"]
    weights = [row["name"] + ("" if row["here"] else " (missing)") for row in needed]
    facts = {
        "Items": f"{estimate['items']:,}",
        "Model calls": f"{estimate['calls']:,}",
        "Tokens": f"about {estimate['tokens']:,}" if estimate["tokens"] else "none",
        "Cost": "not known" if cost is None else f"about ${cost:,.2f}" if cost else "none",
        "Evidence position": estimate["position"],
        "Weights": ", ".join(weights) or "none",
    }
    facts = {name: text for name, text in facts.items() if text}
    frame = pd.DataFrame(
        {"": [for_screen(text) for text in facts.values()]},
        index=pd.Index([f"**{name}**" for name in facts], name=""),
    )
    st.table(frame, border="horizontal", hide_header=True, alt="What the run will do")


FAMILIES = {"arms": "arm", "readers": "reader", "judges": "judge"}
Schema = Mapping[str, Any]


def _widgets(table: Mapping[str, Any], key: str, choices: Sequence[Any]) -> dict[str, Any]:
    """The spec as the widgets have it; fields that the schema lacks stay as they are.

    ``choices``: the three places of what is compared, whose charts and which reader.
    """
    compared, charts, reader = choices
    left, right = st.columns(2)
    kind = str(table.get("kind") or "answers")
    schema = api.spec_schema(kind)
    fields: Mapping[str, Schema] = schema["properties"]
    spec = {**table, "kind": kind}
    edited = {
        "name": right.text_input(
            fields["name"]["title"],
            str(spec.get("name", "")),
            key=f"{key}_name",
            help=fields["name"]["description"],
        )
    }
    if "data" in fields:
        edited["data"] = _cohort(fields["data"], spec, f"{key}_data", charts)
    for name, place, label in (
        ("arms", compared, "What to compare"),
        ("readers", reader, "Reader"),
        ("judges", left, ""),
    ):
        if name in fields:
            edited[name] = _components(name, schema, spec, f"{key}_{kind}_{name}", place, label)
    if "arms" not in fields:
        compared.caption(f"A run of kind {for_screen(kind)}: its fields are in the TOML.")
    limit = spec.get("limit")
    if "limit" in fields and (limit is None or (isinstance(limit, int) and limit > 0)):
        edited["limit"] = right.number_input(
            fields["limit"]["title"],
            1,
            None,
            limit,
            key=f"{key}_limit",
            placeholder="all",
            help=fields["limit"]["description"],
        )
    return {
        name: value
        for name, value in {**spec, **edited}.items()
        if value is not None and value != "" and (value != [] or name in schema["required"])
    }


def _cohort(field: Schema, spec: Mapping[str, Any], key: str, place: Any) -> str:
    names = [name for name, _, problem in state.cohorts() if not problem]
    chosen = str(spec.get("data", ""))
    if chosen and chosen not in names:
        names.append(chosen)
    index = names.index(chosen) if chosen else 0
    return place.selectbox(
        "Patients", names, index, key=key, help=field["description"], format_func=for_terminal
    )


def _components(
    name: str, schema: Schema, spec: Mapping[str, Any], key: str, place: Any, label: str
) -> list[Any]:
    field, family = schema["properties"][name], FAMILIES[name]
    entries = [e if isinstance(e, str) else api.value_toml(e) for e in spec.get(name, ())]
    cards = {card.name: card for card in api.members(family)}
    chosen: Sequence[str] = place.multiselect(
        (label or field["title"]) + ("" if name in schema["required"] else " (optional)"),
        [*dict.fromkeys([*entries, *cards])],
        list(dict.fromkeys(entries)),
        key=key,
        format_func=lambda entry: _entry_title(entry, family, cards),
        accept_new_options=True,
        wrap=True,
        help=f'{field["description"]} For example {{ name = "bm25", k = 5 }}',
    )
    return [_value(entry, entry) if entry.startswith("{") else entry for entry in chosen]


def _label(entry: Any) -> str:
    """The label of an entry of a list of components: its name and its options."""
    if not isinstance(entry, Mapping):
        return str(entry)
    options = (f"{k}={v}" for k, v in entry.items() if k != "name")
    return " ".join([str(entry.get("name", "")), *options])


def _entry_title(entry: str, family: str, cards: Mapping[str, api.MemberCard]) -> str:
    """An entry as people read it: its title with its options, and whether it is installed."""
    label = _label(_value(entry, entry) if entry.startswith("{") else entry)
    name = label.partition(" ")[0]
    away = name in cards and not cards[name].installed
    return api.title(family, label) + (" (not installed)" if away else "")


def _value(text: str, otherwise: Any) -> Any:
    """A TOML value; what is no TOML stays a text, and the engine says what is wrong with it."""
    try:
        return api.read_toml(f"value = {text}")["value"]
    except MidchartError:
        return otherwise
