"""The event store and label sequences equal the reference and are exact at limits."""

from __future__ import annotations

import numpy as np
import pytest

from midchart.core.sequences import build as building
from midchart.core.sequences.build import RawTable, store_folder
from midchart.core.sequences.store import NO_TIME, EventStore, LabelRows, last_events, match_labels
from midchart.core.storage.sources import Source
from tests.reference import sequences as plain
from tests.support.event_files import random_store

HOUR = 3_600_000_000


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return random_store(tmp_path_factory.mktemp("s"), np.random.default_rng(5), 30, 60, 25)


def asked(store: EventStore, rng: np.random.Generator, n: int):
    """Labels at and between event times, before the first and after the last."""
    patient = rng.choice(store.patients, n)
    time = rng.integers(-5, 40 * 60 + 5, n) * HOUR
    rows = LabelRows(patient, time, rng.integers(0, 4, n).astype(np.int32))
    return match_labels("t", rows, store, {int(p): int(p) % 3 for p in store.patients}).labels


@pytest.mark.parametrize("prediction_time", ["strict", "inclusive"])
@pytest.mark.parametrize("length", [1, 16, 256])
def test_sequences_equal_the_reference(store, prediction_time, length):
    labels = asked(store, np.random.default_rng(length), 400)
    sequences = last_events(store, labels, length, prediction_time)
    codes, values, deltas, mask = plain.last_events(
        plain.events_by_patient(store), labels.patient, labels.time, length, prediction_time
    )
    assert np.array_equal(sequences.codes, codes)
    assert np.array_equal(sequences.codes > 0, mask)
    assert np.array_equal(sequences.values, values, equal_nan=True)
    np.testing.assert_allclose(sequences.deltas, deltas, rtol=1e-6)
    assert mask.any() and not mask.all(), "some labels have fewer events"
    assert sequences.codes.dtype == np.int32


def test_strict_and_inclusive_limits_differ_by_events_at_the_prediction_time(store):
    row = 3
    at = int(store.time[store.offsets[row + 1] - 1])
    at_that_time = int((store.time[store.offsets[row] : store.offsets[row + 1]] == at).sum())
    rows = LabelRows(store.patients[[row]], np.array([at]), np.array([1], np.int32))
    labels = match_labels("t", rows, store, {}).labels
    counts = [
        last_events(store, labels, 500, p).codes.astype(bool).sum() for p in ("strict", "inclusive")
    ]
    assert counts[1] - counts[0] == at_that_time > 0


def test_a_store_shorter_than_the_length(tmp_path):
    store = random_store(tmp_path, np.random.default_rng(1), 3, 8, 4)
    labels = asked(store, np.random.default_rng(2), 30)
    sequences = last_events(store, labels, 64)
    wanted = plain.last_events(plain.events_by_patient(store), labels.patient, labels.time, 64)
    assert np.array_equal(sequences.codes, wanted[0])


def test_chosen_rows_are_in_order(store):
    labels = asked(store, np.random.default_rng(9), 40)
    rows = np.array([30, 2, 17])
    complete = last_events(store, labels, 32)
    part = last_events(store, labels, 32, rows=rows)
    assert np.array_equal(part.codes, complete.codes[rows])


def test_rows_are_sorted_and_undated_ones_come_first(store):
    for i in range(len(store.patients)):
        time = store.time[store.offsets[i] : store.offsets[i + 1]]
        assert (np.diff(time) >= 0).all()
    assert (store.time == NO_TIME).any()
    assert store.words("code")[1:] and store.code.min() == 1
    counts = np.bincount(store.code)
    assert counts.sum() == store.events
    assert (np.diff(counts[1:]) <= 0).all(), "the most frequent code is 1"


def test_rows_written_in_small_groups_are_the_same(store, tmp_path, monkeypatch):
    monkeypatch.setattr(building, "GROUP", 50)
    again = random_store(tmp_path, np.random.default_rng(5), 30, 60, 25)
    for name in ("patients", "offsets", "code", "time", "value"):
        one, other = getattr(store, name), getattr(again, name)
        assert np.array_equal(one, other, equal_nan=name == "value"), name


def test_an_interrupted_build_is_repeated_and_leaves_no_file(tmp_path, monkeypatch):
    def broken(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(building, "_order", broken)
        with pytest.raises(KeyboardInterrupt):
            random_store(tmp_path, np.random.default_rng(0), 3, 5, 2)
    assert not EventStore.there(tmp_path / "store")
    (tmp_path / ".store.fresh").mkdir()  # as after a kill
    (tmp_path / ".store.fresh" / "raw.duckdb").write_bytes(b"half")
    assert random_store(tmp_path, np.random.default_rng(0), 3, 5, 2).events == 15
    assert not (tmp_path / ".store.fresh").exists()


def test_a_store_is_keyed_by_content(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text("a,b\n1,2\n")
    source = RawTable("rows", "SELECT 1", (Source.at(file),))
    first = store_folder(tmp_path, source)
    assert store_folder(tmp_path, source) == first
    file.write_text("a,b\n1,3\n")
    assert store_folder(tmp_path, source) != first


def test_labels_of_unknown_patients_and_repeats_are_counted(store):
    first = int(store.patients[0])
    rows = LabelRows(
        np.array([first, 10**9, first, first]),
        np.array([5, 5, 5, 6]),
        np.array([3, 1, 0, 0], np.int32),
    )
    matched = match_labels("t", rows, store, {first: 2})
    assert (matched.unknown, matched.repeated, matched.unsplit) == (1, 1, 0)
    assert matched.labels.value.tolist() == [3, 0]
    assert matched.labels.positive.tolist() == [1, 0]
    assert matched.labels.counts() == (("train", 0, 0), ("tuning", 0, 0), ("held_out", 2, 1))
