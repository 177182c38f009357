"""The Review page's two views: answers to be judged one after another, and the agreement."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from midchart.core import api
from midchart.pages.ui import navigation, state
from midchart.pages.ui.arms import questions
from midchart.pages.ui.curve import needles
from midchart.pages.ui.patient import model
from midchart.pages.ui.patient.view import passage
from midchart.pages.ui.results import kit
from midchart.pages.ui.runs import panel
from midchart.pages.ui.shared import marks, tables

BUTTONS = (
    ("correct", "Correct", ":material/check:"), ("incorrect", "Incorrect", ":material/close:"),
)  # fmt: skip
CODE = "reviewer-1"
"""Code of a reviewer who enters none."""
OPENED = "review_shown"
"""Session key of the open card and when it was opened."""
AGREEMENT = api.View(
    "agreement",
    "Agreement of reviewers and judges, pair by pair",
    "agreement",
    tuple(
        api.Measure(
            column,
            title,
            unit,
            intervals=(api.Ends(f"{column}_low", f"{column}_high", "by patient"),),
            clusters="patients",
        )
        for column, title, unit in (
            ("raw", "agreement", "%"),
            ("kappa", "Cohen's kappa", ""),
            ("ac1", "Gwet's AC1", ""),
        )
    ),
    "forest",
    rows=("pair",),
    more=("answers", "both_yes", "only_first", "only_second", "neither"),
    about="n: cards that both judged correct or incorrect, each counted once. Agreement among "
    "human reviewers is the upper bound for a judge; a judge with much lower agreement should not "
    "decide which arm wins.",
    opens=("first", "second"),
)
MOST_EVIDENCE = 12
KINDS = tuple(kind["name"] for kind in api.kinds() if kind["answers"])
WITH_CARDS = tuple(kind["name"] for kind in api.kinds() if kind["cards"])
"""Kinds of run whose questions are dealt as cards by an installed package."""


# Judging


def card_html(
    question: str, reference: str, evidence: Sequence[str], answer: str, options: Sequence[str] = ()
) -> str:
    """One answer to judge, with nothing of its origin; of the evidence (passages as HTML) those
    beyond a dozen are counted."""
    texts = [
        marks.for_screen(api.option_text(options, index), html=True)
        for index in range(len(options))
    ]
    shown = [f"<li>{passage}</li>" for passage in evidence[:MOST_EVIDENCE]]
    if len(evidence) > MOST_EVIDENCE:
        shown.append(f"<li>and {len(evidence) - MOST_EVIDENCE:,} more</li>")
    lines = f"<ul>{''.join(shown)}</ul>" if shown else "not found in the record"
    body = (
        f"<p>{'<br>'.join((marks.for_screen(question, html=True), *texts))}</p>"
        f'<div class="mc-said" role="group" aria-label="Answer to judge">'
        f"{marks.for_screen(answer, html=True) or '(empty)'}</div>"
        f"<dl><dt>Evidence</dt><dd>{lines}</dd>"
        f"<dt>Clinician's answer</dt>"
        f"<dd>{marks.for_screen(reference or 'none', html=True)}</dd></dl>"
    )
    return marks.block(f'<div class="mc-review">{body}</div>')


def _back_key(run: str, reviewer: str) -> str:
    return f"review_back_{run}_{reviewer}"


def judge(run: dict[str, Any], reviewer: str) -> None:
    """The next answer without a verdict, or one gone back to, with the buttons that judge it."""
    cards = api.review_cards(run["run"], reviewer)
    done = [card for card in cards if card.outcome]
    shared = [card for card in cards if card.shared]
    back = min(st.session_state.get(_back_key(run["run"], reviewer), 0), len(done))
    card = done[-back] if back else next((card for card in cards if not card.outcome), None)
    if card is None:
        st.info("All answers of this run are judged. See the agreement with its judges.")
    elif _show_card(run, card):
        _buttons(run["run"], reviewer, card, back < len(done))
    st.caption(
        f"{len(done):,} of {len(cards):,} distinct answers judged by {reviewer}; "
        f"{sum(card.outcome is not None for card in shared):,} of the {len(shared):,} shared by "
        "all reviewers."
    )
    with st.expander("What is saved, and your verdicts as files", icon=":material/info:"):
        st.caption(
            "Which arm, reader and judge an answer belongs to is not shown; identical answers are "
            "one card. The cards shared by all reviewers come first, in an order of your own. Each "
            "verdict is saved at once under your code; the last one on a card counts."
        )
        if done:
            tables.downloads(
                pd.DataFrame(api.review_rows(run["run"], reviewer)),
                f"review-{run['run']}-{reviewer}",
            )


def _show_card(run: dict[str, Any], card: api.Card) -> bool:
    """Show a card; False where its question or record is gone."""
    if (choice := questions.choice_of(run, None, card.instruction)) is None:
        return False
    evidence = [
        passage(api.event_text(choice.record.events[one.event]), one.span.start, one.span.end)
        for one in model.pieces(choice)
    ]
    asked, reference = choice.instruction, choice.gold.answer if choice.gold else ""
    st.html(card_html(asked.question, reference, evidence, card.answer, asked.options))
    return True


def _buttons(run: str, reviewer: str, card: api.Card, can_go_back: bool) -> None:
    if st.session_state.get(OPENED, ("", 0.0))[0] != card.key:
        st.session_state[OPENED] = (card.key, time.monotonic())
    comment = f"review_comment_{reviewer}_{card.key}"
    st.session_state.setdefault(comment, card.comment)
    with st.container(horizontal=True, gap="small"):
        for outcome, word, icon in BUTTONS:
            judged = card.outcome == outcome
            st.button(
                f"{word} (your verdict)" if judged else word, key=f"review_{outcome}", icon=icon,
                type="primary", on_click=_judge, args=(run, reviewer, card, outcome),
            )  # fmt: skip
        with st.popover("Cannot judge", key=f"review_cannot_judge_{card.key}"):
            for reason, words in api.REVIEW_REASONS.items():
                st.button(
                    words[:1].upper() + words[1:], key=f"review_reason_{reason}", width="stretch",
                    type="primary" if card.reason == reason else "secondary",
                    on_click=_judge, args=(run, reviewer, card, "cannot_judge", reason),
                )  # fmt: skip
        with st.popover("Comment", key=f"review_comment_box_{card.key}"):
            st.text_area("Comment (optional)", key=comment, max_chars=2000, height=80,
                         help="Stored with the verdict. Do not name a person.")  # fmt: skip
        st.button("Back", key="review_undo", on_click=_go_back, icon=":material/undo:",
                  args=(run, reviewer, 1), disabled=not can_go_back)  # fmt: skip
    panel.refusal("This verdict was not saved")


def _judge(run: str, reviewer: str, card: api.Card, outcome: str, reason: str = "") -> None:
    key, since = st.session_state.get(OPENED, ("", 0.0))
    seconds = round(time.monotonic() - since, 1) if key == card.key else None
    comment = st.session_state.get(f"review_comment_{reviewer}_{card.key}", "")
    asked = run, reviewer, card.key, outcome, seconds, reason, comment
    if panel.attempt(lambda: (api.add_review(*asked),)):
        _go_back(run, reviewer, -1)


def _go_back(run: str, reviewer: str, cards: int) -> None:
    key = _back_key(run, reviewer)
    st.session_state[key] = max(0, st.session_state.get(key, 0) + cards)


# Agreement


def agreement(run: dict[str, Any]) -> None:
    """Each reviewer against each judge and each other, with intervals; and what was judged."""

    def pair(row: Mapping[str, Any]) -> str:
        titles = (api.title("judge", row[side]) for side in ("first", "second"))
        return " and ".join(title.removeprefix("review:") for title in titles)

    judged = (row for row in api.review_agreement(run["run"]) if row["n"])
    rows = [{**row, "pair": pair(row)} for row in judged]
    if rows:
        measure = kit.pick_measure(AGREEMENT.measures)

        def opens(_: kit.Shown, __: api.View, key: Mapping[str, Any]) -> None:
            first, second = key["first"], key["second"]
            if run["kind"] == needles.KIND:
                needles.show_items(judge=first, otherwise=second)
                navigation.on_click("curve", run=run["run"])
                return
            asked = {"judge": first, "q_otherwise": second, "differ": "false"}
            navigation.on_click("arms", run=run["run"], view=questions.VIEW, **asked)

        listed = run["kind"] in (*state.COMPARING, needles.KIND)  # other kinds list no answers
        kit.draw_rows("review", AGREEMENT, rows, measure, opens if listed else None)
        if listed:
            st.caption("A click lists the answers on which the two differ, with their arms.")
    else:
        st.info("No answer of this run has been judged by both a reviewer and a judge yet.")
    st.header("Answers", anchor=False)
    _judged(run)


def _judged(run: dict[str, Any]) -> None:
    """How many cards each reviewer judged, and all verdicts to download."""
    frame = pd.DataFrame(state.report(run)["tables"].get("reviews") or [])
    if frame.empty:
        return
    titles = {
        "cards_in_all": "of",
        "cannot_judge": "not scored",
        "seen_by_two": "seen by two or more",
        "answers": "answers with this text",
    }
    tables.table(
        frame.rename(columns=titles),
        "review-judges",
        "How many cards each reviewer judged",
        download=frame,
    )
    st.caption(
        "One card is one distinct answer to a question. The consensus is the majority verdict on "
        "a card; without a majority it is not scored. Reviewers are listed as judges in every "
        "table of this run under these names."
    )
    st.caption("All verdicts, including replaced ones, without arms:")
    tables.downloads(pd.DataFrame(api.review_rows(run["run"])), f"reviews-{run['run']}")
