"""The conclusion of a run or a curve: one sentence above its figures, with what it rests on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from midchart.pages.ui.shared import formats, marks
from midchart.pages.ui.shared.marks import for_screen


def show(first: str, below: Iterable[str] = (), place: DeltaGenerator | None = None) -> None:
    """Draw the sentence and the lines under it (plain text); nothing without a sentence."""
    if not first:
        return
    inside = (
        f'<p class="mc-headline">{for_screen(formats.unbroken(first), html=True)}</p>'
        + "".join(
            f'<p class="mc-basis">{for_screen(formats.unbroken(line), html=True)}</p>'
            for line in below
            if line
        )
    )
    (place or st).html(marks.block(inside))


def of_run(
    report: Mapping[str, Any],
    first: str,
    below: Iterable[str] = (),
    place: DeltaGenerator | None = None,
) -> None:
    """:func:`show` for a finished run; of any other a line that it is partial, and no conclusion:
    its figures change until it has finished."""
    if report["status"] == "done":
        judge = report["judge_agreement"]["words"]
        show(first, [f"On {report['origin']}.", *filter(None, (judge,)), *below], place)
        return
    items = report["items"]
    line = (
        f"Partial: {items['done']:,} of {items['planned']:,} items. A run has no conclusion "
        "before it has finished."
    )
    inside = f'<p class="mc-basis">{for_screen(formats.unbroken(line), html=True)}</p>'
    (place or st).html(marks.block(inside))
