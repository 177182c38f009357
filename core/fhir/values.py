"""FHIR data types as text: codes, quantities, periods, timings, dosages, notes, and any element.

Numbers are texts as they were written (:func:`midchart.core.parsing.read_json`, ``as_written``).
Times are the local clock times that the resource states; an offset is dropped, as charts are read
in local time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from midchart.core.cohorts.columns import parse_time, with_offset

Resource = Mapping[str, Any]

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
_PARTIAL_DATE = re.compile(r"(\d{4})(?:-(\d{2}))?")
_DATE_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?")
_WORD = re.compile(r"\w+")
_WORD_CODE = re.compile(r"[A-Za-z][A-Za-z -]*\Z")
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_CHOICE = re.compile(
    r"(?<=[a-z])(?:CodeableConcept|Quantity|DateTime|String|Boolean|Integer|PositiveInt|Decimal|Reference)\Z"
)
_DEEPEST = 6
"""Levels of nested elements of one field that are put into words."""
_WORD_MARKS = re.compile(r"[-_]+")
_NO_TEXT = frozenset(("id", "extension", "modifierExtension", "identifier", "resourceType"))
"""Parts of an element that name it or refer to others, and say nothing of the patient."""
_PLAIN_PARTS = frozenset(("code", "summary", "detail", "description", "text", "item", "concept"))
"""Parts of an element whose text needs no name."""


def clean(value: Any) -> str:
    """A string without blanks around it; "" for what is no string or number."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if isinstance(value, int | float) else ""


def items(value: Any) -> list[Any]:
    """The elements of a JSON array; a single value counts as an array of one."""
    return value if isinstance(value, list) else [] if value is None else [value]


def objects(value: Any) -> list[Resource]:
    """The objects of a JSON array, or a single object; nothing for anything else."""
    return [item for item in items(value) if isinstance(item, dict)]


def first_object(value: Any) -> Resource:
    """The first object of an element; an empty one where there is none."""
    return value if isinstance(value, dict) else next(iter(objects(value)), {})


def values(resource: Resource, path: str) -> list[Any]:
    """The values at a dotted path; every element of the arrays on the way."""
    first, *more = path.split(".")
    reached = items(resource.get(first))
    for name in more:
        reached = [v for r in reached if isinstance(r, dict) for v in items(r.get(name))]
    return reached


def moment(value: Any) -> datetime | None:
    """The moment of a FHIR date, dateTime, instant, Period or Timing; its first one.

    A year or a month alone is its first day.
    """
    if isinstance(value, dict):
        times = (value.get("start"), *items(value.get("event")), value.get("end"))
        return next((parsed for time in times if (parsed := moment(time)) is not None), None)
    if not isinstance(value, str):
        return None
    partial = _PARTIAL_DATE.fullmatch(value.strip())
    if partial:
        value = f"{partial[1]}-{partial[2] or '01'}-01"
    return _moment_of(value)


@lru_cache(maxsize=4096)
def _moment_of(text: str) -> datetime | None:
    return with_offset(text, parse_time(text))


def local_time(text: str) -> str:
    """A dateTime as a date and a local clock time, without its offset; other text as it is."""
    match = _DATE_TIME.fullmatch(text) if text[10:11] == "T" else None
    if match is None:
        return text
    return match[1] if match[2] == "00:00" else f"{match[1]} {match[2]}"


def _coded(coding: Resource) -> str:
    """``VOCABULARY/code``, or the code alone where its system is not stated."""
    code, system = clean(coding.get("code")), clean(coding.get("system"))
    vocabulary = _VOCABULARIES.get(system) or re.split(r"[/:]", system)[-1]
    return f"{vocabulary}/{code}" if code and vocabulary else code


def concept(value: Any) -> tuple[str, str]:
    """Code (``VOCABULARY/code``) and text of a CodeableConcept, a Coding or a code; the first one
    of several.

    The text is that of the concept with the displays of its codings that say more (a brand's name,
    a generic name), else the code, with its vocabulary unless it is a word ("active").
    """
    value = next(iter(items(value)), None)
    if not isinstance(value, dict):
        return "", clean(value)
    if isinstance(value.get("concept"), dict):  # R5's CodeableReference
        return concept(value["concept"])
    codings = objects(value.get("coding")) or [value]
    code = next(filter(None, map(_coded, codings)), "")
    displays = (clean(one.get("display")) for one in codings)
    text = distinct_texts((clean(value.get("text")), *displays))
    if not text and code:
        bare = clean(next(c for c in codings if clean(c.get("code"))).get("code"))
        text = bare if _WORD_CODE.match(bare) else code
    return code, text


def distinct_texts(texts: Iterable[str]) -> str:
    """The first text, and in brackets the others that have a word more than those before."""
    stated = [*dict.fromkeys(filter(None, texts))]
    if len(stated) < 2:
        return "".join(stated)
    distinct: list[str] = []
    words: set[str] = set()
    for text in stated:
        of_text = set(_WORD.findall(text.casefold()))
        if not (distinct and of_text <= words):
            distinct.append(text)
            words |= of_text
    return f"{distinct[0]} ({'; '.join(distinct[1:])})" if len(distinct) > 1 else "".join(distinct)


def codes(value: Any) -> Iterator[str]:
    """Every code, display and text of a status: a code, a Coding or a CodeableConcept."""
    for one in items(value):
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            for coding in (*objects(one.get("coding")), one):
                yield from (clean(coding[name]) for name in ("code", "display") if name in coding)
            if "text" in one:
                yield clean(one["text"])


def reference(value: Any) -> str:
    """The reference of a Reference element; an identifier alone as ``Type?identifier=system|v``."""
    value = first_object(value)
    if stated := clean(value.get("reference")):
        return stated
    identifier = value.get("identifier")
    if not isinstance(identifier, dict) or not clean(identifier.get("value")):
        return ""
    stated = f"{clean(identifier.get('system'))}|{clean(identifier['value'])}"
    return f"{clean(value.get('type')) or 'Patient'}?identifier={stated}"


@lru_cache(maxsize=4096)
def label(name: str) -> str:
    """An element's name in words, without the type of its value: ``numberOfRepeats`` is "number of
    repeats", ``doseQuantity`` "dose"."""
    return "" if name in _PLAIN_PARTS else _CAPITAL.sub(" ", _CHOICE.sub("", name)).lower()


def shown(value: Any, depth: int = 0) -> str:
    """A value of any FHIR data type or element as text; several are joined by commas."""
    if isinstance(value, str):
        return local_time(clean(value))
    if isinstance(value, list):
        return ", ".join(filter(None, (shown(one, depth) for one in value)))
    if not isinstance(value, dict):
        return clean(value)
    if value.get("low") or value.get("high"):  # Range, ReferenceRange
        return _range(value, depth)
    if "numerator" in value:
        terms = shown(value["numerator"]), shown(value.get("denominator"))
        return (":" if all(map(str.isdecimal, terms)) else " / ").join(terms)
    if "start" in value or "end" in value:
        return f"{shown(value.get('start'))} to {shown(value.get('end'))}"
    if isinstance(value.get("value"), int | float | str) or "_value" in value:
        return " ".join(filter(None, quantity(value)))
    if isinstance(value.get("data"), str):  # SampledData, Attachment
        axes = element({name: part for name, part in value.items() if name != "data"}, depth)
        return "" if "contentType" in value else f"{clean(value['data'])} ({axes})"
    if isinstance(value.get("repeat"), dict) or (isinstance(value.get("event"), list)):
        return timing(value)
    if "coding" in value or "display" in value or "concept" in value:
        return concept(value)[1]
    if isinstance(value.get("reference"), str):
        return ""
    if isinstance(value.get("text"), str):
        return annotation(value)
    plain = concept(value)[1] if "code" in value and not isinstance(value["code"], dict) else ""
    return plain or element(value, depth)


def element(value: Resource, depth: int = 0) -> str:
    """All parts of an element with their names in words, joined by commas."""
    if depth > _DEEPEST:
        return ""
    parts = (
        (label(name), shown(part, depth + 1))
        for name, part in value.items()
        if name not in _NO_TEXT and not name.startswith("_")
    )
    return ", ".join(f"{name} {text}".strip() for name, text in parts if text)


def _range(value: Resource, depth: int) -> str:
    low, high = shown(value.get("low")), shown(value.get("high"))
    text = f"{low}–{high}" if low and high else f"≥ {low}" if low else f"≤ {high}"
    more = {k: v for k, v in value.items() if k not in ("low", "high")}
    rest = ", ".join(filter(None, (shown(part, depth + 1) for part in more.values())))
    return f"{text} ({rest})" if rest else text


def quantity(value: Resource) -> tuple[str, str]:
    """Value (with its comparator) and unit of a Quantity; "no value" where it has only a unit."""
    number = clean(value.get("comparator")) + clean(value.get("value"))
    unit = clean(value.get("unit")) or clean(value.get("code"))
    if number or not (unit or "_value" in value):
        return number, unit
    return next(extension_texts("value", value.get("_value")), "no value"), ""


def annotation(note: Any) -> str:
    """Text of a note with who wrote it and when; of a plain string, the string."""
    if not isinstance(note, dict):
        return clean(note)
    author = clean(note.get("authorString")) or shown(note.get("authorReference"))
    origin = ", ".join(filter(None, (author, shown(note.get("time")))))
    text = clean(note.get("text"))
    return f"{text} ({origin})" if text and origin else text


def timing(value: Any) -> str:
    """How often something is done: a Timing's rate, duration, time of day, bounds and code."""
    stated = first_object(value)
    repeat = first_object(stated.get("repeat"))
    elements = {name: shown(part) for name, part in repeat.items()}
    rate = ""
    if (period := elements.get("period")) and (unit := elements.get("periodUnit")):
        times, longest = elements.get("frequency") or "1", elements.get("periodMax")
        times += f"–{elements['frequencyMax']}" if elements.get("frequencyMax") else ""
        rate = f"{times} per {period}{f'–{longest}' if longest else ''} {unit}"
    bounds = next((text for name, text in elements.items() if name.startswith("bounds")), "")
    parts = (
        rate or shown(stated.get("code")),
        f"{elements['count']} times" if elements.get("count") else "",
        f"over {elements['duration']} {elements.get('durationUnit', '')}"
        if elements.get("duration")
        else "",
        *(elements.get(name) for name in ("dayOfWeek", "timeOfDay", "when")),
        f"for {bounds}" if bounds else "",
        shown(stated.get("event")),
    )
    return " ".join(filter(None, parts))


def dosage(dose: Any) -> str:
    """A dosage in full: the text as written, and what its parts add."""
    stated = first_object(dose)
    rates = objects(stated.get("doseAndRate")) or [stated]

    def labelled(label: str, *names: str, of: Iterable[Resource] = (stated,)) -> Iterator[str]:
        texts = (shown(one.get(name)) for one in of for name in names)
        return (label.format(text) for text in texts if text)

    needed = [*labelled("for {}", "asNeededCodeableConcept", "asNeededFor")]
    structured = (
        *labelled("{}", "doseQuantity", "doseRange", "dose", "quantity", of=rates),
        *labelled("at {}", "rateQuantity", "rateRatio", "rateRange", "rate", of=rates),
        timing(stated.get("timing")),
        *labelled("{}", "route"),
        *labelled("in {}", "site"),
        *labelled("by {}", "method"),
        "as needed" if stated.get("asNeededBoolean") is True or needed else "",
        *needed,
    )
    parts = (
        " ".join(filter(None, structured)),
        *labelled("at most {}", "maxDosePerPeriod"),
        *labelled("at most {} at a time", "maxDosePerAdministration"),
        *labelled("at most {} in a lifetime", "maxDosePerLifetime"),
        *labelled("{}", "additionalInstruction", "patientInstruction"),
    )
    text = clean(stated.get("text"))
    added = [part for part in parts if part and part not in text]
    return ", ".join(dict.fromkeys(filter(None, (text, *added))))


def medicine(resource: Resource, named_by: Callable[[str], str] = lambda link: "") -> str:
    """The name of a Medication or Substance with its form and ingredients, or these alone.

    ``named_by``: a reference → the name of the medicine or substance that it names.
    """
    named = concept(resource.get("code"))[1]
    ingredients: list[str] = []
    for one in objects(resource.get("ingredient")):
        item = next((v for name, v in one.items() if name.startswith(("item", "substance"))), None)
        text = concept(item)[1] or named_by(reference(first_object(item).get("reference") or item))
        strength = shown(one.get("strength") or one.get("quantity"))
        ingredients.append(f"{text} {strength}".strip())
    form = shown(resource.get("form") or resource.get("doseForm"))
    more = [part for part in (form, *ingredients) if part and part.lower() not in named.lower()]
    if not named and ingredients:
        named, more = " + ".join(filter(None, ingredients)), [form] * bool(form)
    return f"{named} ({', '.join(more)})" if more else named


_PAST = frozenset(("old", "maiden", "temp", "nickname", "anonymous"))
"""Uses of a name that is not a person's official one."""


def person_name(resource: Resource) -> tuple[str, str]:
    """Family name and full name of a person, in current use where that is stated."""
    names = sorted(
        objects(resource.get("name")),
        key=lambda name: (clean(name.get("use")) in _PAST, name.get("use") != "official"),
    )
    name = next(iter(names), {})
    family, text = " ".join(map(clean, items(name.get("family")))), clean(name.get("text"))
    parts = (*items(name.get("prefix")), *items(name.get("given")), family)
    return family or text, text or " ".join(filter(None, map(clean, parts)))


# Extensions: what a profile adds to any element (HL7 FHIR R4, 2.5).

ABSENT = "data-absent-reason"
_UNSAID = frozenset((
    *("ordinalValue", "itemWeight", "narrativeLink", "originalText", "geolocation", "timezone"),
    *("instance-name", "instance-description", "rendered-value", "questionnaire-displayCategory"),
    *("workflow-episodeOfCare", "data-absent-reason-text", "resource-lastReviewDate"),
))  # fmt: skip
"""Extensions, by the end of their URL, that say nothing of a patient."""


def ending_of(extension: Resource) -> str:
    """The last part of the URL of an extension, which names it."""
    return re.split(r"[/:#]", clean(extension.get("url")).rstrip("/"))[-1]


def extension_value(extension: Resource) -> Any:
    """The value of an extension; None where it has none."""
    stated = (v for name, v in extension.items() if name.startswith("value"))
    return next(stated, None)


def below(
    value: Any, name: str = "", without: Container[str] = ()
) -> Iterator[tuple[str, Resource]]:
    """Every object in a value, itself included, with the name of its element; those in elements
    ``without`` left out."""
    if isinstance(value, dict):
        yield name, value
        for inside, part in value.items():
            if isinstance(part, dict | list) and inside not in without:
                yield from below(part, inside, without)
    elif isinstance(value, list):
        for one in value:
            yield from below(one, name, without)


def extensions(name: str, value: Any) -> Iterator[tuple[str, Resource]]:
    """Every extension in an element and below, with the name of the element that it extends; those
    of contained resources left out."""
    for inside, held in below(value, name, ("contained", "extension", "modifierExtension")):
        element = inside if inside == "_value" else inside.lstrip("_")
        for kind in ("extension", "modifierExtension"):
            yield from ((element, one) for one in objects(held.get(kind)))


def extension_texts(name: str, value: Any) -> Iterator[str]:
    """What the extensions of an element and below say: that a value is absent and why, or their
    name and value."""
    for extended, one in extensions(name, value):
        text = _extension_text(one)
        if ending_of(one) == ABSENT and extended == "_value":
            continue  # :func:`quantity` says so in its place
        if ending_of(one) == ABSENT:
            what = f"{label(extended) or 'value'}{' date' * extended.endswith('DateTime')}"
            yield f"no {what}, {text or 'reason not stated'}"
        elif text and ending_of(one) not in _UNSAID:
            yield f"{_WORD_MARKS.sub(' ', label(ending_of(one)))}: {text}"


def _extension_text(extension: Resource, depth: int = 0) -> str:
    inner = [
        f"{_WORD_MARKS.sub(' ', label(ending_of(one)))} {text}".strip()
        for one in (objects(extension.get("extension")) if depth < _DEEPEST else ())
        if (text := _extension_text(one, depth + 1))
    ]
    return ", ".join(filter(None, (shown(extension_value(extension)), *inner)))
