"""The sentence scores of the Patient page: heat strips, distributions, the open sentence, a table.

A fragment: choosing a sentence redraws this part only. An arm whose scores are all equal has no
strip, and the page says so.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from midchart.core import api
from midchart.pages.ui import state
from midchart.pages.ui.patient import cached, contributions, explanation, score_arrays, score_charts
from midchart.pages.ui.patient.model import Choice, Piece, gold_ids
from midchart.pages.ui.patient.score_arrays import BY_RANK, BY_SCORE, ORDER, SENTENCE, TIME
from midchart.pages.ui.patient.score_charts import Strip
from midchart.pages.ui.shared import chart, tables
from midchart.pages.ui.shared.marks import plain
from midchart.pages.ui.shared.pickers import segments

MOST_STRIPS = 6
MOST_LISTED = 1000


@st.fragment
def section(
    choice: Choice, pieces: Sequence[Piece], running: frozenset[str], matrix: bool = False
) -> None:
    """Every sentence's score as heat strips, or with ``matrix`` the terms of the strongest; then
    the open sentence. Arms that are ``running`` follow when they are done."""
    titles = {name: title for name, title, _ in state.members("arm")}
    chosen, waiting = _pick_arms(choice, titles)
    names = tuple(name for name in chosen if name not in running)
    if chosen and not names:
        st.info("The scores follow when the arms above are done.")
        return
    if not names:
        st.info("None of the selected arms scores all sentences; select another above.")
        return
    table = cached.scores(choice, names)
    strips: list[Strip] = []
    notes: list[str] = []
    for arm in table.arms:
        title = titles.get(arm.arm, arm.arm)
        if arm.problem:
            notes.append(f"No strip for {title}: {arm.problem}.")
        elif score_arrays.constant(arm.values):
            unranked = bool(np.isnan(arm.values).all())
            why = "ranks no sentence" if unranked else "gives all sentences the same score"
            notes.append(f"No strip for {title}: {why}.")
        else:
            strips.append(Strip(arm, title))
    if waiting:
        arms = ", ".join(titles.get(name, name) for name in waiting)
        notes.append(
            f"No strip for {arms}: not run on this long record yet (select them among the arms)."
        )
    if notes:
        st.caption(plain(" ".join(notes)))
    if not strips:
        return
    ids = gold_ids(pieces)
    gold = [i for i, sentence in enumerate(table.sentences) if sentence.id in ids]
    at = _open_sentence(choice, table, strips[0].arm, gold)
    if matrix:
        contributions.section(choice, table, strips, gold)
        explanation.panel(choice, table, strips, gold, at)
        return
    _draw_strips(choice, table, strips, gold, at)
    with st.expander("Score distribution", on_change="rerun", key="patient_histograms") as box:
        if box.open:
            _histograms(strips, gold)
    explanation.panel(choice, table, strips, gold, at)
    with st.expander("Sentences as a table", on_change="rerun", key="patient_scores_table") as box:
        if box.open:
            _list(choice, table, strips, gold)


def _pick_arms(choice: Choice, titles: dict[str, str]) -> tuple[tuple[str, ...], list[str]]:
    """The arms to show, and those that were not run because they are slow on this record."""
    unavailable = {name for name, _, problem in state.members("arm") if problem}
    scoring = [name for name in api.scored_arms() if name not in unavailable]
    units, _ = cached.size(choice)
    waiting = [name for name in scoring if cached.waits(choice.record, units, name)]
    ready = [name for name in scoring if name not in waiting]
    chosen = st.pills(
        f"Scores of (up to {MOST_STRIPS})",
        ready,
        selection_mode="multi",
        default=[name for name in choice.arms if name in ready] or ready[:1],
        format_func=lambda name: titles.get(name, name),
        key=f"patient_strips_{'_'.join(choice.arms)}",
    )
    # In the order of choice, so that the arm chosen last replaces none.
    names = [name for name in chosen if name in ready]
    if len(names) > MOST_STRIPS:
        st.caption(f"The chart shows the first {MOST_STRIPS} of {len(names)}.")
    return tuple(names[:MOST_STRIPS]), waiting


def _open_sentence(
    choice: Choice, table: api.ScoreTable, arm: api.ArmScores, gold: Sequence[int]
) -> int:
    """The open sentence: the chosen one, else dropped evidence, else evidence, else the best."""
    opened = cached.opened_item(cached.SENTENCE, choice)
    for i, sentence in enumerate(table.sentences):
        if sentence.id == opened:
            return i
    if gold:
        return next((i for i in gold if not arm.kept[i]), gold[0])
    return int(np.nanargmax(arm.values))


@cached.cached(
    lambda choice, table, strips, gold, how: (
        *cached.question_key(choice), *(strip.arm.arm for strip in strips), how, chart.dark(),
    ),
    entries=24, shared=True,
)  # fmt: skip
def _strips_figure(
    choice: Choice,
    table: api.ScoreTable,
    strips: Sequence[Strip],
    gold: Sequence[int],
    how: tuple[str, str, int],
) -> go.Figure:
    """The heat strips along an axis, shaded in a way, with a sentence open (``how``)."""
    return score_charts.strips_figure(table, strips, gold, *how)


def _draw_strips(
    choice: Choice, table: api.ScoreTable, strips: list[Strip], gold: list[int], at: int
) -> None:
    timed = cached.axis(choice.record).timed
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        axes = [SENTENCE, ORDER, TIME] if timed else [SENTENCE, ORDER]
        by = segments("Along", axes, "strips", width="content")
        how = segments(
            "Shade by", [BY_RANK, BY_SCORE], "shade", width="content",
            help="Rank: logarithmic scale, which separates the top ranks. Score: from an arm's "
                "lowest to its highest score. Raw scores of different arms are not comparable.",
        )  # fmt: skip

    def open_sentence(at: int, *_: object) -> None:
        if at < len(table.sentences):
            cached.open_item(cached.SENTENCE, choice, table.sentences[int(at)].id)

    chart.show(
        _strips_figure(choice, table, strips, gold, (by, how, at)),
        score_charts.alt(table, strips, gold),
        "patient_heat",
        styled=True,
        opens=open_sentence,
    )
    columns = score_arrays.columns(table, by)
    shade = "last to first rank (logarithmic)" if how == BY_RANK else "lowest to highest score"
    words = [
        f"n = {len(table.sentences):,} sentences. Dark blue to yellow, arm by arm: {shade}; "
        f"{columns.each}.",
        "Triangles: kept by score. Small rings: kept as most recent. Ticks: just below the "
        "threshold.",
    ]
    if gold:
        words.append("Large ring: evidence kept, before any prompt limit. Cross: evidence dropped.")
    if columns.off:
        words.append(f"{columns.off:,} undated sentences are not on this axis.")
    st.caption(" ".join(words) + " Select a marker to open its sentence.")


def _histograms(strips: Sequence[Strip], gold: Sequence[int]) -> None:
    places = st.columns(2) if len(strips) > 1 else [st.container()]
    for i, strip in enumerate(strips):
        with places[i % len(places)]:
            chart.show(
                score_charts.histogram(strip, gold),
                score_charts.histogram_alt(strip, gold),
                f"patient_histogram_{strip.arm.arm}",
            )
            if strip.arm.threshold is None and strip.arm.picked.any():
                st.caption(
                    f"{strip.title} has no threshold: each selection depends on the earlier ones."
                )
    st.caption(
        "Hatched: kept by score. Sentences are counted on a logarithmic scale."
        + (" Below the line, the evidence: ring kept, cross dropped." if gold else "")
    )


def frame(table: api.ScoreTable, strips: Sequence[Strip], gold: Sequence[int]) -> pd.DataFrame:
    """Every sentence with its scores, ranks and what was kept; no text of the record."""
    n = len(table.sentences)
    columns: dict[str, object] = {
        "sentence": np.arange(1, n + 1),
        "id": [sentence.id for sentence in table.sentences],
        "event": table.events,
        "position": table.order.round(6),
        "time": table.times,
        "evidence": np.isin(np.arange(n), gold),
    }
    for arm in (strip.arm for strip in strips):
        columns[f"{arm.arm} score"] = arm.values
        columns[f"{arm.arm} rank"] = score_arrays.ranks(arm.values)
        columns[f"{arm.arm} kept"] = arm.kept
    return pd.DataFrame(columns)


def _list(
    choice: Choice, table: api.ScoreTable, strips: Sequence[Strip], gold: Sequence[int]
) -> None:
    """Evidence, what any arm kept and what just missed, to sort and open."""
    wanted = set(gold)
    for arm in (strip.arm for strip in strips):
        wanted.update(np.flatnonzero(arm.kept & arm.picked).tolist())
        wanted.update(score_arrays.missed(arm).tolist())
    listed = sorted(wanted)[:MOST_LISTED]
    shown: dict[str, object] = {
        "sentence": [i + 1 for i in listed],
        "at": [f"{100 * table.order[i]:.0f} %" for i in listed],
        "date": [explanation.date_of(table, i) for i in listed],
        "evidence": ["evidence" if i in gold else "" for i in listed],
    }
    for strip in strips:
        rank = score_arrays.ranks(strip.arm.values)
        shown[strip.title] = [
            (f"{rank[i]:,}" if rank[i] else "–") + (" kept" if strip.arm.kept[i] else "")
            for i in listed
        ]
    shown["text"] = [" ".join(table.sentences[i].text.split())[:160] for i in listed]

    def opens(row: int, _: str) -> None:
        cached.open_item(cached.SENTENCE, choice, table.sentences[listed[row]].id)

    tables.table(
        pd.DataFrame(shown),
        "patient_scores",
        "Evidence, kept and nearly kept sentences with each arm's rank",
        columns={"text": st.column_config.TextColumn(width="large")},
        download=frame(table, strips, gold),
        opens=opens,
    )
    st.caption(
        f"{len(listed):,} of {len(table.sentences):,} sentences: evidence, kept sentences "
        f"and those just below the threshold, with each arm's rank. Click a row to open it "
        f"above. The downloads contain the scores of all sentences and no text."
    )
