"""Modifier elements of FHIR resources: what they mean for a resource, and those that are unknown.

A modifier element changes what the rest of a resource means (HL7 FHIR R4, 2.4.0.2): "do not
perform" makes an order a ban. A resource with one that is unknown must not be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from midchart.core.cohorts.status import Status, classify
from midchart.core.fhir.json_objects import JsonObject, once_a_text, parse_element
from midchart.core.fhir.values import Resource, clean, codes

FIELDS = (
    *("status", "docStatus", "intent", "lifecycleStatus", "verificationStatus", "actuality"),
    *("taken", "adherence", "wasNotTaken", "wasNotGiven", "notGiven", "notDone", "notPerformed"),
    *("doNotPerform", "negated"),
)
"""Elements that are looked at here; those after ``adherence`` are true or false."""
REVISED = frozenset(("amended", "corrected", "appended"))
"""Statuses of what was changed after it was final."""
_NEGATING = {
    "doNotPerform": "do-not-perform",
    "wasNotTaken": "not-taken",
    "wasNotGiven": "not-done",
    "notGiven": "not-done",
    "notDone": "not-done",
    "notPerformed": "not-done",
    "negated": "negated",
}
_TAKEN = {"n": "not-taken", "unk": "unknown"}
"""MedicationStatement.taken of STU3."""
_PLANS = frozenset(("CarePlan", "Goal", "NutritionOrder"))
"""Types that are plans by nature: the intents plan and order say nothing of them."""


def status_of(resource: Resource) -> tuple[Status, str]:
    """Whether a resource holds, is planned, negated or retracted, and in which words.

    A current one may have been changed after it was final, which is stated too.
    """
    kind = resource.get("resourceType")
    is_plan = isinstance(kind, str) and kind in _PLANS
    if not isinstance(resource, JsonObject):
        return _stated_status(resource, is_plan)
    names = _present(tuple(resource.texts))
    return _status(resource.array(names), names, is_plan)


@lru_cache(maxsize=4096)
def _present(names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of :data:`FIELDS` that are among the names of a resource's elements."""
    there = frozenset(names)
    return tuple(name for name in FIELDS if name in there)


@once_a_text
def _status(text: bytes, names: tuple[str, ...], is_plan: bool) -> tuple[Status, str]:
    """The status by the values of the elements ``names``, whose JSON array is ``text``."""
    return _stated_status(dict(zip(names, parse_element(text), strict=True)), is_plan)


def _stated_status(stated: Resource, is_plan: bool) -> tuple[Status, str]:
    status, words = classify(_codes(stated, is_plan))
    terms = (clean(stated.get(name)) for name in ("status", "docStatus"))
    return status, words or next(filter(REVISED.__contains__, terms), "")


def _codes(resource: Resource, is_plan: bool) -> Iterator[str]:
    for name in [name for name in FIELDS if name in resource]:
        value = resource[name]
        if name in _NEGATING:
            if value is True or value == "true":
                yield _NEGATING[name]
        elif name == "taken":
            yield _TAKEN.get(clean(value), "")
        elif name == "adherence":
            yield from codes(value.get("code") if isinstance(value, dict) else value)
        elif name == "intent" and is_plan:
            yield "" if value == "plan" else clean(value)
        elif isinstance(value, str):
            yield value
        else:
            yield from codes(value)


def unknown_modifier(resource: Resource, anywhere: bool) -> str:
    """The reason why a resource must not be read, or "".

    ``anywhere``: whether modifier extensions inside of its elements are looked for.
    """
    if resource.get("implicitRules"):
        return "follows rules that are not known here (implicitRules)"
    if resource.get("modifierExtension") or (anywhere and _extended(dict(resource))):
        return "has a modifier extension, which may change its meaning"
    return ""


def _extended(value: Any) -> bool:
    if isinstance(value, dict):
        return bool(value.get("modifierExtension")) or any(map(_extended, value.values()))
    return isinstance(value, list) and any(map(_extended, value))
