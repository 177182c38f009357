"""A run's report as frames and table columns, without further arithmetic."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import pandas as pd

from midchart.core import api
from midchart.pages.ui.shared import formats
from midchart.pages.ui.shared.formats import intervals, missing, signed_intervals

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
RECALL_COLUMNS = {
    "chance": "% by chance",
    "any_piece": "% any piece",
    "any_piece_chance": "% any piece by chance",
    "evidence_share": "% of the evidence",
    "picked_recall": "% of arm's picks",
    "picked_chance": "% of picks by chance",
}
"""Further columns of recall: random sentences of as many tokens, any piece of the evidence where
the share is of all pieces, characters, picks."""
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
CHANCE_HELP = (
    "All pieces: every sentence with evidence is there; any piece: at least one is. Chance: random "
    "sentences with the same number of tokens, question by question. % of the evidence: mean share "
    "of its characters that is included."
)


def frame_of(tables: Mapping[str, Any], name: str) -> pd.DataFrame:
    """A report, or its tables: one table; without rows where there is none, with the columns of the
    report's kind.

    Rows of an arm (``label``) or of an attention (``variant``) have its ``title`` too.
    """
    rows = tables.get("tables", tables).get(name) or []
    header = list(api.columns_of(str(tables.get("kind", "")), name))
    frame = pd.DataFrame(rows) if rows else pd.DataFrame(columns=header)
    for column, family in (("label", "arm"), ("variant", "variant")):
        if column in frame and "title" not in frame:
            frame["title"] = [api.title(family, name) for name in frame[column]]
    return frame


def titles(family: str, labels: Iterable[str]) -> dict[str, str]:
    """Label → title of arms, readers, judges or variants, in their order."""
    return {label: api.title(family, label) for label in labels}


NAMES = {"label": "arm", "reader": "reader", "judge": "judge", "variant": "variant"}
"""Columns of ids → family of their titles."""


def shown(frame: pd.DataFrame) -> pd.DataFrame:
    """A table of a report for reading: titles for ids, and words for the names of columns."""
    if "label" in frame:
        frame = frame.drop(columns=["arm"], errors="ignore")
    ids = {name: frame[name].map(partial(_title, NAMES[name])) for name in NAMES if name in frame}
    unread = ["title", "part"] if "label" in frame else ["title"]
    frame = frame.assign(**ids).drop(columns=unread, errors="ignore")
    return frame.rename(columns=lambda name: COLUMNS.get(name, name.replace("_", " ")))


def _title(family: str, label: Any) -> str:
    return "" if missing(label) else api.title(family, label)


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


def recall_rows(frame: pd.DataFrame, reader: str) -> pd.DataFrame:
    """Rows of recall: of the criteria of prompts those of this reader first, then all others."""
    if "reader" not in frame:
        return frame
    prompted = frame["criterion"].isin((ALL_IN_PROMPT, ANY_IN_PROMPT))
    by_reader = frame[prompted & (frame["reader"] == reader)]
    return pd.concat([by_reader, frame[~prompted]], ignore_index=True)


def evidence(frame: pd.DataFrame, reader: str) -> tuple[pd.DataFrame, str]:
    """Rows of recall on all pieces of the evidence, and their criterion: in the reader's prompt
    where the run knows it, else kept, else the first there is."""
    frame = recall_rows(frame, reader)
    criteria = choices(frame, "criterion")
    known = [name for name in (ALL_IN_PROMPT, ALL_PIECES) if name in criteria]
    first = known or criteria or [""]
    return where(frame, criterion=first[0]), first[0]


def part_text(report: Mapping[str, Any]) -> str:
    """Whose patients the tables count, in a sentence, where a gate of the run has seen some."""
    part = report.get("part") or {}
    if not part.get("seen"):
        return ""
    arms = ", ".join(f"{api.title('arm', name)} {n}" for name, n in part["seen"].items())
    if part["name"] != "test":
        return f"Patients used to train a gate of this run are included ({arms})."
    return (
        f"All arms are reported on the {part['patients']:,} patients not used to train a gate of "
        f"this run; training patients: {arms}, reported separately."
    )


def cut_text(row: Mapping[str, Any]) -> str:
    """What prompts lost, from a row of recall of prompts; "" where nothing was cut."""
    if missing(row.get("prompts_cut")) or not row["prompts_cut"]:
        return ""
    text = f"{int(row['prompts_cut'])} {cut_at(row['cut_at_least'], row['cut_at_most'])}"
    lost = int(row["kept_but_cut"])
    return text + (f"; evidence kept but cut in {lost}" if lost else "")


def cut_at(least: Any, most: Any) -> str:
    """At how many tokens prompts were cut, from the shortest to the longest of them."""
    low, high = int(least), int(most)
    return f"cut at {low:,} tokens" if low == high else f"cut at {low:,}–{high:,} tokens"


def share_table(frame: pd.DataFrame, value: str, low: str, high: str) -> pd.DataFrame:
    """A forest plot's numbers: arm, share in per cent, interval, n and what stayed out of n."""
    shown = pd.DataFrame(
        {
            "arm": frame["title"],
            "%": 100 * frame[value].astype(float),
            "95 %": intervals(frame, low, high),
            "n": frame["n"],
        }
    )
    for column in ("refusals", "unparsed", "failed"):
        if column in frame:
            shown[column] = frame[column]
    if "bound_low" in frame and int(frame["unparsed"].sum() + frame["failed"].sum()):
        shown["unscored as incorrect–correct"] = intervals(frame, "bound_low", "bound_high")
    if value == "recall":
        for column, title in RECALL_COLUMNS.items():
            if column in frame and not ("any_piece" in column and frame[column].isna().all()):
                shown[title] = 100 * frame[column].astype(float)
    if "prompts_cut" in frame and frame["prompts_cut"].fillna(0).any():
        shown["cut"] = [cut_text(row) for row in frame.to_dict("records")]
    return shown.sort_values("%", ascending=False)


def wide(frame: pd.DataFrame, across: str, value: str, low: str, high: str) -> pd.DataFrame:
    """Arms down, the values of ``across`` to the right; each cell share and interval, in per cent.

    n is in the head of a column where it is the same for all arms, else in its cells, as is the
    number of unparsed answers where there are some.
    """
    heads = {
        name: f"{name} · n {int(rows['n'].iloc[0])}" if rows["n"].nunique() == 1 else str(name)
        for name, rows in frame.groupby(across, sort=False)
    }

    def cell(row: dict[str, Any]) -> str:
        if not row["n"] or missing(row[value]):
            return formats.NONE
        ends = formats.interval(row[low], row[high])
        text = f"{100 * row[value]:.1f}" + ("" if ends == formats.NONE else f" {ends}")
        if value == "recall" and not missing(row.get("chance")):
            text += f" chance {100 * row['chance']:.1f}"
        text += "" if " · n " in heads[row[across]] else f" n {int(row['n'])}"
        unparsed = row.get("unparsed")
        return text if missing(unparsed) or not unparsed else f"{text} unparsed {int(unparsed)}"

    cells = frame.assign(cell=[cell(row) for row in frame.to_dict("records")])
    table = cells.pivot(index="title", columns=across, values="cell")
    table = table.loc[choices(frame, "title"), list(heads)].rename(columns=heads)
    return table.rename_axis("arm").reset_index()


def paired_table(frame: pd.DataFrame) -> pd.DataFrame:
    """A table of paired comparisons for display."""
    return pd.DataFrame(
        {
            "arm": frame["title"],
            "n": frame["n"],
            "only this correct": frame["only_this"],
            "only baseline correct": frame["only_baseline"],
            "difference (points)": 100 * frame["difference"].astype(float),
            "95 %, by patient": signed_intervals(frame, "patient_low", "patient_high"),
            "95 %, Newcombe": signed_intervals(frame, "difference_low", "difference_high"),
            "p": frame["p"].map(formats.p_number),
            "p (Holm)": frame["p_holm"].map(formats.p_number),
            "p (BH)": frame["p_bh"].map(formats.p_number),
            "unscored": frame["unscored"],
            "verdict": frame["verdict"],
        }
    )
