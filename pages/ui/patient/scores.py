"""Why a sentence was kept: its score by term, what each arm did with it, and the ranks of all
sentences as a table.

Opening a marker of the timeline, or a row of the table, explains that sentence.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import streamlit as st

from midchart.core import api
from midchart.core.errors import MidchartError
from midchart.pages.ui.patient import cached, model, timeline
from midchart.pages.ui.patient.model import ArmView, Choice, Piece
from midchart.pages.ui.shared import marks, tables
from midchart.pages.ui.shared.marks import for_screen
from midchart.pages.ui.shared.pickers import segments

SHOWN_TERMS = 10
MOST_LISTED = 1000


def section(
    choice: Choice, views: Sequence[ArmView], pieces: Sequence[Piece], tabled: api.ScoreTable | None
) -> None:
    """The open sentence explained; ``tabled``: the scores of all arms that rank sentences."""
    if tabled is None:
        st.info("None of the selected arms ranks all sentences.")
        return
    titles = {view.name: view.title for view in views}
    ids = model.gold_ids(pieces)
    gold = [i for i, sentence in enumerate(tabled.sentences) if sentence.id in ids]
    at = _open_sentence(choice, tabled, gold)
    by = {arm.arm: titles[arm.arm] for arm in tabled.arms}
    name = segments("Score by", by, f"patient_explain_{'_'.join(by)}", persist_state="page")
    arm = next(arm for arm in tabled.arms if arm.arm == name)
    sentence = tabled.sentences[at]
    why, problem = _explanation(choice, arm, by[name], sentence.id, at)
    left, right = st.columns([3, 2], gap="medium")
    with left:
        held = bool(arm.kept[at])
        label = marks.label(held, False, at in gold)
        entry = model.head(choice.record.events[sentence.span.event])
        head = (
            f'<div class="mc-lead"><b>{marks.for_screen(entry, html=True)}</b> · '
            f"sentence {at + 1:,} of {len(tabled.sentences):,} "
            f"{marks.mark(label, label) if label else ''}</div>"
        )
        body = f'{head}<div class="mc-sentence">{marks.for_screen(sentence.text, html=True)}</div>'
        st.html(marks.block(body))
        tables.table(_arms(tabled, by, at), "patient_sentence_arms", "The sentence by arm")
        st.text(sum_words(why, float(arm.values[at])) if why else problem)
        if why:
            st.caption(for_screen(why.note))
    if why is not None and why.terms:
        with right:
            _terms(why)
    box = st.expander("All sentences as a table", on_change="rerun", key="patient_scores_table")
    if box.open:
        with box:
            _list(choice, tabled, by, gold)


def _open_sentence(choice: Choice, table: api.ScoreTable, gold: Sequence[int]) -> int:
    """The open sentence: the chosen one, else dropped evidence, else evidence, else the best."""
    opened = cached.opened_item(cached.SENTENCE, choice)
    for i, sentence in enumerate(table.sentences):
        if sentence.id == opened:
            return i
    if gold:
        return next((i for i in gold if not table.arms[0].kept[i]), gold[0])
    return int(np.nanargmax(table.arms[0].values))


def _explanation(
    choice: Choice, arm: api.ArmScores, title: str, sentence_id: str, at: int
) -> tuple[api.Explanation | None, str]:
    if np.isnan(arm.values[at]):
        return None, f"{title} does not rank this sentence."
    try:
        why = cached.explain(choice, arm.arm, sentence_id)
    except MidchartError as error:
        return None, marks.for_terminal(str(error))
    return why, f"{title} compares whole sentences; its score cannot be decomposed."


def sum_words(why: api.Explanation, score: float) -> str:
    """The sum in words: base, positive and negative contributions, and the score."""
    more = sum(term.part for term in why.terms if term.part > 0)
    less = sum(term.part for term in why.terms if term.part < 0)
    parts = [f"{why.base:.4g} before any term"] if why.base else []
    parts += [f"+{more:.4g} from positive terms"] if more else []
    parts += [f"−{-less:.4g} from negative terms"] if less else []
    if not parts:
        return f"No term of the question occurs in it: score {score:.4g}."
    terms = f"{len(why.terms):,} term{'' if len(why.terms) == 1 else 's'}"
    line = f"{', '.join(parts)} ({terms}) = {why.total:.4g}"
    if abs(why.total - score) > 1e-4 * max(1.0, abs(score)):
        return f"{line}. The arm's own score is {score:.4g}; the parts do not make up all of it."
    return f"{line}, the score."


def terms_frame(why: api.Explanation) -> pd.DataFrame:
    """The terms, the largest contribution (of either sign) first; blanks at their ends visible."""
    order = sorted(why.terms, key=lambda term: (-abs(term.part), term.text))
    rows = [(_visible_term(term.text), term.part, len(term.spans)) for term in order]
    return pd.DataFrame(rows, columns=["term", "part", "places"])


def _visible_term(term: str) -> str:
    bare = term.strip(" ")
    left = len(term) - len(term.lstrip(" "))
    right = len(term) - len(bare) - left if bare else 0
    return marks.for_terminal("␣" * left + bare + "␣" * right)


def _terms(why: api.Explanation) -> None:
    full, column = terms_frame(why), st.column_config
    tables.table(
        full.head(SHOWN_TERMS),
        "patient_sentence_terms",
        "Contributions to the sentence's score, largest first",
        columns={
            "part": column.NumberColumn("adds", format="%+.3g"),
            "places": column.NumberColumn("times"),
        },
        download=full,
    )
    if len(full) > SHOWN_TERMS:
        st.caption(f"The largest {SHOWN_TERMS} of {len(full):,}; the downloads have all.")


def _arms(table: api.ScoreTable, titles: dict[str, str], at: int) -> pd.DataFrame:
    """Score, threshold, rank and outcome of a sentence by arm."""
    ranks = [timeline.ranks(arm.values) for arm in table.arms]
    return pd.DataFrame(
        {
            "arm": titles[arm.arm],
            "score": None if np.isnan(arm.values[at]) else f"{arm.values[at]:.4g}",
            "kept from": None if arm.threshold is None else f"{arm.threshold:.4g}",
            "rank": f"{rank[at]:,} of {int((rank > 0).sum()):,}" if rank[at] else "unranked",
            "kept": timeline.why_kept(arm, at),
        }
        for arm, rank in zip(table.arms, ranks, strict=True)
    )


def _list(
    choice: Choice, table: api.ScoreTable, titles: dict[str, str], gold: Sequence[int]
) -> None:
    """Evidence, what any arm kept and what just missed, to sort and open."""
    wanted = set(gold)
    for arm in table.arms:
        wanted.update(np.flatnonzero(arm.kept & arm.picked).tolist())
        wanted.update(timeline.nearly_kept(arm).tolist())
    listed = sorted(wanted)[:MOST_LISTED]
    shown: dict[str, object] = {
        "sentence": [i + 1 for i in listed],
        "at": [f"{100 * table.order[i]:.0f} %" for i in listed],
        "date": ["undated" if np.isnat(t) else str(t.astype("datetime64[D]"))
                 for t in table.times[listed]],
        "evidence": ["evidence" if i in gold else "" for i in listed],
    }  # fmt: skip
    for arm in table.arms:
        rank = timeline.ranks(arm.values)
        shown[titles[arm.arm]] = [
            (f"{rank[i]:,}" if rank[i] else "–") + (" kept" if arm.kept[i] else "") for i in listed
        ]
    shown["text"] = [" ".join(table.sentences[i].text.split())[:160] for i in listed]

    def opens(row: int, _: str) -> None:
        cached.open_sentence(choice, table.sentences[listed[row]])

    tables.table(
        pd.DataFrame(shown),
        "patient_scores",
        "Evidence, kept and nearly kept sentences with each arm's rank",
        columns={"text": st.column_config.TextColumn(width="large")},
        opens=opens,
    )
    st.caption(
        f"{len(listed):,} of {len(table.sentences):,} sentences: evidence, kept sentences "
        "and those just below the threshold, with each arm's rank. Click a row to open it. "
        ""
    )
