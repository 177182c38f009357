"""FHIR bundles, resources and NDJSON become records; what is not read is named."""

from __future__ import annotations

import base64
import dataclasses
import importlib.util
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midchart.core.errors import DataError, InputError
from midchart.core.fhir.events import READ, ResourceReader, html_text
from midchart.core.fhir.values import moment
from midchart.core.loaders.check import check_cohort
from midchart.core.loaders.fhir import Fhir, invalid_resources
from midchart.core.loaders.open import open_cohort
from midchart.core.text import event_text
from midchart.core.types import Cohort

SHARED = Path(__file__).parents[4] / "shared" / "data"
PATIENT = {"resourceType": "Patient", "id": "p1", "birthDate": "1950-02", "gender": "female"}


def coded(text: str, system: str = "http://loinc.org", code: str = "1-1") -> dict[str, Any]:
    return {"coding": [{"system": system, "code": code, "display": text}]}


def ndjson(folder: Path, *resources: Any, name: str = "all.ndjson") -> Path:
    lines = (r if isinstance(r, str) else json.dumps(r) for r in resources)
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def of_patient(kind: str, **fields: Any) -> dict[str, Any]:
    return {"resourceType": kind, "subject": {"reference": "Patient/p1"}, **fields}


def texts(cohort: Cohort, record: str = "p1") -> list[str]:
    return [event_text(event) for event in cohort.records[record].events]


@pytest.mark.parametrize(
    ("resource", "text", "kind"),
    [
        (of_patient("Observation", code=coded("Glucose"),
                    valueQuantity={"value": 7.1, "unit": "mmol/L", "comparator": ">"}),
         "Glucose: >7.1 mmol/L", "measurement"),
        (of_patient("Observation", code=coded("Potassium"),
                    valueQuantity={"value": 5.9, "unit": "mmol/L"},
                    interpretation=[coded("High")],
                    referenceRange=[{"low": {"value": 3.5}, "high": {"value": 5.1}}]),
         "Potassium: 5.9 mmol/L (High; reference 3.5–5.1)", "measurement"),
        (of_patient("Observation", code=coded("Blood pressure"), component=[
            {"code": coded("Systolic"), "valueQuantity": {"value": 120, "unit": "mmHg"}},
            {"code": coded("Diastolic"), "valueQuantity": {"value": 80, "unit": "mmHg"}}]),
         "Blood pressure: Systolic 120 mmHg; Diastolic 80 mmHg", "measurement"),
        (of_patient("Observation", code=coded("Smoking"), valueCodeableConcept=coded("Never"),
                    category=[coded("Social", code="social-history")]),
         "Smoking: Never", "observation"),
        (of_patient("Observation", code=coded("Titre"),
                    valueRatio={"numerator": {"value": 1}, "denominator": {"value": 128}}),
         "Titre: 1 / 128", "measurement"),
        (of_patient("Observation", code=coded("Culture"), dataAbsentReason=coded("not done")),
         "Culture: no value not done", "measurement"),
        (of_patient("Condition", code=coded("Gout"), clinicalStatus=coded("active")),
         "Gout: active", "condition"),
        (of_patient("MedicationRequest", medicationCodeableConcept=coded("Warfarin"),
                    status="active", dosageInstruction=[{"text": "5 mg daily"}]),
         "Warfarin: prescribed; active; 5 mg daily", "drug_exposure"),
        (of_patient("MedicationAdministration", medicationReference={"reference": "#m"},
                    contained=[{"resourceType": "Medication", "id": "m", "code": coded("Heparin")}],
                    dosage={"dose": {"value": 5000, "unit": "IU"}}),
         "Heparin: administered; 5000 IU", "drug_exposure"),
        (of_patient("Procedure", code=coded("Appendectomy"), status="completed"),
         "Appendectomy: completed", "procedure"),
        (of_patient("AllergyIntolerance", code=coded("Penicillin"), criticality="high",
                    reaction=[{"manifestation": [coded("Hives")], "severity": "severe"}]),
         "Allergy to Penicillin: criticality high; reaction Hives; reaction severity severe",
         "observation"),
        (of_patient("DiagnosticReport", code=coded("CT chest"), conclusion="No embolism."),
         "No embolism.", "note"),
        (of_patient("CarePlan", category=[coded("Diabetes care")],
                    activity=[{"detail": {"code": coded("Foot check")}}]),
         "Diabetes care: activities Foot check", "observation"),
        (of_patient("Composition", type=coded("Summary"), section=[
            {"title": "Plan", "text": {"div": "<div><p>Start <b>metformin</b>.</p></div>"}}]),
         "Plan\nStart metformin.", "note"),
    ],
)  # fmt: skip
def test_resource_becomes_an_entry(
    tmp_path: Path, resource: dict[str, Any], text: str, kind: str
) -> None:
    cohort = open_cohort(ndjson(tmp_path, PATIENT, resource))
    (event,) = cohort.records["p1"].events
    assert event_text(event).startswith(text)
    assert event.kind == kind


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        ("text/plain", b"No fever.", "No fever."),
        ("text/plain; charset=latin-1", "Fi\xe8vre".encode("latin-1"), "Fi\xe8vre"),
        ("text/html", b"<html><body><p>One</p><p>Two</p><script>x()</script></body></html>",
         "One\nTwo"),
        ("application/rtf", rb"{\rtf1\ansi Chest \b pain\b0 .}", "Chest pain."),
        ("text/rtf", rb"{\rtf1\ansi Well \u-10179?\u-8704? or \u-10179? not.}",
         "Well \U0001f600 or \ufffd not."),
    ],
)  # fmt: skip
def test_attachments_become_notes(tmp_path: Path, kind: str, data: bytes, text: str) -> None:
    attachment = {"contentType": kind, "data": base64.b64encode(data).decode()}
    note = of_patient(
        "DocumentReference",
        id="n1",
        type=coded("Progress note"),
        author=[{"display": "Dr. Wu"}],
        content=[{"attachment": attachment}],
    )
    cohort = open_cohort(ndjson(tmp_path, PATIENT, note))
    (event,) = cohort.records["p1"].events
    assert (event.kind, event.text.strip(), event.note_id) == ("note", text, "n1")
    assert (event.name, event.author) == ("Progress note", "Dr. Wu")


@pytest.mark.parametrize(
    ("kind", "data", "reason"),
    [
        ("text/plain; charset=punycode", b"hello-99zz", "names a charset that is not known"),
        ("text/plain; charset=undefined", b"hello", "names a charset that is not known"),
        ("text/rtf", rb"{\rtf1 \u1114112? hi}", "is RTF with a character or charset that is none"),
    ],
)
def test_an_attachment_that_is_not_read_is_named_with_its_reason(
    tmp_path: Path, kind: str, data: bytes, reason: str
) -> None:
    attachment = {"contentType": kind, "data": base64.b64encode(data).decode()}
    note = of_patient("DocumentReference", id="n1", content=[{"attachment": attachment}])
    cohort = open_cohort(ndjson(tmp_path, PATIENT, note))
    (event,) = cohort.records["p1"].events
    assert f"not read: the attachment {reason}" in event.text
    assert cohort.skipped == []
    assert any(reason in warning for warning in cohort.warnings)


def test_attachment_in_a_binary_resource_is_read_and_a_pdf_is_named(tmp_path: Path) -> None:
    stored = {"resourceType": "Binary", "id": "b1", "contentType": "text/plain",
              "data": base64.b64encode(b"Stable.").decode()}  # fmt: skip
    notes = [
        of_patient("DocumentReference", id=str(n), content=[{"attachment": attachment}])
        for n, attachment in enumerate(
            ({"url": "Binary/b1"}, {"contentType": "application/pdf", "data": "JVBERi0="},
             {"url": "https://elsewhere.example/note.txt", "contentType": "text/plain"})
        )
    ]  # fmt: skip
    cohort = open_cohort(ndjson(tmp_path, PATIENT, *notes, stored))
    unread = [text for text in texts(cohort) if text != "Stable."]
    assert len(unread) == 2 and all("not read" in text for text in unread)
    named = " ".join(cohort.warnings)
    assert "all.ndjson:3: DocumentReference has an attachment that is application/pdf" in named
    assert "all.ndjson:4" in named
    assert "not among these" in named


@pytest.mark.parametrize(
    "subject",
    [
        {"reference": "Patient/p1"},
        {"reference": "https://ehr.example/fhir/Patient/p1/_history/3"},
        {"reference": "urn:uuid:1111"},
        {"reference": "Patient?identifier=mrn|77"},
        {"type": "Patient", "identifier": {"system": "mrn", "value": "77"}},
    ],
)
def test_every_form_of_reference_finds_its_patient(tmp_path: Path, subject: Any) -> None:
    patient = PATIENT | {"identifier": [{"system": "mrn", "value": "77"}]}
    entries = [
        {"fullUrl": "urn:uuid:2222", "resource": of_patient("Procedure", code=coded("X"))},
        {"fullUrl": "urn:uuid:1111", "resource": patient},
    ]
    entries[0]["resource"]["subject"] = subject
    bundle = {"resourceType": "Bundle", "type": "transaction", "entry": entries}
    (tmp_path / "bundle.json").write_text(json.dumps(bundle))
    for place in (tmp_path, tmp_path / "bundle.json"):
        cohort = open_cohort(place)
        assert texts(cohort) == ["X: recorded"]
        assert dict(cohort.records["p1"].facts)["birthdate"] == "1950-02"


def test_everything_is_read_or_named_with_its_place(tmp_path: Path) -> None:
    cohort = open_cohort(
        ndjson(
            tmp_path,
            PATIENT,
            "{ this is not JSON",
            {"no": "type"},
            {"resourceType": "Observation", "code": coded("Whose?")},
            of_patient("Condition", code=coded("Wrong"), status="entered-in-error"),
            of_patient("Claim"),
            of_patient("Spaceship"),
            {"resourceType": "Procedure", "id": "a", "subject": {"reference": "Patient/p1"}},
            {"resourceType": "Procedure", "id": "a", "subject": {"reference": "Patient/p1"}},
            {"resourceType": "Procedure", "subject": {"reference": "urn:uuid:nobody"}},
            of_patient("Observation", code=7, valueQuantity=[[]], component="no"),
            "[" * 100_000,
            '{"resourceType": "Observation", "valueInteger": ' + "9" * 5000 + "}",
        )
    )
    check_cohort(cohort)
    named = [f"{s.line} {s.reason}" for s in cohort.skipped]
    for line, word in ((2, "JSON"), (3, "resourceType"), (4, "no patient"),
                       (10, "cannot be identified")):  # fmt: skip
        assert any(n.startswith(f"{line} ") and word in n for n in named), (line, word, named)
    assert any("more than 64 levels" in n for n in named)
    assert any("number of too many digits" in n for n in named)
    warned = " ".join(cohort.warnings)
    assert "1 Claim resources" in warned
    assert "billing" in warned
    assert "1 Spaceship resources" in warned
    assert "all.ndjson:5: Condition was entered in error" in warned
    assert "all.ndjson:9: Procedure is an exact duplicate of another one" in warned


def test_times_are_local_partial_dates_their_first_day_and_undated_entries_come_first() -> None:
    assert moment("2020-03-01T23:30:00-05:00") == datetime(2020, 3, 1, 23, 30)
    assert moment("2020") == datetime(2020, 1, 1)
    assert moment({"end": "2020-03"}) == datetime(2020, 3, 1)
    assert moment("soon") is None


def test_undated_entries_come_first_and_what_ended_reports_it_only_at_its_end(
    tmp_path: Path,
) -> None:
    gout = of_patient("Condition", code=coded("Gout"), clinicalStatus=coded("resolved"),
                      onsetDateTime="2019-01-01", abatementDateTime="2021-01-01")  # fmt: skip
    device = {"resourceType": "Device", "patient": {"reference": "Patient/p1"},
              "type": coded("Pacemaker")}  # fmt: skip
    cohort = open_cohort(ndjson(tmp_path, PATIENT, gout, device))
    assert texts(cohort) == ["Pacemaker: recorded", "Gout (start)", "Gout (end)"]


def test_file_that_changes_after_it_was_opened_is_refused(tmp_path: Path) -> None:
    cohort = open_cohort(ndjson(tmp_path, PATIENT, of_patient("Procedure", code=coded("X"))))
    ndjson(tmp_path, PATIENT, of_patient("Procedure", code=coded("Another one")))
    with pytest.raises(DataError, match="open the cohort again"):
        cohort.records["p1"]


def test_questions_next_to_the_files_are_read(tmp_path: Path) -> None:
    ndjson(tmp_path, PATIENT, of_patient("DiagnosticReport", conclusion="No embolism."))
    rows = "filename\tquestion\tevidence\tclinician_response\np1\tEmbolism?\tNo embolism.\tNo\n"
    (tmp_path / "questions.tsv").write_text(rows)
    cohort = open_cohort(tmp_path)
    (gold,) = cohort.gold.values()
    assert gold.spans


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(("coding", "text", "value", "start", "low", "detail", "reference")),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)
FIELDS = (
    *("code", "status", "period", "type", "content", "component", "category", "valueQuantity"),
    *("referenceRange", "dosageInstruction", "section", "activity", "reaction", "encounter"),
    *("onsetDateTime", "medicationReference", "contained", "presentedForm", "author", "note"),
)


@given(st.sampled_from(sorted(READ)), st.dictionaries(st.sampled_from(FIELDS), JSON))
def test_any_json_gives_entries_or_one_of_the_errors_that_are_named(
    kind: str, fields: dict[str, Any]
) -> None:
    reader = ResourceReader(lambda link: "", lambda link: None)
    try:
        entries = reader.entries({"resourceType": kind, **fields})
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        return
    for entry in entries:
        assert all(isinstance(part, str) for part in entry[1:8])


def test_html_has_a_line_for_each_block_and_no_scripts() -> None:
    assert html_text("<ul><li>a<li>b</ul><script>c</script>d<br>e") == "- a\n- b\nd\ne"


def resources_in(folder: Path) -> list[dict[str, Any]]:
    """Every resource of the open samples, by the json module alone."""
    lines = [line for file in folder.glob("*.ndjson") for line in file.open(encoding="utf-8")]
    bundles = [json.loads(file.read_bytes()) for file in folder.glob("*.json")]
    resources = [json.loads(line) for line in lines]
    resources += [entry["resource"] for bundle in bundles for entry in bundle["entry"]]
    return [resource for resource in resources if "resourceType" in resource]


@pytest.mark.skipif(not SHARED.is_dir(), reason="the open samples are not here")
@pytest.mark.parametrize(("folder", "patients"), [("synthea_fhir", 8), ("synthea_bulk", 13)])
def test_open_samples_are_read_whole(folder: str, patients: int) -> None:
    cohort = Fhir().load(str(SHARED / folder))
    report = check_cohort(cohort)
    assert report["records"] == patients
    assert report["skipped"] == []
    resources = resources_in(SHARED / folder)
    read = sum(r["resourceType"] in READ and r.get("status") != "superseded" for r in resources)
    ends = sum(event.text == "end" for r in cohort.records.values() for event in r.events)
    deaths = sum(event.kind == "death" for r in cohort.records.values() for event in r.events)
    assert report["events"] - ends - deaths == read
    accounts = {part: a for part, a in cohort.accounts.items() if part[1] == "resources"}
    assert sum(account.total for account in accounts.values()) == len(resources)
    assert sum(account.shown for account in accounts.values()) == read + patients
    assert all(account.unaccounted == 0 for account in cohort.accounts.values())


def test_resources_are_validated_against_r4b_without_their_values(tmp_path):
    """One line a reason, with the number of resources and the first line; no value is repeated."""
    observation = of_patient("Observation", status="final", code=coded("Pulse"))
    wrong = observation | {"valueQuantity": {"value": "SECRET"}}
    ndjson(tmp_path, PATIENT, observation, wrong, wrong, observation | {"SECRET": 1},
           of_patient("Observation", status="final"), {"resourceType": "SECRET"},
           observation | {"contained": [{"resourceType": ["SECRET"]}]}, "{SECRET")  # fmt: skip
    report = check_cohort(open_cohort(tmp_path), validate=True)
    assert [(row["line"], row["reason"]) for row in report["invalid"]] == [
        (3, "Observation.valueQuantity.value has a value that does not follow R4B (2 resources, "
            "the first is here)"),
        (5, "Observation has an element that R4B does not define"),
        (6, "Observation.code is missing"),
        (7, "names a resourceType that R4B does not define"),
        (8, "Observation cannot be validated — fhir.resources fails on it"),
    ]  # fmt: skip


def test_what_cannot_be_validated_is_refused(tmp_path, monkeypatch):
    cohort = open_cohort(ndjson(tmp_path, PATIENT, of_patient("Condition", code=coded("Asthma"))))
    with pytest.raises(InputError, match="not in FHIR"):
        invalid_resources(dataclasses.replace(cohort, format="text"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="docs/optional"):
        invalid_resources(cohort)
