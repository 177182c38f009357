"""FHIR bundles, resources and NDJSON become records; what is not read is named."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midchart.core.documents.payloads import payload_text
from midchart.core.errors import InputError
from midchart.core.fhir.events import READ, ResourceReader, html_text
from midchart.core.fhir.values import moment
from midchart.core.loaders.check import check_cohort
from midchart.core.loaders.fhir import invalid_resources
from midchart.core.loaders.open import open_cohort

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


def test_times_are_local_partial_dates_their_first_day_and_undated_entries_come_first() -> None:
    assert moment("2020-03-01T23:30:00-05:00").replace(tzinfo=None) == datetime(2020, 3, 1, 23, 30)
    assert moment("2020") == datetime(2020, 1, 1)
    assert moment({"end": "2020-03"}) == datetime(2020, 3, 1)
    assert moment("soon") is None


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
    reader = ResourceReader(lambda link: None, payload_text)
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
@pytest.mark.parametrize(
    ("folder", "patients"),
    [("synthea_fhir", 8), pytest.param("synthea_bulk", 13, marks=pytest.mark.slow)],
)
def test_open_samples_are_read_whole(folder: str, patients: int) -> None:
    cohort = open_cohort(SHARED / folder)
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
