"""Verdicts counted by any stratum, with all that the intervals of a share need.

One question to DuckDB a stratum: its answer has a row a cell, whatever the number of verdicts.
Unparsed and failed verdicts stay out of every denominator and are counted beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.stats import clustered_wilson, wilson_interval
from core.store import Ask

Counts = Mapping[str, Any]
Cell = tuple[str, str, str, str]
"""Label, reader, judge, stratum."""

NOTHING: Counts = dict.fromkeys(
    ("n", "correct", "patients", "squares", "cross", "sizes", "refusals", "unparsed", "failed"), 0
)


def counted(ask: Ask, stratum: str, where: str = "true") -> dict[Cell, Counts]:
    """Counts of ``judged`` by cell and the SQL expression ``stratum``; a null stratum is left out.

    ``squares``, ``cross``, ``sizes``: sums over patients of c², c·n and n², for patients' numbers
    right c and judged n (:func:`core.stats.clustered_wilson`).
    """
    rows = ask(
        f"""
        WITH patient_cells AS (
            SELECT label, reader, judge, {stratum} AS stratum, patient,
                count(*) FILTER (correct) AS c,
                count(correct) AS n,
                count(*) FILTER (refusal) AS refusals,
                count(*) FILTER (outcome = 'unparsed') AS unparsed,
                count(*) FILTER (outcome = 'failed') AS failed
            FROM judged WHERE {where} GROUP BY ALL
        )
        SELECT label, reader, judge, stratum::VARCHAR AS stratum,
            sum(n)::BIGINT AS n, sum(c)::BIGINT AS correct, count(*) FILTER (n > 0) AS patients,
            sum(c * c)::DOUBLE AS squares, sum(c * n)::DOUBLE AS cross, sum(n * n)::DOUBLE AS sizes,
            sum(refusals)::BIGINT AS refusals, sum(unparsed)::BIGINT AS unparsed,
            sum(failed)::BIGINT AS failed
        FROM patient_cells WHERE stratum IS NOT NULL GROUP BY ALL
        """
    )
    return {(r["label"], r["reader"], r["judge"], r["stratum"]): r for r in rows}


def share(count: Counts) -> dict[str, Any]:
    """n, number right, accuracy, and two intervals; null where nothing was judged.

    ``wilson``: as if every answer were another patient's; ``patient``: as many answers as the
    patients make them worth.
    """
    n, correct, patients = int(count["n"]), int(count["correct"]), int(count["patients"])
    row: dict[str, Any] = {"n": n, "correct": correct, "patients": patients}
    names = ("accuracy", "wilson_low", "wilson_high", "patient_low", "patient_high")
    if n == 0:
        return row | dict.fromkeys(names)
    plain = wilson_interval(correct, n)
    clustered = clustered_wilson(
        correct, n, patients, count["squares"], count["cross"], count["sizes"]
    )
    found = (plain.estimate, plain.low, plain.high, clustered.low, clustered.high)
    return row | dict(zip(names, found, strict=True))
