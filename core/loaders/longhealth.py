"""LongHealth: fictional patients as JSON, with five-option questions and answer locations.

A record is a key of the file; each of its texts is a note, in the order of the texts' numbers, as
in the benchmark. Texts have no timestamp: a note's time is the first date of its opening paragraph
that is not a birth date, if there is one; times never reorder the notes. The reference is the text
of the correct option. ``answer_location`` gives fractions of a text's length, some shifted, so the
evidence is the lines around it, 3 % of the text wider on both sides, and is not exact.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from midchart.core.cohorts.base import RecordLoader
from midchart.core.cohorts.files import LoadLog, read_start, read_text
from midchart.core.cohorts.records import MOST_PIECES, PatientEntries, Questions, entry
from midchart.core.errors import DataError
from midchart.core.loaders import LOADERS
from midchart.core.parsing import read_json
from midchart.core.text import content_words
from midchart.core.text.choices import correct_option
from midchart.core.text.splitting import split
from midchart.core.types import Span

WIDER = 0.03
"""By how much a stated location is widened on either side, as a share of the text."""
_MONTHS: dict[str, int] = {
    "january": 1, "february": 2, "march": 3, "april": 4, "may": 5, "june": 6, "july": 7,
    "august": 8, "september": 9, "october": 10, "november": 11, "december": 12,
}  # fmt: skip
_DATE = re.compile(
    rf"(?P<m>\d{{1,2}})/(?P<d>\d{{1,2}})/(?P<y>\d{{4}})|(?P<month>{'|'.join(_MONTHS)})\s+"
    r"(?P<day>\d{1,2})(?:st|nd|rd|th)?(?:\s+to\s+\d{1,2}(?:st|nd|rd|th)?)?,\s+(?P<year>\d{4})",
    re.IGNORECASE,
)
_FORMAT = "see LongHealth's format"
_Patient = Mapping[str, Any]


def opening_date(text: str) -> datetime | None:
    """The first date of a letter's opening paragraph (after the salutation), except birth dates."""
    paragraphs = [p for p in text.split("\n\n") if p.strip()][:2]
    opening = paragraphs[-1] if paragraphs else ""
    for match in _DATE.finditer(opening):
        if re.search(r"\bborn\b[\s(on]*$", opening[: match.start()], re.IGNORECASE):
            continue
        month = match["m"] or _MONTHS[match["month"].lower()]
        try:
            return datetime(
                int(match["y"] or match["year"]), int(month), int(match["d"] or match["day"])
            )
        except ValueError:
            return None
    return None


@lru_cache(maxsize=64)
def _sentences(text: str) -> list[tuple[int, int]]:
    """The sentences of a text, which many questions can ask about."""
    return split(text)


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


def _option_text(question: Any, answer: str) -> str:
    """The correct option in words; one that names others ("B and C") by their texts."""
    if re.fullmatch(r"([A-E])(?:(?:,| and|, and) ([A-E]))+", answer) is None:
        return answer
    letters = re.findall(r"[A-E]", answer)
    return "; ".join(str(question.get(f"answer_{x.lower()}", "")) for x in letters)


def _text_names(patient: _Patient) -> list[str]:
    def number(name: str) -> tuple[int, str]:
        digits = re.search(r"\d{1,18}", name)
        return (int(digits.group()) if digits else 0, name)

    return sorted(patient["texts"], key=number)


def _read_json(path: Path, name: str) -> dict[str, Any]:
    content = read_json(read_text(path, name), name, remedy="download it again", unique=True)
    if not isinstance(content, dict):
        raise DataError(name, 1, "holds no patients by name", "see the LongHealth format")
    return content


def _problem(patient: Any) -> str:
    if not isinstance(patient, dict):
        return "is not a patient"
    texts, questions = patient.get("texts"), patient.get("questions", [])
    if not isinstance(texts, dict) or not all(isinstance(t, str) for t in texts.values()):
        return "has no texts"
    return "" if isinstance(questions, list) else "has questions that are not a list"


def _add(key: str, patient: _Patient, file: str, patients: PatientEntries) -> None:
    patients.add(key, file)
    for name in _text_names(patient):
        text = patient["texts"][name]
        one = entry(opening_date(text), "note", name=name, text=text, note_id=name)
        patients.add(key, file, one)
    patients.facts[key] = {
        field.replace("canaray", "canary"): str(value)
        for field, value in patient.items()
        if field not in ("texts", "questions") and value
    }
    entries = patients.entries[key]
    if not entries:
        patients.log.warn(f"{file}: {key} has no text — the record stays, empty")
    if undated := sum(one[0] is None for one in entries):
        patients.log.warn(
            f"{file}: {undated} of {len(entries)} texts of {key} open with no date — they keep "
            "their order and have no time position"
        )


_Shares = Annotated[list[Annotated[float, Field(ge=0, le=1)]], Field(max_length=MOST_PIECES)]


class _Location(BaseModel):
    start: _Shares = []
    end: _Shares = []


_LOCATIONS = TypeAdapter(dict[str, _Location])
_NOWHERE = _Location()


class _LonghealthQuestion(BaseModel):
    """A question as LongHealth has it; its options are further fields."""

    model_config = ConfigDict(extra="allow")
    No: int | str
    question: str
    correct: str
    answer_location: Any = None


def _spans(patient: _Patient, stated: Any, question: str, answer: str) -> list[Span]:
    """The evidence at an answer's locations (:func:`narrowed`), overlaps merged.

    Raises ValueError for a location that cannot be read.
    """
    locations = _LOCATIONS.validate_python(stated or {})
    windows: list[tuple[int, int, int]] = []
    for order, name in enumerate(_text_names(patient)):
        text, location = patient["texts"][name], locations.get(name, _NOWHERE)
        for start, end in zip(location.start, location.end, strict=True):
            if start > end:
                raise ValueError("a location that ends before it starts")
            window = location_window(text, start, end)
            windows.append((order, *narrowed(text, window, question, answer)))
    merged: list[Span] = []
    for order, start, end in sorted(windows):
        if merged and merged[-1].event == order and start <= merged[-1].end:
            merged[-1] = Span(order, merged[-1].start, max(end, merged[-1].end))
        else:
            merged.append(Span(order, start, end))
    return merged


def _ask(
    key: str, patient: _Patient, number: int, asked: Any, file: str, log: LoadLog, into: Questions
) -> None:
    try:
        read = _LonghealthQuestion.model_validate(asked)
    except ValueError:
        reason = f"question {number} of {key} lacks No, question or correct"
        log.skip(file, None, f"{reason} — {_FORMAT}")
        return
    id, question, answer = f"{key}-q{read.No}", read.question.strip(), read.correct.strip()
    if id in into.records:
        log.skip(file, None, f"{id} is there twice — keep one of them")
        return
    try:
        spans = _spans(patient, read.answer_location, question, _option_text(asked, answer))
    except ValueError:
        log.warn(f"{file}: the answer location of {id} cannot be read — it is left out")
        spans = []
    options = tuple(str(asked.get(f"answer_{letter}", "")).strip() for letter in "abcde")
    if not all(options) or correct_option(answer, options) is None:
        if any(options):
            log.warn(f"{file}: {id} lacks an option or the correct one — it is an open question")
        options = ()
    into.ask(id, key, question, (answer, spans, False), options=options)


@LOADERS.register("longhealth")
class LongHealth(RecordLoader):
    """LongHealth's benchmark file, or some patients of it."""

    name = "longhealth"
    title = "LongHealth (JSON of texts and questions)"
    source = "LongHealth"
    licence = "Apache-2.0"
    suffix, marks = ".json", ()
    by_time, unit = False, "patient"

    def accepts(self, path: str) -> bool:
        """A JSON file that opens like LongHealth's, or a folder with one."""
        return any(map(_opens_like_it, self.files(Path(path))))

    def read_file(
        self, file: Path, name: str, patients: PatientEntries, questions: Questions
    ) -> None:
        """All patients and their questions."""
        for key, patient in _read_json(file, name).items():
            problem = _problem(patient) or ("is there twice" if key in patients.entries else "")
            if problem:
                patients.log.skip(name, None, f"{key} {problem} — {_FORMAT}")
                continue
            _add(key, patient, name, patients)
            for number, asked in enumerate(patient.get("questions", [])):
                _ask(key, patient, number, asked, name, patients.log, questions)


def _opens_like_it(file: Path) -> bool:
    head = read_start(file, 1 << 16)
    object_of_objects = rb'\s*(?:\xef\xbb\xbf)?\s*\{\s*"[^"]*"\s*:\s*\{'
    return re.match(object_of_objects, head[:400]) is not None and b'"texts"' in head
