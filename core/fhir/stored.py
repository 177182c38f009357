"""The index of a cohort's resources, stored by the content of its files.

Finding whose each resource is means reading all of them. What that gives is stored
(:mod:`midchart.core.storage.derived`) with the lines that it logged; another process hashes the
files, which takes a fiftieth of the time, and reads resources at their places.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

import msgspec
import numpy as np

from midchart.core.cohorts.files import LoadLog, open_file
from midchart.core.fhir.files import LARGEST_TABLE, ResourceFile
from midchart.core.fhir.index import IndexState, PatientResources, ResourceIndex
from midchart.core.provenance import add_file
from midchart.core.storage.derived import Columns, Derived
from midchart.core.types import Account

_STORED = Derived("fhir", ("fhir", "cohorts", "loaders/fhir", "types"))
_LEAST_STORED = 5_000_000
"""Bytes of resources that take longer to index than to hash and look up."""

Patients = dict[str, PatientResources]
FileState = tuple[int, int]


class _StoredCohort(msgspec.Struct, array_like=True):
    """The names and texts of an indexed cohort: files (name, whether NDJSON), records (name, slot
    of the Patient, number of other slots), the lines of the log, and the state of the index."""

    files: list[tuple[str, bool]]
    records: list[tuple[str, int | None, int]]
    skipped: list[tuple[str, int | None, str]]
    warnings: list[str]
    accounts: list[tuple[str, str, int, int, list[tuple[str, int]]]]
    index: IndexState


def stored_patients(
    index: ResourceIndex,
    files: Sequence[tuple[str, Path]],
    place: str,
    make: Callable[[], Patients],
) -> Patients:
    """The resources of each record by its name, with ``index`` filled and its log written.

    ``files``: names in messages and paths of the cohort's files; ``place``: what was opened, by its
    name. ``make`` reads them all.
    """
    paths = dict(files)
    hashed = _hashed(paths) if len(paths) == len(files) else None
    if hashed is None:
        return make()
    digest, states = hashed
    logged = len(index.log.skipped), len(index.log.warnings)

    def encode(patients: Patients) -> Columns | None:
        # A file whose places are in a temporary file, or that changed once it was hashed.
        if any(f.unpacked is not None or f.state != states[f.name] for f in index.files.files):
            return None
        return _columns(index, patients, *logged)

    def decode(columns: Columns) -> Patients:
        return _restored(index, columns, paths, states)

    return _STORED.get(digest, ("index", place), make, encode, decode)


def _hashed(paths: Mapping[str, Path]) -> tuple[str, dict[str, FileState]] | None:
    """A hash of all names and contents, and the state of each file at that time; None where there
    is little to read, or a file that cannot be read or changed meanwhile."""
    total, states = blake2b(digest_size=16), dict[str, FileState]()
    try:
        if sum(path.stat().st_size for path in paths.values()) < _LEAST_STORED:
            return None
        for name, path in paths.items():
            with open_file(path, LARGEST_TABLE) as file:
                before = os.fstat(file.fileno())
                add_file(total, name, file)
                after = os.fstat(file.fileno())
            if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
                return None
            states[name] = before.st_size, before.st_mtime_ns
    except OSError:
        return None  # it is named when it is read
    return total.hexdigest(), states


def _columns(
    index: ResourceIndex, patients: Patients, skipped: int, warnings: int
) -> Columns | None:
    """None where text is none that UTF-8 can hold. ``skipped`` and ``warnings``: how many lines the
    log had before."""
    log = index.log
    cohort = _StoredCohort(
        [(file.name, file.by_line) for file in index.files.files],
        [(name, held.patient, len(held.slots)) for name, held in patients.items()],
        [(skip.file, skip.line, skip.reason) for skip in log.skipped[skipped:]],
        log.warnings[warnings:],
        [(*key, one.total, one.shown, list(one.reasons)) for key, one in log.accounts.items()],
        index.state(),
    )
    try:
        text = msgspec.json.encode(cohort).decode()
    except UnicodeEncodeError:
        return None
    slots = [np.frombuffer(held.slots, np.int64) for held in patients.values()]
    return {
        "cohort": [text],
        "places": np.frombuffer(index.places(), np.int64),
        "slots": np.concatenate(slots) if slots else np.zeros(0, np.int64),
    }


def _restored(
    index: ResourceIndex,
    columns: Columns,
    paths: Mapping[str, Path],
    states: Mapping[str, FileState],
) -> Patients:
    cohort = msgspec.json.decode(columns["cohort"][0], type=_StoredCohort)
    index.files.files.extend(
        ResourceFile(paths[name], name, by_line, states[name]) for name, by_line in cohort.files
    )
    _log(index.log, cohort)
    index.restore(cohort.index, _array(columns["places"]))
    patients: Patients = {}
    begin = 0
    for name, patient, count in cohort.records:
        patients[name] = PatientResources(patient, _array(columns["slots"][begin : begin + count]))
        begin += count
    return patients


def _log(log: LoadLog, cohort: _StoredCohort) -> None:
    for skip in cohort.skipped:
        log.skip(*skip)
    for warning in cohort.warnings:
        log.warn(warning)
    for part, what, total, shown, reasons in cohort.accounts:
        log.accounts[part, what] = Account(total, shown, tuple(reasons))


def _array(numbers: Sequence[int]) -> array[int]:
    listed = array("q")
    listed.frombytes(np.asarray(numbers, np.int64).tobytes())
    return listed
