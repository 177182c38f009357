"""Places of resources are read with few opened files, and a file that changed is named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from midchart.core.errors import DataError
from midchart.core.loaders.open import read_cohort
from midchart.core.types import Cohort
from tests.support.fhir import bundle, patient, reading, texts, write

PEOPLE = [f"p{number}" for number in range(30)]


def readings(person: str, count: int = 3) -> list[dict[str, object]]:
    """Readings of a person, which name the person."""
    return [reading(f"{person}-{n}", f"{person} {n}", f"Patient/{person}") for n in range(count)]


def export(folder: Path) -> Path:
    """Patients and their readings, each of which follows that of another patient."""
    mixed = [one for group in zip(*map(readings, PEOPLE), strict=True) for one in group]
    return write(
        folder,
        {
            "Patient.ndjson": tuple(map(patient, PEOPLE)),
            "a.ndjson": tuple(mixed),
            "b.ndjson": tuple(one for person in PEOPLE for one in _again(person)),
        },
    )


def _again(person: str) -> list[dict[str, object]]:
    return [one | {"id": f"b{one['id']}"} for one in readings(person)]


def expected(person: str) -> list[str]:
    """The texts of a person's events."""
    return [f"{person} {n}: 7" for n in (0, 1, 2)] * 2


def test_records_do_not_depend_on_the_order_in_which_they_are_read(tmp_path: Path) -> None:
    folder = export(tmp_path)
    forwards, backwards = read_cohort(folder), read_cohort(folder)
    digests = {id: forwards.records[id].digest for id in forwards.records}
    assert {id: backwards.records[id].digest for id in reversed(PEOPLE)} == digests


def _append(file: Path) -> None:
    with file.open("a", encoding="utf-8") as opened:
        opened.write("\n")


def _rewrite(file: Path) -> None:
    state = file.stat()
    file.write_bytes(b"x" * state.st_size)
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns + 1_000_000))


@pytest.mark.parametrize("change", [_append, _rewrite, Path.unlink])
def test_a_file_that_changes_between_two_records_is_named(tmp_path: Path, change) -> None:
    cohort = read_cohort(export(tmp_path))
    assert texts(cohort, "p1") == expected("p1")
    change(tmp_path / "a.ndjson")
    assert _error(cohort, "p2").startswith("a.ndjson: ")
    assert any(skip.file == "a.ndjson" for skip in cohort.skipped)


def _error(cohort: Cohort, person: str) -> str:
    with pytest.raises(DataError) as raised:
        cohort.records[person]
    return str(raised.value)


def test_lines_and_bundles_give_one_record(tmp_path: Path) -> None:
    """Also where a line is a bundle, and where lines are far from each other."""
    resources = [patient(), *readings("p1", 20)]
    blank = " " * 10_000
    files: dict[str, dict[str, object]] = {
        "lines": {"a.ndjson": tuple(resources)},
        "bundle": {"a.json": bundle(*resources)},
        "line": {"a.ndjson": (bundle(*resources),)},
    }
    digests = set()
    for name, content in files.items():
        digests.add(read_cohort(write(tmp_path / name, content)).records["p1"].digest)
    spread = (tmp_path / "lines" / "a.ndjson").read_text().replace("\n", f"\n{blank}\n")
    digests.add(read_cohort(write(tmp_path / "spread", {"a.ndjson": spread})).records["p1"].digest)
    assert len(digests) == 1
