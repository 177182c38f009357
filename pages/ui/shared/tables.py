"""Tables, each with CSV and LaTeX downloads; a run's report as frames."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from midchart.core import api
from midchart.pages.ui.shared import chart, glossary, marks
from midchart.pages.ui.shared.marks import NONE
from midchart.pages.ui.sign_in import download_button

IN_FULL = 40
"""Rows up to which a table is shown without a scrollbar."""
WIDE, SHORT = 130, 10
"""Characters of a row that fit on a screen, and of a head that is always shown."""
MOST_UNFROZEN = 3
"""Columns of a table that does not scroll sideways; of one with more the first stays in sight."""
TALL = 560
"""Height of a longer table in pixels."""


def csv_bytes(frame: pd.DataFrame) -> bytes:
    """The frame as CSV; a text that a spreadsheet would run as a formula is made plain text."""
    safe = frame.copy()
    for column in safe.columns:
        if not pd.api.types.is_numeric_dtype(safe[column]):
            safe[column] = safe[column].map(api.sheet_cell)
    safe.columns = [api.sheet_cell(name) for name in safe.columns]
    return safe.to_csv(index=False, lineterminator="\r\n").encode()  # so that \r is quoted


def visible_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with invisible characters of its texts shown (``for_terminal``)."""
    return frame.map(lambda value: marks.for_terminal(value) if isinstance(value, str) else value)


def latex_bytes(frame: pd.DataFrame, note: str = "") -> bytes:
    """The frame as a LaTeX table with the rules of booktabs, after a comment with the ``note``."""
    comment = f"% {' '.join(note.split())}\n".encode() if note else b""
    return (
        comment
        + visible_frame(frame).to_latex(index=False, escape=True, float_format="%.3g").encode()
    )


def table(
    frame: pd.DataFrame,
    name: str,
    alt: str,
    columns: dict[str, Any] | None = None,
    download: pd.DataFrame | None = None,
    opens: Callable[[int, str], object] | None = None,
    **options: Any,
) -> Any:
    """Show a frame with the menu of its downloads under it: CSV and LaTeX.

    ``name`` is the file name without its ending and the widgets' key; ``alt`` says in words what
    the table holds; ``columns`` is Streamlit's column configuration; ``download`` the frame to be
    downloaded where it has more than is shown; ``opens`` what a click on a cell (row, column) does,
    and the choice of one row where ``selection_mode`` lets rows be chosen.
    """

    def select() -> None:
        chosen = st.session_state[f"table_{name}"]["selection"]
        alone = [(row, "") for row in chosen["rows"]] if len(chosen["rows"]) == 1 else []
        for row, column in chosen["cells"] or alone:
            opens(row, column)

    if opens:
        modes = [*filter(None, [options.get("selection_mode")]), "single-cell"]
        options |= {"on_select": select, "selection_mode": modes}
    configured = configuration(frame, columns or {})
    height = "content" if len(frame) <= IN_FULL else TALL
    with st.container(key=f"opens_cell_{name}" if opens else None):  # opened by keyboard: page.js
        shown = st.dataframe(
            visible_frame(frame),
            hide_index=True,
            column_config=configured,
            alt=alt,
            key=f"table_{name}",
            placeholder=NONE,
            **{"height": height, **options},
        )
    downloads(frame if download is None else download, name)
    return shown


def configuration(frame: pd.DataFrame, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Column configuration, with each head's terms explained on hover; of a wide table the first
    column is always in sight, and heads are no wider than their cells. ``columns``: title,
    configuration or, to hide it, None."""
    configured = dict(columns)
    lengths = {str(name): frame[name].astype(str).str.len() for name in frame}
    wide = sum(max(len(name), cells.max()) for name, cells in lengths.items()) > WIDE
    for at, (name, cells) in enumerate(lengths.items()):
        config = columns.get(name, {})
        if config is None:
            continue
        config = {"label": config} if isinstance(config, str) else dict(config)
        text = glossary.meaning(name)
        if at == 0 and len(frame.columns) > MOST_UNFROZEN:
            # Streamlit measures the first rows alone.
            if cells.max() > max(cells.head(3).max(), len(name)):
                config.setdefault("width", int(min(260, 36 + 7 * cells.max())))
        elif wide and len(head := str(config.get("label") or name)) > max(cells.max(), SHORT):
            config.setdefault("width", int(20 + 7 * max(cells.max(), SHORT)))
            text = f"{head}. {text}" if text else head
        if text:
            config.setdefault("help", text)
        if config:
            configured[name] = config
    return configured


@st.fragment
def downloads(frame: pd.DataFrame, name: str) -> None:
    """A small button under a table that opens its downloads."""
    menu = st.popover(
        "Table", key=f"downloads_{name}", type="tertiary", icon=":material/download:",
        help="Download as CSV or LaTeX", on_change="rerun",
    )  # fmt: skip
    if not menu.open:
        return
    formats = (
        ("CSV", "csv", csv_bytes, "text/csv"),
        ("LaTeX", "tex", partial(latex_bytes, note=chart.source()), "application/x-tex"),
    )
    with menu, st.container(horizontal=True, gap="small"):
        for title, ending, encode, mime in formats:
            make = partial(encode, frame)
            download_button(
                title, f"{name}.{ending}", mime, make, key=f"{ending}_{name}", icon=None
            )


# A run's report


BAND_ORDER = ("0-10", "10-30", "30-50", "50-70", "70-90", "90-100", "middle", "edge", "overall")
ALL_IN_PROMPT, ANY_IN_PROMPT = "all pieces in prompt", "any piece in prompt"
ALL_PIECES, ANY_PIECE = "all pieces", "any piece"
CRITERIA = {
    ALL_IN_PROMPT: "all pieces of the evidence in the prompt",
    ALL_PIECES: "all pieces of the evidence kept, before any prompt limit",
    ANY_IN_PROMPT: "any piece of the evidence in the prompt",
    ANY_PIECE: "any piece of the evidence kept, before any prompt limit",
    "lexical": "a word of the answer kept",
    "semantic": "the answer entailed",
    **{f"semantic@{p:g}": f"entailed, p > {p:g}" for p in (0.3, 0.4, 0.5, 0.6)},
}
"""Titles of the criteria of recall."""
COLUMNS = {
    "label": "arm",
    "ci_low": "95 % low", "ci_high": "95 % high",
    "hm_low": "Hanley–McNeil low", "hm_high": "Hanley–McNeil high",
    "auroc": "AUROC", "auprc": "AUPRC", "auprc_low": "AUPRC, 95 % low",
    "auprc_high": "AUPRC, 95 % high", "tuning_auroc": "AUROC, tuning", "tuning_auprc":
    "AUPRC, tuning", "cls_zeros": "zeros, CLS row", "cls_negatives": "negatives, CLS row",
    "sd": "SD", "gate_sd": "gate SD",
}  # fmt: skip
"""Titles of columns that are not their names with spaces."""

POSITIONS = {"order": "Order of events", "time": "Elapsed time", "token": "Tokens of the record"}
"""Titles of the positions of evidence in a record."""


def frame_of(tables: Mapping[str, Any], name: str) -> pd.DataFrame:
    """A report, or its tables: one table; without rows where there is none.

    Rows of an arm (``label``) or of an attention (``variant``) have its ``title`` too.
    """
    rows = tables.get("tables", tables).get(name) or []
    frame = pd.DataFrame(rows)
    for column, family in (("label", "arm"), ("variant", "variant")):
        if column in frame and "title" not in frame:
            frame["title"] = [api.title(family, name) for name in frame[column]]
    return frame


def titles(family: str, labels: Iterable[str]) -> dict[str, str]:
    """Label → title of arms, readers, judges or variants, in their order."""
    return {label: api.title(family, label) for label in labels}


IDS = ("label", "reader", "judge", "variant")
"""Columns of labels, shown by their titles."""


def shown(frame: pd.DataFrame) -> pd.DataFrame:
    """A table of a report for reading: titles for ids, and words for the names of columns."""
    if "label" in frame:
        frame = frame.drop(columns=["arm"], errors="ignore")
    ids = {name: frame[name].map(partial(api.in_words, name)) for name in IDS if name in frame}
    unread = ["title", "part"] if "label" in frame else ["title"]
    frame = frame.assign(**ids).drop(columns=unread, errors="ignore")
    return frame.rename(columns=lambda name: COLUMNS.get(name, name.replace("_", " ")))


def with_titles(family: str, labels: Iterable[str], text: str) -> str:
    """A text of the engine with titles for the labels in it, but those that are plain words; a
    title that has a comma is quoted, since the text may be a list."""
    named = {
        label: f"“{title}”" if "," in title else title
        for label, title in titles(family, labels).items()
        if title and not title.startswith(label.capitalize())
    }
    if not named:
        return text
    longest = sorted(map(re.escape, named), key=len, reverse=True)
    return re.sub(rf"(?<![\w=])({'|'.join(longest)})(?![\w=])", lambda match: named[match[0]], text)


def choices(frame: pd.DataFrame, column: str) -> list[str]:
    """The values of a column, in the order of the report."""
    return list(dict.fromkeys(frame[column])) if column in frame else []


def where(frame: pd.DataFrame, **fixed: Any) -> pd.DataFrame:
    """The rows in which the columns have these values; a missing column or value is ignored."""
    for column, value in fixed.items():
        if column in frame and value is not None:
            frame = frame[frame[column] == value]
    return frame
