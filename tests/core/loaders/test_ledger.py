"""No string, number or code of a source is neither shown, nor administrative, nor named."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from midchart.core.errors import DataError
from midchart.core.loaders.check import check_cohort
from midchart.core.loaders.ledger import LEFT_OUT, SHOWN, UNACCOUNTED, leaves_of, parts_of
from midchart.core.loaders.open import read_cohort
from tests.support.cases import CASES, EXPECTED, cases
from tests.support.samples import SAMPLES

FORMATS = ("fhir", "hl7v2", "synthea_csv", "ccda", "ccda_vendor")
PUBLIC = {"synthea_fhir": 0, "ccda_vendor": 40, "ccda_examples": 21}
"""Public sets → leaves unaccounted for: headings above sub-sections, details of entries."""


def _place(case: Path) -> Path:
    return case / "input" / json.loads((case / EXPECTED).read_text("utf-8")).get("open", "")


def _small() -> list[Path]:
    return [one for one in cases() if one.relative_to(CASES).parts[0] in FORMATS]


@pytest.mark.parametrize("case", _small(), ids=lambda one: one.relative_to(CASES).as_posix())
def test_every_leaf_of_a_case_is_accounted_for(case: Path) -> None:
    try:
        cohort = read_cohort(_place(case))
    except DataError:
        pytest.skip("it is refused as a whole")
    lost = [row for row in leaves_of(cohort).rows() if row["outcome"] == UNACCOUNTED]
    assert not lost


@pytest.mark.parametrize(("name", "most"), PUBLIC.items(), ids=str)
def test_leaves_of_public_sets(name: str, most: int) -> None:
    folder = SAMPLES / name
    if not folder.is_dir():
        pytest.skip("the public samples are not on this machine")
    ledger = leaves_of(read_cohort(folder))
    counted = Counter[str]()
    for file in (one for one in folder.rglob("*") if one.is_file()):
        for part in parts_of(file, file.name):
            counted["leaves"] += sum(bool(value.split()) for _, value in part.leaves)
    totals = Counter[str]()
    for (outcome, *_), number in ledger.counts.items():
        totals[outcome] += number
    assert sum(totals.values()) >= counted["leaves"] > 0
    assert totals.get(UNACCOUNTED, 0) <= most
    assert totals[SHOWN] > totals.get(UNACCOUNTED, 0)


def test_a_leaf_that_nothing_reads_is_found_with_its_address_and_place(tmp_path: Path) -> None:
    patient = {"resourceType": "Patient", "id": "p"}
    seen = {"resourceType": "Observation", "status": "final", "code": {"text": "Culture"},
            "subject": {"reference": "Patient/p"}, "valueString": "Staphylococcus"}  # fmt: skip
    bundle = {"resourceType": "Bundle", "entry": [{"resource": patient}, {"resource": seen}]}
    (tmp_path / "a.json").write_text(json.dumps(bundle))
    cohort = read_cohort(tmp_path)
    seen["valueString"] = "Pseudomonas"  # the file as it is now, the cohort as it was
    (tmp_path / "a.json").write_text(json.dumps(bundle))
    (lost,) = [one for one in leaves_of(cohort).rows() if one["outcome"] == UNACCOUNTED]
    assert (lost["address"], lost["example"]) == ("Observation.valueString", "a.json:2")


def test_a_file_that_is_not_read_is_left_out_by_its_reason(tmp_path: Path) -> None:
    (tmp_path / "p1.txt").write_text("Seen.")
    (tmp_path / "scan.pdf").write_bytes(b"%PDF-1.4 nothing")
    report = check_cohort(read_cohort(tmp_path))
    left = [row for row in report["leaves"] if row["outcome"] == LEFT_OUT]
    assert [(row["address"], row["example"]) for row in left] == [("file", "scan.pdf")]
    assert "damaged" in left[0]["reason"]
