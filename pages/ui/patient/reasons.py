"""Why a sentence was kept: its score by term and what each arm did with it; and the prompts of two
arms, as their reader got them.

Opening a marker of the map explains that sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import streamlit as st

from midchart.core import api
from midchart.core.errors import MidchartError
from midchart.pages.ui import state
from midchart.pages.ui.patient import model
from midchart.pages.ui.patient.model import ArmView, Choice, Piece
from midchart.pages.ui.shared import marks, tables
from midchart.pages.ui.shared.marks import for_screen
from midchart.pages.ui.shared.pickers import segments

SHOWN_TERMS = 10


def why(choice: Choice, views: Sequence[ArmView], pieces: Sequence[Piece]) -> None:
    """The open sentence explained by one of the arms that rank all sentences."""
    ranking = [
        view.name for view in model.with_selection(views) if view.name in state.scored_arms()
    ]
    usable = [arm for name in ranking if (arm := model.usable_scores(choice, name)) is not None]
    if not usable:
        st.info("None of the selected arms ranks all sentences.")
        return
    tabled = replace(model.scores(choice, usable[0].arm), arms=tuple(usable))
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


def _open_sentence(choice: Choice, table: api.ScoreTable, gold: Sequence[int]) -> int:
    """The open sentence: the chosen one, else dropped evidence, else evidence, else the best."""
    _, sentence = model.opened(choice)
    places = model.units(choice).places
    if sentence in places:
        return places[sentence]
    if gold:
        return next((i for i in gold if not table.arms[0].kept[i]), gold[0])
    return int(np.nanargmax(table.arms[0].values))


def _explanation(
    choice: Choice, arm: api.ArmScores, title: str, sentence_id: str, at: int
) -> tuple[api.Explanation | None, str]:
    if np.isnan(arm.values[at]):
        return None, f"{title} does not rank this sentence."
    try:
        why = model.explain(choice, arm.arm, sentence_id)
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
    ranks = [model.ranks(arm.values) for arm in table.arms]
    return pd.DataFrame(
        {
            "arm": titles[arm.arm],
            "score": None if np.isnan(arm.values[at]) else f"{arm.values[at]:.4g}",
            "kept from": None if arm.threshold is None else f"{arm.threshold:.4g}",
            "rank": f"{rank[at]:,} of {int((rank > 0).sum()):,}" if rank[at] else "unranked",
            "kept": model.why_kept(arm, at),
        }
        for arm, rank in zip(table.arms, ranks, strict=True)
    )


# Prompts


def prompts(choice: Choice, views: Sequence[ArmView], pieces: Sequence[Piece]) -> None:
    """What the reader got from two arms, side by side."""
    selected = {view.name: view for view in model.with_selection(views)}
    if not selected:
        st.info("No arm has a selection.")
        return
    for at, place in enumerate(st.columns(min(len(selected), 2), gap="medium")):
        with place:
            letter = "AB"[at]
            name = st.selectbox(
                f"Prompt {letter}", list(selected), index=at, key=f"patient_prompt_{letter}",
                format_func=lambda name: selected[name].title,
            )  # fmt: skip
            view = selected[name]
            st.caption(budget_words(view) or "No reader has answered this question yet.")
            if view.prompt is not None:
                st.html(marks.prompt_html(view.prompt.text))


def budget_words(view: ArmView) -> str:
    """What the prompt contains and what was cut, in words (markdown)."""
    prompt, selection = view.prompt, view.selection
    if prompt is None or selection is None:
        return ""
    line_count = len(selection.kept if selection.lines is None else selection.lines)
    cut = f"{len(prompt.cut):,} were cut." if prompt.cut else "nothing was cut."
    question = (
        ""
        if prompt.question_survived
        else " **The question was cut off**: the reader did not see it."
    )
    return (
        f"The prompt is {prompt.tokens:,} tokens long and holds {len(prompt.context):,} of "
        f"{line_count:,} kept lines; {cut}{question}"
    )
