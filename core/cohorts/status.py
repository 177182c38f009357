"""Whether an entry of a source file holds now, is only planned, is denied, or was taken back.

Every loader classifies by the codes of this module. An entry that was taken back makes no event
and is counted with its reason; one that is denied or planned says so at the head of its text, so
that no piece of it can be read as a fact. Codes are those of FHIR R4 (status, docStatus, intent,
verificationStatus), of HL7 CDA R2 (statusCode, moodCode, negationInd, nullFlavor, relatedDocument)
and of the HTTP verbs of a FHIR history.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from operator import itemgetter


class Status(IntEnum):
    """What a reader of the chart may conclude from an entry; the strongest comes last."""

    CURRENT = 0
    UNKNOWN = 1
    PLANNED = 2
    NEGATED = 3
    RETRACTED = 4


_RETRACTED: Mapping[str, str] = {
    "entered-in-error": "was entered in error",
    "nullified": "was nullified",
    "cancelled": "was cancelled",
    "canceled": "was cancelled",
    "aborted-before-start": "was cancelled",
    "revoked": "was revoked",
    "superseded": "was superseded by another version",
    "obsolete": "was superseded by another version",
    "replaced": "was replaced by another document",
    "deprecated": "was superseded by another version",
    "deleted": "was deleted",
}
_NEGATED: Mapping[str, str] = {
    "do-not-perform": "do not give or perform",
    "not-done": "not done",
    "not-performed": "not done",
    "not-taken": "not taken",
    "refuted": "refuted",
    "ruled-out": "ruled out",
    "excluded": "ruled out",
    "negated": "negated",
    "rejected": "rejected",
    "declined": "declined",
    "not-taking": "not taken",
    "absent": "absent",
}
_PLANNED: Mapping[str, str] = {
    "proposal": "proposed, not ordered",
    "proposed": "proposed, not ordered",
    "option": "an option, not ordered",
    "plan": "planned",
    "planned": "planned",
    "intended": "planned",
    "draft": "draft",
    "preparation": "in preparation",
    "pending": "pending",
    "registered": "registered, without a result yet",
    "prp": "proposed, not ordered",
    "int": "planned",
    "prms": "planned",
    "apt": "appointment",
    "arq": "appointment requested",
    "gol": "goal",
}
_UNKNOWN: Mapping[str, str] = {
    "unknown": "status unknown",
    "unconfirmed": "unconfirmed",
    "provisional": "provisional",
    "differential": "differential",
    "presumed": "presumed",
    "suspected": "suspected",
    "probable": "probable",
    "possible": "possible",
    "doubtful": "doubtful",
    "unlikely": "unlikely",
    "status-post": "condition in the past",
    "potential": "potential, did not happen",
    "preliminary": "preliminary",
    "partial": "partial",
}
_WORDS: Mapping[str, tuple[Status, str]] = {
    code: (status, words)
    for status, codes in (
        (Status.RETRACTED, _RETRACTED),
        (Status.NEGATED, _NEGATED),
        (Status.PLANNED, _PLANNED),
        (Status.UNKNOWN, _UNKNOWN),
    )
    for code, words in codes.items()
}


def classify(codes: Iterable[str]) -> tuple[Status, str]:
    """The strongest status that ``codes`` state, and the words for it ("" where current).

    Codes of several fields of one entry are given together; case, blanks and underscores do not
    matter, and a code that is not in the tables says nothing.
    """
    strongest = (Status.CURRENT, "")
    for code in codes:
        low = code.strip().lower().replace("_", "-").replace(" ", "-")
        strongest = max(strongest, _WORDS.get(low, strongest), key=itemgetter(0))
    return strongest


def stated(words: str, text: str) -> str:
    """The text of an entry that opens with the words of :func:`classify`."""
    return "; ".join(part for part in (words.upper() if words else "", text) if part)
