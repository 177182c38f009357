"""Position curves of the paper's 2,196 answers and of a million, and their clustered bootstrap."""

from __future__ import annotations

import timeit
from functools import partial
from typing import Any

import numpy as np

from core.bench import BENCHES, compare, reference
from core.experiments.curve.power import PUBLISHED_N
from core.experiments.curve.rows import POSITIONS, STRATA, Choice, Observed, Pieces
from core.experiments.curve.study import study
from core.experiments.curve.tables import bin_rows, compute_curve, summary_row, verdict
from core.protocol import Protocol
from core.stats.intervals import clustered_bootstrap
from core.stats.positions import Responses, assemble, hashed
from core.types import Cohort, Instruction, Manifest

RESAMPLES, MODELS, MILLION = 5000, 6, 166_667
ASK_MS = 500


@BENCHES.register("clustered_bootstrap")
def clustered() -> dict[str, Any]:
    """Rows as in the paper: six models answer each of 366 labelled questions of 270 pairs."""
    rng = np.random.default_rng(0)
    pairs = np.repeat(rng.integers(0, 270, 366), 6)
    deciles = np.repeat(rng.integers(0, 10, 366), 6)
    correct = rng.integers(0, 2, pairs.size).astype(float)
    plain = reference("bootstrap").clustered_bootstrap
    rows = (correct, pairs, deciles, RESAMPLES)
    return compare(
        "clustered_bootstrap",
        "2,196 rows × 10 deciles × 5,000 resamples",
        lambda: plain(*rows, np.random.default_rng(42)),
        lambda: clustered_bootstrap(*rows, np.random.default_rng(42)),
        ask=70,
        rounds=2,
        fast_calls=3,
    )


@BENCHES.register("curve")
def curve() -> dict[str, Any]:
    """Answers in the paper's deciles: intervals, null, contrasts and fit, against plain loops."""
    rng = np.random.default_rng(0)
    position = (np.repeat(np.arange(10), [n // MODELS for n in PUBLISHED_N]) + 0.5) / 10
    count = len(position)
    values = rng.integers(0, 2, count * MODELS).astype(float)
    clusters, at = np.repeat(np.arange(count), MODELS), np.repeat(position, MODELS)
    answered_by = np.full(count, hashed(np.arange(MODELS)).sum())

    def responses() -> Responses:
        right = values.reshape(count, MODELS).sum(axis=1)
        return assemble(np.arange(count), right, np.full(count, MODELS), position, answered_by)

    plain = reference("curve").curve
    return compare(
        "curve",
        f"{len(values):,} answers × 10 deciles × {RESAMPLES:,} resamples and as many permutations",
        lambda: plain(values, clusters, at, 10, RESAMPLES, 42),
        lambda: study(responses(), 10, RESAMPLES, 42),
        rounds=1,
        fast_calls=5,
        within_ms=ASK_MS,
    )


@BENCHES.register("curve_million")
def curve_million() -> dict[str, Any]:
    """A page's question about a million answers, against only averaging them in a plain loop."""
    observed = _million()
    choices = [Choice(), Choice(stratum="model", value="model-1"), Choice(position="time")]

    def page(choice: Choice) -> tuple[Any, ...]:
        curve, selected = compute_curve(observed, choice, 10, RESAMPLES, 42)
        return bin_rows(curve), summary_row(curve, selected), verdict(curve, choice.score)

    positions = np.array(observed.pieces["order"].best)[observed.instruction].tolist()
    correct = observed.score("clinician").tolist()

    def plain() -> list[float]:
        sums, n = [0.0] * 10, [0] * 10
        for position, value in zip(positions, correct, strict=True):
            b = min(int(position * 10), 9)
            sums[b] += value
            n[b] += 1
        return [total / m for total, m in zip(sums, n, strict=True)]

    # The fastest of five calls: other work on the machine is not the page's.
    fastest = (min(timeit.repeat(partial(page, choice), number=1)) for choice in choices)
    slowest_ms = round(1e3 * max(fastest), 1)
    row = compare(
        "curve_million",
        f"{len(correct):,} answers, all of a curve; compared with ten means in a plain loop",
        plain,
        lambda: page(choices[0]),
        rounds=3,
        within_ms=ASK_MS,
    )
    return row | {"slowest_ms": slowest_ms, "reached": slowest_ms < ASK_MS}


def _million() -> Observed:
    """A million answers of six models as columns, as a cohort of that size would give them."""
    rng = np.random.default_rng(0)
    asked = tuple(Instruction(str(q), str(q), "") for q in range(MILLION))
    many = MILLION * MODELS
    names = tuple(f"model-{m}" for m in range(MODELS))
    one = np.ones(MILLION, dtype=np.int64)
    draws = {kind: rng.random(MILLION) for kind in POSITIONS}
    pieces = {kind: Pieces(at, at, one, 1 - one) for kind, at in draws.items()}
    return Observed(
        Cohort("", "", Manifest("bench"), {}),
        asked,
        np.repeat(np.arange(MILLION), MODELS),
        np.tile(np.arange(MODELS), MILLION),
        np.arange(many),
        names,
        np.arange(MILLION),
        {name: (("one", "other"), np.arange(MILLION) % 2) for name in STRATA[2:]},
        pieces,
        np.full(MILLION, np.nan),
        np.zeros(many, dtype=np.bool_),
        0,
        Protocol(),
        {"clinician": (rng.random(many) < 0.45).astype(np.float64)},
    )
