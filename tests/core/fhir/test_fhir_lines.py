"""Lines of NDJSON are entered by their first elements to the same end as by all of them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from time import process_time
from typing import Any

import pytest

from midchart.core.cohorts.files import LoadLog
from midchart.core.fhir.files import ResourceFiles
from midchart.core.fhir.index import EXPORT, ResourceIndex
from midchart.core.loaders.open import read_cohort
from tests.support.fhir import patient, reading

PERSON = "Patient/p1"
USUAL: dict[str, dict[str, Any]] = {
    "plain": {},
    "retracted": {"status": "entered-in-error"},
    "negated": {"status": "not-done"},
    "no status": {"status": None},
    "blank status": {"status": " "},
    "proposed": {"intent": "proposal"},
    "refuted": {"verificationStatus": {"coding": [{"code": "refuted"}]}},
    "no number": {"id": None},
    "blanks around the number": {"id": " a "},
    "patient": {"subject": None, "patient": {"reference": PERSON}},
    "absolute": {"subject": {"reference": f"https://server/fhir/{PERSON}"}},
    "nobody's": {"subject": {"reference": "Practitioner/d1"}},
    "more elements": {"extension": [{"url": "x", "valueString": "y" * 5000}]},
}
UNUSUAL: dict[str, dict[str, Any]] = {
    "type of no entry": {"resourceType": "Claim"},
    "unknown type": {"resourceType": "Reading"},
    "no type": {"resourceType": None},
    "document": {"resourceType": "DocumentReference"},
    "medicine": {"resourceType": "Medication"},
    "number that is one": {"id": 7},
    "no subject": {"subject": None},
    "subjects": {"subject": [{"reference": PERSON}]},
    "blank subject": {"subject": {"reference": " "}},
    "identified subject": {"subject": {"identifier": {"system": "s", "value": "1"}}},
    "status of several": {"status": ["final", "entered-in-error"]},
    "banned": {"doNotPerform": True},
    "not taken": {"taken": "n"},
    "rules": {"implicitRules": "https://rules"},
    "deep": {"extension": json.loads("[" * 65 + "]" * 65)},
}
ALL = USUAL | UNUSUAL


def line(changed: dict[str, Any], number: str = "a") -> str:
    """A reading with changed elements; those that are None are left out."""
    resource = reading(number, "Glucose", PERSON) | changed
    return json.dumps({name: value for name, value in resource.items() if value is not None})


def entered(folder: Path, lines: list[str]) -> list[bool]:
    """Of each line of a file, whether its first elements were enough."""
    path = folder / "lines.ndjson"
    path.write_text("\n".join(lines), encoding="utf-8")
    files = ResourceFiles()
    index = ResourceIndex(files, LoadLog())
    number, scope = files.add(path, path.name), index.scope(EXPORT, None, True)
    return [
        index.enter_line(scope, text.encode(), number, place, 0, len(text))
        for place, text in enumerate(lines, 1)
    ]


@pytest.mark.parametrize("case", USUAL)
def test_the_first_elements_of_most_lines_are_enough(tmp_path: Path, case: str) -> None:
    assert entered(tmp_path, [line(USUAL[case])]) == [True]


@pytest.mark.parametrize("case", UNUSUAL)
def test_a_line_of_other_types_is_read_in_full(tmp_path: Path, case: str) -> None:
    assert entered(tmp_path, [line(UNUSUAL[case])]) == [False]


LONG_NUMBER = line({})[:-1] + f', "version": {"9" * 4400}}}'


@pytest.mark.parametrize("text", [line({})[:-1], "[]", "7", "", f"{line({})} {{}}", LONG_NUMBER])
def test_what_is_no_resource_within_the_limits_is_read_in_full(tmp_path: Path, text: str) -> None:
    assert entered(tmp_path, [text]) == [False]


def test_a_second_resource_of_a_number_is_read_in_full(tmp_path: Path) -> None:
    assert entered(tmp_path, [line({}), line({}), line({}, "b"), line({"id": None})]) == [
        True,
        False,
        True,
        True,
    ]


def read(folder: Path, lines: list[str]) -> list[Any]:
    """All that a file of these lines is read as."""
    folder.mkdir()
    people = [json.dumps(patient("p1")), json.dumps(patient("p2"))]
    (folder / "lines.ndjson").write_text("\n".join([*people, *lines]), encoding="utf-8")
    cohort = read_cohort(folder)
    records = {id: cohort.records[id] for id in cohort.records}
    return [records, cohort.skipped, cohort.warnings, cohort.accounts]


@pytest.mark.parametrize("number", ["a", None])
def test_both_ways_of_entering_a_line_read_the_same(tmp_path: Path, number: str | None) -> None:
    lines = [
        line(changed, f"{number}{place}") if number else line(changed)
        for place, changed in enumerate(ALL.values())
    ]
    quick = read(tmp_path / "quick", lines)
    # A blank element says nothing, but is not one that most resources have.
    full = [text.replace("{", '{"taken": "", ', 1) for text in lines]
    assert not any(entered(tmp_path, full))
    assert max(len(record.events) for record in quick[0].values()) > 3
    assert read(tmp_path / "full", full) == quick


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("blank", ["\n", " \r\n", "\n" * 9_000, "\n" * 8_191 + "  ", "\t"])
def test_blank_lines_are_counted_and_passed_over(tmp_path: Path, blank: str, packed: bool) -> None:
    text = blank.join([f"{line({}, 'a')}\n", f"{line({}, 'b')}\n", f"no resource\n{blank}"])
    wrong = text.split("\n").index(f"{blank.rpartition(chr(10))[2]}no resource") + 1
    data = f"{json.dumps(patient())}\n{text}".encode()
    file = tmp_path / f"a.ndjson{'.gz' if packed else ''}"
    file.write_bytes(gzip.compress(data) if packed else data)
    cohort = read_cohort(tmp_path)
    assert len(cohort.records["p1"].events) == 2
    (skipped,) = cohort.skipped
    assert (skipped.file, skipped.line) == (file.name, wrong + 1)


def test_millions_of_blank_lines_take_a_moment(tmp_path: Path) -> None:
    file = tmp_path / "a.ndjson"
    for blank in (1, 40 << 20):  # the first imports what the second needs
        file.write_text(f"{json.dumps(patient())}\n{' ' * 9}{chr(10) * blank}{line({})}\n")
        start = process_time()
        assert len(read_cohort(tmp_path).records["p1"].events) == 1
    assert process_time() - start < 5
