"""What a run cost: calls, tokens, seconds and dollars; prompt contents and truncation."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import streamlit as st

from midchart.core import api
from midchart.pages.ui.arms.comparison import Behind, Comparison
from midchart.pages.ui.shared import formats, results

FORMATS = {
    "tokens read": st.column_config.NumberColumn(format="localized"),
    "reused": st.column_config.NumberColumn(format="localized"),
    "tokens written": st.column_config.NumberColumn(format="localized"),
    "seconds": st.column_config.NumberColumn(format="%.2f"),
    "ms a call": st.column_config.NumberColumn(format="%.1f"),
    "US$": st.column_config.NumberColumn(format="%.4f"),
}


def costs(comparison: Comparison) -> None:
    """Totals in a sentence, calls by arm, and prompt contents and truncation."""
    frame = results.frame_of(comparison.tables, "costs")
    if len(frame):
        by_reader, by_judge = frame[frame["judge"].isna()], frame[frame["judge"].notna()]
        spent = results.frame_of(comparison.tables, "spent")
        other_usd = float(spent["elsewhere_usd"].astype(float).sum()) if len(spent) else 0.0
        st.write(_sentence(by_reader, by_judge, frame["cost_usd"].astype(float), other_usd))
        for rows, who in ((by_reader, "reader"), (by_judge, "judge")):
            if rows.empty:
                continue
            st.header(f"{who.capitalize()}s", anchor=False)
            comparison.table(
                _call_table(rows, who),
                f"costs-{who}",
                f"Calls of the {who}s by arm: tokens, seconds, dollars",
                columns=FORMATS,
                download=rows,
                behind=_by_arm(rows),
            )
        st.caption(
            "Tokens are counted by the model's tokenizer; reused tokens come from the prefix "
            "cache. Dollars follow the provider's price list; rules and local models cost nothing."
        )
    tokens = results.frame_of(comparison.tables, "tokens")
    tokens = results.where(tokens, reader=comparison.reader or None)
    if len(tokens):
        st.header("Prompt contents and truncation", anchor=False)
        title = "Sentences and tokens of each arm, means over questions"
        comparison.table(
            _token_table(tokens), "tokens", title, download=tokens, behind=_by_arm(tokens)
        )


def _by_arm(frame: pd.DataFrame) -> Callable[[int, str], Behind]:
    """A click on a row's numbers opens the questions of its arm."""
    labels = list(frame["label"])
    return lambda row, _: {"arm": labels[row]}


def _sentence(
    by_reader: pd.DataFrame, by_judge: pd.DataFrame, dollars: pd.Series, other_usd: float
) -> str:
    """``other_usd``: spent by judges on calls without a verdict, which are in no row."""
    text = (
        f"Readers answered {int(by_reader['n'].sum()):,} times, reading "
        f"{formats.compact(by_reader['prompt_tokens'].sum())} tokens in "
        f"{formats.duration(by_reader['seconds'].sum())}"
    )
    if len(by_judge):
        text += (
            f"; judges judged {int(by_judge['n'].sum()):,} times in "
            f"{formats.duration(by_judge['seconds'].sum())}"
        )
    paid = dollars.notna().any() or other_usd > 0
    money = f"US\\${dollars.sum() + other_usd:,.2f} in all" if paid else "no cost"
    if other_usd >= 0.00005:
        money += f", US\\${other_usd:,.4f} of it for calls without a verdict, which are in no row"
    return f"{text}; {money}."


def _call_table(frame: pd.DataFrame, who: str) -> pd.DataFrame:
    shown = pd.DataFrame(
        {"arm": frame["title"], who: [api.title(who, label) for label in frame[who]]}
    )
    if who == "judge" and frame["reader"].nunique() > 1:
        shown["of"] = [api.title("reader", label) for label in frame["reader"]]
    shown["calls"], shown["failed"] = frame["n"], frame["failed"]
    for column, title in (
        ("read_tokens", "tokens read"),
        ("reused_tokens", "reused"),
        ("output_tokens", "tokens written"),
        ("seconds", "seconds"),
        ("cost_usd", "US$"),
    ):
        values = frame[column].astype(float)
        if values.notna().any():
            shown[title] = values
    shown["ms a call"] = 1000 * frame["seconds_each"].astype(float)
    return shown


def _token_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Means over questions; shares in per cent."""
    shown = pd.DataFrame({"arm": frame["title"], "n": frame["n"]})
    for column, title, digits in (
        ("sentences", "sentences", 1),
        ("selection_tokens", "tokens kept", 0),
        ("prompt_tokens", "prompt tokens", 0),
    ):
        if column in frame:
            shown[title] = frame[column].astype(float).round(digits)
    for column, title in (
        ("evidence_all_in_prompt", "all pieces in prompt"),
        ("evidence_in_prompt", "any piece in prompt"),
        ("evidence_share", "share of evidence in prompt"),
        ("cut_share", "cut from prompt"),
        ("question_survived", "question survived"),
    ):
        if column in frame:
            shown[title] = frame[column].map(formats.percent)
    if "prompts_cut" in frame and frame["prompts_cut"].fillna(0).any():
        shown["prompts cut"] = [results.cut_text(row) for row in frame.to_dict("records")]
    return shown
