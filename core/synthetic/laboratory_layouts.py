"""The laboratory cohort's two layouts: EHRSHOT's CSVs and MEDS Parquet, a block of patients a time.

Both say the same of every patient, in the same order. The one difference is MEDS's own: sex is a
static row with a null time there, and stands at birth in EHRSHOT's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from core.synthetic import laboratory_codes as codes
from core.synthetic.laboratory_patient import LabPatient

SPLITS = ("train", "tuning", "held_out")
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


class Layout(Protocol):
    """Takes blocks of patients, and at the end the splits."""

    def add(self, block: Block) -> None: ...

    def close(self, splits: Mapping[int, str]) -> None: ...


def _words(index: NDArray[Any], words: Sequence[str], none: NDArray[np.bool_] | None = None) -> Any:
    """Strings by index, as an arrow array; null where ``none``."""
    indices = pa.array(index.astype(np.int32), mask=none)
    return pa.DictionaryArray.from_arrays(indices, pa.array(words, pa.string())).cast(pa.string())


def _moments(minutes: NDArray[Any], unit: str, none: NDArray[np.bool_] | None = None) -> Any:
    scale = 60 if unit == "s" else 60_000_000
    return pa.array(minutes.astype(np.int64) * scale, pa.int64(), mask=none).cast(
        pa.timestamp(unit)
    )


def _visits(block: Block) -> Any:
    visit = block.column("visit").astype(np.int64)
    return pa.array((block.subject % 10_000_000) * 1000 + visit, pa.int64(), mask=visit < 0)


class EhrshotLayout:
    """``EHRSHOT_ASSETS`` with data/ehrshot.csv, benchmark/<task>, splits/person_id_map.csv."""

    def __init__(self, out: Path) -> None:
        self.root = out / "EHRSHOT_ASSETS"
        for folder in ("data", "splits", *(f"benchmark/{lab.task}" for lab in codes.labs())):
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        known = codes.vocabulary()
        self._codes = [c.code for c in known]
        self._units = [c.unit for c in known]
        self._kinds = [c.kind for c in known]
        self._no_unit = np.array([not c.unit for c in known])
        self._values = [f"{i // 10}.{i % 10}" for i in range(MOST_TENTHS + 1)] + list(codes.WORDS)
        self._events: Any = None
        self._labels: list[Any] = [None] * len(codes.labs())

    def _write(self, writer: Any, path: Path, table: Any) -> Any:
        if writer is None:
            path.write_text(",".join(table.column_names) + "\n", encoding="utf-8")
            stream = path.open("ab")
            options = arrow_csv.WriteOptions(include_header=False, quoting_style="none")
            writer = (arrow_csv.CSVWriter(stream, table.schema, write_options=options), stream)
        writer[0].write_table(table)
        return writer

    def add(self, block: Block) -> None:
        """Append a block's events and labels."""
        code, tenths, word = (block.column(n) for n in ("code", "tenths", "word"))
        time, lasts = block.column("time"), block.column("lasts")
        value = np.where(word >= 0, MOST_TENTHS + 1 + word, np.minimum(tenths, MOST_TENTHS))
        table = pa.table(
            {
                "patient_id": block.subject,
                "start": _moments(time, "s"),
                "end": _moments(time + lasts, "s", lasts < 0),
                "code": _words(code, self._codes),
                "value": _words(value, self._values, value < 0),
                "unit": _words(code, self._units, self._no_unit[code]),
                "visit_id": _visits(block),
                "omop_table": _words(code, self._kinds),
            }
        )
        self._events = self._write(self._events, self.root / "data" / "ehrshot.csv", table)
        for k, lab in enumerate(codes.labs()):
            ids, asked, grade = block.labels(k)
            path = self.root / "benchmark" / lab.task / "labeled_patients.csv"
            kinds = _words(np.zeros(len(ids), np.int32), ["categorical"])
            table = pa.table(
                {
                    "patient_id": ids,
                    "prediction_time": _moments(asked, "s"),
                    "label_type": kinds,
                    "value": grade,
                }
            )
            self._labels[k] = self._write(self._labels[k], path, table)

    def close(self, splits: Mapping[int, str]) -> None:
        """Finish the files and write the splits, by EHRSHOT's own names for them."""
        for writer in (self._events, *self._labels):
            if writer is not None:
                writer[0].close()
                writer[1].close()
        theirs = {"train": "train", "tuning": "val", "held_out": "test"}
        lines = [f"{theirs[split]},{id}\n" for id, split in splits.items()]
        (self.root / "splits" / "person_id_map.csv").write_text(
            "split,omop_person_id\n" + "".join(lines), encoding="utf-8"
        )


class MedsLayout:
    """A MEDS 0.4 root: data/<split>/<n>.parquet, metadata, labels/<task>/<split>-<n>.parquet.

    As the schema of the package ``meds`` 0.4 has it: text values are ``large_string``, and of the
    label columns there is the one that is filled, since none may hold a null.
    """

    def __init__(self, out: Path) -> None:
        self.root = out
        known = codes.vocabulary()
        self._known = known
        self._number: dict[str, int] = dict.fromkeys(SPLITS, 0)
        for folder in (*(f"data/{s}" for s in SPLITS), "metadata",
                       *(f"labels/{lab.task}" for lab in codes.labs())):  # fmt: skip
            (out / folder).mkdir(parents=True, exist_ok=True)

    def add(self, block: Block) -> None:
        """Write a block's events and labels as shards of their own."""
        number, self._number[block.split] = (
            self._number[block.split],
            self._number[block.split] + 1,
        )
        code, tenths, word = (block.column(n) for n in ("code", "tenths", "word"))
        known = self._known
        no_unit = np.array([not c.unit for c in known])
        value = (tenths.astype(np.float64) / 10.0).astype(np.float32)
        table = pa.table(
            {
                "subject_id": block.subject,
                "time": _moments(block.column("time"), "us", code <= 1),
                "code": _words(code, [c.code for c in known]),
                "numeric_value": pa.array(value, pa.float32(), mask=tenths < 0),
                "text_value": _words(word, codes.WORDS, word < 0).cast(pa.large_string()),
                "unit": _words(code, [c.unit for c in known], no_unit[code]),
                "visit_id": _visits(block),
                "omop_table": _words(code, [c.kind for c in known]),
            }
        )
        _parquet(table, self.root / "data" / block.split / f"{number}.parquet")
        for k, lab in enumerate(codes.labs()):
            ids, asked, grade = block.labels(k)
            table = pa.table(
                {
                    "subject_id": ids,
                    "prediction_time": _moments(asked, "us"),
                    "integer_value": grade,
                }
            )
            name = f"{block.split}-{number}.parquet"
            _parquet(table, self.root / "labels" / lab.task / name)

    def close(self, splits: Mapping[int, str]) -> None:
        """Write the metadata."""
        table = pa.table({"subject_id": list(splits), "split": list(splits.values())})
        _parquet(table, self.root / "metadata" / "subject_splits.parquet")
        nothing = pa.nulls(len(self._known), pa.list_(pa.string()))
        table = pa.table(
            {
                "code": [c.code for c in self._known],
                "description": [c.name for c in self._known],
                "parent_codes": nothing,
            }
        )
        _parquet(table, self.root / "metadata" / "codes.parquet")
        about = {"dataset_name": "Synthetic laboratory cohort", "meds_version": "0.4.0"}
        (self.root / "metadata" / "dataset.json").write_text(
            json.dumps(about, indent=2) + "\n", encoding="utf-8"
        )


def _parquet(table: Any, path: Path) -> None:
    parquet.write_table(table, path, compression="zstd")
