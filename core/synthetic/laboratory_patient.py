"""One patient of the laboratory cohort: conditions and drugs drive the labs, labs drive the labels.

A panel of the five labs is taken some 27 times. Each lab has a patient's own level (conditions,
luck), a slow drift, and the effect of the drugs the patient is on, which builds up; a reading adds
noise. A label asks, a minute before a panel, how abnormal that panel's lab will be. So earlier
readings tell most, codes tell some, and trends tell more than the last reading alone.

Only sums and products of uniform draws go in, one operation at a time, so the same seed gives the
same numbers on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.synthetic import laboratory_codes as codes

DAY = 24 * 60
PANELS = 27
"""Panels of a patient of average length, as in EHRSHOT (about 26 labels a patient and task)."""
NONE = -1


@dataclass(frozen=True, slots=True)
class LabPatient:
    """A patient's events in time order and labels.

    ``time``: int64 [n] minutes since 1970; ``code``: int32 [n], index into the vocabulary;
    ``tenths``: int32 [n], value times ten, -1 none; ``word``: int32 [n], index into
    ``codes.WORDS``, -1 none; ``visit``: int32 [n], number of the visit, -1 none; ``lasts``: int32
    [n], minutes until its end, -1 none. ``asked``: int64 [m], prediction times in minutes;
    ``grade``: int8 [m, 5], 0 normal to 3 severe.
    """

    time: NDArray[np.int64]
    code: NDArray[np.int32]
    tenths: NDArray[np.int32]
    word: NDArray[np.int32]
    visit: NDArray[np.int32]
    lasts: NDArray[np.int32]
    asked: NDArray[np.int64]
    grade: NDArray[np.int8]


def normal(rng: np.random.Generator, *shape: int) -> NDArray[np.float64]:
    """About normal, mean 0, variance 1: four uniform draws added."""
    u = rng.random((4, *shape))
    return (((u[0] + u[1]) + (u[2] + u[3])) - 2.0) * 1.7320508075688772


def _states(rng: np.random.Generator, ill: NDArray[np.bool_], panels: int) -> NDArray[np.bool_]:
    """Whether the patient is on each drug at each panel, bool [panels, drugs]."""
    draws = rng.random((panels, len(codes.drugs())))
    keys = frozenset(c.key for c, has in zip(codes.conditions(), ill, strict=True) if has)
    on = np.zeros(draws.shape, bool)
    for j, drug in enumerate(codes.drugs()):
        start = drug.share * (1.0 if drug.is_wanted(keys) else codes.UNLIKELY)
        now = False
        for i, draw in enumerate(draws[:, j].tolist()):
            now = draw >= drug.stop if now else draw < start
            on[i, j] = now
    return on


def _levels(
    rng: np.random.Generator, ill: NDArray[np.bool_], on: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """The labs at each panel before the noise of reading them, float [panels, labs]."""
    panels = len(on)
    targets = np.zeros((panels, len(codes.labs())))
    for j, drug in enumerate(codes.drugs()):  # one addition at a time: no library's order of sums
        targets += on[:, j, None] * np.array(drug.effects)
    worse = 0.5 + rng.random(len(codes.conditions()))
    steps = normal(rng, panels, len(codes.labs()))
    luck = normal(rng, len(codes.labs()))
    slope = normal(rng, len(codes.labs()))
    found = np.empty((panels, len(codes.labs())))
    for k, lab in enumerate(codes.labs()):
        level = lab.level + lab.between * float(luck[k])
        for c, condition in enumerate(codes.conditions()):
            if ill[c]:
                level += condition.effects[k] * float(worse[c])
        built = drift = 0.0
        for i in range(panels):
            built = 0.45 * built + 0.55 * float(targets[i, k])
            drift = 0.85 * drift + lab.drift * (float(steps[i, k]) + 0.12 * float(slope[k]))
            found[i, k] = level + built + drift
    return found


def grades(tenths: NDArray[np.int32]) -> NDArray[np.int8]:
    """0 normal to 3 severe, int8 [panels, 5], from readings in tenths."""
    graded = np.zeros(tenths.shape, np.int8)
    for k, lab in enumerate(codes.labs()):
        for edge in (lab.mild, lab.moderate, lab.severe):
            bound = round(edge * 10)
            low = lab.abnormal == "low"
            graded[:, k] += tenths[:, k] < bound if low else tenths[:, k] > bound
    return graded


def make_patient(rng: np.random.Generator, events: int) -> LabPatient:
    """A patient of about ``events`` events (half to one and a half times as many)."""
    share = 0.5 + float(rng.random())
    wanted = int(events * share)
    panels = max(4, min(int(PANELS * share), wanted // 12))
    ill = rng.random(len(codes.conditions())) < np.array([c.share for c in codes.conditions()])
    on = _states(rng, ill, panels)
    reading = _levels(rng, ill, on)
    noise = normal(rng, panels, len(codes.labs()))
    tenths = np.empty(reading.shape, np.int32)
    for k, lab in enumerate(codes.labs()):
        value = np.maximum(reading[:, k] + lab.noise * noise[:, k], lab.severe * 0.4)
        tenths[:, k] = np.floor(value * 10.0 + 0.5)
    gaps = np.where(
        rng.random(panels) < 0.6,
        rng.integers(14 * 60, 30 * 60, panels),
        rng.integers(10 * DAY, 150 * DAY, panels),
    )
    birth = int(rng.integers(-40 * 365, 15 * 365)) * DAY
    begin = birth + int(rng.integers(30 * 365, 55 * 365)) * DAY
    at = begin + np.cumsum(gaps)
    parts = [_once(rng, birth), _panels(rng, at, gaps, tenths, ill, on)]
    parts.append(_filler(rng, at, ill, wanted - sum(len(p["time"]) for p in parts)))
    joined = {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
    order = np.argsort(joined["time"], kind="stable")
    time = joined.pop("time")[order].astype(np.int64)
    columns = {name: column[order].astype(np.int32) for name, column in joined.items()}
    # The first panel is not asked: nothing is known of the patient's labs before it.
    return LabPatient(time, **columns, asked=at[1:] - 1, grade=grades(tenths)[1:])


def _events(time: Any, code: Any, **more: Any) -> dict[str, NDArray[Any]]:
    time = np.atleast_1d(np.asarray(time, np.int64))
    found = {"time": time, "code": np.broadcast_to(code, time.shape)}
    for name in ("tenths", "word", "visit", "lasts"):
        found[name] = np.broadcast_to(more.get(name, NONE), time.shape)
    return found


def _once(rng: np.random.Generator, birth: int) -> dict[str, NDArray[Any]]:
    return _events([birth, birth], [int(rng.integers(0, 2)), 2])


def _panels(
    rng: np.random.Generator,
    at: NDArray[np.int64],
    gaps: NDArray[np.int64],
    tenths: NDArray[np.int32],
    ill: NDArray[np.bool_],
    on: NDArray[np.bool_],
) -> dict[str, NDArray[Any]]:
    """Visits, the panels themselves, drugs before them, conditions and other labs around them."""
    panels = len(at)
    number = np.arange(panels)
    inpatient = gaps < 3 * DAY
    lasts = np.where(inpatient, 20 * 60, 60)
    parts = [_events(at - 120, np.where(inpatient, 3, 4), visit=number, lasts=lasts)]
    for k in range(len(codes.labs())):
        parts.append(_events(at, codes.first("lab") + k, tenths=tenths[:, k], visit=number))
    given = rng.integers(5, 600, on.shape)
    for j in range(len(codes.drugs())):
        mine = np.flatnonzero(on[:, j])
        parts.append(_events(at[mine] - given[mine, j], codes.first("drug") + j, visit=mine))
    coded = rng.random((panels, len(codes.conditions()))) < 0.18
    first = rng.integers(0, max(1, panels // 3), len(codes.conditions()))
    for c in np.flatnonzero(ill).tolist():
        mine = np.flatnonzero(coded[:, c] | (number == first[c]))
        mine = mine[mine >= first[c]]
        parts.append(_events(at[mine] - 90, codes.first("condition") + c, visit=mine))
    draws = normal(rng, panels, len(codes.other_labs()))
    seen = rng.random((panels, len(codes.other_labs()))) < 0.5
    # Whether each condition and each drug is in force, by panel.
    causes = {c.key: np.full(panels, has) for c, has in zip(codes.conditions(), ill, strict=True)}
    causes |= {drug.key: on[:, j] for j, drug in enumerate(codes.drugs())}
    for i, lab in enumerate(codes.other_labs()):
        mine = np.flatnonzero(seen[:, i])
        value = lab.level + lab.spread * draws[mine, i]
        if lab.shifted_by is not None:
            value = value + lab.shift * causes[lab.shifted_by][mine]
        value = np.maximum(np.floor(value), 1)
        parts.append(_events(at[mine] + 1, codes.first("other") + i, tenths=value, visit=mine))
    return {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}


def _filler(
    rng: np.random.Generator, at: NDArray[np.int64], ill: NDArray[np.bool_], n: int
) -> dict[str, NDArray[Any]]:
    """Other entries around the panels; some go with the patient's conditions, some have a value."""
    n = max(n, 0)
    which = rng.integers(0, len(at), n)
    time = at[which] + rng.integers(-720, 360, n)
    u = rng.random(n)
    code = codes.first("filler") + np.floor(u * u * u * codes.FILLER).astype(np.int64)
    tenths = np.where((code - codes.first("filler")) % 4 == 2, rng.integers(1, 2000, n), NONE)
    word = np.full(n, NONE)
    mine = np.flatnonzero(ill)
    if len(mine):
        care = rng.random(n) < 0.12
        of = mine[rng.integers(0, len(mine), n)] * codes.OF_CONDITION
        cared = codes.first("care") + of + rng.integers(0, codes.OF_CONDITION, n)
        code, tenths = np.where(care, cared, code), np.where(care, NONE, tenths)
    said = rng.random(n) < 0.01
    kind = rng.integers(0, len(codes.TEXTS), n)
    sizes = np.array([len(words) for *_, words in codes.TEXTS])
    first = np.cumsum(sizes) - sizes
    chosen = first[kind] + np.floor(rng.random(n) * sizes[kind]).astype(np.int64)
    code, word = np.where(said, codes.first("text") + kind, code), np.where(said, chosen, word)
    tenths = np.where(said, NONE, tenths)
    return _events(time, code, tenths=tenths, word=word, visit=which)
