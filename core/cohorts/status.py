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
from functools import lru_cache


class Status(IntEnum):
    """What a reader of the chart may conclude from an entry; the strongest comes last."""

    CURRENT = 0
    UNKNOWN = 1
    PLANNED = 2
    NEGATED = 3
    RETRACTED = 4


_CODES: Mapping[Status, Mapping[str, str]] = {
    Status.RETRACTED: {
        "was entered in error": "entered-in-error",
        "was nullified": "nullified",
        "was cancelled": "cancelled canceled aborted-before-start",
        "was revoked": "revoked",
        "was superseded by another version": "superseded obsolete deprecated",
        "was replaced by another document": "replaced",
        "was deleted": "deleted",
    },
    Status.NEGATED: {
        "": "refuted negated rejected declined absent",
        "do not give or perform": "do-not-perform",
        "not done": "not-done not-performed noshow",
        "not taken": "not-taken not-taking",
        "ruled out": "ruled-out excluded",
    },
    Status.PLANNED: {
        "": "draft pending",
        "proposed, not ordered": "proposal proposed prp",
        "an option, not ordered": "option",
        "planned": "plan planned intended int prms",
        "in preparation": "preparation",
        "registered, without a result yet": "registered",
        "appointment": "apt booked",
        "appointment requested": "arq",
        "goal": "gol",
    },
    Status.UNKNOWN: {
        "": "unconfirmed provisional differential presumed suspected probable possible doubtful "
        "unlikely preliminary partial",
        "status unknown": "unknown",
        "condition in the past": "status-post",
        "potential, did not happen": "potential",
    },
}
"""Status and its words → the codes that state it; those below "" are words themselves."""
_WORDS = {
    code: (status, words or code)
    for status, by_words in _CODES.items()
    for words, codes in by_words.items()
    for code in codes.split()
}


def classify(codes: Iterable[str]) -> tuple[Status, str]:
    """The strongest status that ``codes`` state, and the words for it ("" where current).

    Codes of several fields of one entry are given together; case, blanks and underscores do not
    matter, and a code that is not in the tables says nothing.
    """
    return _strongest(tuple(codes))


@lru_cache(maxsize=1024)
def _strongest(codes: tuple[str, ...]) -> tuple[Status, str]:
    strongest = (Status.CURRENT, "")
    for code in codes:
        stated = _WORDS.get(code.strip().lower().replace("_", "-").replace(" ", "-"))
        if stated is not None and stated[0] > strongest[0]:
            strongest = stated
    return strongest


def stated(words: str, text: str) -> str:
    """The text of an entry that opens with the words of :func:`classify`."""
    return "; ".join(part for part in (words.upper() if words else "", text) if part)
