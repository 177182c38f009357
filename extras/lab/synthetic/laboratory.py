"""The synthetic laboratory cohort: coded events and five lab tasks, in EHRSHOT's layout or MEDS.

Small by default; EHRSHOT's own size (6,739 patients, about 41.7 million events) on request, since
patients are made and written in blocks.

Conditions, drugs, a patient's own level and a slow drift determine the labs; a label asks, a minute
before a panel, how abnormal a lab of it will be. So earlier readings are the best predictors, codes
carry some information, and trends carry more than the last reading alone. The tables are
``data/laboratory_*.tsv``; effects are in the lab's own unit and are added to a patient's level; a
drug's effect builds up over the panels at which it is given. The levels are set so that prevalences
are near the real ones (docs/methods.md, Experiment 2: anemia 69.0 %, hyponatremia 28.5,
thrombocytopenia 33.2, hyperkalemia 2.38; hypoglycemia, without a published figure, about 1.3).

Only sums and products of uniform draws are used, one operation at a time, so the same seed gives
the same numbers on every machine.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from midchart.core.cohorts.data_use import note_generated
from midchart.core.cohorts.demo import TAG, replace_synthetic
from midchart.core.errors import InputError
from midchart.core.reference_tables import table_row
from midchart.extras.lab.synthetic.common import data_use, spawned, write_texts
from midchart.extras.lab.synthetic.reference import tsv_table

_SPLITS = ("train", "tuning", "held_out")
_UNLIKELY = 0.12
"""Factor of a drug's start rate in patients without a condition that it is given for."""
_TEXTS = (
    ("LOINC/5804-0", "Protein in urine", ("Negative", "Trace", "1+", "2+")),
    ("LOINC/72166-2", "Tobacco smoking status", ("Never smoker", "Former smoker", "Smoker")),
)
"""Observations whose value is a word."""
_WORDS = tuple(word for *_, words in _TEXTS for word in words)
_FILLER = 1600
"""Number of codes that are independent of the five labs."""
_OF_CONDITION = 12
"""Number of codes of procedures that go with each condition."""


@table_row
class Lab:
    """A labelled lab: ``level`` in a healthy patient, spread ``between`` patients, ``drift`` from
    panel to panel, ``noise`` of a reading, and thresholds of mild, moderate and severe, on the
    side ``abnormal``."""

    task: str
    code: str
    name: str
    unit: str
    level: float
    between: float
    drift: float
    noise: float
    mild: float
    moderate: float
    severe: float
    abnormal: Literal["low", "high"]


labs = tsv_table(Lab, "laboratory_labs.tsv")
"""The five labelled labs, in the order of every effect."""


@table_row
class Condition:
    """A condition: the ``share`` of patients that have it, and its effect on each task's lab."""

    key: str
    code: str
    share: float
    anemia: float = 0.0
    hyponatremia: float = 0.0
    thrombocytopenia: float = 0.0
    hyperkalemia: float = 0.0
    hypoglycemia: float = 0.0

    @property
    def effects(self) -> tuple[float, ...]:
        """The effects in the order of :func:`labs`."""
        return tuple(getattr(self, lab.task) for lab in labs())


conditions = tsv_table(Condition, "laboratory_conditions.tsv")
"""All conditions of the cohort."""


@table_row
class LaboratoryDrug(Condition):
    """A drug: ``share`` are started on it and ``stop`` end it at a panel; ``given_for`` are the
    conditions that make it likely, separated by commas."""

    stop: float = field(kw_only=True)
    given_for: str = ""

    def is_wanted(self, ill: frozenset[str]) -> bool:
        """Whether it is given for one of the conditions ``ill``, or for none in particular."""
        return not self.given_for or not ill.isdisjoint(self.given_for.split(", "))


drugs = tsv_table(LaboratoryDrug, "laboratory_drugs.tsv")
"""All drugs of the cohort."""


@table_row
class OtherLab:
    """A lab without labels: ``level``, ``spread`` and ``shift`` in tenths of its unit; it is
    shifted by one condition or drug."""

    name: str
    code: str
    unit: str
    level: float
    spread: float
    shifted_by: str | None = None
    shift: float = 0.0


_other_labs = tsv_table(OtherLab, "laboratory_others.tsv")
"""All labs without labels."""


@dataclass(frozen=True, slots=True)
class _Code:
    """A code of the cohort: its OMOP table, name and unit."""

    code: str
    name: str
    kind: str
    unit: str = ""


_Group = Literal["fixed", "lab", "condition", "drug", "other", "text", "care", "filler"]


@cache
def _groups() -> dict[_Group, list[_Code]]:
    kinds = ("procedure_occurrence", "observation", "measurement", "device_exposure")
    return {
        "fixed": [
            _Code("Gender/F", "Female", "person"),
            _Code("Gender/M", "Male", "person"),
            _Code("SNOMED/3950001", "Birth", "person"),
            _Code("Visit/IP", "Inpatient visit", "visit_occurrence"),
            _Code("Visit/OP", "Outpatient visit", "visit_occurrence"),
        ],
        "lab": [_Code(lab.code, lab.name, "measurement", lab.unit) for lab in labs()],
        "condition": [_Code(c.code, c.key, "condition_occurrence") for c in conditions()],
        "drug": [_Code(drug.code, drug.key, "drug_exposure") for drug in drugs()],
        "other": [_Code(lab.code, lab.name, "measurement", lab.unit) for lab in _other_labs()],
        "text": [_Code(code, name, "observation") for code, name, _ in _TEXTS],
        "care": [
            _Code(f"LOCAL/C{i}{j:02d}", f"Care {j + 1} of {c.key.lower()}", "procedure_occurrence")
            for i, c in enumerate(conditions())
            for j in range(_OF_CONDITION)
        ],
        "filler": [_Code(f"LOCAL/{i:04d}", f"Entry {i}", kinds[i % 4]) for i in range(_FILLER)],
    }


def _vocabulary() -> list[_Code]:
    """All codes; an event has an index into this list."""
    return [code for group in _groups().values() for code in group]


@cache
def offset_of(group: _Group) -> int:
    """Index of a group's first code in :func:`_vocabulary`."""
    before = takewhile(lambda name: name != group, _groups())
    return sum(len(_groups()[name]) for name in before)


# Patients.

_DAY = 24 * 60
_PANELS = 27
"""Panels of a patient of average length, as in EHRSHOT (about 26 labels per patient and task)."""
_NONE = -1


@dataclass(frozen=True, slots=True)
class _LabPatient:
    """A patient's events in time order and labels.

    ``time``: int64 [n] minutes since 1970; ``code``: int32 [n], index into the vocabulary;
    ``tenths``: int32 [n], value times ten, -1 none; ``word``: int32 [n], index into
    ``WORDS``, -1 none; ``visit``: int32 [n], number of the visit, -1 none; ``lasts``: int32
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


def _normal(rng: np.random.Generator, *shape: int) -> NDArray[np.float64]:
    """Approximately normal, mean 0, variance 1: the sum of four uniform draws."""
    u = rng.random((4, *shape))
    return (((u[0] + u[1]) + (u[2] + u[3])) - 2.0) * 1.7320508075688772


def _states(rng: np.random.Generator, ill: NDArray[np.bool_], panels: int) -> NDArray[np.bool_]:
    """Whether the patient is on each drug at each panel, bool [panels, drugs]."""
    draws = rng.random((panels, len(drugs())))
    keys = frozenset(c.key for c, has in zip(conditions(), ill, strict=True) if has)
    on = np.zeros(draws.shape, bool)
    for j, drug in enumerate(drugs()):
        start = drug.share * (1.0 if drug.is_wanted(keys) else _UNLIKELY)
        now = False
        for i, draw in enumerate(draws[:, j].tolist()):
            now = draw >= drug.stop if now else draw < start
            on[i, j] = now
    return on


def _levels(
    rng: np.random.Generator, ill: NDArray[np.bool_], on: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """The labs at each panel without the noise of a reading, float [panels, labs]."""
    panels = len(on)
    targets = np.zeros((panels, len(labs())))
    for j, drug in enumerate(drugs()):  # one addition at a time, in this order
        targets += on[:, j, None] * np.array(drug.effects)
    worse = 0.5 + rng.random(len(conditions()))
    steps = _normal(rng, panels, len(labs()))
    luck = _normal(rng, len(labs()))
    slope = _normal(rng, len(labs()))
    levels = np.empty((panels, len(labs())))
    for k, lab in enumerate(labs()):
        level = lab.level + lab.between * float(luck[k])
        for c, condition in enumerate(conditions()):
            if ill[c]:
                level += condition.effects[k] * float(worse[c])
        built = drift = 0.0
        for i in range(panels):
            built = 0.45 * built + 0.55 * float(targets[i, k])
            drift = 0.85 * drift + lab.drift * (float(steps[i, k]) + 0.12 * float(slope[k]))
            levels[i, k] = level + built + drift
    return levels


def grades(tenths: NDArray[np.int32]) -> NDArray[np.int8]:
    """0 normal to 3 severe, int8 [panels, 5], from readings in tenths."""
    graded = np.zeros(tenths.shape, np.int8)
    for k, lab in enumerate(labs()):
        for edge in (lab.mild, lab.moderate, lab.severe):
            bound = round(edge * 10)
            low = lab.abnormal == "low"
            graded[:, k] += tenths[:, k] < bound if low else tenths[:, k] > bound
    return graded


def make_patient(rng: np.random.Generator, events: int) -> _LabPatient:
    """A patient of about ``events`` events (half to one and a half times as many)."""
    share = 0.5 + float(rng.random())
    wanted = int(events * share)
    panels = max(4, min(int(_PANELS * share), wanted // 12))
    ill = rng.random(len(conditions())) < np.array([c.share for c in conditions()])
    on = _states(rng, ill, panels)
    reading = _levels(rng, ill, on)
    noise = _normal(rng, panels, len(labs()))
    tenths = np.empty(reading.shape, np.int32)
    for k, lab in enumerate(labs()):
        value = np.maximum(reading[:, k] + lab.noise * noise[:, k], lab.severe * 0.4)
        tenths[:, k] = np.floor(value * 10.0 + 0.5)
    gaps = np.where(
        rng.random(panels) < 0.6,
        rng.integers(14 * 60, 30 * 60, panels),
        rng.integers(10 * _DAY, 150 * _DAY, panels),
    )
    birth = int(rng.integers(-40 * 365, 15 * 365)) * _DAY
    begin = birth + int(rng.integers(30 * 365, 55 * 365)) * _DAY
    at = begin + np.cumsum(gaps)
    static = _events([birth, birth], [int(rng.integers(0, 2)), 2])
    parts = [static, _panels(rng, at, gaps, tenths, ill, on)]
    parts.append(_filler(rng, at, ill, wanted - sum(len(p["time"]) for p in parts)))
    joined = {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
    order = np.argsort(joined["time"], kind="stable")
    time = joined.pop("time")[order].astype(np.int64)
    columns = {name: column[order].astype(np.int32) for name, column in joined.items()}
    # The first panel is not asked for: no reading precedes it.
    return _LabPatient(time, **columns, asked=at[1:] - 1, grade=grades(tenths)[1:])


def _events(time: Any, code: Any, **more: Any) -> dict[str, NDArray[Any]]:
    time = np.atleast_1d(np.asarray(time, np.int64))
    columns = {"time": time, "code": code}
    columns |= {name: more.get(name, _NONE) for name in ("tenths", "word", "visit", "lasts")}
    return {name: np.broadcast_to(values, time.shape) for name, values in columns.items()}


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
    inpatient = gaps < 3 * _DAY
    lasts = np.where(inpatient, 20 * 60, 60)
    parts = [_events(at - 120, np.where(inpatient, 3, 4), visit=number, lasts=lasts)]
    for k in range(len(labs())):
        parts.append(_events(at, offset_of("lab") + k, tenths=tenths[:, k], visit=number))
    minutes = rng.integers(5, 600, on.shape)
    for j in range(len(drugs())):
        taken = np.flatnonzero(on[:, j])
        parts.append(_events(at[taken] - minutes[taken, j], offset_of("drug") + j, visit=taken))
    coded = rng.random((panels, len(conditions()))) < 0.18
    first = rng.integers(0, max(1, panels // 3), len(conditions()))
    for c in np.flatnonzero(ill).tolist():
        visits = np.flatnonzero(coded[:, c] | (number == first[c]))
        visits = visits[visits >= first[c]]
        parts.append(_events(at[visits] - 90, offset_of("condition") + c, visit=visits))
    draws = _normal(rng, panels, len(_other_labs()))
    seen = rng.random((panels, len(_other_labs()))) < 0.5
    # Whether each condition and each drug is in force, by panel.
    causes = {c.key: np.full(panels, has) for c, has in zip(conditions(), ill, strict=True)}
    causes |= {drug.key: on[:, j] for j, drug in enumerate(drugs())}
    for i, lab in enumerate(_other_labs()):
        visits = np.flatnonzero(seen[:, i])
        value = lab.level + lab.spread * draws[visits, i]
        if lab.shifted_by is not None:
            value = value + lab.shift * causes[lab.shifted_by][visits]
        value = np.maximum(np.floor(value), 1)
        parts.append(_events(at[visits] + 1, offset_of("other") + i, tenths=value, visit=visits))
    return {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}


def _filler(
    rng: np.random.Generator, at: NDArray[np.int64], ill: NDArray[np.bool_], n: int
) -> dict[str, NDArray[Any]]:
    """Other entries around the panels; some go with the patient's conditions, some have a value."""
    n = max(n, 0)
    which = rng.integers(0, len(at), n)
    time = at[which] + rng.integers(-720, 360, n)
    u = rng.random(n)
    code = offset_of("filler") + np.floor(u * u * u * _FILLER).astype(np.int64)
    tenths = np.where((code - offset_of("filler")) % 4 == 2, rng.integers(1, 2000, n), _NONE)
    word = np.full(n, _NONE)
    present = np.flatnonzero(ill)
    if len(present):
        care = rng.random(n) < 0.12
        of = present[rng.integers(0, len(present), n)] * _OF_CONDITION
        cared = offset_of("care") + of + rng.integers(0, _OF_CONDITION, n)
        code, tenths = np.where(care, cared, code), np.where(care, _NONE, tenths)
    has_word = rng.random(n) < 0.01
    kind = rng.integers(0, len(_TEXTS), n)
    sizes = np.array([len(words) for *_, words in _TEXTS])
    first = np.cumsum(sizes) - sizes
    chosen = first[kind] + np.floor(rng.random(n) * sizes[kind]).astype(np.int64)
    code = np.where(has_word, offset_of("text") + kind, code)
    word, tenths = np.where(has_word, chosen, word), np.where(has_word, _NONE, tenths)
    return _events(time, code, tenths=tenths, word=word, visit=which)


_MOST_TENTHS = 9999


@dataclass(frozen=True)
class _PatientBlock:
    """Some patients of one split, joined: each column [events], with their ids and patients."""

    split: str
    ids: Sequence[int]
    patients: Sequence[_LabPatient]

    def column(self, name: str) -> NDArray[Any]:
        """A column over all patients of the block."""
        return np.concatenate([getattr(p, name) for p in self.patients])

    @cached_property
    def subject(self) -> NDArray[np.int64]:
        """Patient id of each event, int64."""
        return np.repeat(np.array(self.ids, np.int64), [len(p.time) for p in self.patients])

    def labels(self, task: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Patient id, prediction time in minutes and grade of every label of a task."""
        ids = np.repeat(np.array(self.ids, np.int64), [len(p.asked) for p in self.patients])
        asked = np.concatenate([p.asked for p in self.patients])
        grade = np.concatenate([p.grade[:, task] for p in self.patients]).astype(np.int64)
        return ids, asked, grade


def _words(index: NDArray[Any], words: Sequence[str], none: NDArray[np.bool_] | None = None) -> Any:
    """Strings by index, as an arrow array; null where ``none``."""
    indices = pa.array(index.astype(np.int32), mask=none)
    return pa.DictionaryArray.from_arrays(indices, pa.array(words, pa.string())).cast(pa.string())


def _moments(minutes: NDArray[Any], unit: str, none: NDArray[np.bool_] | None = None) -> Any:
    scale = 60 if unit == "s" else 60_000_000
    return pa.array(minutes.astype(np.int64) * scale, pa.int64(), mask=none).cast(
        pa.timestamp(unit)
    )


class _FolderLayout:
    """A root folder with ``folders``, and columns from the vocabulary of codes."""

    def __init__(self, root: Path, folders: Sequence[str]) -> None:
        self.root, self.vocabulary = root, _vocabulary()
        self._no_unit = np.array([not c.unit for c in self.vocabulary])
        for folder in folders:
            (root / folder).mkdir(parents=True, exist_ok=True)

    def _codes(self, block: _PatientBlock) -> Any:
        return _words(block.column("code"), [c.code for c in self.vocabulary])

    def _common(self, block: _PatientBlock) -> dict[str, Any]:
        """The columns unit, visit_id and omop_table."""
        code, visit = block.column("code"), block.column("visit").astype(np.int64)
        visits = (block.subject % 10_000_000) * 1000 + visit
        units = _words(code, [c.unit for c in self.vocabulary], self._no_unit[code])
        return {
            "unit": units,
            "visit_id": pa.array(visits, pa.int64(), mask=visit < 0),
            "omop_table": _words(code, [c.kind for c in self.vocabulary]),
        }


class _EhrshotLayout(_FolderLayout):
    """``EHRSHOT_ASSETS`` with data/ehrshot.csv, benchmark/<task>, splits/person_id_map.csv."""

    def __init__(self, out: Path) -> None:
        tasks = (f"benchmark/{lab.task}" for lab in labs())
        super().__init__(out / "EHRSHOT_ASSETS", ("data", "splits", *tasks))
        self._values = [f"{i // 10}.{i % 10}" for i in range(_MOST_TENTHS + 1)] + list(_WORDS)
        self._writers: dict[str, tuple[Any, Any]] = {}

    def _write(self, name: str, table: Any) -> None:
        if name not in self._writers:
            path = self.root / name
            path.write_text(",".join(table.column_names) + "\n", encoding="utf-8")
            stream = path.open("ab")
            options = arrow_csv.WriteOptions(include_header=False, quoting_style="none")
            writer = arrow_csv.CSVWriter(stream, table.schema, write_options=options)
            self._writers[name] = writer, stream
        self._writers[name][0].write_table(table)

    def add(self, block: _PatientBlock) -> None:
        """Append a block's events and labels."""
        tenths, word, time, lasts = map(block.column, ("tenths", "word", "time", "lasts"))
        value = np.where(word >= 0, _MOST_TENTHS + 1 + word, np.minimum(tenths, _MOST_TENTHS))
        events = {
            "patient_id": block.subject,
            "start": _moments(time, "s"),
            "end": _moments(time + lasts, "s", lasts < 0),
            "code": self._codes(block),
            "value": _words(value, self._values, value < 0),
        }
        self._write("data/ehrshot.csv", pa.table(events | self._common(block)))
        for k, lab in enumerate(labs()):
            ids, asked, grade = block.labels(k)
            table = {
                "patient_id": ids,
                "prediction_time": _moments(asked, "s"),
                "label_type": _words(np.zeros(len(ids), np.int32), ["categorical"]),
                "value": grade,
            }
            self._write(f"benchmark/{lab.task}/labeled_patients.csv", pa.table(table))

    def close(self, splits: Mapping[int, str]) -> None:
        """Close the files and write the splits by EHRSHOT's names."""
        for writer, stream in self._writers.values():
            writer.close()
            stream.close()
        names = {"train": "train", "tuning": "val", "held_out": "test"}
        lines = [f"{names[split]},{id}\n" for id, split in splits.items()]
        (self.root / "splits" / "person_id_map.csv").write_text(
            "split,omop_person_id\n" + "".join(lines), encoding="utf-8"
        )


class _MedsLayout(_FolderLayout):
    """A MEDS 0.4 root: data/<split>/<n>.parquet, metadata, labels/<task>/<split>-<n>.parquet.

    By the schema of the package ``meds`` 0.4, text values are ``large_string``, and there is only
    the label column that is filled, since none may have a null.
    """

    def __init__(self, out: Path) -> None:
        tasks = (f"labels/{lab.task}" for lab in labs())
        super().__init__(out, (*(f"data/{split}" for split in _SPLITS), "metadata", *tasks))
        self._shards = Counter[str]()

    def _write(self, name: str, columns: dict[str, Any]) -> None:
        parquet.write_table(pa.table(columns), self.root / name, compression="zstd")

    def add(self, block: _PatientBlock) -> None:
        """Write a block's events and labels as shards."""
        number = self._shards[block.split]
        self._shards[block.split] += 1
        tenths, word = block.column("tenths"), block.column("word")
        value = (tenths.astype(np.float64) / 10.0).astype(np.float32)
        events = {
            "subject_id": block.subject,
            "time": _moments(block.column("time"), "us", block.column("code") <= 1),
            "code": self._codes(block),
            "numeric_value": pa.array(value, pa.float32(), mask=tenths < 0),
            "text_value": _words(word, _WORDS, word < 0).cast(pa.large_string()),
        }
        self._write(f"data/{block.split}/{number}.parquet", events | self._common(block))
        for k, lab in enumerate(labs()):
            ids, asked, grade = block.labels(k)
            moments = _moments(asked, "us")
            table = {"subject_id": ids, "prediction_time": moments, "integer_value": grade}
            self._write(f"labels/{lab.task}/{block.split}-{number}.parquet", table)

    def close(self, splits: Mapping[int, str]) -> None:
        """Write the metadata."""
        table = {"subject_id": list(splits), "split": list(splits.values())}
        self._write("metadata/subject_splits.parquet", table)
        codes = {
            "code": [c.code for c in self.vocabulary],
            "description": [c.name for c in self.vocabulary],
            "parent_codes": pa.nulls(len(self.vocabulary), pa.list_(pa.string())),
        }
        self._write("metadata/codes.parquet", codes)
        about = {"dataset_name": "Synthetic laboratory cohort", "meds_version": "0.4.0"}
        (self.root / "metadata" / "dataset.json").write_text(
            json.dumps(about, indent=2) + "\n", encoding="utf-8"
        )


_LayoutName = Literal["ehrshot", "meds"]
_PATIENTS, _EVENTS = 300, 400
_SHARES = (2295, 2232, 2212)
"""EHRSHOT's patients in train, tuning and held-out; other sizes are split in proportion."""
_FIRST_ID = 115_000_000
_BLOCK_EVENTS = 400_000
_ENTRIES = ("EHRSHOT_ASSETS", "data", "metadata", "labels", "README.txt", TAG)
"""Files and folders of a laboratory cohort, in either layout."""
_README = """Synthetic laboratory cohort, made by Midchart. No real person is described.

Five tasks ask, a minute before a panel of labs, how abnormal a lab will be (0 normal, 1 mild,
2 moderate, 3 severe; positive is 1 or more). Conditions, drugs, a patient's own level and a slow
drift bring the labs about, so what came before tells of them: codes tell some, values more.
Entries named LOCAL/nnnn say nothing of the labs.
"""


def patient_rng(seed: int, index: int) -> np.random.Generator:
    """The generator of patient number ``index``."""
    return spawned(seed, index, 9)


def split_of_patients(patients: int, seed: int) -> list[str]:
    """Each patient's split by number, in EHRSHOT's shares."""
    train, tuning, _ = (round(patients * share / sum(_SHARES)) for share in _SHARES)
    ranks = np.argsort(spawned(seed, 8).permutation(patients))
    bounds = [train, train + tuning]
    return [_SPLITS[int(i)] for i in np.searchsorted(bounds, ranks, side="right")]


def _blocks(
    splits: list[str], events: int, seed: int, layout: _LayoutName
) -> Iterator[tuple[str, list[int], list[_LabPatient]]]:
    """Patients in blocks: by id for EHRSHOT's one file, by split for MEDS's shards."""
    groups = [range(len(splits))]
    if layout == "meds":
        groups = [[i for i in groups[0] if splits[i] == name] for name in _SPLITS]
    for group in groups:
        numbers: list[int] = []
        patients: list[_LabPatient] = []
        for index in group:
            numbers.append(index)
            patients.append(make_patient(patient_rng(seed, index), events))
            if index == group[-1] or sum(len(p.time) for p in patients) >= _BLOCK_EVENTS:
                yield splits[index], numbers, patients
                numbers, patients = [], []


def make_laboratory(
    out: Path,
    layout: _LayoutName = "ehrshot",
    patients: int = _PATIENTS,
    events_per_patient: int = _EVENTS,
    seed: int = 42,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Write the laboratory cohort into ``out`` and return its counts.

    Args:
        out: folder, made if absent; a laboratory cohort in it is replaced, other data refused.
        layout: "ehrshot" (CSVs) or "meds" (Parquet, version 0.4).
        patients: number of patients, at least 3; events_per_patient: their average, at least 60.
        seed: whole number ≥ 0; the same gives the same bytes.
        progress: called with (done, all) after each block of patients.

    Raises:
        InputError: an argument out of range, or a folder that holds other data.
    """
    if patients < 3 or events_per_patient < 60 or seed < 0:
        raise InputError(
            "laboratory cohort: patients must be ≥ 3, events_per_patient ≥ 60 and seed ≥ 0"
        )
    replace_synthetic(out, _ENTRIES)
    writer = _EhrshotLayout(out) if layout == "ehrshot" else _MedsLayout(out)
    splits = split_of_patients(patients, seed)
    counts = {lab.task: [0, 0] for lab in labs()}
    done = events = 0
    for split, numbers, block in _blocks(splits, events_per_patient, seed, layout):
        writer.add(_PatientBlock(split, [_FIRST_ID + i for i in numbers], block))
        done += len(block)
        for patient in block:
            events += len(patient.time)
            for k, lab in enumerate(labs()):
                counts[lab.task][0] += len(patient.asked)
                counts[lab.task][1] += int((patient.grade[:, k] >= 1).sum())
        if progress is not None:
            progress(done, patients)
    writer.close({_FIRST_ID + i: split for i, split in enumerate(splits)})
    tag = data_use("Synthetic laboratory cohort", patients, events_per_patient, seed)
    write_texts(out, {"README.txt": _README, TAG: tag})
    files = (path.relative_to(out) for path in out.rglob("*") if path.is_file())
    note_generated(out, {name.as_posix() for name in files} - {TAG})  # emptied before
    return {
        "layout": layout,
        "patients": patients,
        "events": events,
        "labels": {task: {"n": n, "positive": positive} for task, (n, positive) in counts.items()},
    }
