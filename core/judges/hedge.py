"""Whether an answer hedges: it names a possibility and does not commit to it.

A hedged answer is not a correct one (PROTOCOL, Stage 2: the judge asks whether the response
correctly answers the question), so rule judges call it incorrect and never leave it unscored. An
answer hedges where each of its sentences does; a sentence hedges where it

- opens with "it is / may be / seems possible, conceivable, unclear, uncertain, hard to say",
  "possibly", "perhaps", "maybe", "I am not sure / certain", or "there is a chance / possibility";
- has "may", "might" or "could" before "have", "be" or "also be" and a subject of at most four
  words in front: "she may have smoked", "the dose could be 5 mg".

"Likely" and "probably" commit to something and are no hedges. Two answers are never hedged: one to
a reference that hedges itself ("may be related to the graft"), and a line quoted from the record,
whose doubts are the record's. The caller checks both.
"""

from __future__ import annotations

import re

from core.text import one_line

_OPENING = re.compile(
    r"(?:(?:yes|no|well|so)\b[,;: ]*)?(?:"
    r"(?:it|this|that)(?:'s| is| was| may be| might be| could be| seems| appears) "
    r"(?:also |certainly |quite |very |just )?"
    r"(?:possible|conceivable|plausible|unclear|uncertain|not clear|not certain"
    r"|(?:hard|difficult) to (?:say|tell))\b"
    r"|(?:possibly|perhaps|maybe|conceivably)\b"
    r"|i(?:'m| am) (?:not (?:\w+ )?(?:sure|certain)|unsure|uncertain)\b"
    r"|there(?:'s| is| was| may be| might be) (?:a|some) "
    r"(?:\w+ )?(?:chance|possibility|likelihood)\b)"
)
_MODAL = re.compile(
    r"(?:[\w'-]+ ){1,4}(?:may|might|could)(?: not)?(?: also| well| possibly| perhaps)? "
    r"(?:have|be|also be)\b"
)
_SENTENCES = re.compile(r"(?<=[.!?])\s+")


def is_hedged(text: str) -> bool:
    """Whether every sentence of ``text`` hedges, by the rule of this file; blank text does not."""
    plain = one_line(text.lower().replace("’", "'"))
    sentences = [part.strip(" \"'*-–—") for part in _SENTENCES.split(plain)]
    said = [part for part in sentences if any(character.isalnum() for character in part)]
    return bool(said) and all(_OPENING.match(part) or _MODAL.match(part) for part in said)
