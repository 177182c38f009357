"""How often a reader is wrong without the evidence, and abstains with it, in one sentence."""

from __future__ import annotations

import streamlit as st

from midchart.core import api
from midchart.pages.ui import state
from midchart.pages.ui.shared import formats
from midchart.pages.ui.shared.marks import plain


def installed() -> dict[str, str]:
    """Name → title of the readers that answer on this machine, the default one first."""
    readers = {name: title for name, title, problem in state.members("reader") if not problem}
    first = api.default_reader()
    return dict(sorted(readers.items(), key=lambda reader: reader[0] != first))


def sentence(reader: str, title: str) -> str:
    """The measured error rates of a reader; says so where they are not known."""
    rows = api.error_rates().get(reader)
    if not rows:
        return f"{title}: not measured how often it answers without evidence."
    wrong = [
        f"{formats.share(row['wrong_share'], row['wrong_low'], row['wrong_high'])} "
        f"({row['data']}, {row['n']:,} questions)"
        for row in rows
    ]
    abstained = [
        formats.share(row["abstained_share"], row["abstained_low"], row["abstained_high"])
        for row in rows
    ]
    order = ", respectively" if len(rows) > 1 else ""
    return (
        f"{title}: answers wrongly when the evidence is absent in {formats.listed(wrong)}; "
        f"abstains although it is there in {formats.listed(abstained)}{order}."
    )


def caption(reader: str) -> None:
    """The sentence below the place where a question is answered."""
    st.caption(plain(sentence(reader, installed().get(reader, reader))))
