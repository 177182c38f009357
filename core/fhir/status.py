"""Modifier elements of FHIR resources: what they mean for a resource, and those that are unknown.

A modifier element changes what the rest of a resource means (HL7 FHIR R4, 2.4.0.2): "do not
perform" makes an order a ban. A resource with one that is unknown must not be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from operator import itemgetter

from midchart.core.cohorts.status import Status, classify
from midchart.core.fhir.values import (
    ABSENT,
    Resource,
    below,
    clean,
    codes,
    ending_of,
    extension_value,
    extensions,
    objects,
)

_NEGATING = {
    "doNotPerform": "do-not-perform",
    "wasNotTaken": "not-taken",
    **dict.fromkeys(("wasNotGiven", "notGiven", "notDone", "notPerformed"), "not-done"),
    "negated": "negated",
}
"""Elements that are true or false."""
FIELDS = (
    *("status", "docStatus", "intent", "lifecycleStatus", "verificationStatus", "actuality"),
    *("taken", "adherence", *_NEGATING),
)
"""Elements that are looked at here."""
REVISED = frozenset(("amended", "corrected", "appended"))
"""Statuses of what was changed after it was final."""
_TAKEN = {"n": "not-taken", "unk": "unknown"}
"""MedicationStatement.taken of STU3."""
_PLANS = ("CarePlan", "Goal", "NutritionOrder")
"""Types that are plans by nature: the intents plan and order say nothing of them."""


def status_of(resource: Resource, more: Sequence[str] = ()) -> tuple[Status, str]:
    """Whether a resource holds, is planned, negated or retracted, and in which words.

    ``more``: codes that its extensions state (:func:`extension_codes`). A current one may have been
    changed after it was final, which is stated too.
    """
    if more:
        return max(classify(more), status_of(resource), key=itemgetter(0))
    status, words = classify(_codes(resource))
    for name in () if words else ("status", "docStatus"):
        if (term := clean(resource.get(name))) in REVISED:
            return status, term
    return status, words


def _codes(resource: Resource) -> Iterator[str]:
    for name in [name for name in FIELDS if name in resource]:
        value = resource[name]
        if name in _NEGATING:
            if value is True or value == "true":
                yield _NEGATING[name]
        elif name == "taken":
            yield _TAKEN.get(clean(value), "")
        elif name == "adherence":
            yield from codes(value.get("code") if isinstance(value, dict) else value)
        elif not (name == "intent" and value == "plan" and resource.get("resourceType") in _PLANS):
            yield from codes(value)


_SAYS_STATUS = re.compile(
    r"certain|sicherheit|verification|probab|suspic|presen|absen|polarity|negat|refut|rule|exclu"
    r"|notdone|donot|notperformed|notgiven",
    re.IGNORECASE,
)
"""Names of extensions that say whether what they extend holds."""
_GERMAN_CERTAINTY = {"a": "excluded", "v": "suspected", "z": "status-post", "g": "confirmed"}
"""Codes of "Diagnosesicherheit" (KBV): ausgeschlossen, Verdacht auf, Zustand nach, gesichert."""


def extension_codes(resource: Resource) -> Iterator[str]:
    """Codes of the status of a resource that extensions anywhere in it state."""
    for _, one in extensions("", resource):
        if ending_of(one) != ABSENT and _SAYS_STATUS.search(ending_of(one).replace("-", "")):
            yield from _stated_by(one)


def _stated_by(extension: Resource) -> Iterator[str]:
    value = extension_value(extension)
    if value is True:
        yield "negated"
    for text in codes(value):
        yield _GERMAN_CERTAINTY.get(text.lower(), text)


def _is_known(extension: Resource) -> bool:
    """Whether it is known what an extension means for the status of what it modifies."""
    says = _SAYS_STATUS.search(ending_of(extension).replace("-", "")) is not None
    value = extension_value(extension)
    return says and (isinstance(value, bool) or classify(_stated_by(extension))[1] != "")


def unknown_modifier(resource: Resource, anywhere: bool) -> str:
    """The reason why a resource must not be read, or "".

    ``anywhere``: whether it holds modifier extensions, itself or in its elements.
    """
    if resource.get("implicitRules"):
        return "follows rules that are not known here (implicitRules)"
    if not anywhere:
        return ""
    stated, held = resource.get("modifierExtension"), below(resource)
    modifiers = (one for _, inside in held for one in objects(inside.get("modifierExtension")))
    if not all(map(_is_known, modifiers)) or (stated and not isinstance(stated, list | dict)):
        return "has a modifier extension, which may change its meaning"
    return ""
