"""Cards of an audit: a question whose evidence a clinician marks in the chart, one after another.

A card shows the question alone: neither the audited system nor what it retrieved and answered.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlit as st

from midchart.core import api
from midchart.core.errors import MidchartError
from midchart.extras.audit.cards import audit_cards, deal_cards
from midchart.pages.ui import navigation, sign_in, state
from midchart.pages.ui.patient.record_view import ANNOTATOR
from midchart.pages.ui.shared.marks import for_screen
from midchart.pages.ui.shared.pickers import token

BLIND = "oracle"
"""The arm of the chart that a card opens: it shows what is marked and nothing before, so that no
other arm's selection and no reader's answer is seen."""
AT_A_TIME = 10
"""Cards that a click deals."""


def mark(run: dict[str, Any], reviewer: str) -> None:
    """The next card without marks, how many there are, and what the marked ones say."""
    if problem := sign_in.lacking(deal_cards):
        st.info(problem)
        return
    cards = audit_cards(run["run"])
    card = next((card for card in cards if card["state"] == "open"), None)
    if card is not None:
        st.subheader(for_screen(card["text"]), anchor=False)
        st.button(
            "Mark its evidence in the chart", type="primary", key="card_open",
            icon=":material/edit_note:", on_click=_open, args=(run, card, reviewer),
        )  # fmt: skip
        st.caption(
            "Click the sentences that hold the evidence, or tick “Not documented in this chart”; "
            "then come back to this page. A reference answer lets the system's answer be judged."
        )
    elif cards:
        st.info("Every card that was dealt is marked.")
    done = sum(card["state"] in ("marked", "not documented") for card in cards)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            f"Deal {AT_A_TIME} more cards" if cards else f"Deal {AT_A_TIME} cards",
            key="card_deal", icon=":material/style:", on_click=_deal, args=(run, reviewer),
        )  # fmt: skip
        st.caption(
            f"{done:,} of {len(cards):,} cards marked. Cards are questions of the log whose "
            "evidence is not known; uncertain ones are more likely to be dealt."
        )
    if refusal := st.session_state.pop("cards_refused", ""):
        st.error(for_screen(refusal), title="No card was dealt")
    stated = state.report(run).get("conclusion") or {"headline": "", "details": ()}
    for text in (stated["headline"], *stated["details"]):
        if done and " and the machine, " in text:
            st.info(for_screen(text))


def _open(run: dict[str, Any], card: dict[str, Any], reviewer: str) -> None:
    st.session_state[ANNOTATOR] = api.reviewer_name(reviewer) if reviewer else ""
    name = Path(api.run_cohort(run["run"]).path).name
    asked = {"patient": token(name, card["record"]), "question": token(name, card["question"])}
    navigation.on_click("patient", cohort=name, arms=BLIND, **asked)


def _deal(run: dict[str, Any], reviewer: str) -> None:
    try:
        by = api.reviewer_name(reviewer) if reviewer else ""
        deal_cards(run["run"], AT_A_TIME, by)
    except MidchartError as error:
        st.session_state["cards_refused"] = str(error)
