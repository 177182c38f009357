"""Label sequences beside a walk through each patient's events, and events by position (SPEED)."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from core.bench import BENCHES, compare, reference
from core.sequences.build import RawTable, build_store
from core.sequences.duck import columns, sql_text
from core.sequences.gather import last_events
from core.sequences.labels import LabelRows, match_labels
from core.sequences.store import EventStore

PATIENTS, EVENTS, CODES = 300, 6180, 2000
"""Patients of EHRSHOT's average length."""
LABELS = 8000
WALKED = 200
"""Labels that the plain version walks; it takes the same for each."""
ASK_MS = 100
"""A page's patience for one question about positions."""


def _store(folder: Path, patients: int) -> EventStore:
    file = folder / "rows.parquet"
    draw = "hash(i, {0}) % {1}"
    columns(
        f"COPY (SELECT (i // {EVENTS})::BIGINT AS p, "
        f"({draw.format(1, 20 * 365 * 24 * 60)})::BIGINT * 60000000 AS t, false AS bad, "
        f"'C/' || ({draw.format(2, CODES)}) AS code, ({draw.format(3, 1000)})::FLOAT AS v, "
        "NULL::VARCHAR AS x, NULL::VARCHAR AS u, NULL::VARCHAR AS k "
        f"FROM range({patients * EVENTS}) r(i)) TO {sql_text(file)} (FORMAT parquet)"
    )
    select = f"SELECT * FROM read_parquet({sql_text(file)})"
    return build_store(RawTable("bench", select, (file,)), folder / "store")


@BENCHES.register("ehrshot_sequences")
def sequences() -> dict[str, Any]:
    """The last 256 events of labels, per label: both give the same arrays."""
    plain = reference("sequences")
    rng = np.random.default_rng(0)
    with TemporaryDirectory() as place:
        store = _store(Path(place), PATIENTS)
        rows = LabelRows(
            rng.choice(store.patients, LABELS),
            rng.integers(0, 20 * 365 * 24 * 60, LABELS) * 60_000_000,
            np.ones(LABELS, np.int32),
        )
        labels = match_labels("bench", rows, store, {}).labels
        some = np.sort(rng.choice(len(labels), WALKED, replace=False))
        events = plain.events_by_patient(store)
        walked = (events, labels.patient[some], labels.time[some], 256)
        found = last_events(store, labels)
        if not np.array_equal(found.codes[some], plain.last_events(*walked)[0]):
            raise AssertionError("the two ways give different sequences")
        row = compare(
            "ehrshot_sequences",
            f"{len(labels):,} labels × 256 of {store.events:,} events, per 1,000 labels",
            lambda: plain.last_events(*walked),
            lambda: last_events(store, labels),
            ask=100,
            rounds=3,
        )
    slow = row["reference_ms"] * 1000 / WALKED
    fast = row["fast_ms"] * 1000 / len(labels)
    return row | {
        "reference_ms": round(slow, 2),
        "fast_ms": round(fast, 4),
        "ratio": round(slow / fast, 1),
        "reached": slow / fast >= 100,
    }


@BENCHES.register("events_by_position")
def positions() -> dict[str, Any]:
    """Events of one code by decile: a pass over its columns beside the cube of the build."""
    with TemporaryDirectory() as place:
        store = _store(Path(place), PATIENTS)
        code = 7
        sizes = np.diff(store.offsets)

        def walk() -> list[int]:
            index = np.arange(store.events) - np.repeat(store.offsets[:-1], sizes)
            decile = np.minimum(9, 10 * index // np.repeat(sizes - 1, sizes))
            return np.bincount(decile[store.code == code], minlength=10).tolist()

        if walk() != store.by_position("order", [code]).tolist():
            raise AssertionError("the two counts differ")
        row = compare(
            "events_by_position",
            f"{store.events:,} events by decile of one code",
            walk,
            lambda: store.by_position("order", [code]),
            ask=1,
            rounds=3,
            fast_calls=100,
        )
    return row | {"ask": f"< {ASK_MS} ms", "reached": row["fast_ms"] < ASK_MS}
