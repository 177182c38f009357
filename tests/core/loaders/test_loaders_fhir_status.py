"""Status, versions, content and files of FHIR resources, and cases that others reported."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from midchart.core.errors import DataError
from midchart.core.loaders.fhir import Fhir
from tests.support.fhir import balance, bundle, named, of_patient, patient, reading, texts, write

CASES = Path(__file__).parents[4] / "shared" / "data" / "cases"
DRUG = {"medicationCodeableConcept": {"text": "Digoxin"}}


def read(folder: Path, *resources: Any) -> Any:
    return Fhir().load(str(write(folder, {"all.ndjson": (patient(), *resources)})))


@pytest.mark.parametrize(
    ("resource", "text"),
    [
        (of_patient("MedicationRequest", **DRUG, intent="order", doNotPerform=True),
         "Digoxin: DO NOT GIVE OR PERFORM"),
        (of_patient("MedicationRequest", **DRUG, intent="proposal"),
         "Digoxin: PROPOSED, NOT ORDERED"),
        (of_patient("MedicationStatement", **DRUG, taken="n"), "Digoxin: NOT TAKEN"),
        (of_patient("MedicationStatement", **DRUG, status="not-taken"), "Digoxin: NOT TAKEN"),
        (of_patient("MedicationStatement", **DRUG, adherence={"code": {"text": "not-taking"}}),
         "Digoxin: NOT TAKEN"),
        (of_patient("MedicationAdministration", **DRUG, wasNotGiven=True), "Digoxin: NOT DONE"),
        (of_patient("Immunization", vaccineCode={"text": "MMR"}, status="not-done"),
         "MMR: NOT DONE"),
        (of_patient("Procedure", code={"text": "Biopsy"}, notDone=True), "Biopsy: NOT DONE"),
        (of_patient("Goal", description={"text": "Run"}, lifecycleStatus="rejected"),
         "Run: REJECTED"),
        (of_patient("Condition", code={"text": "PE"}, verificationStatus={"text": "Refuted"}),
         "PE: REFUTED"),
        (of_patient("AllergyIntolerance", code={"text": "Latex"}, verificationStatus="refuted"),
         "Refuted allergy to Latex: REFUTED"),
        (of_patient("AllergyIntolerance", code={"text": "No known drug allergy"}),
         "No known drug allergy: recorded"),
        (of_patient("AllergyIntolerance", code={"coding": [
            {"system": "http://snomed.info/sct", "code": "716186003"}]}),
         "No known allergy: recorded"),
        (reading("a", "K", status="preliminary"), "K: PRELIMINARY; 7"),
        (reading("a", "K", status="corrected"), "K: CORRECTED; 7"),
        (reading("a", "K", valueInteger=None, valueQuantity={"value": 5, "unit": "g"},
                 bodySite={"text": "arm"}, method={"text": "cuff"}, focus=[{"display": "fetus"}]),
         "K (of fetus): 5 g; body site arm; method cuff"),
        (of_patient("Condition", code={"text": "Flu"}, abatementBoolean=True), "Flu: ended"),
        (of_patient("Condition", code={"text": "Ca"}, stage=[{"summary": {"text": "T2"}}]),
         "Ca: stage T2"),
        (of_patient("Condition", text={"div": "<div>nodule 8 mm</div>"}),
         "Condition: nodule 8 mm"),
        (of_patient("ServiceRequest", code={"text": "MRI"}, orderDetail=[{"text": "contrast"}]),
         "MRI: ordered; order detail contrast"),
        (of_patient("Procedure", code={"coding": [{"code": "1"}, {"display": "Suture"}]},
                    note=[{"text": "left", "authorString": "RN", "time": "2020-01-02T03:04:05Z"}]),
         "Suture: left (RN, 2020-01-02 03:04)"),
        (of_patient("Consent", category=[{"text": "CPR"}], provision={"type": "deny"}),
         "Consent: CPR: provision type deny"),
    ],
)  # fmt: skip
def test_status_and_content_are_in_the_text(tmp_path: Path, resource: Any, text: str) -> None:
    assert texts(read(tmp_path, resource)) == [text]


@pytest.mark.parametrize(
    "fields",
    [
        {"status": "cancelled"},
        {"status": "entered-in-error"},
        {"modifierExtension": [{"url": "x"}]},
        {"component": [{"code": {"text": "c"}, "modifierExtension": [{"url": "x"}]}]},
        {"implicitRules": "https://rules.example"},
    ],
)
def test_what_is_retracted_or_not_understood_is_left_out_and_counted_on_opening(
    tmp_path: Path, fields: dict[str, Any]
) -> None:
    cohort = read(tmp_path, reading("a", "K") | fields)
    account = cohort.accounts["all.ndjson", "resources"]
    assert (account.total, account.shown, account.unaccounted) == (1, 0, 0)
    assert texts(cohort) == []
    assert balance(cohort)[:2] == (2, 1)


def test_the_newest_version_counts_and_a_replaced_document_is_left_out(tmp_path: Path) -> None:
    versions = [reading("a", f"v{n}", meta={"versionId": str(n)}) for n in (2, 10, 9)]
    content = [{"attachment": {"data": base64.b64encode(b"Old dose.").decode()}}]
    old = of_patient("DocumentReference", id="old", content=content)
    order = {"contentType": "application/pdf", "title": "DNR"}
    replaced = {"code": "replaces", "target": {"reference": "DocumentReference/old"}}
    new = of_patient("DocumentReference", id="new", content=[{"attachment": order}],
                     date="2020-01-01", relatesTo=[replaced])  # fmt: skip
    cohort = read(tmp_path, *versions, old, new)
    assert texts(cohort) == ["v10: 7", "Note; DNR; not read: the attachment holds no data"]
    assert balance(cohort)[2] == {
        "Observation is an older version of another one": 2,
        "DocumentReference was replaced by another document": 1,
    }


@pytest.mark.parametrize("place", ["masterIdentifier", "identifier"])
def test_a_document_named_by_its_identifier_is_replaced_too(tmp_path: Path, place: str) -> None:
    number = {"system": "urn:ietf:rfc:3986", "value": "urn:oid:1.2.3"}
    content = [{"attachment": {"data": base64.b64encode(b"Old dose.").decode()}}]
    stated = number if place == "masterIdentifier" else [number]
    old = of_patient("DocumentReference", id="old", content=content, **{place: stated})
    other = of_patient("DocumentReference", id="other", content=content)
    replaced = {"code": "replaces", "target": {"identifier": number}}
    new = of_patient("DocumentReference", id="new", content=content, relatesTo=[replaced])
    cohort = read(tmp_path, old, other, new)
    assert balance(cohort)[2] == {"DocumentReference was replaced by another document": 1}


def test_numbers_keep_their_digits_and_every_file_is_read_or_named(tmp_path: Path) -> None:
    line = json.dumps(patient()) + "\n" + json.dumps(
        reading("a", "K", valueInteger=None, valueQuantity={"value": 0, "unit": "g"})
    ).replace('"value": 0,', '"value": 1.10,') + "\n"  # fmt: skip
    write(tmp_path, {"A.NDJSON.GZ": gzip.compress(line.encode()), "b.JSON": reading("b", "Na"),
                     "c.ndjson": json.dumps(reading("c", "Cl")).encode("utf-16"),
                     "d.xml": '<Patient xmlns="http://hl7.org/fhir"/>', "notes.txt": "x",
                     "bad.json.gz": b"no gzip"})  # fmt: skip
    cohort = Fhir().load(str(tmp_path))
    assert texts(cohort) == ["K: 1.10 g", "Na: 7", "Cl: 7"]
    assert balance(cohort, "files")[:2] == (6, 5)
    assert "d.xml:None: is FHIR in XML, which is not read — export it as JSON" in named(cohort)


def test_fhir_in_xml_alone_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="export it as JSON"):
        Fhir().load(str(write(tmp_path, {"a.xml": '<Patient xmlns="http://hl7.org/fhir"/>'})))


def test_a_deleted_resource_of_a_history_is_left_out(tmp_path: Path) -> None:
    history = bundle(patient(), reading("a", "K"), server="https://s.example", type="history")
    history["entry"].insert(0, {"request": {"method": "DELETE", "url": "Observation/a"}})
    cohort = Fhir().load(str(write(tmp_path, {"a.json": history})))
    assert texts(cohort) == []
    assert balance(cohort) == (2, 1, {"Observation was deleted": 1})


@pytest.mark.skipif(not CASES.is_dir(), reason="the cases are not here")
@pytest.mark.parametrize(
    ("number", "expected", "absent"),
    [
        ("10", ["1@ann", "1@tom"], ""),
        ("12", ["Ketorolac 30 mg: DO NOT GIVE OR PERFORM", "PROPOSED, NOT ORDERED"], "ordered;"),
        ("13", ["CORRECTED; 14 ng/L", "PRELIMINARY; 1"], "912"),
        ("15", ["No known drug allergy: active", "REFUTED", "123456.78", "T2 N1 M0"],
         "Allergy to No"),
        ("16", ["Potassium: 5.9 mmol/L", "q"], "zzz"),
        ("17", ["Potassium: 5.9 mmol/L"], "zzz"),
        ("19", ["Potassium: 5.9 mmol/L", "Potassium: 3.1 mmol/L"], "zzz"),
        ("34", ["Long note."], "not read"),
        ("45", ["Potassium: 5.9 mmol/L", "Sodium: 140 mmol/L"], "zzz"),
    ],
)  # fmt: skip
def test_cases_that_others_reported(number: str, expected: list[str], absent: str) -> None:
    cohort = Fhir().load(str(next(CASES.glob(f"{number}-*"))))
    content = "\n".join("\n".join([id, *texts(cohort, id)]) for id in cohort.records)
    assert all(text in content for text in expected)
    assert not absent or absent not in content
    balance(cohort)
