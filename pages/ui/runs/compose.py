"""Composing a run: a preset, changed in a form or as TOML, and what it will do before it starts.

One text, the spec's TOML, is kept between reruns; the form reads and writes it, so both views
always show the same run. Only the engine validates it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from midchart.core import api
from midchart.core.errors import MidchartError
from midchart.pages.ui import sign_in, state
from midchart.pages.ui.runs import presets
from midchart.pages.ui.shared.formats import duration
from midchart.pages.ui.shared.marks import plain

WATCH = "Watch"
TEXT, ROUND, REFUSED = "compose_text", "compose_round", "compose_refused"
FORM, TOML = "Form", "TOML"
FIRST = "demo"
HERE, LOCAL, CLUSTER = "here", "ray", "ray://"
PLACES = {
    HERE: "This machine, one process",
    LOCAL: "This machine, all cores or GPUs (Ray)",
    CLUSTER: "A cluster (Ray)",
}
"""Where the work may be done; the command line's --on says the same."""


def compose() -> None:
    """The spec on the left, what it will do on the right."""
    known = {preset.name: preset for preset in api.presets()}
    first = FIRST if FIRST in known else next(iter(known))
    if TEXT not in st.session_state:
        _fresh(known[first].text)
    left, right = st.columns([3, 2], gap="large")
    with left:
        with st.container(horizontal=True, vertical_alignment="top", gap="medium"):
            st.selectbox(
                "Preset",
                list(known),
                index=list(known).index(first),
                format_func=lambda name: known[name].title,
                key="compose_preset",
                on_change=lambda: _fresh(known[st.session_state["compose_preset"]].text),
                persist_state="session",
                width=300,
            )
            how = st.segmented_control(
                "Edit as", [FORM, TOML], default=FORM, required=True, key="compose_how",
                on_change=_next_round,
            )  # fmt: skip
        if how == FORM:
            _form()
        else:
            st.session_state[TEXT] = st.text_area(
                "The spec, as TOML", st.session_state[TEXT], height=560,
                key=f"compose_toml_{st.session_state[ROUND]}",
            )  # fmt: skip
    with right:
        _preflight(st.session_state[TEXT])


def _fresh(text: str) -> None:
    st.session_state[TEXT] = text
    _next_round()


def _next_round() -> None:
    """Widgets of a new round start from the text, not from their last values."""
    st.session_state[ROUND] = st.session_state.get(ROUND, 0) + 1


def _form() -> None:
    try:
        table = api.read_toml(st.session_state[TEXT])
    except MidchartError as error:
        st.warning(f"{plain(str(error))} Fix it in the TOML view.")
        return
    changed = _widgets(table, f"compose_{st.session_state[ROUND]}")
    if changed != table:
        st.session_state[TEXT] = api.write_toml(changed)


def _preflight(text: str) -> None:
    """What the spec will do, the problems that prevent a start, and the start button."""
    st.header("Preflight", anchor=False)
    place = _place()
    preflight = state.preflight(text, place)
    problem = sign_in.lacking("enqueue")
    problems = [*([problem] if problem else []), *preflight["problems"]]
    if preflight["estimate"] is not None:
        _estimate(preflight["estimate"], preflight["cluster"])
    if preflight["estimate"] is not None and not problems and place == HERE:
        presets.measure(text, preflight["estimate"], "compose")
    if problems:
        items = "".join(f"\n- {plain(problem)}" for problem in problems)
        st.warning(items, title="The run cannot start yet")
    st.button(
        "Start run",
        key="compose_start",
        type="primary",
        icon=":material/play_arrow:",
        disabled=bool(problems),
        help="Fix the problems listed above first." if problems else None,
        on_click=_start,
        args=(text, place),
    )
    refused = st.session_state.pop(REFUSED, "")
    if refused:
        st.error(plain(refused), title="The run could not be started")
    with st.expander("Command line"):
        st.caption("Save this as a file and run it; `--estimate` prints the same preflight.")
        st.code(text, language="toml", wrap_lines=True)
        on = "" if place == HERE else f" --on {place}"
        st.code(f"midchart run SPEC.toml --queued{on}", language=None, wrap_lines=True)


def _estimate(estimate: dict[str, Any], cluster: str) -> None:
    """An estimate as a table; ``cluster``: the address of the cluster that does the work."""
    time, cost, needed = estimate["time"], estimate["cost_usd"], estimate["weights"]
    duration_text = f"unknown: {time['basis']}"
    if time["seconds"] is not None:
        duration_text = f"about {duration(time['seconds'])}, from {time['basis']}"
    weights = [row["name"] + ("" if row["here"] else " (missing)") for row in needed]
    facts = {
        "Items": f"{estimate['items']:,}",
        "Questions": f"{estimate['instructions']:,} of {estimate['records']:,} patients",
        "Model calls": f"{estimate['calls']:,}",
        "Tokens": f"about {estimate['tokens']:,}" if estimate["tokens"] else "none",
        "Time": duration_text,
        "Cost": "not known" if cost is None else f"about ${cost:,.2f}" if cost else "none",
        "Evidence position": estimate["position"],
        "Weights": ", ".join(weights) or "none",
        "Leaves this machine": _egress(estimate["leaves"], cluster),
    }
    facts = {name: text for name, text in facts.items() if text}
    frame = pd.DataFrame(
        {"": [plain(text) for text in facts.values()]},
        index=pd.Index([f"**{name}**" for name in facts], name=""),
    )
    st.table(frame, border="horizontal", hide_header=True, alt="Preflight of the run")


def _egress(leaves: dict[str, Any] | None, cluster: str) -> str:
    """What would leave this machine, and where it would go."""
    parts: list[str] = []
    if leaves is not None:
        secured = "encrypted" if leaves["encrypted"] else "not encrypted"
        parts.append(
            f"{leaves['what']}, of {leaves['records']:,} patients and {leaves['questions']:,} "
            f"questions, to {', '.join(leaves['hosts'])} ({secured})"
        )
    if cluster:
        parts.append(
            f"records, prompts and answers, to the machines of {cluster} (not encrypted unless "
            "Ray's TLS is set up there)"
        )
    return "; and ".join(parts) or "nothing"


def _place() -> str:
    """The value of the command line's --on."""
    chosen = st.selectbox(
        "Run on", list(PLACES), format_func=PLACES.__getitem__, key="compose_on",
        persist_state="session",
        help="On Ray, several workers run in parallel; rows, status and resume are the same.",
    )  # fmt: skip
    if chosen != CLUSTER:
        return chosen
    typed = st.text_input(
        "Head node of the cluster", key="compose_cluster", persist_state="session",
        placeholder="HOST:6379", help="The machine where ray start --head was run. All machines "
            "need the same code, data and cache folders.",
    )  # fmt: skip
    return CLUSTER + typed.strip().removeprefix(CLUSTER)


def _start(text: str, place: str) -> None:
    """Queue the run and open it in the Watch view."""
    try:
        run = api.enqueue(api.read_toml(text), place)
    except MidchartError as error:
        st.session_state[REFUSED] = str(error)
    else:
        st.session_state["view"] = WATCH
        st.session_state["run"] = run


FAMILIES = {"arms": "arm", "readers": "reader", "judges": "judge"}
PREFILLED = {
    "arms": ["full", "bm25", "hybrid"],
    "readers": ["extractive"],
    "judges": ["token_overlap"],
}
"""Entries of a list that a newly chosen kind requires."""
FIRST_FIELDS = ("name", "kind", "data", "protocol")
Schema = Mapping[str, Any]


def _widgets(table: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The spec as the widgets have it; fields that the schema lacks stay as they are."""
    titles = {kind["name"]: kind["title"] for kind in api.kinds()}
    kinds = list(titles)
    left, right = st.columns(2)
    kind = left.selectbox(
        "Kind", kinds, kinds.index(table["kind"]) if table.get("kind") in titles else 0,
        format_func=titles.__getitem__, key=f"{key}_kind",
    )  # fmt: skip
    schema = api.spec_schema(kind)
    fields: Mapping[str, Schema] = schema["properties"]
    spec = {**table, "kind": kind}
    if kind != table.get("kind"):
        spec = {name: value for name, value in spec.items() if name in fields}
        spec |= {name: PREFILLED[name] for name in schema["required"]
                 if name in PREFILLED and name not in spec}  # fmt: skip
    edited = {"name": _text("name", fields["name"], spec, f"{key}_name", left)}
    if "data" in fields:
        edited["data"] = _cohort(fields["data"], spec, f"{key}_data", right)
    edited["protocol"] = _protocol(schema, spec, f"{key}_protocol", right)
    for name in [name for name in FAMILIES if name in fields]:
        edited[name] = _components(name, schema, spec, f"{key}_{kind}_{name}")
    others = [name for name in fields if name not in (*FIRST_FIELDS, *FAMILIES)]
    for name, column in zip(others, st.columns(2) * len(others), strict=False):
        edited[name] = _field(name, schema, spec, f"{key}_{kind}_{name}", column)
    return {
        name: value
        for name, value in {**spec, **edited}.items()
        if value is not None and value != "" and (value != [] or name in schema["required"])
    }


def _about(schema: Schema, field: Schema) -> dict[str, Any]:
    """Help text (description, type with limits, default) and the default as a placeholder."""
    default = api.value_toml(field["default"]) if "default" in field else ""
    takes = f"Takes {api.type_text(schema, field)}."
    parts = [field.get("description", ""), takes, f"Default: `{default}`." if default else ""]
    shown = "none" if default == "[]" else default or "default"
    return {"help": " ".join(filter(None, parts)), "placeholder": shown}


def _field(name: str, schema: Schema, spec: Mapping[str, Any], key: str, place: Any) -> Any:
    """The widget of a field by its type in the schema; None: the default."""
    field = schema["properties"][name]
    about, value, label = _about(schema, field), spec.get(name), field["title"]
    kind, items = field.get("type"), field.get("items", {})
    if "enum" in field:
        choices = field["enum"]
        index = choices.index(value) if value in choices else None
        return place.selectbox(label, choices, index, key=key, **about)
    if kind == "boolean":
        chosen = place.checkbox(label, bool(spec.get(name, field["default"])), key=key,
                                help=about["help"])  # fmt: skip
        return chosen if name in spec or chosen != field["default"] else None
    if kind in ("integer", "number"):
        number = int if kind == "integer" else float
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        bounds = [field.get(limit) for limit in ("minimum", "maximum")]
        return place.number_input(
            label, *(None if one is None else number(one) for one in bounds),
            number(value) if fits else None, key=key, **about,
        )  # fmt: skip
    if kind == "array" and ("enum" in items or items.get("type") == "string"):
        chosen = value if isinstance(value, list) else []
        offered = list(dict.fromkeys([*items.get("enum", ()), *chosen]))
        return place.multiselect(
            label, offered, chosen, key=key, accept_new_options="enum" not in items, **about
        )
    if kind == "string":
        return _text(name, field, spec, key, place, about)
    written = place.text_input(
        label, api.value_toml(value) if name in spec else "", key=key, **about
    )
    return _value(written, written) if written.strip() else None


def _text(
    name: str, field: Schema, spec: Mapping[str, Any], key: str, place: Any,
    about: Mapping[str, Any] | None = None,
) -> str:  # fmt: skip
    about = about or {"help": field["description"]}
    return place.text_input(field["title"], str(spec.get(name, "")), key=key, **about)


def _cohort(field: Schema, spec: Mapping[str, Any], key: str, place: Any) -> str:
    names = [name for name, _, problem in state.cohorts() if not problem]
    chosen = str(spec.get("data", ""))
    if chosen and chosen not in names:
        names.append(chosen)
    index = names.index(chosen) if chosen else 0
    return place.selectbox(field["title"], names, index, key=key, help=field["description"])


def _protocol(schema: Schema, spec: Mapping[str, Any], key: str, place: Any) -> Any:
    field = schema["properties"]["protocol"]
    chosen = spec.get("protocol", field["default"])
    if not isinstance(chosen, str):
        text = place.text_input("Protocol (TOML)", api.value_toml(chosen), key=key)
        return _value(text, chosen)
    names = list(dict.fromkeys([*api.PRESETS, chosen]))
    return place.selectbox(
        field["title"], names, names.index(chosen), key=key, help=field["description"]
    )


def _components(name: str, schema: Schema, spec: Mapping[str, Any], key: str) -> list[Any]:
    """Arms, readers or judges: chosen by name, or typed as a table with options."""
    field = schema["properties"][name]
    entries = [e if isinstance(e, str) else api.value_toml(e) for e in spec.get(name, ())]
    cards = {card.name: card for card in api.members(FAMILIES[name])}
    chosen: Sequence[str] = st.multiselect(
        field["title"] + ("" if name in schema["required"] else " (optional)"),
        [*dict.fromkeys([*entries, *cards])],
        list(dict.fromkeys(entries)),
        key=key,
        format_func=lambda entry: _entry_text(entry, cards),
        accept_new_options=True,
        wrap=True,
        help=f'{field["description"]} For example {{ name = "bm25", k = 5 }}',
    )
    return [_value(entry, entry) if entry.startswith("{") else entry for entry in chosen]


def _entry_text(entry: str, cards: Mapping[str, api.MemberCard]) -> str:
    """An entry as people read it: the name, its options, and whether it is installed."""
    table = _value(entry, None) if entry.startswith("{") else None
    if isinstance(table, dict) and "name" in table:
        name = str(table["name"])
        shown = " ".join([name, *(f"{k}={v}" for k, v in table.items() if k != "name")])
    else:
        name = shown = entry
    return shown if name not in cards or cards[name].installed else f"{shown} (not installed)"


def _value(text: str, otherwise: Any) -> Any:
    """A TOML value; what is no TOML stays a text, and the engine says what is wrong with it."""
    try:
        return api.read_toml(f"value = {text}")["value"]
    except MidchartError:
        return otherwise
