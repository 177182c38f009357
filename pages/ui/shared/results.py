"""A run's report as frames and table columns, without further arithmetic."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import pandas as pd

from midchart.core import api

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
