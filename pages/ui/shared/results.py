"""A run's report as frames for tables and charts: names and words, no arithmetic of its own."""

from __future__ import annotations

from typing import Any

import pandas as pd

BAND_ORDER = ("0-10", "10-30", "30-50", "50-70", "70-90", "90-100", "middle", "edge", "overall")
IN_PROMPT = "in prompt"
CRITERIA = {
    IN_PROMPT: "evidence in the prompt",
    "evidence-id": "evidence kept, before any prompt limit",
    "lexical": "a word of the answer kept",
    "semantic": "the answer entailed",
    **{f"semantic@{p:g}": f"entailed, p > {p:g}" for p in (0.3, 0.4, 0.5, 0.6)},
}
"""Plain words for the criteria of recall."""


def label(entry: str) -> str:
    """An arm entry's name in tables and figures: "bm25 k=1" is shown as "bm25 · k=1"."""
    return entry.replace(" ", " · ")


def sentence(text: str) -> str:
    """A note of the engine as a sentence; a column's name keeps its small letters."""
    first = text if "_" in text.partition(" ")[0] else f"{text[:1].upper()}{text[1:]}"
    return f"{first.rstrip('.')}."


def part_words(report: dict[str, Any]) -> str:
    """Whose patients the tables count, in a sentence, where a gate of the run has seen some."""
    part = report.get("part") or {}
    if not part.get("seen"):
        return ""
    arms = ", ".join(f"{label(name)} {n}" for name, n in part["seen"].items())
    if part["name"] != "test":
        return f"Patients used to train a gate of this run are included ({arms})."
    return (
        f"All arms are reported on the {part['patients']:,} patients not used to train a gate of "
        f"this run; training patients: {arms}, reported separately."
    )


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


def kept_rows(frame: pd.DataFrame, reader: str) -> pd.DataFrame:
    """Rows of recall: of the criterion "in prompt" those of this reader, of others all; "in
    prompt" first."""
    if "reader" not in frame:
        return frame
    prompted = frame["criterion"] == IN_PROMPT
    own = frame[prompted & (frame["reader"] == reader)]
    return pd.concat([own, frame[~prompted]], ignore_index=True)


def evidence(frame: pd.DataFrame, reader: str) -> tuple[pd.DataFrame, str]:
    """Rows of recall on evidence, and their criterion: that in the reader's prompt where the run
    knows it, else that kept, else the first there is."""
    frame = kept_rows(frame, reader)
    found = choices(frame, "criterion")
    first = [name for name in (IN_PROMPT, "evidence-id") if name in found] or found or [""]
    return where(frame, criterion=first[0]), first[0]


def cut_words(row: Any) -> str:
    """What prompts lost, from a row of recall "in prompt"; "" where nothing was cut."""
    if not row.get("prompts_cut") or pd.isna(row["prompts_cut"]):
        return ""
    words = f"{int(row['prompts_cut'])} {cut_at(row['cut_at_least'], row['cut_at_most'])}"
    lost = int(row["kept_but_cut"])
    return words + (f"; evidence kept but cut in {lost}" if lost else "")


def cut_at(least: Any, most: Any) -> str:
    """At how many tokens prompts were cut, from the shortest to the longest of them."""
    low, high = int(least), int(most)
    return f"cut at {low:,} tokens" if low == high else f"cut at {low:,}–{high:,} tokens"


def percent(value: Any, digits: int = 0) -> str:
    """A share as a percentage; a dash where there is none."""
    return "–" if value is None or pd.isna(value) else f"{100 * value:.{digits}f} %"


def interval(low: Any, high: Any) -> str:
    """An interval of shares as percentages."""
    if low is None or high is None or pd.isna(low) or pd.isna(high):
        return "–"
    return f"{100 * low:.0f}–{100 * high:.0f}"


def bracketed(low: Any, high: Any) -> str:
    """The interval of a share in brackets after it; empty where there is none."""
    ends = interval(low, high)
    return "" if ends == "–" else f" [{ends}]"


def share(value: Any, low: Any, high: Any, digits: int = 0) -> str:
    """A share in percent, with its interval where there is one; a dash where there is no share."""
    if value is None or pd.isna(value):
        return "–"
    return percent(value, digits) + bracketed(low, high)


def shares(frame: pd.DataFrame, value: str, low: str, high: str, digits: int = 0) -> list[str]:
    """A column of shares, each with its interval."""
    return [share(*row, digits) for row in zip(frame[value], frame[low], frame[high], strict=True)]


def points(value: Any) -> str:
    """A difference of shares in points."""
    return "n/a" if value is None or pd.isna(value) else f"{100 * value:.1f} points"


def plus(value: Any, digits: int = 0) -> str:
    """A number with its sign, and 0 without one."""
    if value is None or pd.isna(value):
        return "–"
    shown = f"{value:+.{digits}f}".replace("-", "−")
    return shown[1:] if not shown.strip("+−0.") else shown


def signed(value: Any, low: Any, high: Any, digits: int = 0) -> str:
    """A difference of shares in points, with its interval where there is one."""
    if value is None or pd.isna(value):
        return "–"
    said = plus(100 * value, digits)
    if low is None or pd.isna(low):
        return said
    return f"{said} [{plus(100 * low, digits)} to {plus(100 * high, digits)}]"


def unscored(row: Any) -> str:
    """Beside a difference: that it is not claimed, as unscored answers could overturn it."""
    verdict = row.get("verdict")
    return ", not claimed" if isinstance(verdict, str) and verdict.startswith("not claimed") else ""


def plain_interval(low: Any, high: Any) -> str:
    """An interval of a coefficient, to two places."""
    if low is None or high is None or pd.isna(low) or pd.isna(high):
        return "–"
    return f"{low:.2f}–{high:.2f}" if low >= 0 else f"{low:.2f} to {high:.2f}"


def compact(count: Any) -> str:
    """A large count in a few characters: 3.1 million."""
    count = float(count)
    if count >= 1e6:
        return f"{count / 1e6:,.1f} million"
    return f"{count / 1e3:,.0f} thousand" if count >= 1e4 else f"{count:,.0f}"


def span_of(seconds: Any) -> str:
    """Seconds in words."""
    seconds = float(seconds)
    if seconds < 90:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def p_words(p: Any) -> str:
    """A p value in a few characters."""
    if p is None or pd.isna(p):
        return "no p"
    if p < 0.001:
        return "p < .001"
    return "p = 1" if p > 0.9995 else f"p = {p:.3f}".replace("0.", ".")


RECALL_COLUMNS = {
    "chance": "% by chance",
    "evidence_share": "% of the evidence",
    "picked_recall": "% of arm's picks",
    "picked_chance": "% of picks by chance",
}
"""What stands with recall in a table: random sentences of as many tokens, characters, picks."""
CHANCE_HELP = (
    "Chance: random sentences with the same number of tokens, question by question. % of the "
    "evidence: mean share of its characters that is included."
)


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
    if "bound_low" in frame and int(frame["unparsed"].sum() + frame["failed"].sum()):
        shown["unscored as incorrect–correct"] = [
            interval(a, b) for a, b in zip(frame["bound_low"], frame["bound_high"], strict=True)
        ]
    if value == "recall":
        for column, words in RECALL_COLUMNS.items():
            if column in frame:
                shown[words] = 100 * frame[column].astype(float)
    if "prompts_cut" in frame and frame["prompts_cut"].fillna(0).any():
        shown["cut"] = [cut_words(row) for row in frame.to_dict("records")]
    return shown.sort_values("%", ascending=False)


def wide(frame: pd.DataFrame, across: str, value: str, low: str, high: str) -> pd.DataFrame:
    """Arms down, the values of ``across`` to the right; each cell share and interval, in percent.

    n stands in the head of a column where it is the same for all arms, else in its cells.
    """
    order = choices(frame, across)
    heads: dict[str, str] = {}
    cells: list[str] = []
    for one in order:
        counts = {int(n) for n in frame.loc[frame[across] == one, "n"]}
        heads[one] = f"{one} · n {counts.pop()}" if len(counts) == 1 else str(one)
    for row in frame.to_dict("records"):
        said = "–"
        if row["n"] and not pd.isna(row[value]):
            said = f"{100 * row[value]:.0f}{bracketed(row[low], row[high])}"
            if value == "recall" and row.get("chance") is not None and not pd.isna(row["chance"]):
                said += f" chance {100 * row['chance']:.0f}"
            if " · n " not in heads[row[across]]:
                said += f" n {int(row['n'])}"
        cells.append(said)
    table = frame.assign(cell=cells).pivot(index="label", columns=across, values="cell")
    table = table.loc[choices(frame, "label"), order].rename(columns=heads)
    return table.rename_axis("arm").reset_index()


def pair_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """The paired table in words."""
    ends = {
        words: [
            "–" if pd.isna(a) else f"{plus(100 * a, 1)} to {plus(100 * b, 1)}"
            for a, b in zip(frame[f"{of}_low"], frame[f"{of}_high"], strict=True)
        ]
        for of, words in (("patient", "95 %, by patient"), ("difference", "95 %, Newcombe"))
    }
    return pd.DataFrame(
        {
            "arm": frame["label"],
            "n": frame["n"],
            "only this correct": frame["only_this"],
            "only baseline correct": frame["only_baseline"],
            "difference (points)": 100 * frame["difference"].astype(float),
            **ends,
            "p": frame["p"].astype(float),
            "p (Holm)": frame["p_holm"].astype(float),
            "p (BH)": frame["p_bh"].astype(float),
            "unscored": frame["unscored"],
            "verdict": frame["verdict"],
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
        ("evidence_in_prompt", "evidence in prompt"),
        ("evidence_share", "share of it in prompt"),
        ("cut_share", "cut from prompt"),
        ("question_survived", "question survived"),
    ):
        if column in frame:
            shown[words] = [percent(v) for v in frame[column]]
    if "prompts_cut" in frame and frame["prompts_cut"].fillna(0).any():
        shown["prompts cut"] = [cut_words(row) for row in frame.to_dict("records")]
    return shown
