"""The option of a multiple-choice question that a free answer chooses.

Mentions of options (a letter, or an option's complete text) are located first. A mention is
*stated* where the words before it ("the answer is", "I choose"), the words after it ("is correct")
or a format (a box, a tag, a JSON field) say that it is the answer; the last stated mention counts.
Without one, the answer has to be a mention, or to begin or end with one. An answer that states
several options, or a letter that is no option, chooses none.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

from midchart.core.text.prompt import LETTERS

# Formats around an answer: reasoning, turns of a chat, markup.

_NAMES = r"(?:think(?:ing)?|thoughts?|reasoning|reflection|analysis|scratchpad|rationale)"
_OPEN = rf"(?:<{_NAMES}\b[^<>]*>|\[{_NAMES}\]|◁{_NAMES}▷)"
_CLOSE = rf"(?:</{_NAMES}\s*>|\[/{_NAMES}\]|◁/{_NAMES}▷)"
_REASONING = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        r"\A.*<\|channel\|>\s*final\b[^<]*<\|message\|>",
        r"<\|channel\|>\s*(?:analysis|commentary)\b.*\Z",
        rf"{_OPEN}.*?{_CLOSE}",
        rf"\A.*{_CLOSE}",
        rf"{_OPEN}.*\Z",
    )
)
"""Reasoning, closed or cut off: none of it is the answer."""
_END_OF_TURN = re.compile(r"<\|(?:im_end|eot_id|end|return|endoftext)\|>|</s>|<end_of_turn>|<eos>")
_NEW_TURN = re.compile(r"\n\W*(?:question|patient record|user|human)\b\W*:", re.IGNORECASE)
_ANSWER_LINE = r"\nAnswer: \g<1>\n"
_MARKUP = (
    (re.compile(r"<\|[^|<>]*\|>|<(?:bos|s|start_of_turn)>"), " "),
    (re.compile(r"\\(?:text\w*|math\w*|emph)\s*\{([^{}]*)\}"), r"\1"),
    (re.compile(r"\\f?box(?:ed)?\s*\{([^{}]*)\}"), _ANSWER_LINE),
    (
        re.compile(
            r"<(?:final[_ ]?)?(?:answer|choice|option|response|antwort)>"
            r"(.*?)(?:</[\w ]+>|\Z)",
            re.IGNORECASE | re.DOTALL,
        ),
        _ANSWER_LINE,
    ),
    (
        re.compile(
            r"[\"'](?:(?:final|correct|selected|chosen|best|predicted|model)[_ ]?)?"
            r"(?:answer|choice|option|prediction|antwort|letter)"
            r"(?:[_ ]?(?:letter|choice|option|key|id))?[\"']\s*:\s*([\[\"'{\w])",
            re.IGNORECASE,
        ),
        r"\nAnswer: \g<1>",
    ),
    (re.compile(r"</?(?:b|i|u|em|strong|p|br|span|div|code|mark|li|ul|ol)\b[^<>]*>", re.I), " "),
    (re.compile(r"```+\w*|`+|\*+|~~|__|\$|\\[()\[\],;! ]"), ""),
    (re.compile(r"^[ \t]*(?:#{1,6}(?!#)|[-•>‣●▪])[ \t]+", re.MULTILINE), ""),
)
"""Boxes, tags and fields become a line "Answer: …"; other markup is removed."""

# Words around a mention that say whether it is the answer.

_ADVERB = (
    r"(?:therefore|thus|hence|then|so|clearly|definitely|indeed|actually|simply|obviously|surely|"
    r"certainly|(?:most |very )?(?:likely|probably)|in fact|of course|daher|somit|also|eindeutig|"
    r"(?:sehr )?wahrscheinlich|donc)"
)
_OBJECT = (
    r"(?:(?:the |die |der |das |la |el |le )?(?:(?:correct|right|best|final|richtige) )?"
    r"(?:option|choice|answer|letter|alternative|statement|antwort\w*|auswahl|buchstabe|aussage|opción|"
    r"respuesta|réponse)\s*[:#]?)"
)
_NOUN = (
    r"(?:answer|option|choice|solution|selection|letter|alternative|verdict|lösung|auswahl|"
    r"antwort(?:option|möglichkeit)?|aussage|buchstabe|respuesta|opción|réponse|risposta|antwoord|"
    r"resposta)"
)
_IS = (
    r"(?:is|are|was|(?:would|should|must|will|has to)(?: \w+)? be|remains|ist|wäre|lautet|est|es|è)"
    r"(?!\w)"
)
_UP_TO = (
    rf"(?:\s*{_ADVERB}\b,?|\s*(?:either|both|between|to be)\b|\s*{_OBJECT})*"
    r"[\s:\"'“”‘’„«(\[{]*\Z"
)
"""What may be between such words and the mention."""
_GAP = r"(?:(?!\b(?:not|never|choices|options|wrong|incorrect|nicht|kein\w*)\b)[^.;!?\n]){0,90}?"
_SAYS = tuple(
    re.compile(words + _UP_TO, re.IGNORECASE)
    for words in (
        rf"\b{_NOUN}(?!\w)[\"'”’]?(?:{_GAP}\b{_IS}\s*[:=]?|{_GAP}[:=]|\s*[|→–—-]+>?|[ \t]*\n)",
        r"\b(?:choos(?:e|ing)|chose|select(?:ed|ing)?|pick(?:ed|ing)?|opt(?:ed|ing)? for|"
        r"(?:go|going|went) (?:with|for)|settle on|vote for|answer with|wähle|nehme|"
        r"entscheide mich für)\b\s*:?",
        r"\b(?:correct|right|best|true|richtig|korrekt)\w*\s*[:=]",
        r"\b(?:correct|right|richtig|korrekt|zutreffend)\w*(?: one)? (?:is|ist)\b\s*:?",
        r"(?:=>|⇒|→|∴|####)",
    )
)
_SAYS_AT_AN_END = tuple(
    re.compile(words + _UP_TO, re.IGNORECASE)
    for words in (
        r"\b(?:it|this|that|es|das)(?:['’]s| is| was| would be| must be| has to be| ist| wäre)\b",
        r"\b(?:think|believe|say|guess|conclude|denke|glaube|vermute|tippe auf|points to|supports|"
        r"leads to|corresponds to|matches)\b",
        r"(?:\A|[.;!?,\n]\s*)(?:final|finally|result|conclusion|ergebnis|fazit|in conclusion|"
        r"in summary|overall|so|thus|therefore|hence|consequently|daher|somit|folglich)\b\s*[,:=]?",
    )
)
"""Say so only where the mention ends a clause."""
_CLAUSE_END = re.compile(
    r"[\"'”’)\]}]*\s*(?:\Z|\n|[.,;!:](?!\w)|[–—-]\s|(?:because|since|weil|da|denn)\b)",
    re.IGNORECASE,
)
_COPULA = re.compile(r"\b(?:is|was|are|were|ist|war|sind)\s+\Z", re.IGNORECASE)
_NEGATION = r"(?:\b(?:not|never|nor|neither|cannot|nicht|kein\w*)|n['’]t)"
_DENIES = re.compile(
    rf"(?:{_NEGATION}|\b(?:rather than|instead of|except|without|against|unlike|"
    r"(?:rule[sd]?|ruling) out|exclud\w+|eliminat\w+|reject\w*))\b"
    rf"(?:\s+(?:{_IS}|be|for|with))?{_UP_TO}",
    re.IGNORECASE,
)
_NEGATED = re.compile(rf"{_NEGATION}(?:\s+(?:be|to|have|the|a|really))*\s*\Z", re.IGNORECASE)
_OF_A_WRONG_ONE = re.compile(
    rf"\b(?:incorrect|wrong|false|worst|least\s+\w+|falsche?\w*|un\w+)\s+{_NOUN}\b", re.IGNORECASE
)
_FITTING = (
    r"(?:correct|right|best|true|accurate|appropriate|suitable|answer|choice|option|likely|"
    r"richtig\w*|korrekt\w*|zutreffend\w*|passend\w*|antwort)\b"
)
_IS_FITTING = re.compile(
    rf"[\"'”’)\]}}]*(?:\s*,)?\s*(?:(?:{_IS}|(?:seems|appears|looks)(?: to be)?)"
    rf"(?:\s+(?:{_ADVERB}|most|best|only|single|one|more|very|am|the|my|our|die|der|das)\b)*"
    rf"\s+{_FITTING}"
    r"|(?:[-–—:=.)]|->|→)*\s*[(\[]?\s*(?:[✓✔✅☑]|(?:the )?(?:correct|right|richtig|korrekt|true)\b"
    r"(?=\W*(?:\Z|\n|[.,;!)\]]|because|since|answer|choice|option|weil|da\b)))"
    r"|(?:as\s+)?the\s+(?:most\s+\w+\s+)?(?:correct|right|best)\b"
    r"|(?:stimmt|trifft zu|wählen|nehmen|it is|(?:is|ist) the only)\b"
    r"|(?:best|most closely|correctly)\s+"
    r"(?:match|fit|correspond|align|reflect|describe|answer)\w*)",
    re.IGNORECASE,
)
_IS_WRONG = re.compile(
    r"[\"'”’)\]}]*\s*(?:[-–—:(,]\s*)?(?:which\s+)?(?:"
    r"(?:(?:is|are|was|were|would be|can|could|do|does|ist|sind|kann)\s+)"
    r"(?:(?:both|all|clearly|also|therefore|definitely|be|auch)\s+)*(?:not|nicht)\b|"
    r"(?:(?:is|are|was|were|would be|can|could|ist|sind|kann)\s+)?"
    r"(?:(?:both|all|clearly|also|therefore|definitely|be|auch|not|nicht)\s+)*"
    rf"(?:incorrect|wrong|false\b|falsch|unlikely|excluded|ruled out|eliminated|ausgeschlossen|"
    rf"[✗✘❌]|(?<=not ){_FITTING}|(?<=nicht ){_FITTING}|(?:isn|aren|doesn|don|can|wasn)['’]t|"
    r"cannot))",
    re.IGNORECASE,
)
_PLURAL = re.compile(r"\W*(?:are|were|both|sind|can|cannot|do|don|aren)\b", re.IGNORECASE)
_CONDITION = re.compile(r"\W{0,3}(?:if|unless|provided|depending|wenn|falls)\b", re.IGNORECASE)
_JOINS = re.compile(
    r"[\"'”’)\].}]*\s*(?:,\s*(?:and|or|und|oder)\b|[,/;&+]|(?:and/or|and|or|und|oder|sowie|bzw\.|et|ou|"
    r"as well as|versus|vs\.?)(?!\w))"
    rf"\s*(?:(?:possibly|perhaps|maybe|also|even|either)\s+)*{_OBJECT}?\s*[\"'“‘(\[{{]*",
    re.IGNORECASE,
)
_VERB_AFTER = re.compile(
    r"\W*(?:is|was|would|should|must|has|seems|appears|describes|refers|ist|wäre|hat)\b",
    re.IGNORECASE,
)

# Mentions.

_LETTER = re.compile(r"(?<![\w.'’°\\-])(?<!\bn/)(?<!\bN/)[A-Za-z](?!\w|['’]\w|[-‐.]\w)")
_DELIMITED = re.compile(r"\s*(?:\Z|\n|[.:,;!)\]}\"'”’|=✓✔✅❌✗✘→–—-](?!\w)|/)")
_CONNECTED = re.compile(
    r"\s+(?:because|since|as|based|according|given|due|which|not|rather|instead|if|unless|and|or|is|"
    r"are|would|should|must|can|cannot|seems|appears|it|best|correctly|depending|weil|da|denn|laut|"
    r"ist|sind|wäre|stimmt|trifft|und|oder|nicht|wenn|falls|isn|doesn|looks|the|only|wählen|nehmen)\b|\s*\((?!s\))"
)
_REASON = re.compile(r"\s+(?:because|since|as|based|only|weil|da|denn)\b")
_VERB = re.compile(r"\s+(?:is|ist)\b")
_BRACKET = re.compile(r"\s*\((?!s\))")
_TEXT_ENDS = re.compile(
    r"\s*(?:\Z|\n|[.:,;!?)\]}\"'”’|=✓✔✅❌✗✘→(](?!\d)|/|[–—-]\s"
    r"|(?:in|on|at|per|during|for|from|with)\b)|" + _CONNECTED.pattern
)
_TO_TEXT = re.compile(r"[\s.:)\]}\"'”’=–—(-]*")
_TO_LETTER = re.compile(
    r"[\"'”’]?\s*(?:[(\[]\s*(?:option|choice|answer)?|[,–—-]\s*(?:option|choice|answer)\s*[(\[]?)\s*",
    re.IGNORECASE,
)
_MARKS = " \t\n.,:;!\"'“”‘’„«»()[]{}|/–—=<>-"
_LEAD = re.compile(
    rf"(?:(?:{_ADVERB}|{_OBJECT}|{_NOUN}|my|the|sure|okay|ok|yes|final|correct)\b[\s,:!.(\"'\[]*)+",
    re.IGNORECASE,
)
_SENTENCE_START = re.compile(r"(?:\A|[.!?:\n])\s*\Z")
_CLAUSE_START = re.compile(
    r"(?:\A|[.;!?,:\n–—-]|\b(?:and|but|that|so|because|think|believe|since|while|thus|therefore|"
    rf"makes|würde|only|und|aber|dass|nur|weil|da|{_OBJECT}))\s*[\s\"'“‘(\[{{]*\Z",
    re.IGNORECASE,
)
_CONTRADICTION = -1
"""in place of an option: several options, a letter with another's text, or no option."""


@dataclass(frozen=True, slots=True)
class _Mention:
    """Characters ``start`` to ``end`` of an answer that name ``option``: by a letter, or (not
    ``lettered``) by its text alone; ``complete``: nothing that follows makes them part of something
    else."""

    start: int
    end: int
    option: int
    lettered: bool
    complete: bool
    listed: bool = False


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold().rstrip(".")


def correct_option(answer: str, options: Sequence[str]) -> int | None:
    """Index of the correct option: the one whose text the reference is, else the last one that
    contains it (LongHealth's own rule); None where there is none."""
    folded = _folded(answer)
    if not folded:
        return None
    equal = [i for i, option in enumerate(options) if _folded(option) == folded]
    containing = [i for i, option in enumerate(options) if folded in _folded(option)]
    return (equal[:1] or containing[-1:] or [None])[0]


def chosen_option(text: str, options: Sequence[str]) -> int | None:
    """Index of the option that an answer chooses, None where it chooses none or cannot be read.

    Reasoning is left out, and a further question that the model asks itself is read only
    where nothing before it chooses.
    """
    text = unicodedata.normalize("NFKC", text)
    for pattern in _REASONING:
        text = pattern.sub("\n", text)
    text = _END_OF_TURN.split(text.strip())[0].strip()
    parts = [_plain(part) for part in (_NEW_TURN.split(text)[0], text)]
    texts = _plain_options(tuple(options))
    choices = (_choice(part, texts) for part in dict.fromkeys(parts) if part)
    return next((choice for choice in choices if choice is not None), None)


@lru_cache(maxsize=256)
def _plain_options(options: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_plain(unicodedata.normalize("NFKC", option)) for option in options)


@lru_cache(maxsize=256)
def _option_patterns(options: tuple[str, ...]) -> tuple[tuple[int, re.Pattern[str]], ...]:
    """Index and pattern of each option that its text names, the longest first. A text that two
    options share names none, nor does a single letter."""
    folded = [_folded(option) for option in options]
    naming = [i for i, text in enumerate(folded) if len(text) > 1 and folded.count(text) == 1]
    words = {i: r"\s+".join(map(re.escape, options[i].rstrip(".").split())) for i in naming}
    return tuple(
        (i, re.compile(rf"(?<![\w.]){words[i]}(?!\w|[.,]\d)", re.IGNORECASE))
        for i in sorted(naming, key=lambda i: -len(folded[i]))
    )


def _plain(text: str) -> str:
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    return text.strip()


def _choice(text: str, options: tuple[str, ...]) -> int | None:
    mentions = _mentions(text, options)
    stated = [one for one in mentions if _is_stated(text, one)]
    option = stated[-1].option if stated else _unstated(text, options, mentions)
    return None if option == _CONTRADICTION else option


def _mentions(text: str, options: tuple[str, ...]) -> list[_Mention]:
    """All mentions in order, those joined to another ("A or B") as contradictions."""
    named = _by_text(text, options)
    mentions = [*named]
    for match in _LETTER.finditer(text):
        start, end = match.span()
        if any(one.start <= start < one.end for one in named):
            continue
        mention = _lettered(text, start, end, named, len(options))
        if mention is not None:
            mentions = [one for one in mentions if not _overlap(one, mention)] + [mention]
    return _joined(text, _listed(text, sorted(mentions, key=lambda one: one.start)))


def _overlap(one: _Mention, other: _Mention) -> bool:
    return one.start < other.end and other.start < one.end


def _by_text(text: str, options: tuple[str, ...]) -> list[_Mention]:
    """Mentions by an option's text; of overlapping ones the longest."""
    mentions: list[_Mention] = []
    for index, pattern in _option_patterns(options):
        for match in pattern.finditer(text):
            start, end = match.span()
            complete = _TEXT_ENDS.match(text, end) is not None
            one = _Mention(start, end, index, False, complete)
            if not any(_overlap(one, longer) for longer in mentions):
                mentions.append(one)
    return mentions


def _lettered(
    text: str, start: int, end: int, named: Sequence[_Mention], count: int
) -> _Mention | None:
    """The mention that a single letter is, with the option's text next to it; None for a word."""
    letter = text[start]
    option = LETTERS.index(letter.upper())
    option = option if option < count else _CONTRADICTION
    delimited = _DELIMITED.match(text, end) is not None
    after = _TO_TEXT.match(text, end)
    adjoining = [one for one in named if after and one.start == after.end() > end]
    if not adjoining:
        for one in named:
            gap = _TO_LETTER.match(text, one.end)
            if gap and gap.end() == start and text[end : end + 1] in ("", *")].,"):
                return replace(
                    one,
                    end=end,
                    lettered=True,
                    complete=True,
                    option=one.option if one.option == option else _CONTRADICTION,
                )
    for one in adjoining:
        if one.option == option and (delimited or letter.isupper()):
            return _Mention(start, one.end, option, True, True)
        if delimited and one.complete:
            return _Mention(start, one.end, _CONTRADICTION, True, True)
    enclosed = text[start - 1 : start] in tuple("([{\"'“‘") and delimited and start > 0
    connected = _CONNECTED.match(text, end) is not None
    if letter == "I" and not enclosed and option == _CONTRADICTION:
        return None
    if letter.islower() and not delimited and (letter in "aeiouy" or not connected):
        return None
    if not delimited and not connected:
        return None
    # "C. difficile", "E. coli": an initial, not an option.
    if re.match(r"\.\s+[a-zäöüß]", text[end:]) and not _CONNECTED.match(text, end + 1):
        return None
    return _Mention(start, end, option, True, True)


def _listed(text: str, mentions: list[_Mention]) -> list[_Mention]:
    """The mentions, marked where the answer goes through the options: lines that follow each other
    and begin with different letters."""
    starts: dict[int, int] = {}
    for i, one in enumerate(mentions):
        line_start = text.rfind("\n", 0, one.start) + 1
        if one.lettered and not text[line_start : one.start].strip(_MARKS):
            starts[text.count("\n", 0, line_start)] = i
    filled = [n for n, line in enumerate(text.split("\n")) if line.strip()]
    for above, below in pairwise(filled):
        if above in starts and below in starts:
            first, second = starts[above], starts[below]
            letters = {text[mentions[i].start].upper() for i in (first, second)}
            if len(letters) == 2:
                for i in (first, second):
                    mentions[i] = replace(mentions[i], listed=True)
    return mentions


def _joined(text: str, mentions: list[_Mention]) -> list[_Mention]:
    """The mentions without the denied ones, those joined to another as contradictions."""
    denied = [_is_denied(text, one) for one in mentions]
    options = [one.option for one in mentions]
    for i in range(len(mentions) - 2, -1, -1):
        one, other = mentions[i], mentions[i + 1]
        gap = _JOINS.match(text, one.end)
        if not gap or gap.end() != other.start or one.option == other.option:
            continue
        if denied[i + 1]:
            denied[i] = denied[i] or _PLURAL.match(text, other.end) is not None
        elif not _VERB_AFTER.match(text, other.end):
            options[i] = options[i + 1] = _CONTRADICTION
            # "not A or B" denies both.
            denied[i + 1] = denied[i]
    return [
        replace(one, option=option)
        for one, option, no in zip(mentions, options, denied, strict=True)
        if not no
    ]


def _is_denied(text: str, one: _Mention) -> bool:
    before = text[max(0, one.start - 160) : one.start]
    return bool(_DENIES.search(before) or _IS_WRONG.match(text, one.end))


def _is_stated(text: str, one: _Mention) -> bool:
    """Whether the words around a mention say that it is the answer."""
    if not one.complete or _CONDITION.match(text, one.end):
        return False
    before = text[max(0, one.start - 160) : one.start]
    if _IS_FITTING.match(text, one.end) and (not one.lettered or _CLAUSE_START.search(before)):
        return True
    if one.listed:
        return False
    ends = _SAYS + (_SAYS_AT_AN_END if _CLAUSE_END.match(text, one.end) else ())
    for pattern in ends:
        match = pattern.search(before)
        if match and not _NEGATED.search(before[: match.start()]):
            start = max(0, match.start() - 20)
            return _OF_A_WRONG_ONE.search(before[start:]) is None
    return False


def _unstated(text: str, options: Sequence[str], mentions: Sequence[_Mention]) -> int | None:
    """The option that an answer is, or begins or ends with; None where there is none or several."""
    bare = text.strip(_MARKS)
    lead = _LEAD.match(bare)
    bare = bare[lead.end() if lead else 0 :].strip(_MARKS)
    equal = [i for i, option in enumerate(options) if _folded(option) == _folded(bare)]
    equal += [
        i for i, option in enumerate(options) if not equal and _folded(option) == _folded(text)
    ]
    letter = LETTERS.find(bare.upper()) if len(bare) == 1 else -1
    if 0 <= letter < len(options):
        equal.append(letter)
    if equal:
        return equal[0] if len(set(equal)) == 1 else None
    unlisted = [one for one in mentions if one.complete and not one.listed]
    at_ends = [one for one in unlisted if _opens(text, one) or _closes(text, one)]
    written_out = [one for one in unlisted if one.lettered and one.end - one.start > 1]
    # What fills the first line is an answer, and what follows its explanation.
    headed = bool(at_ends) and at_ends[0].end >= len(text.split("\n")[0].rstrip(_MARKS))
    named = {one.option for one in (at_ends if headed else [*at_ends, *written_out])}
    if at_ends:
        return named.pop() if len(named) == 1 else None
    by_text = {one.option for one in mentions if not one.lettered}
    last = mentions[-1] if mentions else None
    if last and not last.lettered and len(by_text) == 1 and not text[last.end :].strip(_MARKS):
        one_sentence = not re.search(r"[.!?]\s", text[: last.start])
        if one_sentence and _COPULA.search(text[: last.start]):
            return last.option
    return None


def _opens(text: str, one: _Mention) -> bool:
    before = text[: one.start].strip(_MARKS)
    lead = _LEAD.fullmatch(before + " ") if before else None
    if (before and not lead) or _CONDITION.match(text, one.end):
        return False
    follows = [_DELIMITED, _BRACKET, _REASON, *([_VERB] if one.lettered else [])]
    with_text = one.lettered and one.end - one.start > 1
    return with_text or any(pattern.match(text, one.end) for pattern in follows)


def _closes(text: str, one: _Mention) -> bool:
    if text[one.end :].strip(_MARKS):
        return False
    if one.lettered and (one.end - one.start > 1 or text[: one.start].endswith(("(", "["))):
        return True
    before = text[: one.start].rstrip(" \t\"'“‘([{")
    lead = re.search(rf"{_LEAD.pattern}\Z", before + " ", re.IGNORECASE)
    return _SENTENCE_START.search(before[: lead.start()] if lead else before) is not None
