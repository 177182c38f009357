"""Label sequences as one would write them down: for each label, walk the patient's events.

Slow and plain on purpose; ``midchart.core.sequences.store.last_events`` must give the same arrays.
"""

from __future__ import annotations

import numpy as np

NO_TIME = -(2**62)
DAY = 86_400_000_000


def events_by_patient(store):
    """Patient id → list of (time, code, value) as plain Python values, in the store's order."""
    events = {}
    for i, patient in enumerate(store.patients.tolist()):
        rows = slice(int(store.offsets[i]), int(store.offsets[i + 1]))
        events[patient] = list(
            zip(
                store.time[rows].tolist(),
                store.code[rows].tolist(),
                store.value[rows].tolist(),
                strict=True,
            )
        )
    return events


def last_events(events, patients, times, length, prediction_time="strict"):
    """Codes, values, deltas and mask, each [n, length]; ``events`` of :func:`events_by_patient`."""
    shape = (len(patients), length)
    codes = np.zeros(shape, np.int32)
    values = np.full(shape, np.nan, np.float32)
    deltas = np.zeros(shape, np.float32)
    mask = np.zeros(shape, bool)
    for row, (patient, asked) in enumerate(zip(patients.tolist(), times.tolist(), strict=True)):
        before = []
        for time, code, value in events[patient]:
            if time < asked or (prediction_time == "inclusive" and time == asked):
                before.append((time, code, value))
        recent = before[-length:]
        for place, (time, code, value) in enumerate(recent, length - len(recent)):
            codes[row, place] = code
            values[row, place] = value
            deltas[row, place] = -1.0 if time == NO_TIME else (asked - time) / DAY
            mask[row, place] = True
    return codes, values, deltas, mask
