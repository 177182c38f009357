"""The synthetic laboratory cohort: coded events and five lab tasks, in EHRSHOT's layout or MEDS.

Small by default; EHRSHOT's own size (6,739 patients, about 41.7 million events) on request, since
patients are made and written in blocks.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from shutil import rmtree
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from core.errors import InputError
from core.synthetic.common import TAG, data_use, is_synthetic, spawned, write_texts
from core.synthetic.laboratory_patients import (
    SPLITS,
    WORDS,
    LabPatient,
    labs,
    make_patient,
    vocabulary,
)

MOST_TENTHS = 9999


@dataclass(frozen=True)
class Block:
    """Some patients of one split, joined: each column [events], with their ids and patients."""

    split: str
    ids: Sequence[int]
    patients: Sequence[LabPatient]

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


class _Layout:
    """A root folder with ``folders``, and columns from the vocabulary of codes."""

    def __init__(self, root: Path, folders: Sequence[str]) -> None:
        self.root, self.vocabulary = root, vocabulary()
        self._no_unit = np.array([not c.unit for c in self.vocabulary])
        for folder in folders:
            (root / folder).mkdir(parents=True, exist_ok=True)

    def _codes(self, block: Block) -> Any:
        return _words(block.column("code"), [c.code for c in self.vocabulary])

    def _common(self, block: Block) -> dict[str, Any]:
        """The columns unit, visit_id and omop_table."""
        code, visit = block.column("code"), block.column("visit").astype(np.int64)
        visits = (block.subject % 10_000_000) * 1000 + visit
        units = _words(code, [c.unit for c in self.vocabulary], self._no_unit[code])
        return {
            "unit": units,
            "visit_id": pa.array(visits, pa.int64(), mask=visit < 0),
            "omop_table": _words(code, [c.kind for c in self.vocabulary]),
        }


class EhrshotLayout(_Layout):
    """``EHRSHOT_ASSETS`` with data/ehrshot.csv, benchmark/<task>, splits/person_id_map.csv."""

    def __init__(self, out: Path) -> None:
        tasks = (f"benchmark/{lab.task}" for lab in labs())
        super().__init__(out / "EHRSHOT_ASSETS", ("data", "splits", *tasks))
        self._values = [f"{i // 10}.{i % 10}" for i in range(MOST_TENTHS + 1)] + list(WORDS)
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

    def add(self, block: Block) -> None:
        """Append a block's events and labels."""
        tenths, word, time, lasts = map(block.column, ("tenths", "word", "time", "lasts"))
        value = np.where(word >= 0, MOST_TENTHS + 1 + word, np.minimum(tenths, MOST_TENTHS))
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


class MedsLayout(_Layout):
    """A MEDS 0.4 root: data/<split>/<n>.parquet, metadata, labels/<task>/<split>-<n>.parquet.

    By the schema of the package ``meds`` 0.4, text values are ``large_string``, and there is only
    the label column that is filled, since none may have a null.
    """

    def __init__(self, out: Path) -> None:
        tasks = (f"labels/{lab.task}" for lab in labs())
        super().__init__(out, (*(f"data/{split}" for split in SPLITS), "metadata", *tasks))
        self._shards = Counter[str]()

    def _write(self, name: str, columns: dict[str, Any]) -> None:
        parquet.write_table(pa.table(columns), self.root / name, compression="zstd")

    def add(self, block: Block) -> None:
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
            "text_value": _words(word, WORDS, word < 0).cast(pa.large_string()),
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


LayoutName = Literal["ehrshot", "meds"]
PATIENTS, EVENTS = 300, 400
EHRSHOT_PATIENTS, EHRSHOT_EVENTS = 6739, 6190
"""Patients, and events of an average one, that make a cohort of EHRSHOT's size."""
SHARES = (2295, 2232, 2212)
"""EHRSHOT's patients in train, tuning and held-out; other sizes are split in proportion."""
FIRST_ID = 115_000_000
BLOCK_EVENTS = 400_000
ENTRIES = ("EHRSHOT_ASSETS", "data", "metadata", "labels", "README.txt", TAG)
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
    train, tuning, _ = (round(patients * share / sum(SHARES)) for share in SHARES)
    ranks = np.argsort(spawned(seed, 8).permutation(patients))
    bounds = [train, train + tuning]
    return [SPLITS[int(i)] for i in np.searchsorted(bounds, ranks, side="right")]


def _prepare(out: Path) -> None:
    content = [p for p in out.iterdir() if not p.name.startswith(".")] if out.is_dir() else []
    if content and not (is_synthetic(out) and all(p.name in ENTRIES for p in content)):
        raise InputError(
            f"{out}: holds something other than a synthetic laboratory cohort — choose an "
            "empty folder"
        )
    for path in content:
        if path.is_dir():
            rmtree(path)
    out.mkdir(parents=True, exist_ok=True)


def _blocks(
    splits: list[str], events: int, seed: int, layout: LayoutName
) -> Iterator[tuple[str, list[int], list[LabPatient]]]:
    """Patients in blocks: by id for EHRSHOT's one file, by split for MEDS's shards."""
    groups = [range(len(splits))]
    if layout == "meds":
        groups = [[i for i in groups[0] if splits[i] == name] for name in SPLITS]
    for group in groups:
        numbers: list[int] = []
        patients: list[LabPatient] = []
        for index in group:
            numbers.append(index)
            patients.append(make_patient(patient_rng(seed, index), events))
            if index == group[-1] or sum(len(p.time) for p in patients) >= BLOCK_EVENTS:
                yield splits[index], numbers, patients
                numbers, patients = [], []


def make_laboratory(
    out: Path,
    layout: LayoutName = "ehrshot",
    patients: int = PATIENTS,
    events_per_patient: int = EVENTS,
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
    _prepare(out)
    writer = EhrshotLayout(out) if layout == "ehrshot" else MedsLayout(out)
    splits = split_of_patients(patients, seed)
    counts = {lab.task: [0, 0] for lab in labs()}
    done = events = 0
    for split, numbers, block in _blocks(splits, events_per_patient, seed, layout):
        writer.add(Block(split, [FIRST_ID + i for i in numbers], block))
        done += len(block)
        for patient in block:
            events += len(patient.time)
            for k, lab in enumerate(labs()):
                counts[lab.task][0] += len(patient.asked)
                counts[lab.task][1] += int((patient.grade[:, k] >= 1).sum())
        if progress is not None:
            progress(done, patients)
    writer.close({FIRST_ID + i: split for i, split in enumerate(splits)})
    tag = data_use("Synthetic laboratory cohort", patients, events_per_patient, seed)
    write_texts(out, {"README.txt": _README, TAG: tag})
    return {
        "layout": layout,
        "patients": patients,
        "events": events,
        "labels": {task: {"n": n, "positive": positive} for task, (n, positive) in counts.items()},
    }
