"""Question-answer benchmarks: one engine, and a declaration of each format.

A declaration says where a benchmark's files have records, notes and questions, as a task of
lm-evaluation-harness does, and ``gold`` where the evidence is. One more benchmark is one more such
class: lists in JSON, as SQuAD's, need no other method.
"""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NotRequired, TypeAlias
from xml.etree.ElementTree import Element

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

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
from midchart.core.text.splitting import pieces
from midchart.core.types import Instruction, Span

Fields: TypeAlias = Mapping[str, Any]
"""Fields of a JSON object or of a table's row."""
Gold: TypeAlias = tuple[str, Iterable[Span]]
"""A reference answer and its evidence."""


def filled(template: str, fields: Fields) -> str:
    """A declared text with the values of its fields; ``{title|name}`` is the first that has one.

    Raises ValueError where none has, unless the last name is empty (``{category|}``).
    """

    def value(match: re.Match[str]) -> str:
        names = match[1].split("|")
        texts = (str(fields[one]) for one in names if type(fields.get(one)) in (str, int, float))
        text = next(filter(str.strip, texts), "")
        if not text and names[-1]:
            raise ValueError("lacks a field")
        return text.strip()

    return re.sub(r"\{(.*?)\}", value, template)


def members(content: Any, path: str, order: int = 0) -> list[Fields]:
    """The members of the list or object at a path of names; of "", ``content`` itself.

    One has its ``key`` there, the ``order`` of the member that it is in, and its ``value`` where it
    is no object.
    """
    if not path:
        return [content]
    name, _, rest = path.partition(".")
    of = content.get(name) if isinstance(content, dict) else None
    named = of.items() if isinstance(of, dict) else enumerate(of) if isinstance(of, list) else ()
    if rest:
        return [inner for key, one in named for inner in members(one, rest, key)]
    objects = ((key, one if isinstance(one, dict) else {"value": one}) for key, one in named)
    return [{**one, "key": key, "order": order} for key, one in objects]


class Benchmark(RecordLoader):
    """A declaration of a benchmark, and the engine that reads it.

    ``records`` ("" for a document that is one object of them), and in each of them ``notes`` and
    ``questions`` ("" where it is its own), are paths of :func:`members`; ``note`` is the field with
    a note's text, ``options`` those with a question's (all, or it is open, where ``all_options``).
    The others are filled (:func:`filled`): ``record``, a record's id, also of its first note's
    fields and ``file``, the file's name and the record's number; ``note_id`` also of ``record`` and
    ``number``; ``question``, ``question_id``, ``answer``, ``domain`` also of these and ``hash``.
    ``shape``: what a file must hold. ``unusable``: why a record without text is left out.
    ``exact``: whether the benchmark itself states the evidence.
    """

    by_time = False
    shape = records = notes = questions = ""
    unusable = "has no text"
    record, note, note_id, note_name, visit = "{id|file}", "text", "{record}", "", ""
    question, question_id, answer, domain = "{question}", "{record}-q{number}", "{answer}", ""
    options: tuple[str, ...] = ()
    all_options = exact = False

    def documents(self, file: Source, log: LoadLog) -> Iterable[Fields]:
        """The records of a file; raises DataError where there is none."""
        named = not self.records
        content = file.json("download it again", unique=named)
        records = members({"file": content}, "file") if named else members(content, self.records)
        if not records:
            raise DataError(file.name, 1, f"holds no list of {self.unit}s", self.shape)
        return records

    def entries(self, document: Fields, id: str, log: LoadLog) -> list[Entry]:
        """A record's notes; raises ValueError where it cannot be used."""
        stated = members(document, self.notes)
        texts = [one.get(self.note) for one in stated]
        if not any(isinstance(text, str) for text in texts):
            raise ValueError(self.unusable)
        return [
            entry(
                self.time(one),
                "note",
                name=filled(self.note_name, one),
                text=text if isinstance(text, str) else "",
                note_id=filled(self.note_id, {**one, "record": id, "number": number}),
                visit_id=filled(self.visit, one),
                line=one.get("line"),
            )
            for number, (one, text) in enumerate(zip(stated, texts, strict=True), 1)
        ]

    def time(self, note: Fields) -> datetime | None:
        """When a note was written, if it says so."""
        return None

    def facts(self, document: Fields) -> dict[str, str]:
        """What a record says of its patient."""
        return {}

    def gold(self, asked: Fields, notes: Sequence[Entry], log: LoadLog) -> Gold | None:
        """A question's reference and evidence; raises ValueError where it cannot be used."""
        return filled(self.answer, asked), ()

    def read_file(self, file: Source, patients: PatientEntries) -> None:
        """Enter all records and questions; what cannot be used is skipped with its reason."""

        @contextmanager
        def usable(what: str, of: Fields) -> Generator[None]:
            try:
                yield
            except ValueError as error:
                log.skip(file.name, of.get("line"), f"{what} {error} — {self.shape}")

        log = patients.log
        for number, document in enumerate(self.documents(file, log), 1):
            first = next(iter(members(document, self.notes)), {})
            named = {**first, **document, "file": f"{file.stem}-{number}"}
            stated = filled(self.record, named).replace("/", "-")[:120]
            with usable(f"{self.unit} {stated}", document):
                notes = self.entries({**document, "file": file.name}, stated, log)
                # Records with the same id and texts are one; a note's id begins with its record's.
                key = stated, "\n".join(note[4] for note in notes)
                if key not in patients.ids:
                    id = patients.ids[key] = patients.unused(stated, patients.entries)
                    named = ((*n[:6], n[6].replace(stated, id, 1), *n[7:]) for n in notes)
                    patients.add(id, file.name, *named)
                    patients.facts[id] = self.facts(document)
                asked = members(document, self.questions)
                for n, one in enumerate(asked, 1):
                    with usable(f"question {n} of {self.unit} {stated}", one):
                        place = f"{stated}-{one.get('order', 0)}"
                        more = {"record": patients.ids[key], "number": n, "file": file.name}
                        self._enter({**one, **more}, place, notes, patients.questions, log)

    def _enter(
        self, asked: Fields, place: str, notes: Sequence[Entry], to: Questions, log: LoadLog
    ) -> None:
        """Enter a question with its reference; raises ValueError where it cannot be used."""
        question, record, file = filled(self.question, asked), asked["record"], asked["file"]
        stated = filled(self.question_id, {**asked, "hash": opaque_id(place, question)})
        gold = self.gold(asked, notes, log)
        answer, spans = gold or ("", ())
        options = tuple(filter(None, (filled(f"{{{one}|}}", asked) for one in self.options)))
        complete = len(options) == len(self.options) or not self.all_options
        if options and not (complete and correct_option(answer, options) is not None):
            reason = "lacks an option or the correct one — it is open"
            log.warn(f"{file}: {record}: question {asked.get('No', asked['number'])} {reason}")
            options = ()
        id, kind = PatientEntries.unused(stated, to.records), task_type_of(question)
        to.records[id], domain = record, filled(self.domain, asked)
        one = Instruction(id, record, question, domain=domain, task_type=kind, options=options)
        to.instructions.append(one)
        if gold is not None:
            to.gold[id] = GoldSource(record, answer, (), file, None, tuple(spans), self.exact)


# SQuAD-shaped JSON (COVID-QA, RadQA, emrQA, BioASQ): an article is a record, each paragraph a
# note. The reference is the first answer; evidence is where the answers begin, exactly. A
# question marked ``is_impossible`` has "Not documented." for its reference and no evidence.

SHIFT = 32
"""Characters that an answer may be away from its offset, as it is where line ends or blanks were
counted otherwise (COVID-QA); of several places the nearest is taken."""


@LOADERS.register("squad")
class Squad(Benchmark):
    """SQuAD-shaped question answering over articles or notes."""

    name = "squad"
    title = "SQuAD-shaped JSON (paragraphs, questions, answers by offset)"
    source = "SQuAD-shaped question answering"
    suffix, marks = ".json", (b'"paragraphs"', b'"data"')
    unit, unusable = "article", "has no paragraph with a context"
    shape = (
        "it needs data[].paragraphs[].{context, qas[].{question, answers[].{text, answer_start}}}"
    )
    records, record = "data", "{title|document_id|file}"
    notes, note, note_id = "paragraphs", "context", "{record}-{number}"
    questions, question_id, exact = "paragraphs.qas", "{id|hash}", True

    def gold(self, asked: Fields, notes: Sequence[Entry], log: LoadLog) -> Gold:
        """The first answer, and where all are."""
        order = asked["order"]
        text, spans = notes[order][4], list[Span]()
        for one in members(asked, "answers"):
            answer, offset = filled("{text}", one), one.get("answer_start")
            if type(offset) is not int or offset < 0:
                raise ValueError("lacks a field")
            first = max(0, offset - SHIFT)
            window = text[first : offset + SHIFT + len(answer)]
            starts = [first + m.start() for m in re.finditer(f"(?={re.escape(answer)})", window)]
            if not starts:
                raise ValueError("has an answer that is not at its offset")
            near = [abs(start - offset) for start in starts]
            begin = starts[near.index(min(near))]
            spans.append(Span(order, begin, begin + len(answer)))
        if not spans and asked.get("is_impossible") is not True:
            raise ValueError("has no answer")
        answer = text[spans[0].start : spans[0].end] if spans else NOT_DOCUMENTED
        return answer, dict.fromkeys(spans)


# MedCalc-Bench (ncbi-nlp, CC BY-SA 4.0): a note is a record, asked about a calculation. Evidence
# are the sentences that state the numbers of its relevant entities: found, not marked by the
# authors.

MEDCALC = ("Patient Note", "Question", "Relevant Entities", "Ground Truth Answer")
BEFORE, AFTER = 60, 25
"""Characters before and after a number in which the entity's name makes it the entity's."""
_ENTITY = re.compile(r"""(?:'([^']+)'|"([^"]+)")\s*:\s*\[?\s*(-?\d+(?:\.\d+)?)""")


def evidence(text: str, entities: str) -> list[Span]:
    """The sentences of a note that state the numbers of ``entities``, as the column writes them."""
    sentences = [one[:2] for one in pieces(text)]
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
class MedCalc(Benchmark):
    """MedCalc-Bench's table of notes and questions."""

    name = "medcalc"
    title = "MedCalc-Bench (CSV of patient notes and calculations)"
    source = "MedCalc-Bench"
    licence = "CC BY-SA 4.0"
    suffix, marks = ".csv", tuple(map(str.encode, MEDCALC))
    unit, shape, note, note_name = "note", "add it", "Patient Note", "case note"
    question, question_id = "{Question}", "mc{Row Number|line}"
    answer, domain = "{Ground Truth Answer}", "{Category|}"

    def documents(self, file: Source, log: LoadLog) -> Iterator[Fields]:
        """The rows, of which those with the same note are one record."""
        for row in read_table(file, MEDCALC, log):
            cells = {"line": row.line} | {column: row.get(column) for column in row.cells}
            id = re.sub(r"[^A-Za-z0-9-]", "_", row.get("Note ID"))
            id = id or filled("n{Row Number|line}", cells)
            text = row.get("Patient Note").replace("\r\n", "\n").replace("\r", "\n")
            if text and row.get("Question") and row.get("Ground Truth Answer"):
                yield {**cells, "id": id, "Patient Note": text}
            else:
                reason = f"note {id} lacks its note, question or answer — {self.shape}"
                log.skip(file.name, row.line, reason)

    def gold(self, asked: Fields, notes: Sequence[Entry], log: LoadLog) -> Gold:
        """The answer, and the sentences that state the numbers of its entities."""
        return filled(self.answer, asked), evidence(notes[0][4], asked["Relevant Entities"])


# ArchEHR-QA (PhysioNet, archehr-qa-bionlp-task-2025): a case of ``archehr-qa.xml`` is a record of
# one note. ``archehr-qa_key.json`` in its folder labels each sentence: the essential ones are the
# evidence, exactly, or else the supplementary ones. The reference is the clinician's answer where
# the key has one, else these sentences.

LABELS = ("essential", "supplementary", "not-relevant")


class _CaseKey(TypedDict):
    case_id: str


_KEYS = TypeAdapter(list[_CaseKey])


class LabelledCase(NamedTuple):
    """The sentences of a case by their ids: first character in the note and the one after, and the
    label that the key gives each (none without a key)."""

    places: Mapping[str, tuple[int, int]]
    labels: Mapping[str, str]


def _note_of(case: Element) -> tuple[str, dict[str, tuple[int, int]]]:
    """The note of a case, a line a paragraph, and where its sentences are."""
    text, paragraph, places = "", None, dict[str, tuple[int, int]]()
    for sentence in case.iterfind("note_excerpt_sentences/sentence"):
        words, stated = _text(sentence), sentence.get("paragraph_id")
        if text:
            text += " " if stated == paragraph else "\n"
        places[sentence.get("id", "")] = (len(text), len(text) + len(words))
        text, paragraph = text + words, stated
    return text, places


def _text(element: Element) -> str:
    return " ".join("".join(element.itertext()).split())


def _key_file(file: Source) -> Source:
    return file.parent.within(f"{file.stem}_key.json")


def labelled_cases(path: Path) -> dict[str, LabelledCase]:
    """The cases of the files at ``path``, a folder or one file, by id; raises DataError."""
    documents = (ArchEhrQa().documents(one, LoadLog()) for one in Source.at(path).entries("*.xml"))
    return {one["id"]: one["case"] for cases in documents for one in cases}


@LOADERS.register("archehr_qa")
class ArchEhrQa(Benchmark):
    """ArchEHR-QA's cases, with the key where it is there."""

    name = "archehr_qa"
    title = "ArchEHR-QA (XML of cases, JSON key of sentence labels)"
    source = "ArchEHR-QA"
    licence = "PhysioNet Credentialed Health Data License"
    suffix, marks, sniffed = ".xml", (b"<annotations", b"<case"), 1 << 14
    unit, shape, unusable = "case", "see the format of ArchEHR-QA", "has no sentence"
    note, note_name, question_id, exact = "note", "note excerpt", "case-{record}", True

    def companions(self, place: Source) -> list[Source]:
        """The key of a file of cases."""
        return [_key_file(place)] if place.is_file() else []

    def documents(self, file: Source, log: LoadLog) -> Iterator[Fields]:
        """The cases, with their keys; a file of keys that cannot be read is skipped."""
        key_file, keys = _key_file(file), dict[str, _CaseKey]()
        if key_file.is_file():
            with log.skipping():
                content = key_file.text().encode()
                stated = read_document(content, key_file.name, _KEYS, self.shape)
                keys = {one["case_id"]: one for one in stated}
        else:
            missing = f"no {key_file.own_name} is in its folder"
            log.warn(f"{file.name}: {missing} — questions lack evidence")
        for number, case in enumerate(file.xml().iterfind("case"), 1):
            id = case.get("id") or str(number)
            (text, places), key = _note_of(case), keys.get(id)
            marked = members(key, "answers")
            labels = {filled("{sentence_id|}", of): filled("{relevance|}", of) for of in marked}
            if wrong := sum(one not in places or labels[one] not in LABELS for one in labels):
                log.warn(f"{file.name}: {wrong} labels of case {id} name no sentence or label")
            asked = [*case.iterfind("clinician_question"), *case.iterfind("patient_question")]
            stated = {"question": next(filter(None, map(_text, asked)), ""), "key": key}
            yield {"id": id, "note": text or None, "case": LabelledCase(places, labels), **stated}

    def gold(self, asked: Fields, notes: Sequence[Entry], log: LoadLog) -> Gold | None:
        """The clinician's answer, and the essential sentences or else the supplementary ones."""
        (places, labels), key, text = asked["case"], asked["key"], notes[0][4]
        if key is None:
            return None
        named = (
            [Span(0, *places[one]) for one in labels if labels[one] == label and one in places]
            for label in LABELS[:2]
        )
        spans = next(filter(None, named), [])
        cited = filled("{clinician_answer_without_citations|clinician_answer|}", key)
        answer = " ".join(re.sub(r"\s*\|[\d,\s]*\|", "", cited).split())
        return answer or " ".join(text[one.start : one.end] for one in spans), spans


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


_sentences = lru_cache(maxsize=64)(pieces)  # many questions ask about a text


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
    inside = [(a, b) for a, b, _ in _sentences(text) if a < window[1] and b > window[0]]
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


class _Location(TypedDict, total=False):
    start: list[Annotated[float, Field(ge=0, le=1)]]
    end: list[Annotated[float, Field(ge=0, le=1)]]


class _Patient(TypedDict):
    texts: dict[str, str]
    questions: NotRequired[list[Any]]


_LOCATIONS, _PATIENT = TypeAdapter(dict[str, _Location]), TypeAdapter(_Patient)
_NO_FACTS = ("texts", "questions", "key", "order")


@LOADERS.register("longhealth")
class LongHealth(Benchmark):
    """LongHealth's benchmark file, or some patients of it."""

    name = "longhealth"
    title = "LongHealth (JSON of texts and questions)"
    source = "LongHealth"
    licence = "Apache-2.0"
    suffix, marks = ".json", (b'"texts"',)
    unit, shape, record = "patient", "see LongHealth's format", "{key|file}"
    notes, note, note_id, note_name = "texts", "value", "{key}", "{key}"
    questions, question_id, answer = "questions", "{record}-q{No}", "{correct}"
    options, all_options = tuple(f"answer_{letter}" for letter in "abcde"), True

    def has_marks(self, file: Source) -> bool:
        """Whether a file has the marks and opens with an object of objects."""
        opening = rb'\s*(?:\xef\xbb\xbf)?\s*\{\s*"[^"]*"\s*:\s*\{'
        return super().has_marks(file) and bool(re.match(opening, file.start(400)))

    def entries(self, document: Fields, id: str, log: LoadLog) -> list[Entry]:
        """The texts, in the order of their numbers."""
        try:
            texts = _PATIENT.validate_python(document)["texts"]
        except ValidationError:
            raise ValueError("has no texts, or questions that are no list") from None
        digits = {one: re.search(r"\d{1,18}", one) for one in texts}
        titles = sorted(texts, key=lambda one: (int((digits[one] or ["0"])[0]), one))
        texts = {one: texts[one] for one in titles}
        notes = super().entries({"texts": texts}, id, log) if texts else []
        if not notes:
            log.warn(f"{document['file']}: {id} has no text — the record stays, empty")
        if undated := sum(one[0] is None for one in notes):
            log.warn(
                f"{document['file']}: {undated} of {len(notes)} texts of {id} open with no date — "
                "they keep their order and have no time position"
            )
        return notes

    def time(self, note: Fields) -> datetime | None:
        """The date that a letter opens with."""
        return opening_date(note["value"])

    def facts(self, document: Fields) -> dict[str, str]:
        """All but texts and questions."""
        facts = {k: v for k, v in document.items() if k not in _NO_FACTS and v}
        return {name.replace("canaray", "canary"): str(value) for name, value in facts.items()}

    def gold(self, asked: Fields, notes: Sequence[Entry], log: LoadLog) -> Gold:
        """The correct option, and what answers the question at its locations, overlaps merged.

        A correct option that names others ("B and C") is looked for by their texts.
        """
        question, answer, number = (
            filled(f"{{{one}}}", asked) for one in ("question", "correct", "No")
        )
        sought, merged = answer, list[Span]()
        if re.fullmatch(r"([A-E])(?:(?:,| and|, and) ([A-E]))+", answer):
            named = (f"{{answer_{letter.lower()}|}}" for letter in re.findall("[A-E]", answer))
            sought = "; ".join(filled(one, asked) for one in named)
        try:
            locations = _LOCATIONS.validate_python(asked.get("answer_location") or {})
            for order, note in enumerate(notes):
                place, text = locations.get(note[3], {}), note[4]
                stated = list(zip(place.get("start", []), place.get("end", []), strict=True))
                if any(start > end for start, end in stated):
                    raise ValueError("a location that ends before it starts")
                windows = (location_window(text, *one) for one in stated)
                for start, end in sorted(narrowed(text, one, question, sought) for one in windows):
                    if merged and merged[-1].event == order and start <= merged[-1].end:
                        start, end = merged[-1].start, max(end, merged.pop().end)
                    merged.append(Span(order, start, end))
        except ValueError:
            place = f"{asked['file']}: {asked['record']}"
            log.warn(f"{place}: the answer location of question {number} cannot be read")
            merged = []
        return answer, merged


# EHRNoteQA (PhysioNet, ehr-notes-qa-llms): a question a line with choices A to E. The notes are
# its fields ``note_1``, ``note_2``, … (the authors' processed file), or those of MIMIC-IV-Note's
# table in the same folder. No evidence is marked.

NOTES = ("discharge.csv.gz", "discharge.csv")
DISCHARGE = ("note_id", "subject_id", "hadm_id", "charttime", "text")
NEEDED = ("patient_id", "question", *(f"choice_{letter}" for letter in "ABCD"), "answer")


@LOADERS.register("ehrnoteqa")
class EhrNoteQa(Benchmark):
    """EHRNoteQA's questions over discharge summaries of MIMIC-IV-Note."""

    name = "ehrnoteqa"
    title = "EHRNoteQA (JSON Lines of choices A to E, discharge notes)"
    source = "EHRNoteQA"
    licence = "PhysioNet Credentialed Health Data License"
    suffix, marks = ".jsonl", (b'"choice_A"', b'"patient_id"')
    sniffed = 1 << 20
    by_time = True
    unit, shape, record = "patient", "see the format of EHRNoteQA", "{patient_id|file}"
    unusable = f"has no notes of the patients — put MIMIC-IV-Note's {NOTES[0]} into its folder"
    notes, note_id, note_name, visit = "notes", "{note_id}", "discharge summary", "{hadm_id|}"
    questions, domain = "questions", "{category|}"
    options = tuple(f"choice_{letter}" for letter in "ABCDE")

    def companions(self, place: Source) -> list[Source]:
        """MIMIC's discharge summaries, for a file of questions."""
        return list(map(place.parent.within, NOTES)) if place.is_file() else []

    def documents(self, file: Source, log: LoadLog) -> Iterator[Fields]:
        """The patients asked about; notes are those of the first question's fields, or MIMIC's."""
        asked: dict[str, list[Fields]] = defaultdict(list)
        unread = list[DataError]()
        for number, line in enumerate(file.text().split("\n"), 1):
            if line.strip():
                try:
                    one = read_json(line, file.name, number)
                    if not _is_question(one):
                        reason = "lacks patient_id, question, choice_A to choice_D or answer"
                        raise DataError(file.name, number, reason, self.shape)
                    asked[str(one["patient_id"])].append({**one, "line": number})
                except DataError as error:
                    unread.append(error)
        notes = {id: _notes_in(lines[0]) for id, lines in asked.items()}
        tables = self.companions(file)
        log.opened.update(tables)
        notes |= _discharge(tables, {id for id, of in notes.items() if not of})
        for id, lines in asked.items():
            line = lines[0]["line"]
            yield {"patient_id": id, "notes": notes[id], "questions": lines, "line": line}
        for error in unread:  # after what is wrong with the notes
            log.skip_error(error)

    def time(self, note: Fields) -> datetime | None:
        """When its patient left, or the date in its text."""
        return parse_time(note["charttime"])

    def gold(self, asked: Fields, notes: Sequence[Entry], log: LoadLog) -> Gold:
        """The choice that the answer names."""
        answer = filled(f"{{choice_{asked['answer'].strip()}|}}", asked)
        if not answer:
            raise ValueError("names an answer without a choice")
        return answer, ()


def _is_question(one: Any) -> bool:
    stated = isinstance(one, dict) and all(type(one.get(n)) in (str, int, float) for n in NEEDED)
    return (
        stated and bool(filled("{question|}", one)) and str(one["answer"]).strip() in tuple("ABCDE")
    )


def _notes_in(question: Fields) -> list[Fields]:
    """The notes in a question's fields."""
    stated = (question.get(f"note_{n}") for n in range(1, len(question)))
    texts = [text for text in stated if isinstance(text, str) and text.strip()]
    dates = ((re.search(r"^Chartdate : (\S+)$", text, re.MULTILINE), text) for text in texts)
    named = ({"text": text, "charttime": date and date[1]} for date, text in dates)
    return [
        {**one, "note_id": f"note_{n}", "line": question["line"]} for n, one in enumerate(named, 1)
    ]


def _discharge(files: Sequence[Source], patients: set[str]) -> dict[str, list[Fields]]:
    """The summaries of patients in MIMIC-IV-Note's table, where it is there; raises DataError."""
    notes: dict[str, list[Fields]] = defaultdict(list)
    table = next(filter(Source.is_file, files), None)
    if table is None or not patients:
        return notes
    accept_long_cells()
    try:
        with table.open() as raw, io.TextIOWrapper(raw, "utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            check_columns(list(rows.fieldnames or ()), DISCHARGE, table.name)
            for number, row in enumerate(rows, 1):
                id = (row["subject_id"] or "").strip()
                if id in patients:
                    notes[id].append({**row, "line": number})
    except (UnicodeDecodeError, csv.Error):
        reason, remedy = "cannot be read to its end", "download it again"
        raise DataError(table.name, None, reason, remedy) from None
    return notes
