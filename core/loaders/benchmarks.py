"""Question-answer benchmarks: a base class, and of each format a mapping of its files to records.

SQuAD-shaped JSON (COVID-QA, RadQA, emrQA, BioASQ), MedCalc-Bench, ArchEHR-QA, LongHealth and
EHRNoteQA.
"""

from __future__ import annotations

import csv
import io
import re
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any
from xml.etree.ElementTree import Element

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from midchart.core.cohorts.base import RecordLoader
from midchart.core.cohorts.columns import parse_time
from midchart.core.cohorts.files import LoadLog
from midchart.core.cohorts.records import (
    Entry,
    GoldSource,
    PatientEntries,
    Questions,
    entry,
    opaque_id,
    task_type_of,
)
from midchart.core.cohorts.tables import accept_long_cells, check_columns, read_table
from midchart.core.errors import DataError
from midchart.core.loaders import LOADERS
from midchart.core.parsing import read_document, read_json
from midchart.core.storage.sources import Source
from midchart.core.text import content_words
from midchart.core.text.choices import correct_option
from midchart.core.text.prompt import NOT_DOCUMENTED
from midchart.core.text.splitting import split
from midchart.core.types import Instruction, Span

Reference = tuple[str, tuple[Span, ...], bool]
"""A reference answer, its evidence, and whether the benchmark itself states that."""


@dataclass(frozen=True, slots=True)
class BenchmarkFile:
    """A file of a benchmark as it is read: its ``name`` in messages, what it must hold, and where
    its records and questions are entered."""

    name: str
    shape: str
    patients: PatientEntries
    questions: Questions

    @property
    def log(self) -> LoadLog:
        """What is left out and what is doubtful."""
        return self.patients.log

    def skip(self, what: str, reason: object, line: int | None = None) -> None:
        """Leave a record or question out."""
        self.log.skip(self.name, line, f"{what} {reason} — {self.shape}")

    @contextmanager
    def usable(self, what: str) -> Generator[None]:
        """Leave a question out where reading it raises ValueError, with the reason."""
        try:
            yield
        except ValueError as error:
            self.skip(what, "lacks a field" if isinstance(error, ValidationError) else error)

    def record(
        self, stated: str, notes: Sequence[Entry], facts: Mapping[str, str] | None = None
    ) -> str:
        """Enter a record, unless there is one with the same id and texts; gives its id."""
        key = stated, "\n".join(note[4] for note in notes)
        if key not in self.patients.ids:
            id = self.patients.ids[key] = self.patients.unused(stated, self.patients.entries)
            # A note's id begins with that of its record.
            named = ((*n[:6], n[6].replace(stated, id, 1), *n[7:]) for n in notes)
            self.patients.add(id, self.name, *named)
            self.patients.facts[id] = dict(facts or {})
        return self.patients.ids[key]

    def ask(
        self, stated: str, record: str, question: str, gold: Reference | None, **more: Any
    ) -> None:
        """Enter a question with its reference, if it has one.

        ``stated``: its id, if that is not used. ``more``: fields of the instruction.
        """
        id, question = self.patients.unused(stated, self.questions.records), question.strip()
        one = Instruction(id, record, question, task_type=task_type_of(question), **more)
        self.questions.records[id] = record
        self.questions.instructions.append(one)
        if gold is not None:
            answer, spans, exact = gold
            source = GoldSource(record, answer, (), self.name, None, spans, exact)
            self.questions.gold[id] = source


class BenchmarkLoader(RecordLoader):
    """A benchmark's format. Subclasses write ``enter``; ``shape`` says what a file must hold."""

    by_time = False
    shape: str

    @abstractmethod
    def enter(self, file: Source, to: BenchmarkFile) -> None:
        """Enter the records and questions of a file; raises DataError where there is none."""

    def read_file(self, file: Source, patients: PatientEntries, questions: Questions) -> None:
        """Enter all records and questions; what cannot be used is skipped with its reason."""
        self.enter(file, BenchmarkFile(file.name, self.shape, patients, questions))


def objects(content: object, *path: str) -> list[Any]:
    """The list at a path of keys of a JSON document; none where it is of another shape."""
    for key in path:
        content = content.get(key) if isinstance(content, dict) else None
    return content if isinstance(content, list) else []


# SQuAD-shaped JSON (COVID-QA, RadQA, emrQA, BioASQ): an article is a record, each paragraph a
# note. The reference is the first answer; evidence is where the answers begin, exactly. A
# question marked ``is_impossible`` has "Not documented." for its reference and no evidence.

SHIFT = 32
"""Characters that an answer may be away from its offset."""


class _SquadAnswer(BaseModel):
    text: str
    answer_start: Annotated[int, Field(ge=0)]

    def span(self, order: int, context: str) -> Span:
        """Where the answer is, without blanks around it; raises ValueError.

        It may be up to :data:`SHIFT` characters from its offset, as it is where line ends or blanks
        were counted otherwise (COVID-QA); of several places the nearest is taken.
        """
        answered, first = self.text.strip(), max(0, self.answer_start - SHIFT)
        window = context[first : self.answer_start + SHIFT + len(answered)]
        starts = [first + m.start() for m in re.finditer(f"(?={re.escape(answered)})", window)]
        if not starts or not answered:
            raise ValueError("has an answer that is not at its offset")
        begin = min(starts, key=lambda at: abs(at - self.answer_start))
        return Span(order, begin, begin + len(answered))


class _SquadQuestion(BaseModel):
    question: str
    id: str | int | None = None
    answers: list[_SquadAnswer] | None = None
    is_impossible: Any = False


@LOADERS.register("squad")
class Squad(BenchmarkLoader):
    """SQuAD-shaped question answering over articles or notes."""

    name = "squad"
    title = "SQuAD-shaped JSON (paragraphs, questions, answers by offset)"
    source = "SQuAD-shaped question answering"
    suffix, marks = ".json", (b'"paragraphs"', b'"data"')
    unit = "article"
    shape = (
        "it needs data[].paragraphs[].{context, qas[].{question, answers[].{text, answer_start}}}"
    )

    def enter(self, file: Source, to: BenchmarkFile) -> None:
        """A record an article."""
        content = file.json("download it again")
        articles = objects(content, "data")
        if not articles:
            raise DataError(to.name, 1, "holds no list of articles", self.shape)
        for number, article in enumerate(articles, 1):
            paragraphs = [
                one
                for one in objects(article, "paragraphs")
                if isinstance(one, dict) and isinstance(one.get("context"), str)
            ]
            if not paragraphs:
                to.skip(f"article {number}", "has no paragraph with a context")
                continue
            stated = article.get("title") or paragraphs[0].get("document_id")
            id = str(stated or f"{file.stem}-{number}").replace("/", "-")[:120]
            texts = [str(one["context"]) for one in paragraphs]
            notes = [
                entry(None, "note", text=text, note_id=f"{id}-{order}")
                for order, text in enumerate(texts, 1)
            ]
            record = to.record(id, notes)
            asked = [(n, qa) for n, one in enumerate(paragraphs) for qa in objects(one, "qas")]
            for number, (order, stated) in enumerate(asked, 1):
                with to.usable(f"question {number} of article {id}"):
                    read, text = _SquadQuestion.model_validate(stated), texts[order]
                    stated_spans = (one.span(order, text) for one in read.answers or ())
                    spans = tuple(dict.fromkeys(stated_spans))
                    if not spans and read.is_impossible is not True:
                        raise ValueError("has no answer")
                    of = str(read.id or opaque_id(f"{id}-{order}", read.question.strip()))
                    answer = text[spans[0].start : spans[0].end] if spans else NOT_DOCUMENTED
                    to.ask(of, record, read.question, (answer, spans, True))


# MedCalc-Bench (ncbi-nlp, CC BY-SA 4.0): a note is a record, asked about a calculation. Evidence
# are the sentences that state the numbers of its relevant entities: found, not marked by the
# authors.

MEDCALC = ("Patient Note", "Question", "Relevant Entities", "Ground Truth Answer")
BEFORE, AFTER = 60, 25
"""Characters before and after a number in which the entity's name makes it the entity's."""
_ENTITY = re.compile(r"""(?:'([^']+)'|"([^"]+)")\s*:\s*\[?\s*(-?\d+(?:\.\d+)?)""")
_ID = re.compile(r"[^A-Za-z0-9-]")


def evidence(text: str, entities: str) -> list[Span]:
    """The sentences of a note that state the numbers of ``entities``, as the column writes them."""
    sentences = split(text)
    places: set[tuple[int, int]] = set()
    for match in _ENTITY.finditer(entities):
        name, written = (match[1] or match[2]).lower(), match[3]
        forms = "|".join(re.escape(form) for form in {f"{float(written):g}", written})
        numbers = list(re.finditer(rf"(?<![\d.,])(?:{forms})(?!\d|\.\d)", text))
        word = name.split()[0][:5] if name.split() else ""
        near = [
            number for number in numbers
            if word in text[max(0, number.start() - BEFORE) : number.end() + AFTER].lower()
        ]  # fmt: skip
        # A number that is there once, and an age, need no name.
        chosen = near[:1] or (numbers[:1] if len(numbers) == 1 or name == "age" else [])
        places.update((a, b) for one in chosen for a, b in sentences if a <= one.start() < b)
    return [Span(0, a, b) for a, b in sorted(places)]


@LOADERS.register("medcalc")
class MedCalc(BenchmarkLoader):
    """MedCalc-Bench's table of notes and questions."""

    name = "medcalc"
    title = "MedCalc-Bench (CSV of patient notes and calculations)"
    source = "MedCalc-Bench"
    licence = "CC BY-SA 4.0"
    suffix, marks, marks_in_line = ".csv", tuple(map(str.encode, MEDCALC)), True
    unit, shape = "note", "add it"

    def enter(self, file: Source, to: BenchmarkFile) -> None:
        """A record a row, of which those with the same note are one."""
        for row in read_table(file, MEDCALC, to.log):
            text = row.get("Patient Note").replace("\r\n", "\n").replace("\r", "\n")
            number = row.get("Row Number") or str(row.line)
            id = _ID.sub("_", row.get("Note ID") or f"n{number}")[:120]
            question, answer = row.get("Question"), row.get("Ground Truth Answer")
            if not (text and question and answer):
                to.skip(f"note {id}", "lacks its note, question or answer", row.line)
                continue
            note = entry(None, "note", name="case note", text=text, note_id=id, line=row.line)
            record, spans = to.record(id, [note]), evidence(text, row.get("Relevant Entities"))
            gold, domain = (answer, tuple(spans), False), row.get("Category")
            to.ask(f"mc{number}", record, question, gold, domain=domain)


# ArchEHR-QA (PhysioNet, archehr-qa-bionlp-task-2025): a case of ``archehr-qa.xml`` is a record of
# one note. ``archehr-qa_key.json`` in its folder labels each sentence: the essential ones are the
# evidence, exactly, or else the supplementary ones. The reference is the clinician's answer where
# the key has one, else these sentences.

LABELS = ("essential", "supplementary", "not-relevant")
_CITATION = re.compile(r"\s*\|[\d,\s]*\|")


class _Label(BaseModel):
    sentence_id: str
    relevance: str


class _ArchehrKey(BaseModel):
    case_id: str
    answers: list[_Label] = []
    clinician_answer_without_citations: str = ""
    clinician_answer: str = ""


_KEYS = TypeAdapter(list[_ArchehrKey])


@dataclass(frozen=True, slots=True)
class LabelledCase:
    """The sentences of a case by their ids: first character in the note and the one after, and the
    label that the key gives each (none without a key); the note, a line a paragraph; the question,
    and the clinician's answer (None without a key)."""

    places: Mapping[str, tuple[int, int]]
    labels: Mapping[str, str]
    note: str = ""
    question: str = ""
    answer: str | None = None

    def evidence(self) -> list[Span]:
        """The essential sentences, or else the supplementary ones."""
        named = (
            [Span(0, *self.places[one]) for one, of in self.labels.items()
             if of == label and one in self.places]
            for label in LABELS[:2]
        )  # fmt: skip
        return next(filter(None, named), [])


def _text(element: Element) -> str:
    return " ".join("".join(element.itertext()).split())


def _case(case: Element, key: _ArchehrKey | None) -> LabelledCase:
    text, paragraph, places = "", None, dict[str, tuple[int, int]]()
    for sentence in case.iterfind("note_excerpt_sentences/sentence"):
        words, stated = _text(sentence), sentence.get("paragraph_id")
        if text:
            text += " " if stated == paragraph else "\n"
        places[sentence.get("id", "")] = (len(text), len(text) + len(words))
        text, paragraph = text + words, stated
    asked = [*case.iterfind("clinician_question"), *case.iterfind("patient_question")]
    question = next(filter(None, map(_text, asked)), "")
    if key is None:
        return LabelledCase(places, {}, text, question)
    labels = {one.sentence_id: one.relevance for one in key.answers}
    answer = _CITATION.sub("", key.clinician_answer_without_citations or key.clinician_answer)
    return LabelledCase(places, labels, text, question, " ".join(answer.split()))


def _cases(file: Source, log: LoadLog) -> Iterator[tuple[str, LabelledCase]]:
    """Id and case of each case of a file; keys that cannot be read are skipped."""
    key, keys = _key_file(file), dict[str, _ArchehrKey]()
    if not key.is_file():
        log.warn(f"{file.name}: no {key.path.name} is in its folder — questions lack evidence")
    else:
        with log.skipping():
            content = key.text().encode()
            stated = read_document(content, key.name, _KEYS, "see the format of ArchEHR-QA")
            keys = {one.case_id: one for one in _KEYS.validate_python(stated)}
    for number, case in enumerate(file.xml().iterfind("case"), 1):
        id = case.get("id") or str(number)
        yield id, _case(case, keys.get(id))


def _key_file(file: Source) -> Source:
    return file.with_name(f"{file.stem}_key.json")


def labelled_cases(path: Path) -> dict[str, LabelledCase]:
    """The cases of the files at ``path``, a folder or one file, by id; raises DataError."""
    files = Source.at(path).entries("*.xml")
    return {id: case for file in files for id, case in _cases(file, LoadLog())}


@LOADERS.register("archehr_qa")
class ArchEhrQa(BenchmarkLoader):
    """ArchEHR-QA's cases, with the key where it is there."""

    name = "archehr_qa"
    title = "ArchEHR-QA (XML of cases, JSON key of sentence labels)"
    source = "ArchEHR-QA"
    licence = "PhysioNet Credentialed Health Data License"
    suffix, marks, sniffed = ".xml", (b"<annotations", b"<case"), 1 << 14
    unit, shape = "case", "see the format of ArchEHR-QA"

    def companions(self, place: Source) -> list[Source]:
        """The key of a file of cases."""
        return [_key_file(place)] if place.is_file() else []

    def enter(self, file: Source, to: BenchmarkFile) -> None:
        """A record a case."""
        for id, case in _cases(file, to.log):
            if not case.note:
                to.skip(f"case {id}", "has no sentence")
                continue
            labels = case.labels.items()
            wrong = sum(one not in case.places or label not in LABELS for one, label in labels)
            if wrong:
                to.log.warn(f"{to.name}: {wrong} labels of case {id} name no sentence or label")
            note = entry(None, "note", name="note excerpt", text=case.note, note_id=id)
            record, spans = to.record(id, [note]), tuple(case.evidence())
            answer = case.answer or " ".join(case.note[span.start : span.end] for span in spans)
            if not case.question:
                to.skip(f"question 1 of case {id}", "has no text")
                continue
            gold = None if case.answer is None else (answer, spans, True)
            to.ask(f"case-{record}", record, case.question, gold)


# LongHealth: a patient is a record, each text a note in the order of their numbers. A note's time
# is the first date of its opening paragraph that is no birth date; times never reorder the notes.
# ``answer_location`` gives fractions of a text's length, some shifted, so the evidence is the
# lines around it, 3 % of the text wider on both sides, and is not exact.

WIDER = 0.03
"""By how much a stated location is widened on either side, as a share of the text."""
_WRITTEN = re.compile(
    r"(\d{1,2}/\d{1,2}/\d{4})|((?:January|February|March|April|May|June|July|August|September"
    r"|October|November|December)\s+\d{1,2})(?:st|nd|rd|th)?(?:\s+to\s+\d{1,2}(?:st|nd|rd|th)?)?"
    r"(,\s+\d{4})",
    re.IGNORECASE,
)


def opening_date(text: str) -> datetime | None:
    """The first date of a letter's opening paragraph (after the salutation), except birth dates."""
    paragraphs = [p for p in text.split("\n\n") if p.strip()][:2]
    opening = paragraphs[-1] if paragraphs else ""
    for match in _WRITTEN.finditer(opening):
        if not re.search(r"\bborn\b[\s(on]*$", opening[: match.start()], re.IGNORECASE):
            return parse_time("".join(filter(None, match.groups())))
    return None


_sentences = lru_cache(maxsize=64)(split)  # many questions ask about a text


def location_window(text: str, start: float, end: float) -> tuple[int, int]:
    """The lines of ``text`` around the fractions ``start`` to ``end``, 3 % wider."""
    n = len(text)
    first = max(0, int((start - WIDER) * n))
    last = min(n, int((end + WIDER) * n) + 1)
    first = text.rfind("\n", 0, first) + 1
    stop = text.find("\n", last)
    return first, n if stop < 0 else stop


def narrowed(text: str, window: tuple[int, int], question: str, answer: str) -> tuple[int, int]:
    """The part of a location's window that answers the question.

    Of the sentences that overlap ``window`` (first, last character): those with the most distinct
    terms of ``answer`` (words of four letters or more, and numbers), ties broken by terms of
    ``question``; all of them where they are adjacent, the first otherwise. The window itself where
    no sentence shares a term with ``answer``.
    """
    inside = [(a, b) for a, b in _sentences(text) if a < window[1] and b > window[0]]
    answer_terms, question_terms = _terms(answer), _terms(question)
    terms = [_terms(text[a:b]) for a, b in inside]
    scores = [(len(answer_terms & held), len(question_terms & held)) for held in terms]
    best = max(scores, default=(0, 0))
    if not best[0]:
        return window
    chosen = [i for i, score in enumerate(scores) if score == best]
    last = chosen[-1] if chosen[-1] - chosen[0] + 1 == len(chosen) else chosen[0]
    return inside[chosen[0]][0], inside[last][1]


@lru_cache(maxsize=4096)
def _terms(text: str) -> frozenset[str]:
    return content_words(text) | frozenset(re.findall(r"\d+(?:[.,/:-]\d+)*", text))


_Shares = list[Annotated[float, Field(ge=0, le=1)]]


class _Location(BaseModel):
    start: _Shares = []
    end: _Shares = []


_LOCATIONS = TypeAdapter(dict[str, _Location])


class _LonghealthQuestion(BaseModel):
    No: int | str
    question: str
    correct: str
    answer_location: Any = None
    answer_a: str = ""
    answer_b: str = ""
    answer_c: str = ""
    answer_d: str = ""
    answer_e: str = ""


class _LonghealthPatient(BaseModel):
    model_config = ConfigDict(extra="allow")
    texts: dict[str, str]
    questions: list[Any] = []


@LOADERS.register("longhealth")
class LongHealth(BenchmarkLoader):
    """LongHealth's benchmark file, or some patients of it."""

    name = "longhealth"
    title = "LongHealth (JSON of texts and questions)"
    source = "LongHealth"
    licence = "Apache-2.0"
    suffix, marks = ".json", (b'"texts"',)
    unit, shape = "patient", "see LongHealth's format"

    def has_marks(self, file: Source) -> bool:
        """Whether a file has the marks and opens with an object of objects."""
        opening = rb'\s*(?:\xef\xbb\xbf)?\s*\{\s*"[^"]*"\s*:\s*\{'
        return super().has_marks(file) and bool(re.match(opening, file.start(400)))

    def enter(self, file: Source, to: BenchmarkFile) -> None:
        """A record a patient."""
        content = file.json("download it again", unique=True)
        for key, stated in content.items():
            try:
                patient = _LonghealthPatient.model_validate(stated)
            except ValueError:
                to.skip(f"patient {key}", "has no texts, or questions that are no list")
                continue
            notes = [
                entry(opening_date(text), "note", name=title, text=text, note_id=title)
                for title, text in sorted(patient.texts.items(), key=_number)
            ]
            if not notes:
                to.log.warn(f"{to.name}: {key} has no text — the record stays, empty")
            if undated := sum(one[0] is None for one in notes):
                to.log.warn(
                    f"{to.name}: {undated} of {len(notes)} texts of {key} open with no date — they "
                    "keep their order and have no time position"
                )
            facts = (patient.model_extra or {}).items()
            named = {k.replace("canaray", "canary"): str(v) for k, v in facts if v}
            record = to.record(key, notes, named)
            for number, one in enumerate(patient.questions, 1):
                with to.usable(f"question {number} of patient {key}"):
                    read = _LonghealthQuestion.model_validate(one)
                    place = f"{to.name}: {key}:"
                    options = tuple(getattr(read, f"answer_{one}").strip() for one in "abcde")
                    answer, question, spans = read.correct.strip(), read.question.strip(), ()
                    try:
                        locations = _LOCATIONS.validate_python(read.answer_location or {})
                        spans = _located(notes, locations, question, answer, options)
                    except ValueError:
                        reason = f"the answer location of question {read.No} cannot be read"
                        to.log.warn(f"{place} {reason}")
                    if not all(options) or correct_option(answer, options) is None:
                        if any(options):
                            reason = "lacks an option or the correct one — it is open"
                            to.log.warn(f"{place} question {read.No} {reason}")
                        options = ()
                    id, gold = f"{record}-q{read.No}", (answer, spans, False)
                    to.ask(id, record, question, gold, options=options)


def _number(named: tuple[str, str]) -> tuple[int, str]:
    digits = re.search(r"\d{1,18}", named[0])
    return int(digits.group()) if digits else 0, named[0]


def _located(
    notes: Sequence[Entry],
    locations: Mapping[str, _Location],
    question: str,
    answer: str,
    options: Sequence[str],
) -> tuple[Span, ...]:
    """The evidence at the answer's locations (:func:`narrowed`), overlaps merged; raises
    ValueError. A correct option that names others ("B and C") is their texts."""
    if re.fullmatch(r"([A-E])(?:(?:,| and|, and) ([A-E]))+", answer):
        answer = "; ".join(options["ABCDE".index(letter)] for letter in re.findall("[A-E]", answer))
    merged: list[Span] = []
    for order, note in enumerate(notes):
        location, text = locations.get(note[3], _Location()), note[4]
        stated = list(zip(location.start, location.end, strict=True))
        windows = [location_window(text, start, end) for start, end in stated]
        if any(start > end for start, end in stated):
            raise ValueError("a location that ends before it starts")
        for start, end in sorted(narrowed(text, one, question, answer) for one in windows):
            if merged and merged[-1].event == order and start <= merged[-1].end:
                start, end = merged[-1].start, max(end, merged.pop().end)
            merged.append(Span(order, start, end))
    return tuple(merged)


# EHRNoteQA (PhysioNet, ehr-notes-qa-llms): a question a line with choices A to E. The notes are
# its fields ``note_1``, ``note_2``, … (the authors' processed file), or those of MIMIC-IV-Note's
# table in the same folder. No evidence is marked.

NOTES = ("discharge.csv.gz", "discharge.csv")
DISCHARGE = ("note_id", "subject_id", "hadm_id", "charttime", "text")
_DATE = re.compile(r"^Chartdate : (\S+)$", re.MULTILINE)


class _EhrnoteqaQuestion(BaseModel):
    model_config = ConfigDict(extra="allow", coerce_numbers_to_str=True)
    patient_id: str
    question: Annotated[str, Field(pattern=r"\S")]
    choice_A: str
    choice_B: str
    choice_C: str
    choice_D: str
    choice_E: str = ""
    answer: Annotated[str, Field(pattern=r"^\s*[A-E]\s*$")]
    category: str = ""


def _summary(time: str | None, text: str, id: str, line: int, visit: str = "") -> Entry:
    return entry(
        parse_time(time), "note", name="discharge summary", text=text, note_id=id, visit_id=visit,
        line=line,
    )  # fmt: skip


def _notes_in(question: _EhrnoteqaQuestion, line: int) -> list[Entry]:
    """The notes in a question's fields."""
    extra = question.model_extra or {}
    stated = [extra.get(f"note_{n}") for n in range(1, len(extra) + 1)]
    texts = [text for text in stated if isinstance(text, str) and text.strip()]
    return [
        _summary(next(iter(_DATE.findall(text)), None), text, f"note_{n}", line)
        for n, text in enumerate(texts, 1)
    ]


def _discharge(files: Sequence[Source], patients: set[str]) -> dict[str, list[Entry]]:
    """The summaries of patients in MIMIC-IV-Note's table, where it is there; raises DataError."""
    notes: dict[str, list[Entry]] = defaultdict(list)
    table = next(filter(Source.is_file, files), None)
    if table is None or not patients:
        return notes
    accept_long_cells()
    try:
        with table.open() as raw, io.TextIOWrapper(raw, "utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            check_columns(list(rows.fieldnames or ()), DISCHARGE, table.name)
            for number, row in enumerate(rows, 1):
                note, id, visit, time, text = (row[column] or "" for column in DISCHARGE)
                if id.strip() in patients:
                    notes[id.strip()].append(_summary(time, text, note, number, visit))
    except (UnicodeDecodeError, csv.Error):
        reason, remedy = "cannot be read to its end", "download it again"
        raise DataError(table.name, None, reason, remedy) from None
    return notes


@LOADERS.register("ehrnoteqa")
class EhrNoteQa(BenchmarkLoader):
    """EHRNoteQA's questions over discharge summaries of MIMIC-IV-Note."""

    name = "ehrnoteqa"
    title = "EHRNoteQA (JSON Lines of choices A to E, discharge notes)"
    source = "EHRNoteQA"
    licence = "PhysioNet Credentialed Health Data License"
    suffix, marks = ".jsonl", (b'"choice_A"', b'"patient_id"')
    sniffed, marks_in_line = 1 << 20, True
    by_time = True
    unit = "patient"
    shape = "see the format of EHRNoteQA"

    def companions(self, place: Source) -> list[Source]:
        """MIMIC's discharge summaries, for a file of questions."""
        return list(map(place.with_name, NOTES)) if place.is_file() else []

    def enter(self, file: Source, to: BenchmarkFile) -> None:
        """A record a patient asked about: notes of the questions' file, or MIMIC's."""
        asked: dict[str, list[tuple[int, _EhrnoteqaQuestion]]] = defaultdict(list)
        unread: list[DataError] = []
        for number, line in enumerate(file.text().split("\n"), 1):
            if line.strip():
                try:
                    read = _EhrnoteqaQuestion.model_validate(read_json(line, to.name, number))
                    asked[read.patient_id].append((number, read))
                except ValidationError:
                    reason = "lacks patient_id, question, choice_A to choice_D or answer"
                    unread.append(DataError(to.name, number, reason, self.shape))
                except DataError as error:
                    unread.append(error)
        notes = {id: _notes_in(lines[0][1], lines[0][0]) for id, lines in asked.items()}
        tables = self.companions(file)
        to.log.opened.update(tables)
        notes |= _discharge(tables, {id for id, of in notes.items() if not of})
        for id, lines in asked.items():
            if not notes[id]:
                reason = f"has no notes of the patients — put MIMIC-IV-Note's {NOTES[0]} into its "
                to.skip(f"patient {id}", f"{reason}folder", lines[0][0])
                continue
            record = to.record(id, notes[id])
            for number, (line, one) in enumerate(lines, 1):
                choices = {letter: getattr(one, f"choice_{letter}").strip() for letter in "ABCDE"}
                answer, options = choices[one.answer.strip()], tuple(filter(None, choices.values()))
                if answer:
                    of, gold = f"{record}-q{number}", (answer, (), False)
                    to.ask(of, record, one.question, gold, domain=one.category, options=options)
                else:
                    what = f"question {number} of patient {id}"
                    to.skip(what, "names an answer without a choice", line)
        for error in unread:  # after what is wrong with the notes
            to.log.skip_error(error)
