"""The Review page's two views: answers to be judged one after the other, and the agreement."""

from __future__ import annotations

import time
from typing import Any

import pandas as pd
import streamlit as st

from core import api
from core.errors import MidchartError
from pages.ui import state
from pages.ui.review import card as card_html
from pages.ui.shared import forest, results, tables, theme
from pages.ui.shared.forest import Line, number
from pages.ui.shared.plain import plain

BUTTONS = (
    ("correct", "Right", "1"),
    ("incorrect", "Wrong", "2"),
    ("cannot_tell", "Cannot tell", "3"),
)
SHOWN = "review_shown"
MEASURES = {"raw": "agreement", "kappa": "Cohen's kappa", "ac1": "Gwet's AC1"}


def _back(run: str, reviewer: str) -> str:
    """Where the session holds how many judged cards a reviewer of a run has gone back."""
    return f"review_back_{run}_{reviewer}"


def judge(run: dict[str, Any], reviewer: str) -> None:
    """The next answer without a verdict, or one gone back to, with the buttons that judge it."""
    cards = api.review_cards(run["run"], reviewer)
    done = [card for card in cards if card.outcome]
    st.progress(
        len(done) / max(len(cards), 1), f"{len(done):,} of {len(cards):,} different answers judged"
    )
    back = min(st.session_state.get(_back(run["run"], reviewer), 0), len(done))
    card = done[-back] if back else next((card for card in cards if not card.outcome), None)
    if card is None:
        st.info("Every answer of this run is judged. See how far you agree with its judges.")
        return
    if not _shown(run, card):
        return
    if st.session_state.get(SHOWN, ("", 0.0))[0] != card.key:
        st.session_state[SHOWN] = (card.key, time.monotonic())
    with st.container(horizontal=True):
        for outcome, word, key in BUTTONS:
            chosen = card.outcome == outcome
            st.button(
                word,
                key=f"review_{outcome}",
                shortcut=key,
                type="primary" if chosen else "secondary",
                on_click=_say,
                args=(run["run"], reviewer, card, outcome),
            )
        st.button(
            "Back",
            key="review_undo",
            type="tertiary",
            on_click=_go_back,
            args=(_back(run["run"], reviewer),),
            disabled=back >= len(done),
        )
    st.caption(
        "Keys 1, 2 and 3 judge. Which arm, reader and judge an answer belongs to is not shown; "
        "answers that are word for word the same are shown once. Each verdict is kept at once."
    )
    refused = st.session_state.pop("review_refused", "")
    if refused:
        st.error(plain(refused), title="This verdict was not kept")


def _shown(run: dict[str, Any], card: api.Card) -> bool:
    cohort = api.open_data(run["data"])
    protocol = api.parse(state.report(run)["protocol"])
    try:
        asked = api.instruction_for(cohort, card.instruction)
        record = cohort.records[asked.record_id]
    except (MidchartError, KeyError):
        st.info("The cohort has changed: this question, or its record, is no longer in it.")
        return False
    gold = cohort.gold.get(card.instruction)
    held = api.gold_ids(record, gold, protocol) if gold is not None else frozenset()
    evidence = [unit.text for unit in api.sentences(record, protocol) if unit.id in held]
    st.html(card_html.html(asked.question, gold.answer if gold else "", evidence, card.answer))
    return True


def _say(run: str, reviewer: str, card: api.Card, outcome: str) -> None:
    key, since = st.session_state.get(SHOWN, ("", 0.0))
    seconds = round(time.monotonic() - since, 1) if key == card.key else None
    try:
        api.add_review(run, reviewer, card.key, outcome, seconds)
    except MidchartError as error:
        st.session_state["review_refused"] = str(error)
    back = _back(run, reviewer)
    st.session_state[back] = max(0, st.session_state.get(back, 0) - 1)


def _go_back(back: str) -> None:
    st.session_state[back] = st.session_state.get(back, 0) + 1


def agreement(run: dict[str, Any]) -> None:
    """Each reviewer against each judge, and reviewers with each other, with intervals."""
    rows = api.review_agreement(run["run"])
    frame = pd.DataFrame(rows)
    if frame.empty or not frame["n"].any():
        st.info("Nobody has judged an answer of this run yet that a judge has judged too.")
        return
    frame["pair"] = [f"{a} and {b}" for a, b in zip(frame["first"], frame["second"], strict=True)]
    measure = st.segmented_control(
        "Measure", list(MEASURES), default="raw", required=True, key="measure",
        format_func=lambda name: MEASURES[name], bind="query-params",
    )  # fmt: skip
    lines = [_line(row, measure) for row in frame.to_dict("records") if row["n"]]
    share = measure == "raw"
    span = (-3.0, 103.0) if share else (-1.05, 1.05)
    theme.show(
        forest.forest(lines, MEASURES[measure], span, " %" if share else "", zero=not share),
        forest.alt(lines, MEASURES[measure]),
        "review_agreement",
    )
    st.caption(
        "Answers that both called right or wrong; intervals by patients. How far people agree with "
        "each other is the most that a judge can be asked for; one that agrees far less should not "
        "decide which arm wins."
    )
    named = {"both_yes": "both right", "only_first": "only the first", "only_second":
             "only the second", "neither": "both wrong"}  # fmt: skip
    shown = pd.DataFrame({"pair": frame["pair"], "n": frame["n"], "patients": frame["patients"]})
    for name, word in MEASURES.items():
        cells = frame[[name, f"{name}_low", f"{name}_high"]].itertuples(index=False)
        shown[word] = [_said(*cell, name == "raw") for cell in cells]
    for name, word in named.items():
        shown[word] = frame[name]
    tables.table(shown, "review-agreement", "Agreement of reviewers and judges, pair by pair",
                 download=frame, height="content")  # fmt: skip


def _said(value: Any, low: Any, high: Any, share: bool) -> str:
    if share:
        return results.share(value, low, high)
    if value is None or pd.isna(value):
        return "–"
    if low is None or pd.isna(low):
        return f"{value:.2f}"
    return f"{value:.2f} [{low:.2f} to {high:.2f}]"


def _line(row: dict[str, Any], measure: str) -> Line:
    times = 100 if measure == "raw" else 1
    ends = (row[measure], row[f"{measure}_low"], row[f"{measure}_high"])
    words = f"{_said(*ends, measure == 'raw')} n {int(row['n']):,}"
    return Line(row["pair"], *(times * number(end) for end in ends), words,
                row["kind"] == "reviewer")  # fmt: skip
