"""The open sentence: its text with the contributions to its score, and what each arm did with it.

A place's contribution is shown by the strength of its shade, its sign by the line under it (solid,
or dotted with hatching), never by red or green. All record text is escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from midchart.core import api
from midchart.core.errors import MidchartError
from midchart.pages.ui.patient import cached, model, score_arrays
from midchart.pages.ui.patient import panel as entry_panel
from midchart.pages.ui.patient.model import Choice
from midchart.pages.ui.patient.score_arrays import WALK_EVIDENCE, WALK_KEPT, WALK_RANK, WALK_RECORD
from midchart.pages.ui.patient.score_charts import Strip
from midchart.pages.ui.shared import marks, tables
from midchart.pages.ui.shared.marks import plain
from midchart.pages.ui.shared.pickers import segments

SHOWN_TERMS = 10
LEVELS = 5
FAINTEST = 0.04
"""Contributions below this share of the largest are not marked on the text; the table has them."""

CSS = """
.mc-lead{margin:.2rem 0 .3rem}.mc-lead b{font-size:1.02rem}.mc-lead>span:not(.mc-held){opacity:.8}
.mc-arms{border-collapse:collapse;font-size:.86rem;width:100%;line-height:1.4}
.mc-arms th,.mc-arms td{text-align:start;padding:.28rem .6rem .28rem 0;vertical-align:top;
 border-bottom:1px solid var(--mc-line);font-weight:400;font-variant-numeric:tabular-nums}
.mc-arms td:nth-child(2),.mc-arms td:nth-child(3){white-space:nowrap}
.mc-arms thead th{opacity:.75;font-size:.8rem}.mc-arms tbody th{font-weight:600}
.mc{--mc-less:light-dark(#b34a10,#f7925c)}
.mc-sentence{white-space:pre-wrap;unicode-bidi:plaintext;font-size:1.05rem;line-height:1.9;
 margin:.2rem 0 .5rem;max-width:80ch;border-inline-start:3px solid var(--mc-line);
 padding-inline-start:.8rem}
.mc mark.mc-w{padding:.05em 0;border-radius:0;background:none}
""" + "".join(
    f".mc mark.mc-p{i}{{background:color-mix(in srgb,var(--mc-ink) {8 + 10 * i}%,transparent);"
    "border-bottom:2px solid var(--mc-ink)}"
    f".mc mark.mc-n{i}{{background:repeating-linear-gradient(135deg,"
    f"color-mix(in srgb,var(--mc-less) {12 + 12 * i}%,transparent) 0 2px,transparent 2px 5px);"
    "border-bottom:2px dotted var(--mc-less)}"
    for i in range(1, LEVELS + 1)
)


def date_of(table: api.ScoreTable, place: int) -> str:
    """A sentence's date."""
    time = table.times[place]
    return "undated" if np.isnat(time) else str(time.astype("datetime64[D]"))


# The text with its contributions


def weights(length: int, why: api.Explanation) -> NDArray[np.float64]:
    """The contribution of each character of a text [length].

    A term's contribution is shared equally by its places, so overlapping n-grams add up.
    """
    result = np.zeros(length)
    for term in why.terms:
        for start, end in term.spans:
            result[max(start, 0) : max(end, 0)] += term.part / len(term.spans)
    return result


def _levels(contributions: NDArray[np.float64]) -> list[int]:
    """Each character's level [n], -LEVELS to LEVELS, 0 below :data:`FAINTEST`."""
    share = np.abs(contributions) / (np.abs(contributions).max(initial=0) or 1)
    level = np.where(share < FAINTEST, 0, np.ceil(share * LEVELS))
    return (np.sign(contributions) * level).astype(np.int64).tolist()


def marked_text(text: str, why: api.Explanation | None) -> str:
    """The text with its contributions marked, as HTML."""
    out: list[str] = []
    at = 0
    for level, run in groupby(_levels(weights(len(text), why)) if why else [0] * len(text)):
        end = at + len(list(run))
        part = marks.safe(text[at:end])
        kind = f"mc-{'p' if level > 0 else 'n'}{abs(level)}"
        out.append(f'<mark class="mc-w {kind}">{part}</mark>' if level else part)
        at = end
    return f'<div class="mc-sentence">{"".join(out)}</div>'


def legend(why: api.Explanation) -> str:
    """What the marks mean, for the signs that occur."""
    items = [
        f'<span><mark class="mc-w mc-{kind}{LEVELS}">{verb}</mark> the score</span>'
        for kind, verb, sign in (("p", "raises", 1), ("n", "lowers", -1))
        if any(sign * term.part > 0 for term in why.terms)
    ]
    if not items:
        return ""
    return f'<div class="mc-legend">{"".join(items)}<span>stronger shade: larger</span></div>'


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


def visible_term(term: str) -> str:
    """A term with blanks at its ends and control characters made visible."""
    bare = term.strip(" ")
    left = len(term) - len(term.lstrip(" "))
    right = len(term) - len(bare) - left if bare else 0
    return marks.visible("␣" * left + bare + "␣" * right)


def terms_frame(why: api.Explanation) -> pd.DataFrame:
    """The terms, the largest contribution (of either sign) first."""
    order = sorted(why.terms, key=lambda term: (-abs(term.part), term.text))
    rows = [(visible_term(term.text), term.part, len(term.spans)) for term in order]
    return pd.DataFrame(rows, columns=["term", "part", "places"])


# What each arm did with the sentence


def arms_table(strips: Sequence[Strip], at: int) -> str:
    """Score, threshold, rank and outcome of a sentence by arm, as an HTML table."""
    body = ""
    for strip in strips:
        arm = strip.arm
        rank = score_arrays.ranks(arm.values)
        cells = (
            "–" if np.isnan(arm.values[at]) else f"{arm.values[at]:.4g}",
            "–" if arm.threshold is None else f"{arm.threshold:.4g}",
            f"{rank[at]:,} of {int((rank > 0).sum()):,}" if rank[at] else "unranked",
            score_arrays.why_kept(arm, at),
        )
        row = "".join(f"<td>{marks.safe(cell)}</td>" for cell in cells)
        body += f'<tr><th scope="row">{marks.safe(strip.title)}</th>{row}</tr>'
    heads = "".join(
        f'<th scope="col">{h}</th>' for h in ("arm", "score", "kept from", "rank", "kept")
    )
    table = f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody>"
    return f"<style>{CSS}</style>" + marks.block(f'<table class="mc-arms">{table}</table>')


def _pick_arm(
    choice: Choice, table: api.ScoreTable, strips: Sequence[Strip], gold: Sequence[int], at: int
) -> Strip:
    """The arm whose score is explained, and the buttons to the next and previous sentence."""
    by_name = {strip.arm.arm: strip for strip in strips}
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        titles = {name: strip.title for name, strip in by_name.items()}
        key = f"patient_focus_{'_'.join(by_name)}"
        name = segments("Explain by", titles, key, persist_state="page", wrap=True)
        strip = by_name.get(name, strips[0])
        orders = [WALK_RANK, WALK_KEPT, *([WALK_EVIDENCE] if gold else []), WALK_RECORD]
        key = f"patient_walk_{bool(gold)}"
        order = segments("Order", orders, key, persist_state="page", width="content")
        for label, forward, icon in (
            ("Previous", False, ":material/arrow_back:"),
            ("Next", True, ":material/arrow_forward:"),
        ):
            to, place, length = score_arrays.walk(strip.arm, gold, order, at, forward)
            st.button(
                label, icon=icon, key=f"patient_sentence_{label.lower()}", disabled=to is None,
                on_click=cached.open_item,
                args=(cached.SENTENCE, choice, None if to is None else table.sentences[to].id),
            )  # fmt: skip
        st.caption(f"{place:,} of {length:,}" if place else f"not among these {length:,}")
    return strip


def panel(
    choice: Choice, table: api.ScoreTable, strips: Sequence[Strip], gold: Sequence[int], at: int
) -> None:
    """The sentence with its contributions, the terms and the arms' outcomes."""
    st.header("Why this sentence?", anchor=False)
    strip = _pick_arm(choice, table, strips, gold, at)
    sentence = table.sentences[at]
    entry = choice.record.events[sentence.span.event]
    why, problem = _explanation(choice, strip, sentence.id, at)
    left, right = st.columns([3, 2], gap="medium")
    with left:
        badge = f'<span class="mc-held">{marks.tag("evidence")}</span>' if at in gold else ""
        head = (
            f'<div class="mc-lead"><b>{marks.safe(entry_panel.title(entry))}</b> <span>· '
            f"{entry_panel.when(entry)} · sentence {at + 1:,} of {len(table.sentences):,}, at "
            f"{model.percent(float(table.order[at]))} of the record</span> {badge}</div>"
        )
        body = head + marked_text(sentence.text, why) + (legend(why) if why else "")
        st.html(f"<style>{CSS}</style>" + marks.block(body))
        if why is None:
            st.caption(plain(problem))
        else:
            st.text(sum_words(why, float(strip.arm.values[at])))
            st.caption(plain(why.note))
        if st.button(
            "Open its entry in the record", key="patient_sentence_entry", type="tertiary",
            icon=":material/open_in_new:",
        ):  # fmt: skip
            cached.open_item(cached.EVENT, choice, sentence.span.event)
            st.rerun()
    if why is not None and why.terms:
        with right:
            _terms(why)
    with left if why is not None and why.terms else right:
        st.html(arms_table(strips, at))


def _explanation(
    choice: Choice, strip: Strip, sentence_id: str, at: int
) -> tuple[api.Explanation | None, str]:
    if np.isnan(strip.arm.values[at]):
        return None, f"{strip.title} does not rank this sentence."
    try:
        why = cached.explain(choice, strip.arm.arm, sentence_id)
    except MidchartError as error:
        return None, str(error)
    return why, f"{strip.title} compares whole sentences; its score cannot be decomposed."


def _terms(why: api.Explanation) -> None:
    full = terms_frame(why)
    column = st.column_config
    tables.table(
        full.head(SHOWN_TERMS).assign(size=full["part"].abs().head(SHOWN_TERMS)),
        "patient_sentence_terms",
        "Contributions to the sentence's score, largest first",
        columns={
            "term": column.TextColumn(width=100),
            "part": column.NumberColumn("adds", format="%+.3g", width=70),
            "places": column.NumberColumn(width=60),
            "size": column.ProgressColumn(
                "contribution",
                min_value=0.0,
                max_value=float(full["part"].abs().max()) or 1.0,
                format=" ",
                width=90,
            ),
        },
        download=full,
    )
    if len(full) > SHOWN_TERMS:
        st.caption(
            f"The largest {SHOWN_TERMS} of {len(full):,} contributions; the downloads have all."
        )
