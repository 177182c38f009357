"""The position curve of a cohort's responses, asked for directly: a page's choice in, rows out."""

from __future__ import annotations

import threading
from typing import Any

from midchart.core.access import RunRef, needs
from midchart.core.errors import InputError, UnknownName
from midchart.core.experiments.curve.rows import (
    MEANS,
    STRATA,
    CurveChoice,
    Observed,
    observe,
    points,
)
from midchart.core.experiments.curve.tables import (
    curve_columns,
    curve_row,
    tables_of,
)
from midchart.core.loaders.check import position_in_words, resolve_position
from midchart.core.protocol import Protocol
from midchart.core.results.tables import pick
from midchart.core.runs.directory import find_run
from midchart.core.services.runs import run_cohort
from midchart.core.stats.positions import BINS, bins_of
from midchart.core.training_experiments.forecast.evaluation import (
    Attended,
    HeldOut,
    attended,
    held_out,
)
from midchart.core.types import Cohort

_AUTO = "auto"
"""The position that the protocol goes by (:func:`midchart.core.loaders.check.resolve_position`)."""
_CACHED = 2
"""Cohorts whose responses are cached as columns."""
_cache: list[tuple[Protocol, Observed, dict[str, Any]]] = []
_lock = threading.RLock()


def _observed(cohort: Cohort, protocol: Protocol | None) -> tuple[Observed, dict[str, Any]]:
    """A cohort's responses as columns, made once while the cohort is open; and which position the
    protocol goes by (:func:`midchart.core.loaders.check.resolve_position`)."""
    asked = protocol or Protocol()
    with _lock:
        for known, observed, why in _cache:
            if observed.cohort is cohort and known == asked:
                return observed, why
        resolved, why = resolve_position(asked, cohort)
        observed = observe(cohort, cohort.instructions, resolved)
        _cache.append((asked, observed, why))
        del _cache[:-_CACHED]
        return observed, why


@needs("viewer")
def curve_choices(cohort: Cohort) -> dict[str, Any]:
    """The position that a curve of this cohort goes by, and the groups that it can be of; raises
    InputError where the cohort has no responses."""
    observed, why = _observed(cohort, None)
    return {
        "position": {**why, "words": position_in_words(why)},
        "strata": {stratum: list(observed.values(stratum)) for stratum in STRATA},
    }


@needs("viewer")
def curve(
    cohort: Cohort,
    score: str = "clinician",
    position: str = _AUTO,
    bins: int = 10,
    stratum: str = "all",
    value: str | None = None,
    snippets: str = "best",
    least_score: float = 0.0,
    resamples: int | None = None,
    protocol: Protocol | None = None,
) -> dict[str, Any]:
    """Curves of a cohort's responses: the tables of a run of kind ``curve``, at once.

    ``position`` "auto" is the protocol's, or what the cohort's records decide; ``value`` None draws
    every value of the stratum; ``least_score`` leaves out questions located with a lower score.
    Raises UnknownName for a choice there is not, InputError where the cohort has no responses.
    """
    _checked_bins(bins)
    observed, why = _observed(cohort, protocol)
    position = why["used"] if position == _AUTO else position
    CurveChoice(score, position, stratum, value or "", snippets, least_score)
    rows: list[dict[str, Any]] = []
    for one in observed.values(stratum) if value is None else (value,):
        choice = CurveChoice(score, position, stratum, one, snippets, least_score)
        row: dict[str, Any] = curve_columns(choice, bins) | {"status": "ok"}
        try:
            row |= curve_row(observed, choice, bins, resamples or observed.protocol.resamples)
        except UnknownName:
            raise
        except InputError as error:
            row |= {"status": "failed", "reason": str(error)}
        rows.append(row)
    return tables_of(rows)


@needs("viewer")
def curve_bin(
    cohort: Cohort,
    bin: int | None,
    score: str = "clinician",
    position: str = _AUTO,
    bins: int = 10,
    stratum: str = "all",
    value: str = "",
    snippets: str = "best",
) -> list[dict[str, Any]]:
    """The answers behind a point of a curve (``bin`` None: all its points), by instruction and
    model; ids only, no text. Raises as :func:`curve` does, and for a bin there is not."""
    _checked_bins(bins)
    if bin is not None and not 0 <= bin < bins:
        raise InputError(f"bin {bin} is not one of 0 to {bins - 1}")
    observed, why = _observed(cohort, None)
    position = why["used"] if position == _AUTO else position
    choice = CurveChoice(score, position, stratum, value, snippets)
    rows: Any = points(observed, choice)
    if bin is not None:
        rows = rows[bins_of(rows["at"], bins) == bin]
    asked = [observed.asked[question] for question in rows["question"]]
    return [
        {
            "instruction": instruction.id,
            "record": instruction.record_id,
            **pick(row, ("model", "response", "score")),
            "correct": None if score in MEANS else row["score"] == 1.0,
            "position": row["at"],
            "simulated": row["simulated"],
        }
        for instruction, row in zip(asked, rows.to_dict("records"), strict=True)
    ]


def _checked_bins(bins: int) -> None:
    if bins not in BINS:
        raise InputError(f"a curve has {' or '.join(map(str, BINS))} bins, not {bins}")


# What a forecast run's models attend to, asked by a page: opaque numbers in, weights out.


@needs("viewer")
def forecast_sequences(run: RunRef, task: str, seed: int | None = None) -> HeldOut:
    """The held-out sequences of a run's task, by number; as
    :func:`midchart.core.training_experiments.forecast.evaluation.held_out`."""
    folder = find_run(run)
    return held_out(folder, folder.plan(), task, seed)


@needs("viewer")
def attention_map(run: RunRef, task: str, index: int, seed: int) -> Attended:
    """What the models of a seed gave the events of one held-out sequence. As
    :func:`midchart.core.training_experiments.forecast.evaluation.attended`, on the cohort that the
    run was made of."""
    folder = find_run(run)
    plan = folder.plan()
    held_out(folder, plan, task, seed)  # models first: they are what most often is not there
    return attended(folder, plan, run_cohort(run), task, index, seed)
