"""Tables of a curve: its bins, its summary, its verdict in words, and the paper's own curve."""

from __future__ import annotations

from math import isnan
from typing import Any

from core.errors import InputError
from core.experiments.curve.rows import Choice, Observed, Selected, select
from core.experiments.curve.study import ALPHA, FEWEST_CLUSTERS, UNIFORM_SHARE, Curve, study
from core.format import count, p_value, percent, points
from core.results.tables import known, pick, read_published
from core.runs.experiment import Table
from core.stats.paired import FEWEST_CLUSTERS as FEWEST_REPORTED
from core.storage.rows import Schema

BIN_COLUMNS: Schema = {
    "bin": "BIGINT",
    **dict.fromkeys(("low", "high"), "DOUBLE"),
    **dict.fromkeys(("n", "clusters"), "BIGINT"),
    **dict.fromkeys(("accuracy", "ci_low", "ci_high", "null_low", "null_high"), "DOUBLE"),
}
COUNTS = (
    "n", "clusters", "peak_bin", "trough_bin", "unlocated", "simulated", "unscored", "weak",
)  # fmt: skip
SUMMARY: Schema = {
    name: "BOOLEAN" if name == "simulated" else "BIGINT" if name in COUNTS else "DOUBLE"
    for name in (
        "n", "clusters", "peak", "peak_bin", "trough", "trough_bin", "gap", "null_gap", "gap_p",
        "homogeneity_p", "middle", "edge", "difference", "difference_low", "difference_high",
        "difference_p", "quadratic", "quadratic_low", "quadratic_high", "quadratic_p",
        "share_10_90", "uniform_share", "unlocated", "simulated", "difference_holm",
        "quadratic_holm", "smallest_difference", "held", "unscored", "weak",
    )
}  # fmt: skip
"""As in :class:`core.experiments.curve.study.Curve`; shares and differences of shares, and
``quadratic`` in log odds. ``smallest_difference`` is shown with 80 % power. ``unlocated``,
``unscored`` and ``weak`` responses are in no bin."""


def compute_curve(
    observed: Observed, choice: Choice, bins: int, resamples: int, seed: int
) -> tuple[Curve, Selected]:
    """A choice's curve; raises InputError where no answer has both the score and a position."""
    selected = select(observed, choice)
    if selected.responses is None:
        raise InputError(
            f"no answer has both the score {choice.score!r} and a {choice.position} position of "
            f"its evidence ({selected.unscored} without the score, {selected.unlocated} unlocated, "
            f"{selected.weak} left out for a weak location)"
        )
    widened = observed.protocol.intervals == "widened"
    return study(selected.responses, bins, resamples, seed, widened), selected


def curve_columns(choice: Choice, bins: int) -> dict[str, Any]:
    """The columns that identify a curve."""
    names = ("stratum", "value", "score", "position")
    return {name: getattr(choice, name) for name in names} | {"bins": bins}


def bin_rows(curve: Curve) -> Table:
    """One row a bin (:data:`BIN_COLUMNS`); null where a value is not defined."""
    columns = {name: getattr(curve, name).tolist() for name in BIN_COLUMNS if name != "bin"}
    return [
        {"bin": b} | {name: None if isnan(of[b]) else of[b] for name, of in columns.items()}
        for b in range(len(curve.n))
    ]


def summary_row(curve: Curve, selected: Selected) -> dict[str, Any]:
    """The columns of :data:`SUMMARY`."""
    row: dict[str, Any] = {
        "n": curve.rows,
        "clusters": curve.cluster_count,
        "uniform_share": UNIFORM_SHARE,
        "smallest_difference": known(curve.smallest),
    }
    for name in SUMMARY:
        if name not in row:
            value = getattr(selected if hasattr(selected, name) else curve, name)
            row[name] = value if name in COUNTS else known(value)
    return row


def published_curve() -> Table:
    """The paper's curve: bin, low, high, accuracy, ci_low, ci_high; shares."""
    columns = {"accuracy": "accuracy", "ci_low": "cluster_ci_low", "ci_high": "cluster_ci_high"}
    table: Table = []
    for row in read_published("clitm_curve.csv"):
        low, high = (int(edge) / 100 for edge in row["decile"].split("-"))
        values = {name: float(row[column]) for name, column in columns.items()}
        table.append({"bin": len(table), "low": low, "high": high, **values})
    return table


def published_summary() -> Table:
    """The paper's figures about its curve: quantity, value, ci_low, ci_high, unit, as printed."""
    numbers = ("value", "ci_low", "ci_high")
    return [
        pick(row, ("quantity", "unit"))
        | {name: float(row[name]) if row[name] else None for name in numbers}
        for row in read_published("clitm_summary.csv")
    ]


# The verdict in words.

NOUNS = {
    "clinician": "Accuracy by the clinicians' verdict",
    "exact": "Accuracy by exact match",
    "jaccard": "Mean token overlap (Jaccard)",
}
SIMULATED = (
    "Simulated answers: generated with a declared effect of position and say nothing "
    "about any real model."
)
ONE_OF_MANY = "This is one of several groups looked at; p values are not corrected for that."


def verdict(curve: Curve, score: str, simulated: bool = False, one_of_many: bool = False) -> str:
    """The curve in words.

    ``score`` is a name of :data:`NOUNS`; ``simulated`` says first that no model gave these
    answers; ``one_of_many`` adds that the curve is that of one group among several.
    """
    sentences = [SIMULATED] if simulated else []
    if isnan(curve.difference) or isnan(curve.difference_p):
        sentences.append(_untestable(curve, score))
    else:
        sentences += [_contrast(curve, score), _gap(curve), _caution(curve)]
    return " ".join([*sentences, ONE_OF_MANY] if one_of_many else sentences)


def _untestable(curve: Curve, score: str) -> str:
    subject = NOUNS[score]
    why = "no two questions have the same models' answers, so that no permutation is possible"
    if isnan(curve.difference):
        subject += f" is {percent(curve.edge if isnan(curve.middle) else curve.middle)}"
        why = "all evidence lies on one side: in the middle of the record (30–70 %), or outside it"
    return (
        f"{subject} over {count(curve.rows, 'answer')} to "
        f"{count(curve.cluster_count, 'question')}; nothing can be said about position, as {why}."
    )


def _contrast(curve: Curve, score: str) -> str:
    interval = f"no interval: fewer than {FEWEST_REPORTED} questions on one side"
    if not isnan(curve.difference_low):
        low, high = _signed(curve.difference_low), _signed(curve.difference_high)
        interval = f"95 % interval: {low} to {high}"
    text = (
        f"{NOUNS[score]} is {percent(curve.middle)} where the evidence lies in the middle of the "
        f"record (30–70 %) and {percent(curve.edge)} elsewhere, {_signed(curve.difference)} in "
        f"the middle ({interval}; {p_value(curve.difference_holm)}, corrected for two tests)"
    )
    quadratic = "" if isnan(curve.quadratic_p) else p_value(curve.quadratic_holm)
    shape = f"the curve as a whole {'sags' if curve.quadratic > 0 else 'rises'} in the middle"
    if _significant(curve.difference_holm):
        worse = "worse in the middle" if curve.difference < 0 else "better in the middle, not lost"
        text += f": these answers are {worse}"
        if _significant(curve.quadratic_holm):
            text += f", and {shape} ({quadratic})"
        elif quadratic:
            text += f", though the quadratic term alone is not significant ({quadratic})"
    elif _significant(curve.quadratic_holm):
        text += f"; that is not significant, but {shape} ({quadratic})"
    elif quadratic:
        text += f"; neither this nor the quadratic term ({quadratic}) is significant"
    elif curve.cluster_count < FEWEST_CLUSTERS:
        text += "; that is not significant, with too few questions to test the quadratic term"
    else:
        text += "; that is not significant, and these answers allow no test of the quadratic term"
    return text + "."


def _gap(curve: Curve) -> str:
    part = {10: "tenth", 5: "fifth"}[len(curve.n)]
    best, worst = (
        f"{100 * curve.low[bin]:.0f}–{100 * curve.high[bin]:.0f} %"
        for bin in (curve.peak_bin, curve.trough_bin)
    )
    claim = "chance alone hardly explains the gap"
    if not _significant(curve.gap_p):
        claim = "the gap alone shows no curve"
    return (
        f"The best {part} of the record ({best}) and the worst ({worst}) are {points(curve.gap)} "
        f"apart; without any effect of position they would be {points(curve.null_gap)} apart on "
        f"average ({p_value(curve.gap_p)}), so {claim}."
    )


def _caution(curve: Curve) -> str:
    if _significant(curve.difference_holm) or _significant(curve.quadratic_holm):
        return (
            "This is an association: questions about one part of the record may be harder for "
            "other reasons, and only moving the same fact (a needle run) can tell."
        )
    text = "Not significant is not the same as no effect"
    if isnan(curve.smallest):
        return text + "."
    power = (
        "no difference, however large, would have been found with 80 % power"
        if curve.smallest >= 1.0
        else f"a difference of {points(curve.smallest)} between middle and edge would have been "
        "found with 80 % power, a smaller one less often"
    )
    return f"{text}: with {count(curve.cluster_count, 'question')}, {power}."


def _significant(p: float) -> bool:
    return not isnan(p) and p <= ALPHA


def _signed(share: float) -> str:
    """A difference in points and in words."""
    if abs(share) < 0.0005:
        return "no different"
    return f"{points(abs(share))} {'lower' if share < 0 else 'higher'}"
