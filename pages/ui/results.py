"""A run's report as frames for tables and charts: names and words, no arithmetic of its own."""

from __future__ import annotations

from typing import Any

import pandas as pd

BAND_ORDER = ("0-10", "10-30", "30-50", "50-70", "70-90", "90-100", "middle", "edge", "overall")
CRITERIA = {
    "evidence-id": "evidence kept, by id",
    "lexical": "a word of the answer kept",
    "semantic": "the answer entailed",
    **{f"semantic@{p:g}": f"entailed, p > {p:g}" for p in (0.3, 0.4, 0.5, 0.6)},
}
"""Plain words for the criteria of recall."""


def label(entry: str) -> str:
    """An arm entry's name in tables and figures: "bm25 k=1" is shown as "bm25 · k=1"."""
    return entry.replace(" ", " · ")


def frame_of(report: dict[str, Any], table: str) -> pd.DataFrame:
    """One table of a report, arms labelled for display; empty where the report has none."""
    frame = pd.DataFrame(report["tables"].get(table) or [])
    if "label" in frame:
        frame["label"] = frame["label"].map(label)
    return frame


def choices(frame: pd.DataFrame, column: str) -> list[str]:
    """The values of a column, in the order of the report."""
    return list(dict.fromkeys(frame[column])) if column in frame else []


def where(frame: pd.DataFrame, **fixed: Any) -> pd.DataFrame:
    """The rows in which the columns have these values; a column that is not there is ignored."""
    for column, value in fixed.items():
        if column in frame and value is not None:
            frame = frame[frame[column] == value]
    return frame


def percent(value: Any, digits: int = 0) -> str:
    """A share as a percentage; a dash where there is none."""
    return "–" if value is None or pd.isna(value) else f"{100 * value:.{digits}f} %"


def interval(low: Any, high: Any) -> str:
    """An interval of shares as percentages."""
    if low is None or high is None or pd.isna(low) or pd.isna(high):
        return "–"
    return f"{100 * low:.0f}–{100 * high:.0f}"


def cell(value: Any, low: Any, high: Any, n: Any) -> str:
    """A share with its interval and n in one cell."""
    if pd.isna(value) or not n:
        return "–"
    return f"{100 * value:.0f} % [{interval(low, high)}] n={int(n)}"


def numbers(frame: pd.DataFrame, value: str, low: str, high: str) -> pd.DataFrame:
    """A forest's numbers: arm, share in percent, interval, n and what stayed out of n."""
    shown = pd.DataFrame(
        {
            "arm": frame["label"],
            "%": 100 * frame[value].astype(float),
            "95 %": [interval(a, b) for a, b in zip(frame[low], frame[high], strict=True)],
            "n": frame["n"],
        }
    )
    for column in ("refusals", "unparsed", "failed"):
        if column in frame:
            shown[column] = frame[column]
    return shown.sort_values("%", ascending=False)


def wide(frame: pd.DataFrame, across: str, value: str, low: str, high: str) -> pd.DataFrame:
    """Arms down, the values of ``across`` to the right; each cell share, interval and n."""
    cells = frame.assign(
        cell=[
            cell(*row)
            for row in zip(frame[value], frame[low], frame[high], frame["n"], strict=True)
        ]
    )
    order = choices(frame, across)
    table = cells.pivot(index="label", columns=across, values="cell")
    return table.loc[choices(frame, "label"), order].rename_axis("arm").reset_index()


def pair_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """The paired table in words."""
    return pd.DataFrame(
        {
            "arm": frame["label"],
            "n": frame["n"],
            "only this right": frame["only_this"],
            "only baseline right": frame["only_baseline"],
            "difference (points)": 100 * frame["difference"].astype(float),
            "p": frame["p"].astype(float),
            "p (Holm)": frame["p_holm"].astype(float),
        }
    )


def token_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """The tokens table in words; means over questions, shares in percent."""
    shown = pd.DataFrame({"arm": frame["label"], "n": frame["n"]})
    for column, words, digits in (
        ("sentences", "sentences", 1),
        ("selection_tokens", "tokens kept", 0),
        ("prompt_tokens", "prompt tokens", 0),
    ):
        if column in frame:
            shown[words] = frame[column].astype(float).round(digits)
    for column, words in (
        ("evidence_share", "evidence kept"),
        ("evidence_in_prompt", "evidence in prompt"),
        ("cut_share", "cut from prompt"),
        ("question_survived", "question survived"),
    ):
        if column in frame:
            shown[words] = [percent(v) for v in frame[column]]
    return shown
