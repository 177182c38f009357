"""Extractive: answers with the lines of its context that hold what is asked, word for word.

A baseline without generation: it shows what a selection is worth when reading adds no reasoning. A
line answers where it holds the asked item, itself, in its coded entry or in its section, and is no
heading; where none does, the answer is "Not documented." and the nearest line its source. Among
those that do, what the question asks for decides (several, the newest, a time, a person), then the
score: analysed words and MiniLM (midchart.core.stats.ranking).

Under the published truncation its answer is empty where the question was cut off, where a language
model would continue the record (docs/methods.md, Stage 2: reading).
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from midchart.core.bm25 import AnalysedIndex
from midchart.core.embedding.embedder import Embedder, cosines, shared
from midchart.core.errors import InputError
from midchart.core.protocol import Protocol
from midchart.core.readers import READERS
from midchart.core.stats.ranking import standardised_sum
from midchart.core.text import count_tokens
from midchart.core.text.analysis import Analyzer, QuestionPart
from midchart.core.text.prompt import (
    CODED,
    HEAD,
    MIDDLE,
    NOT_DOCUMENTED,
    TAIL,
    body,
    dated,
    is_heading,
    option_text,
)
from midchart.core.types import Answer, ContextLine, Prompt
from midchart.core.weights import MINILM

LEAST_COVERAGE = 0.5
"""Share of what is asked, rarer parts counting more, that a line holds that is an answer."""
MOST_LINES = 24
"""Most lines of an answer that is a section."""
MOST_TITLE = 70
"""Most characters of a title that is no sentence."""
_GENERAL = """
according active amount anyone anything arrival baby begin begun boy care change chart child
current date describe detail document dosage dose earliest ever far find first found get girl given
happen history information initial kind known last latest letter level list long main man many
measured mentioned moment much name need newest next note number often old oldest onset past
performed prescribed present previous primary principal provide reading receive recent record
reported result says show start status still stop strength summarize take taken tells time today try
type undergo upcoming used value woman year
"""
"""Words of a question that name no item."""
_ABSENT = re.compile(
    r"\bno\b.*\b(?:information|data|recorded|records?|indicated|available|applicable|on file)\b"
    r"|\b(?:not|none) (?:recorded|available|indicated|applicable|on file)\W*$"
    r"|(?:^|: |- )(?:see|refer|per|same|unchanged|reviewed|noted|siehe|wie|voir|cf|v[eé]ase|vedi"
    r"|as (?:above|below|before|noted|documented|described|per))\b",
    re.IGNORECASE,
)
"""A line that says that a section holds nothing, or refers to another in place of its content."""
_STOPPED = r"stopped|discontinued|held|ended|withdrawn|abgesetzt|arr[eê]t[eé]\w*|suspendid[ao]s?"
_ASKED = {
    name: re.compile(rf"\b(?:{words})\b", re.IGNORECASE)
    for name, words in {
        "list": r"list|all|plan|welche|quel(?:le)?s|qu[eé]|cu[aá]les"
        r"|(?:which|what)\b.*?\b(?!does\b)\w{2,}(?:[^ius\W]s|ae)",
        "any": r"any\w*",
        "which": "which",
        "newest": "most recent|latest|newest|last|letzte[nrs]?|derni[eè]re?|[uú]ltim[ao]",
        "oldest": "first|earliest|initial|oldest",
        "now": r"current|currently|now|active|takes?|taking|today|at (?:the moment|present)"
        r"|(?:is|are) \w+ on",
        "ended": rf"(?:which|what|welche\w*|quel\w*|qu[eé]|cu[aá]l\w*)\b.*\b(?:{_STOPPED})",
        "next": "next|upcoming|n[aä]chste[nrs]?|prochaine?|pr[oó]xim[ao]",
        "when": "when|what (?:date|day|time)|wann|quand|cu[aá]ndo",
        "who": "who|whom|whose",
        "dose": "dose|dosage|how much|dosis|dosierung|posologie",
        "status": r"(?:does|did|do|is|was|has) .*(?:smok|drink|alcohol|tobacco|drugs|vap)\w*",
    }.items()
}
"""What a question asks for: several lines, a line of some time, a time, an end, a person."""
_STATED = {
    "when": re.compile(r"\b(?:19|20)\d\d\b|\d\d?/\d\d?/\d\d|\d:\d\d|\bin \w+ (?:day|week|month)"),
    "dose": re.compile(
        r"\b\d+(?:[.,]\d+)?\s?(?:mg|mcg|µg|g|ml|units?|iu|puffs?|tab)", re.IGNORECASE
    ),
    "status": re.compile(r"(?i)\b(?:never|former|ex|current|quit|packs?|daily|none?|no|rare)\b"),
    "who": re.compile(r"\b(?:Dr|MD|DO|NP|PA|RN|Prof|[Pp]rovider|[Pp]hysician|[Pp]erformer)\b"),
}
"""A line that states a time, an amount, a person or a status."""
_ENDED = re.compile(
    rf"\b(?<!unless )(?:{_STOPPED}|no longer active|inactive|resolved|expired)\b|\(end\)",
    re.IGNORECASE,
)
_MEDICINE = re.compile(r"(?i)\b([a-z]{4,})(?=\W+(?:\w+ )?\d[\d.,-]* ?(?:mg|mcg|units)\b)")
"""A word before a dose."""
_PLANNED = re.compile(r"\b(?:ordered|planned|pending|scheduled)\b", re.IGNORECASE)
_NEGATED = re.compile(r"\b(?:denie[ds]|no|not|never|without)\b", re.IGNORECASE)
_PRESSURE = re.compile("systolic|diastolic")
"""Of a blood pressure whose two numbers are lines of their own."""
_BEFORE = re.compile(r"^[^:]+(?=:)|^[^,]+(?=,.*\d)|[^ ]+ (?=\d)")
"""What a line has before a value."""
_ASKING = re.compile(r"(?i)\?$|^(?:list|name|show|give|tell|describe|summari[sz]e|provide)\b")
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAY = re.compile(
    r"(?<![\d./-])(?:(?P<y>\d{4})-(?P<m>\d\d)(?:-(?P<d>\d\d))?"
    r"|(?P<m2>\d\d?)/(?P<d2>\d\d?)/(?P<y2>\d{4}|\d\d)|(?P<d3>\d\d?)\.(?P<m3>\d\d?)\.(?P<y3>\d{4})"
    r"|(?P<y4>(?:19|20)\d\d)(?P<m4>[01]\d)(?P<d4>[0-3]\d))(?![\d-])"
    rf"|\b(?:(?P<d6>\d\d?)[ -])?(?P<n>{'|'.join(_MONTHS)})[a-z]*\.?[\s-]+"
    r"(?:(?P<d5>\d\d?)(?:st|nd|rd|th)?,?[\s-]+)?(?P<y5>\d{4})\b",
    re.IGNORECASE,
)


def titled(line: ContextLine) -> str:
    """A line's text below its title, as arms score it, so that its vector is theirs."""
    return f"{line.title}\n{body(line)}" if line.title else body(line)


def dates(text: str) -> list[datetime]:
    """The days that a text states, a month without a day as its first."""
    days: list[datetime] = []
    for match in _DAY.finditer(text):
        part = {name[0]: value for name, value in match.groupdict().items() if value}
        year, month, day = int(part["y"]), part.get("m"), int(part.get("d", 1))
        number = int(month) if month else 1 + _MONTHS.index(part["n"][:3].lower())
        if number > 12:  # the day before the month
            number, day = day, number
        with suppress(ValueError):
            days.append(datetime(year + (2000 if year < 100 else 0), number, day))
    return days


def fact_date(line: ContextLine) -> datetime:
    """The latest day that a line states, else that of its entry; the earliest there is without."""
    return max(dates(body(line)) or dates(dated(line.text)), default=datetime.min)


@READERS.register("extractive")
class Extractive:
    """The context lines that hold what is asked, else "Not documented."; ties go to the earlier.

    ``window`` is in tokens of :func:`midchart.core.text.count_tokens`, the paper's reader's length.
    Raises InputError for one without room for a question, MissingModel without the weights.
    """

    name: str = "extractive"
    title: str = "Extractive baseline (non-generative)"
    needs: ClassVar[str] = MINILM
    generative: ClassVar[bool] = False
    only_quotes: ClassVar[bool] = True
    count_tokens = staticmethod(count_tokens)

    def __init__(
        self, protocol: Protocol, window: int = 32_768, embedder: Embedder | None = None
    ) -> None:
        least = count_tokens(HEAD + MIDDLE + TAIL) + protocol.answer_tokens + 1
        if type(window) is not int or window < least:
            raise InputError(
                f"'window' of the reader 'extractive' is a whole number of tokens from {least}: "
                "fewer leave no room for a question and its answer"
            )
        self.protocol = protocol
        self.window = window
        self.embedder = embedder if embedder is not None else shared(self.needs)

    def read(self, prompt: Prompt) -> Answer:
        """The lines of ``prompt.context`` that answer its question, with their date as shown.

        Of a multiple-choice question the option that, after the question, is nearest to any line;
        ties go to the earlier. The answer is empty, and says why, where the prompt holds no
        question or no line.
        """
        begun = time.perf_counter()
        missing = ""
        if not prompt.question_survived:
            missing = "the question was cut off the prompt"
        elif not prompt.question.strip():
            missing = "the question is empty"
        elif not prompt.context:
            missing = "the prompt holds no line of the record"
        if missing:
            return Answer("", reason=missing, prompt_tokens=prompt.tokens)
        asked = [f"{prompt.question} {option}" for option in prompt.options] or [prompt.question]
        vectors = self.embedder.embed([*asked, *map(titled, prompt.context)])
        questions, lines = vectors[: len(asked)], vectors[len(asked) :]
        # Six decimals, as in the dense arm: float32 rounding must not decide.
        near = np.stack([np.round(cosines(lines, v).astype(np.float64), 6) for v in questions])
        if prompt.options:
            best, doubt = int(np.argmax(near.max(axis=1))), ""
            text = option_text(prompt.options, best)
            sources = [prompt.context[int(np.argmax(near[best]))]]
        else:
            sources, doubt = _answer_lines(prompt.context, prompt.question, near[0])
            text = NOT_DOCUMENTED if doubt else _joined(sources)
        return Answer(
            text,
            reason=doubt,
            sources=tuple(line.sentence_id for line in sources),
            quotes=not prompt.options,
            prompt_tokens=prompt.tokens,
            output_tokens=count_tokens(text),
            seconds=time.perf_counter() - begun,
            how="abstained" if doubt else "",
        )


def _answer_lines(
    context: Sequence[ContextLine], question: str, cosine: NDArray[np.float64]
) -> tuple[list[ContextLine], str]:
    """The lines that answer a question; or the nearest one, and why it does not. ``cosine`` [n]:
    of each line with the question."""
    entry = _with_codes(context)
    plain = re.sub(r"\b(?:Mr|Mrs|Ms)\.? \w+", "", question)  # without the patient's name
    question = " ".join(filter(_ASKING.search, re.split(r"(?<=[.?!:])\s+", plain))) or plain
    context = [
        line if len(line.title) <= MOST_TITLE else replace(line, title="", section="")
        for line in context
    ]
    texts = AnalysedIndex.of([f"{line.title}\n{t}" for line, t in zip(context, entry, strict=True)])
    sections = AnalysedIndex.of([line.section for line in context], texts.analyzer.language)
    items = _items(question, texts, sections)
    named = sections.coverage(items)
    held = np.maximum(texts.coverage(items), named)
    score = standardised_sum(texts.scores(question), cosine)
    silent = [not t or is_heading(body(line)) for line, t in zip(context, entry, strict=True)]
    score[silent] = -np.inf
    asked = {name for name, rule in _ASKED.items() if rule.search(question)}
    lines = np.flatnonzero((held >= LEAST_COVERAGE) & (score > -np.inf)).tolist()
    if "ended" in asked:
        medicines = " ".join(name for i in lines for name in _MEDICINE.findall(entry[i]))
        held[texts.index.holding(texts.analyzer.terms(medicines))] = 1
        ended = np.flatnonzero(held >= LEAST_COVERAGE).tolist()
        lines = [i for i in ended if _ENDED.search(entry[i])]
    if {"when", "next"} <= asked:
        lines = [i for i in lines if _STATED["when"].search(entry[i])]
    if not lines:
        return [context[int(np.argmax(score))]], "no line of the context holds what is asked"

    listed = not asked.isdisjoint(("list", "any"))
    if asked.isdisjoint((*_STATED, "ended")):
        listed |= any(named[i] >= 1 and context[i].title for i in lines)
    titles = {i: context[i].section if "list" in asked else context[i].title for i in lines}
    section = _section(titles, held, items, texts.analyzer) if listed else []
    if section or "ended" in asked:
        lines = section or lines
    else:
        excluded = [_NEGATED] if "which" in asked else []
        excluded += [_ENDED] if asked & {"now", "when"} else []
        excluded += [] if listed or asked & {"next", "when", "dose"} else [_PLANNED]
        for rule in excluded:
            if not rule.search(question):
                lines = [i for i in lines if not rule.search(context[i].text)] or lines
        share = texts.coverage(items, ("equal", "narrower")[: 1 + listed])
        lines = [i for i in lines if share[i] >= LEAST_COVERAGE] or lines
    for rule in (_ABSENT, CODED, *([_ENDED] if "now" in asked else ())):
        lines = [i for i in lines if not rule.search(body(context[i]))] or lines
    lines = [i for i in lines if held[i] >= held[lines].max()]
    day = {i: fact_date(context[i]) for i in lines}
    if listed and asked.isdisjoint(("newest", "oldest", "next")):
        return list({body(context[i]): context[i] for i in lines}.values())[:MOST_LINES], ""

    for name in sorted(asked & _STATED.keys()):
        lines = [i for i in lines if _STATED[name].search(body(context[i]))] or lines
    if asked.isdisjoint(_STATED):  # lines that name the item before its value
        before = [" ".join(_BEFORE.findall(body(line))) for line in context]
        labels = AnalysedIndex.of(before).coverage(items)
        most = max(labels[lines])
        lines = [i for i in lines if labels[i] >= most]
    best = max(lines, key=score.__getitem__)
    if "next" in asked:
        today = max(max(dates(dated(line.text)), default=datetime.min) for line in context)
        best = min((i for i in lines if day[i] >= today), key=day.__getitem__, default=best)
    elif "oldest" in asked:
        best = min(lines, key=lambda i: (day[i] == datetime.min, day[i], -score[i]))
    else:
        if asked.isdisjoint(("newest", "now", "status")):  # of readings of one item the newest
            label = _label(context[best])
            lines = [i for i in lines if label and _label(context[i]) == label] or [best]
        best = max(lines, key=lambda i: (day[i], score[i]))
    pressures = [set(_PRESSURE.findall(text.lower())) for text in (*entry, question)]
    if len(pressures[best]) == 1 and len(pressures[-1]) != 1:
        for i, line in enumerate(context):
            if pressures[i] - pressures[best] and fact_date(line) == day[best]:
                return [context[j] for j in sorted((best, i))], ""
    return [context[best]], ""


def _label(line: ContextLine) -> str:
    """What a line has before its first colon, without numbers; "" without a colon."""
    label, colon, _ = body(line).partition(":")
    return re.sub(r"[\d.,]+", "", label) if colon else ""


def _with_codes(context: Sequence[ContextLine]) -> list[str]:
    """The text of each line with those of its coded entries, whose own are empty."""
    texts = [body(line) for line in context]
    written: dict[str, int] = {}
    for i, line in enumerate(context):
        event = line.sentence_id.partition(".")[0]
        if not CODED.match(body(line)):
            written[event] = i
        elif event in written:
            texts[written[event]] += f"\n{texts[i]}"
            texts[i] = ""
    return texts


def _items(question: str, texts: AnalysedIndex, sections: AnalysedIndex) -> list[QuestionPart]:
    """The parts of a question that name an item; of one in another language than the texts those
    that they know."""
    analyzer = texts.analyzer
    general = set(analyzer.terms(_GENERAL))
    items = [part for part in analyzer.question(question) if not general.issuperset(part.terms)]
    if analyzer.asked_in(question) != analyzer:
        items = [p for p in items if any(i.coverage([p]).any() for i in (texts, sections))]
    # Hiragana, in which Japanese writes what no item is.
    return [part for part in items if not re.search("[\u3040-\u309f]", "".join(part.terms))]


def _section(
    titles: Mapping[int, str],
    held: NDArray[np.float64],
    items: Sequence[QuestionPart],
    analyzer: Analyzer,
) -> list[int]:
    """The lines, of those with ``titles``, whose title names ``items`` most precisely, in a section
    of which a line holds most of them; none where no title does."""
    named = {term for part in items for one in (part, *part.others) for term in one.terms}
    most = max(held[list(titles)])
    precision: dict[str, float] = {}
    for title in {title for i, title in titles.items() if held[i] >= most}:
        for heading in title.split(" · "):
            terms = set(analyzer.terms(heading))
            share = len(terms & named) / max(1, len(terms))
            share += any(terms.issuperset(part.terms) for part in items)
            precision[title] = max(share, precision.get(title, 0.0))
    best = max(precision.values(), default=0.0)
    return [i for i, title in titles.items() if precision.get(title) == best > LEAST_COVERAGE]


def _joined(lines: Sequence[ContextLine]) -> str:
    """Lines as one, each after its date where they have several."""
    first, *others = lines
    same = len({dated(line.text) for line in lines}) == 1
    return "; ".join([first.text, *(body(line) if same else line.text for line in others)])
