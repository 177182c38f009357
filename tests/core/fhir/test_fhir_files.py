"""Resources of lines, bundles and packed files are the same; blank lines cost nothing."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from midchart.core.loaders.open import read_cohort
from tests.support.fhir import bundle, patient, reading, write


def readings(person: str, count: int) -> list[dict[str, object]]:
    """Readings of a person, which name the person."""
    return [reading(f"{person}-{n}", f"{person} {n}", f"Patient/{person}") for n in range(count)]


def line(number: str) -> str:
    """A line with a reading."""
    return json.dumps(reading(number, "Glucose", "Patient/p1"))


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


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("blank", ["\n", " \r\n", "\n" * 9, "\t"])
def test_blank_lines_are_counted_and_passed_over(tmp_path: Path, blank: str, packed: bool) -> None:
    text = blank.join([f"{line('a')}\n", f"{line('b')}\n", f"no resource\n{blank}"])
    wrong = text.split("\n").index(f"{blank.rpartition(chr(10))[2]}no resource") + 1
    data = f"{json.dumps(patient())}\n{text}".encode()
    file = tmp_path / f"a.ndjson{'.gz' if packed else ''}"
    file.write_bytes(gzip.compress(data) if packed else data)
    cohort = read_cohort(tmp_path)
    assert len(cohort.records["p1"].events) == 2
    (skipped,) = cohort.skipped
    assert (skipped.file, skipped.line) == (file.name, wrong + 1)
