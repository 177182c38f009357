"""Verdicts counted by any stratum, with all that the intervals of a share need.

One question to DuckDB a stratum: its answer has a row a cell, whatever the number of verdicts.
Unparsed and failed verdicts stay out of every denominator and are counted beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from core.stats import clustered_wilson, reported_interval, wilson_interval
from core.store import Ask

Counts = Mapping[str, Any]
Cell = tuple[str, str, str, str]
"""Label, reader, judge, stratum."""

_OUTCOMES = """
    count(*) FILTER (correct) AS correct, count(correct) AS n,
    count(*) FILTER (refusal) AS refusals,
    count(*) FILTER (outcome = 'unparsed') AS unparsed,
    count(*) FILTER (outcome = 'failed') AS failed, count(*) FILTER (unjudgeable) AS unjudgeable
"""
SUMMED = ("n", "correct", "refusals", "unparsed", "failed", "unjudgeable")
NOTHING: Counts = dict.fromkeys((*SUMMED, "patients", "squares", "cross", "sizes"), 0)


def tally(ask: Ask, stratum: str, where: str = "true") -> dict[Cell, Counts]:
    """Counts of ``judged`` by cell and the SQL expression ``stratum``; a null stratum is left out.

    ``n`` judged right or wrong, ``correct``, ``refusals``, ``unparsed``, ``failed``.
    """
    return _by_cell(
        ask(
            f"SELECT label, reader, judge, {stratum} AS stratum, {_OUTCOMES} "
            f"FROM judged WHERE {where} GROUP BY ALL"
        )
    )


def counted(ask: Ask, stratum: str, where: str = "true") -> dict[Cell, Counts]:
    """:func:`tally` with what a clustered interval needs of the patients.

    ``patients`` with a judged answer; ``squares``, ``cross``, ``sizes``: sums over patients of c²,
    c·n and n², for patients' numbers right c and judged n (:func:`core.stats.clustered_wilson`).
    """
    return _by_cell(
        ask(
            f"""
            WITH patient_cells AS (
                SELECT label, reader, judge, {stratum} AS stratum, patient, {_OUTCOMES}
                FROM judged WHERE {where} GROUP BY ALL
            )
            SELECT label, reader, judge, stratum, count(*) FILTER (n > 0) AS patients,
                sum(correct * correct)::DOUBLE AS squares, sum(correct * n)::DOUBLE AS cross,
                sum(n * n)::DOUBLE AS sizes,
                {", ".join(f"sum({name})::BIGINT AS {name}" for name in SUMMED)}
            FROM patient_cells GROUP BY ALL
            """
        )
    )


def share_ends(
    ask: Ask, of: str, where: str, stratum: str = "''"
) -> dict[Cell, tuple[float, float] | None]:
    """Interval by patient of the share of ``judged`` that is ``of``, among those ``where``.

    All three are SQL; a cell with fewer than 5 patients has None.
    """
    rows = ask(
        f"""
        WITH patient_cells AS (
            SELECT label, reader, judge, {stratum} AS stratum, patient,
                count(*) FILTER ({of}) AS c, count(*) AS n
            FROM judged WHERE {where} GROUP BY ALL
        )
        SELECT label, reader, judge, stratum, sum(c)::DOUBLE AS correct, sum(n)::DOUBLE AS n,
            count(*) AS clusters, sum(c * c)::DOUBLE AS squares, sum(c * n)::DOUBLE AS cross,
            sum(n * n)::DOUBLE AS sizes
        FROM patient_cells GROUP BY ALL
        """
    )
    names = ("correct", "n", "clusters", "squares", "cross", "sizes")
    return {
        cell: reported_interval(
            None, row["clusters"], clustered_wilson(*(row[name] for name in names))
        )
        for cell, row in _by_cell(rows).items()
    }


def _by_cell(rows: Iterable[Counts]) -> dict[Cell, Counts]:
    return {
        (row["label"], row["reader"], row["judge"], row["stratum"]): row
        for row in rows
        if row["stratum"] is not None
    }


def share(count: Counts) -> dict[str, Any]:
    """n, number right, accuracy, and two intervals; null where nothing was judged.

    ``wilson``: as if every answer were another patient's; ``patient``: at the effective number of
    answers, null for fewer than 5 patients (:data:`core.stats.FEWEST_CLUSTERS`). ``bound_low`` and
    ``bound_high``: the accuracy were all unparsed and failed ones wrong, or all right (but for
    questions without a reference, which no answer can be judged on).
    """
    n, correct, patients = int(count["n"]), int(count["correct"]), int(count["patients"])
    row: dict[str, Any] = {"n": n, "correct": correct, "patients": patients}
    names = ("accuracy", "wilson_low", "wilson_high", "patient_low", "patient_high")
    unscored = int(count["unparsed"]) + int(count["failed"]) - int(count["unjudgeable"])
    total = n + unscored
    row["bound_low"] = correct / total if total else None
    row["bound_high"] = (correct + unscored) / total if total else None
    if n == 0:
        return row | dict.fromkeys(names)
    plain = wilson_interval(correct, n)
    clustered = clustered_wilson(
        correct, n, patients, count["squares"], count["cross"], count["sizes"]
    )
    ends = reported_interval(None, patients, clustered) or (None, None)
    found = (plain.estimate, plain.low, plain.high, *ends)
    return row | dict(zip(names, found, strict=True))
