"""No string, number or code of a source is neither shown, nor administrative, nor named."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from midchart.core.cohorts.demo import Included, install
from midchart.core.errors import DataError
from midchart.core.loaders.check import check_cohort
from midchart.core.loaders.ledger import LEFT_OUT, SHOWN, UNACCOUNTED, leaves_of, parts_of
from midchart.core.loaders.open import open_cohort, read_cohort
from midchart.core.storage.sources import Source
from tests.support.cases import CASES, EXPECTED, cases
from tests.support.samples import SAMPLES

FORMATS = (
    *("fhir", "hl7v2", "synthea_csv", "ccda", "ccda_vendor"),
    *("medalign", "omop", "plain_notes", "meds"),
    *("squad", "medcalc", "archehr_qa", "longhealth", "ehrnoteqa"),
)
DEMOS: tuple[Included, ...] = ("clinical", "letters")
QUICK = ("synthea_fhir", "ccda_examples", "longhealth", "letters")
SETS = (
    *QUICK,
    *(pytest.param(one, marks=pytest.mark.slow) for one in (
        "synthea_bulk", "ccda_vendor", "medalign_public", "covidqa_dev", "medcalc_dev", "clinical",
        "omop54/Synthea27NjParquet_5.4.zip", "omop54/Synthea27Nj_5.4.zip",
    )),
)  # fmt: skip


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
    lost = [row for row in leaves_of(cohort) if row["outcome"] == UNACCOUNTED]
    assert not lost


@pytest.fixture(params=SETS)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A public set, or an included cohort of text."""
    if request.param in DEMOS:
        install(request.param, tmp_path)
        return tmp_path
    if not (SAMPLES / request.param).exists():
        pytest.skip("the public samples are not on this machine")
    return SAMPLES / request.param


def test_every_leaf_of_a_set_is_accounted_for(folder: Path) -> None:
    ledger = leaves_of(read_cohort(folder))
    counted = Counter[str]()
    for file in (one for one in (folder, *folder.rglob("*")) if one.is_file()):
        for part in [] if file.name.startswith("midchart.") else parts_of(Source.at(file)):
            counted["leaves"] += sum(bool(value.split()) for _, value in part.leaves)
    totals = Counter[str]()
    for row in ledger:
        totals[row["outcome"]] += row["leaves"]
    assert sum(totals.values()) >= counted["leaves"] > 0
    assert not totals[UNACCOUNTED]
    assert totals[SHOWN]


def test_a_leaf_that_nothing_reads_is_found_with_its_address_and_place(tmp_path: Path) -> None:
    patient = {"resourceType": "Patient", "id": "p"}
    seen = {"resourceType": "Observation", "status": "final", "code": {"text": "Culture"},
            "subject": {"reference": "Patient/p"}, "valueString": "Staphylococcus"}  # fmt: skip
    bundle = {"resourceType": "Bundle", "entry": [{"resource": patient}, {"resource": seen}]}
    (tmp_path / "a.json").write_text(json.dumps(bundle))
    cohort = read_cohort(tmp_path)
    seen["valueString"] = "Pseudomonas"  # the file as it is now, the cohort as it was
    (tmp_path / "a.json").write_text(json.dumps(bundle))
    (lost,) = [one for one in leaves_of(cohort) if one["outcome"] == UNACCOUNTED]
    assert (lost["address"], lost["example"]) == ("Observation.valueString", "a.json:2")


def test_a_file_that_is_not_read_is_left_out_by_its_reason(tmp_path: Path) -> None:
    (tmp_path / "p1.txt").write_text("Seen.")
    (tmp_path / "scan.pdf").write_bytes(b"%PDF-1.4 nothing")
    report = check_cohort(open_cohort(tmp_path))
    left = [row for row in report["leaves"] if row["outcome"] == LEFT_OUT]
    assert [(row["address"], row["example"]) for row in left] == [("file", "scan.pdf")]
    assert "damaged" in left[0]["reason"]
