"""One FHIR R4 or R4B resource as entries of a chart.

Kinds are OMOP's tables (note, condition, measurement, ...), codes are written ``VOCABULARY/code``
and times are the local clock times that the resource states; an offset is dropped, as charts are
read in local time. A resource that was entered in error, and an attachment that holds no text
that can be read, give a reason in place of an entry.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from core.loaders.attachments import base64_text
from core.loaders.files import parse_time
from core.loaders.records import Entry, entry
from core.text.markup import html_text

Resource = Mapping[str, Any]
Lookup = Callable[[str], str]
"""Reference → the display text of the resource it names, or ""."""
Attachment = Callable[[str], Resource | None]
"""Reference → the Binary resource it names, or None where the files hold none."""

_VOCABULARIES = {
    "http://snomed.info/sct": "SNOMED",
    "http://loinc.org": "LOINC",
    "http://www.nlm.nih.gov/research/umls/rxnorm": "RxNorm",
    "http://hl7.org/fhir/sid/icd-10-cm": "ICD10CM",
    "http://hl7.org/fhir/sid/icd-10": "ICD10",
    "http://hl7.org/fhir/sid/icd-9-cm": "ICD9CM",
    "http://hl7.org/fhir/sid/cvx": "CVX",
    "http://hl7.org/fhir/sid/ndc": "NDC",
    "http://www.ama-assn.org/go/cpt": "CPT4",
    "http://unitsofmeasure.org": "UCUM",
}
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_PARTIAL_DATE = re.compile(r"(\d{4})(?:-(\d{2}))?")


def clean(value: Any) -> str:
    """A string with lone surrogates replaced by U+FFFD; "" for what is no string or number."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}" if 1e-4 <= abs(value) < 1e6 else f"{value:.15g}"
    if isinstance(value, int):
        return str(value)
    return _SURROGATE.sub("\ufffd", value).strip() if isinstance(value, str) else ""


def _items(value: Any) -> list[Any]:
    """The elements of a JSON array; a single object counts as an array of one."""
    return value if isinstance(value, list) else [] if value is None else [value]


def objects(value: Any) -> Iterator[Resource]:
    """The objects of a JSON array, or a single object; nothing for anything else."""
    return (item for item in _items(value) if isinstance(item, dict))


def _object(value: Any) -> Resource:
    """The first object of an element; an empty one where there is none."""
    return next(objects(value), {})


def moment(value: Any) -> datetime | None:
    """The naive moment of a FHIR date, dateTime, instant, Period or Timing; its first one.

    A year or a month alone is its first day.
    """
    if isinstance(value, dict):
        times = (value.get("start"), *_items(value.get("event")), value.get("end"))
        return next((parsed for time in times if (parsed := moment(time)) is not None), None)
    if not isinstance(value, str):
        return None
    partial = _PARTIAL_DATE.fullmatch(value.strip())
    if partial:
        value = f"{partial[1]}-{partial[2] or '01'}-01"
    return parse_time(value)


def concept(value: Any) -> tuple[str, str]:
    """Code (``VOCABULARY/code``) and text of a CodeableConcept, a Coding or a code; the first one
    of several."""
    value = next(iter(_items(value)), None)
    if not isinstance(value, dict):
        return "", clean(value)
    if isinstance(value.get("concept"), dict):  # R5's CodeableReference
        return concept(value["concept"])
    coding = next(objects(value.get("coding")), value)
    code, system = clean(coding.get("code")), clean(coding.get("system"))
    vocabulary = _VOCABULARIES.get(system, re.split(r"[/:]", system)[-1])
    text = clean(value.get("text")) or clean(coding.get("display")) or code
    return (f"{vocabulary}/{code}" if code and vocabulary else code), text


def reference(value: Any) -> str:
    """The reference of a Reference element; an identifier alone as ``Type?identifier=system|v``."""
    if not isinstance(value, dict):
        return ""
    if clean(value.get("reference")):
        return clean(value["reference"])
    identifier = value.get("identifier")
    if not isinstance(identifier, dict) or not clean(identifier.get("value")):
        return ""
    stated = f"{clean(identifier.get('system'))}|{clean(identifier['value'])}"
    return f"{clean(value.get('type')) or 'Patient'}?identifier={stated}"


def shown(value: Any) -> str:
    """A value of any FHIR data type as text; several are joined by commas."""
    if isinstance(value, list):
        return ", ".join(filter(None, map(shown, value)))
    if not isinstance(value, dict):
        return clean(value)
    if value.get("low") or value.get("high"):  # Range, ReferenceRange
        low, high = shown(value.get("low")), shown(value.get("high"))
        return f"{low}–{high}" if low and high else f"≥ {low}" if low else f"≤ {high}"
    if "numerator" in value:
        return f"{shown(value['numerator'])} / {shown(value.get('denominator'))}"
    if "start" in value or "end" in value:
        return f"{clean(value.get('start'))} to {clean(value.get('end'))}"
    if isinstance(value.get("value"), int | float | str):
        return " ".join(filter(None, quantity(value)))
    if isinstance(value.get("data"), str):  # SampledData
        return clean(value["data"])
    return concept(value)[1] or clean(value.get("title"))


def quantity(value: Resource) -> tuple[str, str]:
    """Value (with its comparator) and unit of a Quantity."""
    number = clean(value.get("comparator")) + clean(value.get("value"))
    return number, clean(value.get("unit")) or clean(value.get("code"))


def values(resource: Resource, path: str) -> list[Any]:
    """The values at a dotted path; every element of the arrays on the way."""
    reached: list[Any] = [resource]
    for name in path.split("."):
        reached = [v for r in reached if isinstance(r, dict) for v in _items(r.get(name))]
    return reached


def _parts(resource: Resource, parts: tuple[str, ...]) -> str:
    """``label: path`` or ``path`` each, as text where there is a value, joined by semicolons."""
    texts: list[str] = []
    for part in parts:
        label, _, path = part.rpartition(": ")
        text = shown(values(resource, path))
        if text:
            texts.append(f"{label} {text}" if label else text)
    return "; ".join(texts)


def _measured(resource: Resource) -> tuple[str, str]:
    """Text and unit of ``value[x]`` with interpretation and reference range, or why there is
    none; the unit is apart where it is a plain quantity."""
    name = next((n for n in resource if n.startswith("value") and n != "value"), "")
    value = resource.get(name)
    flags = _parts(resource, ("interpretation", "reference: referenceRange.text"))
    if "reference" not in flags:
        limits = "reference: referenceRange"
        flags = _parts(resource, ("interpretation", limits))
    if name == "valueQuantity" and isinstance(value, dict) and not flags:
        return quantity(value)
    text = shown(value)
    if not name:
        text = _parts(resource, ("no value: dataAbsentReason",))
    return f"{text} ({flags})" if text and flags else text or flags, ""


def attachment_text(attachment: Resource, binary: Attachment) -> tuple[str, str]:
    """Text of an Attachment, or "" and the reason why it has none that can be read."""
    data, kind = attachment.get("data"), clean(attachment.get("contentType"))
    if not data and attachment.get("url"):
        stored = binary(clean(attachment["url"]))
        if stored is None:
            return "", "points to a file that is not among these"
        data = stored.get("data")
        kind = kind or clean(stored.get("contentType"))
    return base64_text(data if isinstance(data, str) else "", kind)


# Resource types: most are a kind, the fields that date and name them, and the parts of their text.


@dataclass(frozen=True, slots=True)
class _Form:
    """How a resource type becomes an entry: fields in the order in which they are looked for.

    ``parts``: ``path`` or ``label: path`` of what its text says.
    """

    kind: str
    times: tuple[str, ...]
    names: tuple[str, ...]
    parts: tuple[str, ...]
    opening: str = ""
    prefix: str = ""
    fallback: str = ""


_DRUG_TIMES = (
    *("authoredOn", "effectiveDateTime", "effectivePeriod", "occurrenceDateTime"),
    *("occurrencePeriod", "whenHandedOver", "dateAsserted"),
)
_DRUG_PARTS = ("status", "reason: reasonCode", "because: statusReason", "note.text")


def _drug(opening: str) -> _Form:
    names = ("medicationCodeableConcept", "medication.concept")
    return _Form("drug_exposure", _DRUG_TIMES, names, _DRUG_PARTS, opening)


_FORMS = {
    "Encounter": _Form(
        "visit", ("period",), ("type", "serviceType", "class"),
        ("class: class", "reason: reasonCode", "status: status",
         "discharged to: hospitalization.dischargeDisposition"), fallback="Encounter",
    ),
    "Condition": _Form(
        "condition", ("onsetDateTime", "onsetPeriod", "recordedDate"), ("code",),
        ("clinicalStatus", "verificationStatus", "severity: severity", "site: bodySite",
         "onset at: onsetAge", "onset: onsetString", "note.text"),
    ),
    "Observation": _Form(
        "measurement",
        ("effectiveDateTime", "effectivePeriod", "effectiveInstant", "effectiveTiming", "issued"),
        ("code",), ("note.text",),
    ),
    "MedicationRequest": _drug("prescribed"),
    "MedicationStatement": _drug("reported"),
    "MedicationAdministration": _drug("administered"),
    "MedicationDispense": _drug("dispensed"),
    "Procedure": _Form(
        "procedure", ("performedDateTime", "performedPeriod", "occurrenceDateTime"), ("code",),
        ("status", "reason: reasonCode", "site: bodySite", "outcome: outcome",
         "complication: complication", "performedString", "note.text"),
    ),
    "Immunization": _Form(
        "drug_exposure", ("occurrenceDateTime", "recorded"), ("vaccineCode",),
        ("status", "reason: statusReason", "dose: doseQuantity", "on: occurrenceString",
         "reaction: reaction.detail.display", "note.text"), "vaccination",
    ),
    "AllergyIntolerance": _Form(
        "observation", ("onsetDateTime", "onsetPeriod", "recordedDate"), ("code",),
        ("type", "category", "criticality: criticality", "reaction: reaction.manifestation",
         "reaction severity: reaction.severity", "clinicalStatus", "verificationStatus",
         "note.text"), prefix="Allergy to ",
    ),
    "DiagnosticReport": _Form(
        "procedure", ("effectiveDateTime", "effectivePeriod", "issued"), ("code",),
        ("status", "results: result.display"),
    ),
    "DocumentReference": _Form("note", ("date", "context.period"), ("type", "category"), ()),
    "Composition": _Form("note", ("date",), ("type", "title"), ()),
    "CarePlan": _Form(
        "observation", ("period", "created"), ("category", "title"),
        ("title", "description", "status", "activities: activity.detail.code",
         "activities: activity.detail.description", "goals: goal.display", "note.text"),
        fallback="Care plan",
    ),
    "ServiceRequest": _Form(
        "procedure", ("authoredOn", "occurrenceDateTime", "occurrencePeriod"), ("code",),
        ("status", "reason: reasonCode", "note.text"), "ordered",
    ),
    "Goal": _Form(
        "observation", ("startDate", "statusDate"), ("description",),
        ("lifecycleStatus", "achievementStatus", "note.text"), "goal",
    ),
    "FamilyMemberHistory": _Form(
        "observation", ("date",), ("relationship", "name"),
        ("condition.code", "died: deceasedBoolean", "note.text"), prefix="Family history: ",
    ),
    "ImagingStudy": _Form(
        "image", ("started",), ("procedureCode",),
        ("description", "series.modality", "series.bodySite"), fallback="Imaging study",
    ),
    "Device": _Form("device_exposure", (), ("type", "deviceName.name"), ("status", "modelNumber")),
}  # fmt: skip
READ = frozenset(_FORMS)
"""Resource types that become entries; every other type is counted and named."""
_OBSERVED = frozenset(("social-history", "survey", "exam"))
_ENDED = frozenset(("resolved", "inactive", "remission"))


class ResourceReader:
    """Turns resources into entries; ``problems`` takes the reasons of what was not read."""

    def __init__(self, display: Lookup, binary: Attachment) -> None:
        self._display, self._binary = display, binary
        self.problems: list[str] = []

    def entries(self, resource: Resource) -> list[Entry]:
        """The entries of a resource of a type in :data:`READ`; [] where it states nothing."""
        if {"entered-in-error"} & {
            clean(resource.get("status")),
            concept(resource.get("verificationStatus"))[0].rpartition("/")[2],
        }:
            self.problems.append("was entered in error")
            return []
        kind = resource["resourceType"]
        form = _FORMS[kind]
        time = next(
            filter(None, (moment(v) for t in form.times for v in values(resource, t))), None
        )
        named = next((c for n in form.names if (c := concept(values(resource, n)))[1]), ("", ""))
        text = "; ".join(filter(None, (form.opening, _parts(resource, form.parts))))
        unit = ""
        if kind in ("DocumentReference", "DiagnosticReport", "Composition"):
            bodies = self._bodies(resource)
            if bodies or form.kind == "note":
                title = named[1] or clean(resource.get("description")) or "Note"
                note_id, visit = clean(resource.get("id")), _visit(resource)
                author = shown(values(resource, "author.display"))
                return [
                    (time, "note", named[0], title, body, "", note_id, visit, None, author)
                    for body in bodies
                ]
        elif kind.startswith("Medication"):
            doses = values(resource, "dosageInstruction") + values(resource, "dosage")
            text = "; ".join(filter(None, (text, *map(_dosage, doses))))
            named = named if named[1] else ("", self._medicine(resource))
        elif kind == "Observation":
            text, unit = _observed(resource, text)
            categories = {concept(c)[0].rpartition("/")[2] for c in values(resource, "category")}
            if categories & _OBSERVED:
                form = replace(form, kind="observation")
        name = form.prefix + named[1] if named[1] else form.fallback or form.prefix + kind
        visit = shown(values(resource, "id")) if kind == "Encounter" else _visit(resource)
        one = entry(
            time,
            form.kind,
            code=named[0],
            name=name,
            text=text or "recorded",
            unit=unit,
            visit_id=visit,
        )
        ends = {"Encounter": "period.end", "Condition": "abatementDateTime"}.get(kind, "")
        end = moment(next(iter(values(resource, ends)), None)) if ends else None
        if end is None or (time is not None and end.date() <= time.date()):
            return [one]
        if kind == "Condition" and concept(resource.get("clinicalStatus"))[1].lower() in _ENDED:
            # That it ended was not known when it began.
            one = (*one[:4], "start", *one[5:])
        return [one, (end, *one[1:4], "end", *one[5:])]

    def _medicine(self, resource: Resource) -> str:
        link = _object(resource.get("medicationReference")) or _object(
            _object(resource.get("medication")).get("reference")
        )
        for held in objects(resource.get("contained")):
            if reference(link) == f"#{held.get('id')}":
                return concept(held.get("code"))[1]
        return self._display(reference(link)) or clean(link.get("display")) or "not named"

    def _bodies(self, resource: Resource) -> list[str]:
        """The texts of a document or report; of a report one, of what it concludes and shows."""
        bodies: list[str] = []
        for attachment in values(resource, "content.attachment") + values(
            resource, "presentedForm"
        ):
            text, problem = attachment_text(_object(attachment), self._binary)
            if problem:
                self.problems.append(f"has an attachment that {problem}")
            else:
                bodies.append(text)
        if resource["resourceType"] == "DocumentReference":
            return bodies
        concluded = _parts(resource, ("conclusion",)) or _parts(resource, ("conclusionCode",))
        sections = list(_sections(resource, 0))
        joined = "\n".join(filter(None, (concluded, *sections, *bodies)))
        return [joined] if joined else []


def _sections(resource: Resource, depth: int) -> Iterator[str]:
    for section in objects(resource.get("section")):
        yield clean(section.get("title"))
        yield html_text(clean(_object(section.get("text")).get("div")))
        if depth < 10:
            yield from _sections(section, depth + 1)


def _observed(resource: Resource, notes: str) -> tuple[str, str]:
    text, unit = _measured(resource)
    components = [
        f"{concept(part.get('code'))[1]} {' '.join(filter(None, _measured(part)))}"
        for part in objects(resource.get("component"))
    ]
    if components or notes:
        return "; ".join(filter(None, (f"{text} {unit}".strip(), *components, notes))), ""
    return text, unit


def _visit(resource: Resource) -> str:
    held = values(resource, "encounter") + values(resource, "context.encounter")
    stated = held or values(resource, "context")
    return reference(next(iter(stated), None)).rpartition("/")[2]


def _dosage(dose: Any) -> str:
    stated = _object(dose)
    if clean(stated.get("text")):
        return clean(stated["text"])
    amount = values(stated, "doseAndRate.doseQuantity") or values(stated, "dose")
    repeat = _object(_object(stated.get("timing")).get("repeat"))
    often = [clean(repeat.get(k)) for k in ("frequency", "period", "periodUnit")]
    rate = f"{often[0]} per {often[1]} {often[2]}" if all(often) else ""
    rate = rate or shown(values(stated, "timing.code"))
    needed = "as needed" if stated.get("asNeededBoolean") is True else ""
    return " ".join(filter(None, (shown(amount), rate, shown(stated.get("route")), needed)))
