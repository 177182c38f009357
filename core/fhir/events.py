"""One FHIR resource (R4, R4B, and the leftovers of older releases) as entries of a chart.

Kinds are OMOP's tables (note, condition, measurement, ...) and "immunization". Most types are a
:class:`_Form`: the fields that date and name an entry and those that open its text; what else the
resource states follows in words, so that nothing clinical is dropped. What is planned or negated
says so at the head of its text (:mod:`midchart.core.cohorts.status`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache

import msgspec

from midchart.core.cohorts.records import Entry, entry
from midchart.core.cohorts.status import Status, classify, stated
from midchart.core.fhir.status import FIELDS, REVISED, extension_codes, status_of
from midchart.core.fhir.values import (
    Resource,
    annotation,
    below,
    clean,
    codes,
    concept,
    dosage,
    extension_texts,
    first_object,
    items,
    label,
    medicine,
    moment,
    objects,
    person_name,
    quantity,
    reference,
    shown,
    values,
)
from midchart.core.text import SENTENCE_TOKENS, count_tokens
from midchart.core.text.markup import html_text

Find = Callable[[str], Resource | None]
"""Reference → the Medication, Practitioner, Binary or Questionnaire that it names; None where the
files hold none."""
Payload = Callable[[str | bytes, str], tuple[str, str]]
"""Content and MIME type → its text, or "" and the reason why it has none that can be read."""


@dataclass(frozen=True, slots=True)
class _Form:
    """How a resource type becomes an entry: fields in the order in which they are looked for.

    ``parts``: ``path`` or ``label: path`` of what its text says first. ``opening``: its first word
    where it is neither planned nor negated. ``ends``: when something ended that lasts.
    """

    kind: str
    names: tuple[str, ...] = ("code",)
    parts: tuple[str, ...] = ("status",)
    opening: str = ""
    prefix: str = ""
    fallback: str = ""
    attachments: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()


_TIMES = (
    *("authoredOn", "dateWritten", "orderedOn", "onsetDateTime", "onsetPeriod"),
    *("effectiveDateTime", "effectivePeriod", "effectiveInstant", "effectiveTiming"),
    *("performedDateTime", "performedPeriod", "occurrenceDateTime", "occurrencePeriod"),
    *("effectiveTimeDateTime", "effectiveTimePeriod", "identifiedDateTime", "identifiedPeriod"),
    *("timingDateTime", "timingPeriod", "whenHandedOver", "whenPrepared", "createdDateTime"),
    *("createdPeriod", "collection.collectedDateTime", "collection.collectedPeriod", "started"),
    *("receivedTime", "startDate", "statusDate", "date", "dateTime", "authored", "sent"),
    *("detected", "recordedDate", "dateRecorded", "assertedDate", "dateAsserted", "recorded"),
    *("recordedOn", "context.period", "period", "actualPeriod", "plannedStartDate", "received"),
    *("start", "created", "indexed", "issued"),
)  # fmt: skip
"""Elements that date a resource of any type, the first that is there before the others."""
_SILENT = frozenset((
    *("entry", "mode", "orderedBy", "resourceType", "id", "meta", "implicitRules", "language"),
    *("text", "contained", "extension", "modifierExtension", "identifier", "masterIdentifier"),
    *("subject", "patient", "encounter", "context", "instantiatesCanonical", "instantiatesUri"),
    *("instantiates", "basedOn", "partOf", "replaces", "relatesTo", "groupIdentifier"),
    *("requisition", "category", "performer", "recorder", "asserter", "requester", "reporter"),
    *("participant", "informationSource", "author", "source", "sender", "recipient", "location"),
    *("serviceProvider", "account", "statusHistory", "classHistory", "custodian", "authenticator"),
    *("insurance", "eventHistory", "owner", "note", "dosage", "dosageInstruction", "request"),
    *("fhir_comments", "performerType", "url", "primarySource", "medicationCodeableConcept"),
    *("medicationReference", "medication", "docStatus", "responsibleOrganization"),
    *("managingOrganization", "confidentiality", "collection", "dispenser", "receiver"),
    *("destination", "dosageText", "episodeOfCare", "appointment", "abatementDateTime"),
    *("abatementPeriod", "interpretation", "referenceRange", "component", "dataAbsentReason"),
    *("focus", "value", "report", "reaction", "expirationDate", "resultsInterpreter"),
    *("conclusion", "codedDiagnosis", "activity", "careTeam", "contributor", "condition"),
    *("series", "modality", "endpoint", "numberOfSeries", "numberOfInstances", "interpreter"),
    *("uid", "accession", "content", "height", "width", "frames", "operator", "deviceName"),
    *("udiCarrier", "distinctIdentifier", "serialNumber", "lotNumber", "contact"),
    *("manufactureDate", "team", "careManager", "assessor", "organization", "grantor", "grantee"),
    *("controller", "manager", "reference", "payload", "accessionIdentifier", "item"),
    *("questionnaire", "active", "image", "authority", "immunizationEvent"),
))  # fmt: skip
"""Elements that administer the record, that say nothing of the patient, or that :func:`_content`
puts into words."""

_REASONS = ("reason: reasonCode", "reason: reasonReference", "reason: reason")
_STATED = _Form("observation", ("code", "type", "category"))
_DRUG = _Form(
    "drug_exposure", ("medicationCodeableConcept", "medication"),
    ("status", *_REASONS, "because: statusReason", "because: reasonNotGiven"),
)  # fmt: skip
_ORDER = _Form(
    "procedure", ("code", "type", "codeCodeableConcept", "item.code"),
    ("status", *_REASONS, "to be done: occurrenceDateTime", "to be done: occurrencePeriod",
     "to be done: occurrenceTiming"), "ordered",
)  # fmt: skip
_FORMS = {
    "Encounter": _Form(
        "visit", ("type", "serviceType", "class"),
        ("class: class", *_REASONS, "status: status", "admitted from: hospitalization.admitSource",
         "readmission: hospitalization.reAdmission",
         "diet: hospitalization.dietPreference",
         "discharged to: hospitalization.dischargeDisposition",
         "diagnosis: diagnosis"), ends=("period.end", "actualPeriod.end"),
    ),
    "Condition": _Form(
        "condition", ("code",),
        ("clinicalStatus", "verificationStatus", "severity: severity", "site: bodySite",
         "stage: stage", "onset at: onsetAge", "onset at: onsetRange", "onset: onsetString",
         "onset: onsetPeriod", "ended at: abatementAge", "ended at: abatementRange",
         "ended: abatementString", "ended: abatementBoolean"),
        ends=("abatementDateTime", "abatementPeriod"),
    ),
    "Observation": _Form("measurement", parts=()),
    "MedicationRequest": replace(_DRUG, opening="prescribed"),
    "MedicationOrder": replace(_DRUG, opening="prescribed"),
    "MedicationStatement": replace(_DRUG, opening="reported", ends=("effectivePeriod.end",)),
    "MedicationUsage": replace(_DRUG, opening="reported"),
    "MedicationAdministration": replace(
        _DRUG, opening="administered", ends=("effectivePeriod.end", "occurencePeriod.end")
    ),
    "MedicationDispense": replace(_DRUG, opening="dispensed"),
    "Procedure": _Form(
        "procedure", ("code",),
        ("status", *_REASONS, "because: statusReason", "because: reasonNotPerformed",
         "site: bodySite", "outcome: outcome", "complication: complication", "performedString",
         "at: performedAge", "at: performedRange"),
    ),
    "Immunization": _Form(
        "immunization", ("vaccineCode",),
        ("status", "reason: statusReason", "reason: reasonCode", "dose: doseQuantity",
         "on: occurrenceString", "reaction: reaction", "site: site", "route: route",
         "lot: lotNumber"), "vaccination",
    ),
    "AllergyIntolerance": _Form(
        "observation", ("code", "substance", "reaction.substance"),
        ("type", "category", "criticality: criticality", "reaction: reaction.manifestation",
         "reaction severity: reaction.severity", "reaction: reaction.description",
         "exposure: reaction.exposureRoute", "reaction on: reaction.onset",
         "clinicalStatus", "verificationStatus", "status"), prefix="Allergy to ",
        fallback="Allergy, not named",
    ),
    "DiagnosticReport": _Form(
        "procedure", ("code",), ("status", "results: result", "conclusion: conclusionCode"),
        attachments=("presentedForm",),
    ),
    "DocumentReference": _Form(
        "note", ("type", "category", "class"), (), attachments=("content.attachment",)
    ),
    "Composition": _Form("note", ("type", "title", "class"), ()),
    "CarePlan": _Form(
        "observation", ("category", "title"), ("title", "description", "status", "goals: goal"),
        ends=("period.end",),
    ),
    **dict.fromkeys(
        ("ServiceRequest", "ProcedureRequest", "ReferralRequest", "DiagnosticOrder",
         "DeviceRequest"), _ORDER,
    ),
    "NutritionOrder": replace(_ORDER, names=()),
    "VisionPrescription": replace(_ORDER, names=(), opening="prescribed"),
    "Goal": _Form(
        "observation", ("description",), ("lifecycleStatus", "achievementStatus", "status"), "goal"
    ),
    "FamilyMemberHistory": _Form(
        "observation", ("relationship", "name"), ("status", "died: deceasedBoolean"),
        prefix="Family history: ", fallback="Family history",
    ),
    "ImagingStudy": _Form(
        "image", ("procedureCode", "procedure"),
        ("description", "series.modality", "series.bodySite", "series.description",
         "series.instance.title", *_REASONS),
    ),
    "Media": _Form("image", ("type", "modality", "view"), ("status", *_REASONS)),
    "Device": _Form(
        "device_exposure", ("type", "deviceName.name", "name"), ("status", "modelNumber")
    ),
    "DeviceUseStatement": _Form(
        "device_exposure", ("device", "device.concept"), ("status", *_REASONS, "site: bodySite"),
        fallback="Device use", ends=("timingPeriod.end",),
    ),
    "EpisodeOfCare": _Form(
        "visit", ("type",), ("status", "diagnosis: diagnosis.condition"), ends=("period.end",)
    ),
    "Flag": _Form("observation", prefix="Flag: ", ends=("period.end",)),
    "ClinicalImpression": _Form("observation", parts=("status", "description", "summary")),
    "RiskAssessment": replace(_STATED, parts=("status", "method: method", *_REASONS)),
    "Consent": _Form(
        "observation", ("category", "scope"), ("status", "scope: scope", "decision: decision"),
        prefix="Consent: ",
    ),
    "DetectedIssue": _Form("observation", parts=("status", "severity: severity", "detail")),
    "Communication": _Form(
        "observation", ("topic", "category"),
        ("status", *_REASONS, "because: statusReason", "payload.contentString"),
    ),
    "AdverseEvent": _Form(
        "observation", ("event", "code", "type"),
        ("actuality", "status", "seriousness: seriousness", "severity: severity",
         "outcome: outcome"), prefix="Adverse event: ",
    ),
    "Specimen": _Form(
        "specimen", ("type",),
        ("status", "site: collection.bodySite", "method: collection.method",
         "quantity: collection.quantity", "condition: condition"),
    ),
    **dict.fromkeys(
        ("Basic", "CommunicationRequest", "DeviceDispense", "GuidanceResponse", "NutritionIntake",
         "SupplyDelivery", "SupplyRequest"), _STATED,
    ),
    "Appointment": _Form(
        "visit", ("serviceType", "appointmentType"),
        ("status", "description", *_REASONS, "because: cancelationReason"),
    ),
    "List": replace(_STATED, names=("title", "code"), parts=("status", "code")),
    "QuestionnaireResponse": replace(_STATED, names=()),
    "BodyStructure": replace(
        _STATED, names=("morphology",), parts=("description", "site: location")
    ),
    "ImmunizationRecommendation": replace(_STATED, names=()),
    "ImmunizationEvaluation": replace(
        _STATED, names=("targetDisease",), parts=("status", "dose status: doseStatus")
    ),
}  # fmt: skip
READ = frozenset(_FORMS)
"""Resource types that become entries; every other type is counted and named."""
_STATUS_FIELDS = frozenset(FIELDS) | {"clinicalStatus"}


def _labelled(form: _Form) -> list[tuple[str, str, str]]:
    """The label, path and first element of each part of a form."""
    parts = (part.rpartition(": ") for part in form.parts)
    return [(label, path, path.partition(".")[0]) for label, _, path in parts]


_PARTS = {kind: _labelled(form) for kind, form in _FORMS.items()}
_USED = {
    kind: _SILENT.union(
        FIELDS,
        (element for _, _, element in _PARTS[kind]),
        (path.partition(".")[0] for path in (*_TIMES, *form.names, *form.attachments)),
    )
    for kind, form in _FORMS.items()
}
"""Elements that a form's text, name and time draw on, and those that say nothing."""
_UNSAID = frozenset((
    *("id", "meta", "text", "identifier", "subject", "patient", "encounter", "context", "issued"),
    *("performer", "participant", "requester", "recorder", "reporter", "authoredOn", "period"),
    *("onsetDateTime", "abatementDateTime", "effectiveDateTime", "performedDateTime", "recorded"),
    *("performedPeriod", "recordedDate", "date", "serviceProvider", "basedOn", "partOf"),
))  # fmt: skip
"""Elements that no text of an entry draws on: resources that differ in them alone say the same."""
_OBSERVED = frozenset(("social-history", "survey", "exam"))
_NONE_KNOWN = re.compile(
    r"\s*(?:no (?:known|history of|current)?\s*(?:\w+ ){0,4}allerg|no known\b|denies\b"
    r"|n\.?k\.?d?\.?a\b|nkfa\b)",
    re.IGNORECASE,
)
"""Texts of an allergy that say that there is none."""
_NONE_KNOWN_CODES = frozenset((
    *("716186003", "409137002", "428607008", "429625007", "428197003", "716184000", "1003774007"),
    *("716185004", "no-known-allergy", "nkda", "nka"),
))  # fmt: skip
"""SNOMED CT's findings of no known allergy (HL7 International Patient Summary), and words."""
_NO_CLAIM = (Status.CURRENT, Status.UNKNOWN)


class ResourceReader:
    """Turns resources into entries; ``problems`` takes the reasons of what was not read.

    ``find`` finds what references name in the resource's files; ``read`` reads attachments.
    """

    def __init__(self, find: Find, read: Payload) -> None:
        self._find_in_files, self._read = find, read
        self._contained: dict[str, Resource] = {}
        self.problems: list[str] = []

    def entries(self, resource: Resource, line: int | None = None) -> list[Entry]:
        """The entries of a resource, on ``line`` of its file, and of those contained in it; []
        where it was retracted."""
        if "contained" not in resource:
            return self._own_entries(resource, line) if _is_read(resource) else []
        around = self._contained
        inside = objects(resource.get("contained"))
        self._contained = around | {f"#{clean(one.get('id'))}": one for one in inside}
        direct = self._own_entries(resource, line) if _is_read(resource) else []
        known = len(self.problems)
        more = [
            e for one in inside if not known or direct for e in self._inner(resource, one, line)
        ]
        self._contained = around
        time = next((one[0] for one in direct), None) or _earliest(resource, _TIMES)
        visit = next((one[7] for one in direct), "")
        return direct + [(one[0] or time, *one[1:7], one[7] or visit, *one[8:]) for one in more]

    def _inner(self, around: Resource, resource: Resource, line: int | None) -> list[Entry]:
        """The entries of a contained resource, whose patient is that of the one around it."""
        whose, of_all = map(subject_of, (resource, around))
        if whose and of_all and whose != of_all:
            kind = clean(resource.get("resourceType"))
            self.problems.append(f"contains {kind} about somebody else, which is not read")
            return []
        return self.entries(resource, line)

    def _own_entries(self, resource: Resource, line: int | None) -> list[Entry]:
        """Those of the resource itself."""
        kind = resource["resourceType"]
        form = _FORMS[kind]
        packed = msgspec.json.encode(resource)  # searched faster than its objects
        elements = {name: value for name, value in resource.items() if name != "contained"}
        extended = elements if b'xtension"' in packed else {}
        status, words = status_of(resource, [*extension_codes(extended)] if extended else ())
        if status is Status.RETRACTED:
            self.problems.append(words)
            return []
        is_document = form.kind == "note" or kind == "DiagnosticReport"
        time = _earliest(resource, _TIMES)
        visit = clean(resource.get("id")) if kind == "Encounter" else _visit(resource)
        notes: list[Entry] = []
        if is_document:
            code, named = _named(resource, form)
            note = entry(time, "note", code=code, name=named, visit_id=visit, line=line)
            complete, notes = self._notes(resource, form, note, words)
            if complete:
                extension = "; ".join(extension_texts("", extended))
                return [(*one[:4], f"{one[4]}\n{extension}".rstrip(), *one[5:]) for one in notes]
        end = _end(resource, form, time) if not words else None
        named = self._medicine(resource) if kind.startswith("Medication") else ""
        added = [] if end is not None else [*_until(resource, form, words)]
        after = [*self._answers(resource)] if kind == "QuestionnaireResponse" else []
        is_apart = is_document or kind == "QuestionnaireResponse"
        after += self._attached(elements) if b'"contentType"' in packed and not is_apart else ()
        after += extension_texts("", extended) if extended else ()
        elements_said = {name: value for name, value in resource.items() if name not in _UNSAID}
        about = (msgspec.json.encode(elements_said), status, words, tuple(added), tuple(after))
        *content, is_silent = _content(*about, named, end is not None)
        narrative = first_object(resource.get("text"))
        if narrative and (is_silent or clean(narrative.get("status")) == "additional"):
            plain = html_text(clean(narrative.get("div")))
            *content, _ = _content(*about, named, end is not None, plain)
        event_kind, code, name, text, unit = content
        one: Entry = (time, event_kind, code, name, text, unit, "", visit, line, "")
        if end is not None:
            return [*notes, one, (end, *one[1:4], "end", *one[5:])]
        return [*notes, one]

    def _medicine(self, resource: Resource) -> str:
        """The name of a medicine that is a separate or a contained resource."""
        held = first_object(resource.get("medicationReference")) or first_object(
            resource.get("medication")
        )
        link = first_object(held.get("reference")) or held
        return self._name_of(reference(link)) or clean(link.get("display"))

    def _name_of(self, link: str) -> str:
        """The name of the medicine, substance or person that a reference names."""
        held = self._find(link) or {}
        if held.get("resourceType") == "Practitioner":
            return person_name(held)[1]
        return medicine(held, lambda ingredient: medicine(self._find(ingredient) or {}))

    def _find(self, link: str) -> Resource | None:
        return self._contained.get(link) or self._find_in_files(link)

    def _answers(self, resource: Resource) -> Iterator[str]:
        """``question: answer`` of each answered item, in the words of the questionnaire where the
        response has none of its own."""
        stated = resource.get("questionnaire")
        link = stated if isinstance(stated, str) else reference(stated)
        labels: dict[str, str] = {}
        for _, item in _items_below(self._find(link) or {} if link else {}):
            id = clean(item.get("linkId"))
            labels[id] = clean(item.get("text"))
            for option in objects(item.get("answerOption") or item.get("option")):
                coding = first_object(option.get("valueCoding"))
                labels[f"{id} {clean(coding.get('code'))}"] = concept(coding)[1]
        for around, item in _items_below(resource):
            id, texts = clean(item.get("linkId")), list[str]()
            for answer in objects(item.get("answer")):
                for name, value in answer.items():
                    code = clean(value.get("code")) if isinstance(value, dict) else ""
                    option = labels.get(f"{id} {code}", "") if code else ""
                    if name == "valueAttachment":
                        texts += self._attached(value)
                    elif name.startswith("value"):
                        texts.append(option if option and "display" not in value else shown(value))
            if any(texts):
                question = clean(item.get("text")) or labels.get(id) or id
                group = clean(around.get("text")) or labels.get(clean(around.get("linkId")), "")
                named = " — ".join(filter(None, (group, question)))
                yield f"{named}: {', '.join(filter(None, texts))}"

    def _attached(self, resource: Resource) -> Iterator[str]:
        """The texts of the attachments anywhere in a resource that is no document."""
        for _, held in below(resource):
            if "contentType" not in held or not ("data" in held or "url" in held):
                continue
            text, problem = self._attachment(held)
            title = clean(held.get("title"))
            if problem:
                self.problems.append(f"has an attachment that {problem}")
                text = _not_read((), "", problem)
            yield f"{title}: {text}" if title else text

    def _attachment(self, attachment: Resource) -> tuple[str, str]:
        """Text of an Attachment, or "" and the reason why it has none that can be read."""
        data, kind = attachment.get("data"), clean(attachment.get("contentType"))
        if not data and attachment.get("url"):
            stored = self._find(clean(attachment["url"]))
            if stored is None:
                return "", "points to a file that is not among these"
            data = stored.get("data")
            kind = kind or clean(stored.get("contentType"))
        return self._read(data if isinstance(data, str) else "", f"{kind};base64")

    def _notes(
        self, resource: Resource, form: _Form, note: Entry, words: str
    ) -> tuple[bool, list[Entry]]:
        """Whether notes say all of a document or report, and the notes: its texts, and one for
        each attachment that is not read."""
        kind, named = resource["resourceType"], note[3]
        description = clean(resource.get("description"))
        title = named or clean(resource.get("title")) or description or "Note"
        author = self._authors(resource)
        texts: list[str] = []
        unread: list[str] = []
        # Texts of the attachments, and those that cannot be read.
        attachments = [a for path in form.attachments for a in values(resource, path)]
        for attachment in attachments:
            text, problem = self._attachment(first_object(attachment))
            of_file = clean(first_object(attachment).get("title"))
            if problem:
                self.problems.append(f"has an attachment that {problem}")
                unread.append(_not_read((title, of_file, description), author, problem))
            elif of_file in (title, description) or of_file in text:
                texts.append(text)
            else:
                texts.append(f"{of_file}\n{text}")
        # A document is its attachments; a report or composition also its own text.
        if kind == "DocumentReference":
            if not attachments:
                self.problems.append("has no attachment")
                unread.append(_not_read((title, description), author, "is missing"))
            if description and description != title:
                texts = [f"{description}\n{text}" for text in texts]
        else:
            names = ("conclusion", "conclusionCode", "codedDiagnosis")
            concluded = dict.fromkeys(shown(resource.get(name)) for name in names)
            body = "\n".join(filter(None, (*concluded, *_sections(resource), *texts)))
            narrative = html_text(clean(first_object(resource.get("text")).get("div")))
            if not body and kind == "Composition":
                body = narrative
            remarks = map(annotation, items(resource.get("note")))
            texts = ["\n".join(filter(None, (body, *remarks)))] if body else []
            if not texts and kind == "Composition":
                unread.append(f"{title}; no section of it has text")
        id = clean(resource.get("id"))
        return form.kind == "note" or bool(texts), [
            (*note[:3], title, stated(words, text), "", id, *note[7:9], author)
            for text in (*texts, *unread)
        ]

    def _authors(self, resource: Resource) -> str:
        """Who wrote a document, by name."""
        people = (*objects(resource.get("author")), *objects(resource.get("performer")))
        names = (clean(p.get("display")) or self._name_of(reference(p)) for p in people)
        return ", ".join(dict.fromkeys(filter(None, names)))


def subject_of(resource: Resource) -> str:
    """The reference to the patient whom a resource is about, or who takes part in it."""
    stated = resource.get("subject") or resource.get("patient") or resource.get("for")
    actors = (reference(one.get("actor")) for one in objects(resource.get("participant")))
    return reference(stated) or next((one for one in actors if "Patient/" in one), "")


def _is_read(resource: Resource) -> bool:
    return clean(resource.get("resourceType")) in READ


def contains_read(resource: Resource) -> bool:
    """Whether a resource contains another one of a type in :data:`READ`, at any depth."""
    return any(_is_read(one) or contains_read(one) for one in objects(resource.get("contained")))


def _items_below(
    resource: Resource, around: Resource | None = None
) -> Iterator[tuple[Resource, Resource]]:
    """The items of a questionnaire or response, and those in them and in their answers, each with
    the item that it is in."""
    for item in objects(resource.get("item")):
        yield around or {}, item
        for inside in (item, *objects(item.get("answer"))):
            yield from _items_below(inside, item)


def _sections(resource: Resource) -> Iterator[str]:
    for section in objects(resource.get("section")):
        yield clean(section.get("title")) or concept(section.get("code"))[1]
        text = html_text(clean(first_object(section.get("text")).get("div")))
        yield text or shown(section.get("entry")) or shown(section.get("emptyReason"))
        yield from _sections(section)


def _not_read(titles: Iterable[str], author: str, problem: str) -> str:
    """The text of a note in place of a file that is not read."""
    by = f"by {author}" if author else ""
    parts = (*dict.fromkeys(titles), by, f"not read: the attachment {problem}")
    return "; ".join(filter(None, parts))


def _earliest(resource: Resource, paths: Iterable[str]) -> datetime | None:
    """The first moment at the first of the paths that has one."""
    for path in paths:
        if path.partition(".")[0] in resource:
            for one in values(resource, path):
                if time := moment(one):
                    return time
    return None


def _named(resource: Resource, form: _Form) -> tuple[str, str]:
    """Code and text of the first concept that has a text."""
    concepts = (concept(values(resource, path)) for path in form.names)
    return next((one for one in concepts if one[1]), ("", ""))


@lru_cache(maxsize=1024)  # many resources have one content
def _content(
    packed: bytes,
    status: Status,
    words: str,
    until: Sequence[str],
    added: Sequence[str],
    medicine: str,
    has_end: bool,
    narrative: str = "",
) -> tuple[str, str, str, str, str, bool]:
    """Kind, code, name, text and unit of a resource's entry, and whether it says nothing but a
    status.

    ``packed``: JSON of the resource. ``until``: when it ended; ``has_end``: whether another entry
    says so. ``added``: texts of attachments, answers and extensions. ``medicine``: the name of one
    that is another resource.
    """
    resource = msgspec.json.decode(packed)
    kind = resource["resourceType"]
    form = _FORMS[kind]
    code, named = _named(resource, form)
    # What precedes the text: that a resource is planned, denied or ended.
    opening = form.opening if status in _NO_CLAIM else ""
    if opening == "ordered" and resource.get("intent") == "directive":
        opening = "directive"
    parts = [opening, *_parts(resource, bool(words), has_end)]
    # The parts of its text, by kind of resource.
    measured = unit = ""
    event_kind = form.kind
    if kind.startswith("Medication"):
        named = named or medicine or "not named"
        doses = [*items(resource.get("dosageInstruction")), *items(resource.get("dosage"))]
        parts += map(dosage, doses)
    elif kind == "Observation":
        event_kind, named = _kind_of_observation(resource, event_kind, named)
        measured, unit = _measured(resource)
        parts = [measured, *_components(resource), *parts]
    elif kind == "CarePlan":
        parts += _activities(resource)
    elif kind in ("FamilyMemberHistory", "List"):
        parts += map(shown, items(resource.get("condition") or resource.get("entry")))
    parts += [*until, *_others(resource, kind), *added]
    parts += map(annotation, items(resource.get("note")))
    parts = [part for part in dict.fromkeys(parts) if part and part != named]
    statuses = {shown(resource.get(name)) for name in _STATUS_FIELDS} if not named else set[str]()
    is_silent = not named and statuses.issuperset(parts)
    parts += [narrative] if narrative else []
    if measured and unit and (words or len(parts) > 1):
        parts[0], unit = f"{measured} {unit}", ""
    name = _title(resource, form, code, named, status)
    spread = status not in _NO_CLAIM or kind == "FamilyMemberHistory"
    text = _joined(words, parts, name, spread)
    text = text or ("start" if has_end and kind == "Condition" else "recorded")
    return event_kind, code, name, text, unit, is_silent


def _parts(resource: Resource, has_words: bool, has_end: bool) -> Iterator[str]:
    """The parts of a form's text, with their labels.

    ``has_words``: whether the status has words, which open the text and are not repeated;
    ``has_end``: whether another entry says when it ended, which was not known when it began.
    """
    kind = resource["resourceType"]
    for name, path, element in _PARTS[kind]:
        is_status = element in _STATUS_FIELDS
        if element not in resource or (is_status and has_end and kind == "Condition"):
            continue
        reached = values(resource, path)
        if is_status and has_words:
            reached = [
                value
                for value in reached
                if not (classify(codes(value))[1] or REVISED.intersection(codes(value)))
            ]
        text = shown(reached)
        if text:
            flag = name if reached == [True] else ""
            yield flag or f"{name} {text}".strip()


def _others(resource: Resource, kind: str) -> Iterator[str]:
    """What a resource states in elements that its form does not name."""
    left_out = ("_", "value", "effective") if kind == "Observation" else "_"
    for name in sorted(resource.keys() - _USED[kind]):
        if not name.startswith(left_out) and (text := shown(resource[name])):
            yield f"{label(name)} {text}"
    if "primarySource" in resource and resource["primarySource"] is False:
        yield "reported by another source"


def _title(resource: Resource, form: _Form, code: str, named: str, status: Status) -> str:
    """The name of an entry; one that would mislead by itself says what is negated."""
    if not named:
        return form.fallback or label(resource["resourceType"]).capitalize()
    if resource["resourceType"] == "AllergyIntolerance":
        coded = {c.lower() for n in ("code", "substance") for c in codes(resource.get(n))}
        if coded & _NONE_KNOWN_CODES and named == code:
            return "No known allergy"
        if coded & _NONE_KNOWN_CODES or _NONE_KNOWN.match(named):
            return named
        if status is Status.NEGATED:
            return f"Refuted {form.prefix[0].lower()}{form.prefix[1:]}{named}"
    return form.prefix + named


def _joined(words: str, parts: Sequence[str], name: str, spread: bool) -> str:
    """The text of an entry. ``spread``: a long one repeats its name and ``words`` in each of its
    parts, which may be read apart."""
    text = "; ".join(parts)
    if not spread or count_tokens(f"{name}: {words}; {text}") <= SENTENCE_TOKENS:
        return stated(words, text)
    first, *rest = parts
    return "\n".join((stated(words, first), *(f"{name}: {stated(words, part)}" for part in rest)))


def _measured(resource: Resource) -> tuple[str, str]:
    """Text and unit of ``value[x]`` with interpretation and reference range, or why there is
    none; the unit is apart where it is a plain quantity."""
    there = (name for name, value in resource.items() if value is not None and name != "value")
    name = next((name for name in there if name.startswith("value")), "")
    value = resource.get(name)
    flags = [shown(resource.get("interpretation"))] if resource.get("interpretation") else []
    for limits in objects(resource.get("referenceRange")):
        text = clean(limits.get("text")) or shown(limits)
        flags += [f"reference {text}"] if text else []
    extra = "; ".join(filter(None, flags))
    if name == "valueQuantity" and isinstance(value, dict) and not extra:
        return quantity(value)
    absent = shown(resource.get("dataAbsentReason"))
    text = shown(value) or (f"no value, {absent}" if absent else "")
    return f"{text} ({extra})" if text and extra else text or extra, ""


def _components(resource: Resource) -> list[str]:
    return [
        f"{concept(part.get('code'))[1]} {' '.join(filter(None, _measured(part)))}".strip()
        for part in objects(resource.get("component"))
    ]


def _kind_of_observation(resource: Resource, kind: str, named: str) -> tuple[str, str]:
    """The kind of entry that an observation's category makes it, and its name with its focus."""
    stated = (code for c in items(resource.get("category")) for code in codes(c))
    if not _OBSERVED.isdisjoint([code.rpartition("/")[2] for code in stated]):
        kind = "observation"
    focus = shown(resource.get("focus"))
    return kind, f"{named or 'Observation'} (of {focus})" if focus else named


def _activities(resource: Resource) -> Iterator[str]:
    """The activities of a care plan, each with what its status says."""
    current: list[str] = []
    for activity in objects(resource.get("activity")):
        detail = first_object(activity.get("detail"))
        status, words = status_of(detail)
        text = ", ".join(
            filter(None, (concept(detail.get("code"))[1], clean(detail.get("description"))))
        ) or shown(activity.get("reference"))
        notes = ", ".join(map(annotation, items(activity.get("progress"))))
        text = f"{text} ({notes})" if notes else text
        if status is Status.CURRENT:
            current += [text] if text else []
        elif text:
            yield f"{words.upper()}: {text}"
    if current:
        yield f"activities {', '.join(current)}"


def _end(resource: Resource, form: _Form, time: datetime | None) -> datetime | None:
    """When something ended, where that is a separate entry: on a later day. It was not known when
    it began."""
    end = _earliest(resource, form.ends)
    return end if end is not None and (time is None or end.date() > time.date()) else None


def _until(resource: Resource, form: _Form, words: str) -> Iterator[str]:
    """The end of something of which no other entry says when it ended; of an encounter only where
    it is planned."""
    for path in form.ends if form is not _FORMS["Encounter"] or words else ():
        text = shown(values(resource, path))
        if text:
            yield f"until {text}"


def _visit(resource: Resource) -> str:
    """The id of the encounter that a resource refers to."""
    held = resource.get("encounter") or values(resource, "context.encounter")
    return reference(held or resource.get("context")).rpartition("/")[2]
