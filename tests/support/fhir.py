"""Small FHIR resources and bundles for tests, and what a cohort makes of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from midchart.core.loaders.check import check_cohort
from midchart.core.text import event_text
from midchart.core.types import Cohort

Json = Any


def patient(id: str = "p1", family: str = "", **more: Json) -> dict[str, Json]:
    """A Patient; ``family`` is the name in use."""
    name = {"name": [{"use": "official", "family": family}]} if family else {}
    return {"resourceType": "Patient", "id": id, **name, **more}


def of_patient(kind: str, patient: str = "Patient/p1", **fields: Json) -> dict[str, Json]:
    """A resource whose subject is the reference ``patient``."""
    return {"resourceType": kind, "subject": {"reference": patient}, **fields}


def reading(id: str, text: str, patient: str = "Patient/p1", **more: Json) -> dict[str, Json]:
    """A final Observation that is named ``text``."""
    fields = {"id": id, "status": "final", "code": {"text": text}, "valueInteger": 7}
    return of_patient("Observation", patient, **(fields | more))


def bundle(*resources: Json, server: str = "", type: str = "collection") -> dict[str, Json]:
    """A Bundle; with a ``server``, each entry has its full URL there."""
    entries: list[dict[str, Json]] = [{"resource": resource} for resource in resources]
    for entry in entries if server else ():
        resource = entry["resource"]
        entry["fullUrl"] = f"{server}/{resource['resourceType']}/{resource['id']}"
    return {"resourceType": "Bundle", "type": type, "entry": entries}


def write(folder: Path, files: Mapping[str, Json]) -> Path:
    """Files by relative name: bytes and text as they are, a tuple as NDJSON, all else as JSON."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, tuple):
            content = "\n".join(map(json.dumps, content)) + "\n"
        elif not isinstance(content, str | bytes):
            content = json.dumps(content)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def texts(cohort: Cohort, record: str = "p1") -> list[str]:
    """The texts of a record's events."""
    return [event_text(event) for event in cohort.records[record].events]


def named(cohort: Cohort) -> str:
    """All that the check of a cohort names, one a line."""
    report = check_cohort(cohort)
    skips = (f"{s['file']}:{s['line']}: {s['reason']}" for s in report["skipped"])
    return "\n".join([*skips, *report["warnings"]])


def resources_of(documents: Iterable[Json]) -> list[dict[str, Json]]:
    """Every resource of JSON documents, also in bundles and arrays, that is no Bundle."""
    resources: list[dict[str, Json]] = []
    for document in documents:
        if isinstance(document, list | tuple):
            resources += resources_of(document)
        elif document.get("resourceType") == "Bundle":
            entries = document.get("entry", ())
            resources += resources_of(e["resource"] for e in entries if "resource" in e)
        else:
            resources.append(document)
    return resources


def balance(cohort: Cohort, what: str = "resources") -> tuple[int, int, dict[str, int]]:
    """Total and shown parts of a cohort whose records were all read, and the others by reason.

    Fails where an account has parts without a reason.
    """
    assert len(list(cohort.records.values())) == len(cohort.records)
    total = shown = 0
    reasons: dict[str, int] = {}
    for (part, kind), account in cohort.accounts.items():
        assert account.unaccounted == 0, part
        if kind == what:
            total, shown = total + account.total, shown + account.shown
            for reason, number in account.reasons:
                reasons[reason] = reasons.get(reason, 0) + number
    return total, shown, reasons
