"""A stored index of FHIR resources gives what reading all of them gave."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from midchart.core.cohorts.gold import LazyGold
from midchart.core.fhir import stored
from midchart.core.loaders import fhir
from midchart.core.loaders.fhir import Fhir
from midchart.core.storage import derived
from midchart.core.types import Cohort
from tests.support.fhir import bundle, of_patient, patient, reading, write

SHARED = Path(__file__).parents[4] / "shared" / "data"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MIDCHART_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(stored, "_LEAST_STORED", 0)
    return tmp_path / "cache" / derived.FOLDER


def contents(cohort: Cohort) -> dict[str, Any]:
    """All that is read and said of a cohort."""
    records = {id: cohort.records[id] for id in cohort.records}
    assert isinstance(cohort.gold, LazyGold)
    return {
        "records": records,
        "questions": cohort.instructions,
        "gold": dict(cohort.gold),
        "skipped": cohort.skipped,
        "warnings": cohort.warnings,
        "accounts": cohort.accounts,
        "names": {name: cohort.records.of_file(name) for name in ("a.json", "Patient.ndjson")},
    }


def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Each time that all resources of a cohort are read is an entry."""
    counted: list[int] = []
    indexed = fhir._indexed

    def count(*arguments: Any) -> Any:
        counted.append(len(arguments[1]))
        return indexed(*arguments)

    monkeypatch.setattr(fhir, "_indexed", count)
    return counted


NOTE = base64.b64encode(b"Seen in clinic. No fever.").decode()


def cohort(place: Path) -> Path:
    """Bundles and lines with references of every kind, and something to say of each."""
    server = "https://a.example/fhir"
    drug = {"resourceType": "Medication", "id": "m", "code": {"text": "Digoxin"}}
    order = of_patient(
        "MedicationRequest", id="o", status="active", intent="order",
        medicationReference={"reference": "Medication/m"},
    )  # fmt: skip
    letter = of_patient(
        "DocumentReference", id="d", status="current",
        content=[{"attachment": {"contentType": "text/plain", "url": "Binary/b"}}],
    )  # fmt: skip
    text = {"resourceType": "Binary", "id": "b", "contentType": "text/plain", "data": NOTE}
    return write(
        place,
        {
            "a.json": bundle(patient(family="Abe"), drug, order, letter, text, server=server),
            "b.json": bundle(patient("p2", "Bea"), reading("r", "Sodium", "Patient/p2")),
            "export/Patient.ndjson": (patient("p1", "Cid"), patient("p3", "Dee")),
            "export/Observation.ndjson": (
                reading("x", "Potassium", "Patient/p1"),
                reading("x", "Potassium", "Patient/p1"),
                reading("y", "Calcium", "Patient/p3", status="entered-in-error"),
                reading("z", "Iron", "Patient/unknown"),
                {"resourceType": "Coverage", "id": "c"},
                {"id": "no type"},
            ),
            "export/Medication.ndjson": ({**drug, "code": {"text": "Heparin"}},),
            "export/MedicationRequest.ndjson": (order,),
            "notes.json": {"no": "type"},
            "questions.tsv": "filename\tquestion\tevidence\tclinician_response\n"
            "p2\tWhat was measured?\tSodium\tsodium\n",
        },
    )


def test_a_second_opening_reads_no_resource_and_gives_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    place, counted = cohort(tmp_path / "cohort"), reads(monkeypatch)
    first = contents(Fhir().load(str(place)))
    assert len(first["records"]) == 5 and len(first["warnings"]) > 2 and first["skipped"]
    shown = [event.name + event.text for r in first["records"].values() for event in r.events]
    assert {"Digoxin", "Heparin"} <= {
        name for one in shown for name in ("Digoxin", "Heparin") if name in one
    }
    assert any("Seen in clinic" in one for one in shown)
    assert contents(Fhir().load(str(place))) == first
    assert len(counted) == 1


@pytest.mark.skipif(not SHARED.is_dir(), reason="the open samples are not here")
@pytest.mark.parametrize(
    "name", ["synthea_fhir", "synthea_bulk", "cases/10-fhir-same-patient-id-two-bundles",
             "cases/16-fhir-nested-bundle-array-xml", "cases/19-fhir-ndjson-of-bundles"]
)  # fmt: skip
def test_open_samples_are_the_same(name: str, monkeypatch: pytest.MonkeyPatch):
    counted = reads(monkeypatch)
    assert contents(Fhir().load(str(SHARED / name))) == contents(Fhir().load(str(SHARED / name)))
    assert len(counted) == 1


def test_a_changed_file_another_place_and_another_name_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    place, counted = cohort(tmp_path / "cohort"), reads(monkeypatch)
    Fhir().load(str(place))
    more = json.dumps(reading("new", "Lithium", "Patient/p3"))
    with (place / "export" / "Observation.ndjson").open("a") as file:
        file.write(more + "\n")
    changed = Fhir().load(str(place))
    assert any(event.name == "Lithium" for event in changed.records["p3"].events)
    (place / "b.json").rename(place / "other.json")
    assert Fhir().load(str(place)).records.of_file("other.json") == "p2"
    assert len(counted) == 3
    alone = Fhir().load(str(place / "other.json"))
    assert list(alone.records) == ["p2"]
    assert len(counted) == 4


def test_a_file_that_changes_once_it_was_opened_is_not_read_at_stored_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    place = cohort(tmp_path / "cohort")
    Fhir().load(str(place))
    stored_one = Fhir().load(str(place))
    lines = (place / "export" / "Observation.ndjson").read_text().splitlines(keepends=True)
    (place / "export" / "Observation.ndjson").write_text("".join(lines[1:]))
    with pytest.raises(Exception, match="changed since it was opened"):
        for id in stored_one.records:
            stored_one.records[id]


def test_packed_and_small_cohorts_are_not_stored(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    lines = "\n".join(map(json.dumps, (patient(), reading("r", "Sodium"))))
    packed = write(tmp_path / "packed", {"all.ndjson.gz": gzip.compress(lines.encode())})
    for _ in range(2):
        assert len(Fhir().load(str(packed)).records["p1"].events) == 1
    monkeypatch.setattr(stored, "_LEAST_STORED", 1 << 20)
    Fhir().load(str(cohort(tmp_path / "small")))
    assert not list(folder.rglob("*.parquet"))
