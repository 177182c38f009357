"""Whether a text declines to answer, in English, German, French and Spanish.

A text is cut into clauses. A clause declines where it says that the record lacks what was asked, or
that the answerer cannot tell; ``refusals.toml`` has the words for that. A text declines where its
first statement does and no other contrasts with it: "stopped; the reason is not documented"
answers.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from types import SimpleNamespace

from midchart.core.parsing import read_toml
from midchart.core.text import one_line

_SUBJECT = r"(?:[^\s,]+ ){0,9}?"
_IN = (
    r"(?:in|by|within|from|on|here|at|anywhere|to|for|about|im|aus|zu|darin|dans|par|sur|ici|en|por"
    r"|del?|who|which|what|when|where|whether|how|why|ob|wann|wie|warum|welche\w*|quand|si|cuándo)"
)
_IT = r"(?:it|this|that|this information|the (?:information|answer))?"
_BE = r"(?:is |was |were |are |has been |have been )?"


def _forms(one: SimpleNamespace) -> tuple[str, ...]:
    """The forms of a clause that declines, in one language.

    ``one`` has a pattern for each list of ``refusals.toml``: ``none`` denies a noun ("no"),
    ``negation`` a verb or participle; ``knowing`` are nouns of what is known ("result"), ``stated``
    what a record does to a fact ("mentioned"), ``seen`` the same of findings too ("found"),
    ``source`` the record, ``tells`` what it does ("say"); ``unable``: the answerer cannot tell;
    ``lacking``: "missing", of such nouns; ``alone``: complete answers.
    """
    return (
        rf"{_SUBJECT}\b{one.none}\s?(?:[^\s,]+ ){{0,4}}?{one.knowing}(?!\w).*",
        rf"{_SUBJECT}\b{one.none} (?:[^\s,]+ ){{1,6}}?{_BE}{one.stated}\b.*",
        rf"{_SUBJECT}\b{one.none} .*\b{one.seen} .*\b{one.source}\b.*",
        rf"{_SUBJECT}{one.none}(?=.* (?:about|on|regarding|sobre|sur|zu|über) ).*{one.source}\b.*",
        rf"{_SUBJECT}\b{one.negation} (?:\w+ )?{one.stated}(?:,? {_IN}\b.*)?",
        rf"{_IT} ?(?:is |was |has |could )?\b{one.negation} (?:\w+ )?{one.seen}(?!\w).*",
        rf"{_SUBJECT}\b{one.source}\b.*\b{one.negation} (?:\w+ )?"
        rf"(?:{one.tells}|{one.seen})(?!\w).*",
        rf"{_SUBJECT}[^\s,]*{one.knowing} (?:\w+ )?{one.negation} (?:\w+ )?{one.seen}(?!\w).*",
        rf"(?:[^\s,]+ ){{0,5}}?\b{one.source}\b.*\b{one.tells} {one.none}\b.*",
        rf"{_SUBJECT}\b{one.source}\b (?:is|are) silent\b.*",
        rf"{_SUBJECT}\b{one.none} (?:to|that|qui|que) {one.tells}.*",
        rf"no (?:se )?(?:han? )?{one.tells}(?!\w).*",
        rf"{_SUBJECT}[^\s,]*{one.knowing} (?:\w+ )?{one.lacking}\b.*",
        rf"{_SUBJECT}\b{one.unable}.*",
        rf"(?:(?:it|the answer|this) is |answer: )?{one.alone}(?: {_IN} .*)?",
    )


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Clauses that decline, and denied findings."""
    file = Path(__file__).with_name("refusals.toml")
    languages = read_toml(file.read_bytes(), file.name).values()
    words = [
        SimpleNamespace(**{name: f"(?:{'|'.join(parts)})" for name, parts in language.items()})
        for language in languages
    ]
    forms = "|".join(f"(?:{form})" for one in words for form in _forms(one))
    return re.compile(forms), re.compile("|".join(one.finding for one in words))


_BUT = re.compile(r",?\s+(?:but|though|although|however|aber|jedoch|mais|pero)\b,?\s+")
_CLAUSES = re.compile(
    r"(?<=[.!?])\s+|\s*;\s*|\s*\(|,\s+(?:while|and)\s+|,\s+(?=(?:no|the|bp|der|die|das|le|la|el)\b)"
    r"|,\s+(?=(?!(?:is|was|are|were|do|does|did|has|have|can|could)\b)\w+ (?:is |was )?not\b)"
)
_FILLER = re.compile(
    r"(?:i am|i'm)? ?(?:sorry|unfortunately|leider|désolée?|lo siento)\b.{0,12}|[\w ]{0,30}:"
    r"|(?:please|you (?:may|should|can)|if you|it would be|further|consult|additional|regarding"
    r"|based|concerning|as for|for|answer|antwort|réponse|respuesta)\b.*"
)
_LEAD = re.compile(
    r"\A(?:(?:i'm |i am )?sorry,? (?:but )?|unfortunately,? |(?:answer|antwort|réponse|respuesta): "
    r"|(?:based (?:solely |only )?on|according to|in|from|given|after reviewing|upon review of"
    r"|ob|wann|whether|when|si|quand) [^,]{3,60}, )+"
)
_ANSWER = re.compile(r"(?:yes|no)(?:,|\Z)")
LONGEST = 600
"""Characters of a clause that are looked at."""


def is_refusal(text: str) -> bool:
    """Whether ``text`` declines to answer; blank text does not.

    Every table separates refusals from wrong answers (docs/methods.md, Stage 2: judging). "No
    evidence of" and "no known allergies" are clinical answers, not refusals.
    """
    declining, finding = _patterns()
    plain = one_line(text.lower().replace("’", "'")).strip(" \"'*-–—")
    plain = plain.replace("can't", "cannot").replace("n't", " not")
    plain = re.sub(r"\b(it|there|that)'s\b", r"\1 is", plain)
    declined: bool | None = None
    for sentence in _CLAUSES.split(plain):
        for number, part in enumerate(_BUT.split(_LEAD.sub("", sentence))):
            clause = part.strip(" .,:!?\"'*()")[:LONGEST]
            if not any(map(str.isalnum, clause)) or _FILLER.fullmatch(clause):
                continue
            declines = bool(declining.fullmatch(clause)) and not finding.search(clause)
            if declined is None:
                declined = declines
            if not declined or (not declines and (number or _ANSWER.match(clause))):
                return False
    return bool(declined)
