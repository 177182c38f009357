"""LongHealth: fictional patients as JSON, with five-option questions and answer locations.

A record is a key of the file; each of its texts is a note, in the order of the texts' numbers,
which is the order the benchmark means. Texts carry no timestamp: a note's time is the first date
of its opening paragraph, if there is one that is not a birth date, and None otherwise; times
never reorder the notes. A question stays as it is asked and its reference is the text of the
correct option. ``answer_location`` gives fractions of a text's length, some shifted, so evidence
is the whole lines around it, 3 % of the text wider on both sides, and is not called exact.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from core.errors import DataError
from core.loaders import LOADERS
from core.loaders.files import read_text, shown, skip_of
from core.loaders.manifest import cohort_root, read_manifest
from core.loaders.questions import task_type_of
from core.loaders.records import LazyRecords, Raw, build_record
from core.text import content_words
from core.text.locating import place_of
from core.text.splitting import split
from core.types import Cohort, Gold, Instruction, Manifest, Record, Skip, Span

WIDER = 0.03
"""How much wider than stated a location is taken, as a share of the text, on either side."""
_MONTHS: dict[str, int] = {
    "january": 1, "february": 2, "march": 3, "april": 4, "may": 5, "june": 6, "july": 7,
    "august": 8, "september": 9, "october": 10, "november": 11, "december": 12,
}  # fmt: skip
_DATE = re.compile(
    rf"(?P<m>\d{{1,2}})/(?P<d>\d{{1,2}})/(?P<y>\d{{4}})|(?P<month>{'|'.join(_MONTHS)})\s+"
    r"(?P<day>\d{1,2})(?:st|nd|rd|th)?(?:\s+to\s+\d{1,2}(?:st|nd|rd|th)?)?,\s+(?P<year>\d{4})",
    re.IGNORECASE,
)
_Patient = Mapping[str, Any]


def opening_date(text: str) -> datetime | None:
    """The first date of a letter's opening paragraph (salutation aside) that is no birth date."""
    paragraphs = [p for p in text.split("\n\n") if p.strip()][:2]
    opening = paragraphs[-1] if paragraphs else ""
    for match in _DATE.finditer(opening):
        if re.search(r"\bborn\b[\s(on]*$", opening[: match.start()], re.IGNORECASE):
            continue
        found = match.groupdict()
        month = found["m"] or _MONTHS[found["month"].lower()]
        try:
            return datetime(
                int(found["y"] or found["year"]), int(month), int(found["d"] or found["day"])
            )
        except ValueError:
            return None
    return None


def location_window(text: str, start: float, end: float) -> tuple[int, int]:
    """Whole lines of ``text`` around the fractions ``start`` to ``end``, 3 % wider."""
    n = len(text)
    first = max(0, int((start - WIDER) * n))
    last = min(n, int((end + WIDER) * n) + 1)
    first = text.rfind("\n", 0, first) + 1
    stop = text.find("\n", last)
    return first, n if stop < 0 else stop


def narrowed(text: str, window: tuple[int, int], question: str, answer: str) -> tuple[int, int]:
    """The part of a location's window that answers: the sentences of ``text`` that share most with
    the correct option.

    Of the sentences that overlap ``window`` (first, last character): those that hold the most
    distinct terms of ``answer`` (words of four letters or more, and numbers), of equals those that
    hold the most of ``question``; from the first of them to the last where they are neighbours,
    the first alone otherwise. The window as it is where no sentence shares a term with ``answer``.
    """
    inside = [(a, b) for a, b in split(text) if a < window[1] and b > window[0]]
    wanted, asked = _terms(answer), _terms(question)
    held = [_terms(text[a:b]) for a, b in inside]
    scores = [(len(wanted & terms), len(asked & terms)) for terms in held]
    best = max(scores, default=(0, 0))
    if not best[0]:
        return window
    chosen = [i for i, score in enumerate(scores) if score == best]
    last = chosen[-1] if chosen[-1] - chosen[0] + 1 == len(chosen) else chosen[0]
    return inside[chosen[0]][0], inside[last][1]


def _terms(text: str) -> frozenset[str]:
    return content_words(text) | frozenset(re.findall(r"\d+(?:[.,/:-]\d+)*", text))


def _stated(asked: Any, answer: str) -> str:
    """The correct option in words: of one that names others ("B and C") what those say."""
    letters = re.fullmatch(r"([A-E])(?:(?:,| and|, and) ([A-E]))+", answer)
    if letters is None:
        return answer
    options = [str(asked.get(f"answer_{x.lower()}", "")) for x in re.findall(r"[A-E]", answer)]
    return "; ".join(options)


def _text_names(patient: _Patient) -> list[str]:
    def number(name: str) -> tuple[int, str]:
        found = re.search(r"\d+", name)
        return (int(found.group()) if found else 0, name)

    return sorted(patient["texts"], key=number)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise KeyError(*twice)
    return dict(pairs)


def _read(path: Path, name: str) -> dict[str, Any]:
    text = read_text(path, name)
    try:
        found: Any = json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        reason = f"is not JSON ({error.msg})"
        raise DataError(name, error.lineno, reason, "download it again") from None
    except KeyError as error:
        reason = f"names {', '.join(map(str, error.args))} twice"
        raise DataError(name, None, reason, "keep one of them") from None
    except RecursionError:
        raise DataError(name, None, "is nested too deeply", "download it again") from None
    if not isinstance(found, dict):
        raise DataError(name, 1, "holds no patients by name", "see the LongHealth format")
    return found


def _problem(patient: Any) -> str:
    if not isinstance(patient, dict):
        return "is not a patient"
    texts, questions = patient.get("texts"), patient.get("questions", [])
    if not isinstance(texts, dict) or not all(isinstance(t, str) for t in texts.values()):
        return "has no texts"
    return "" if isinstance(questions, list) else "has questions that are not a list"


def _record(key: str, patient: _Patient, file: str) -> tuple[Record, list[str]]:
    names = _text_names(patient)
    raw: list[Raw] = [
        (opening_date(patient["texts"][n]), "note", "", n, patient["texts"][n], "", n, "", None)
        for n in names
    ]
    facts = {
        field.replace("canaray", "canary"): str(value)
        for field, value in patient.items()
        if field not in ("texts", "questions") and value
    }
    warnings = [] if names else [f"{file}: {key} has no text — the record stays, empty"]
    undated = sum(entry[0] is None for entry in raw)
    if undated:
        warnings.append(
            f"{file}: {undated} of {len(raw)} texts of {key} open with no date — they stand in "
            "their order and have no time position"
        )
    return build_record(key, raw, facts, file, by_time=False), warnings


def _spans(patient: _Patient, places: Any, question: str, answer: str) -> list[Span]:
    """What answers within the windows of an answer's locations (:func:`narrowed`), merged where it
    overlaps; raises on a bad location."""
    windows: list[tuple[int, int, int]] = []
    for order, name in enumerate(_text_names(patient)):
        text = patient["texts"][name]
        place = places.get(name, {})
        for start, end in zip(place.get("start", ()), place.get("end", ()), strict=True):
            if not 0 <= start <= end <= 1:
                raise ValueError("a location outside its text")
            window = location_window(text, start, end)
            windows.append((order, *narrowed(text, window, question, answer)))
    merged: list[Span] = []
    for order, start, end in sorted(windows):
        if merged and merged[-1].event == order and start <= merged[-1].end:
            merged[-1] = Span(order, merged[-1].start, max(end, merged[-1].end))
        else:
            merged.append(Span(order, start, end))
    return merged


def _question(
    key: str, patient: _Patient, asked: Any, record: Record, file: str, warnings: list[str]
) -> tuple[Instruction, Gold]:
    id = f"{key}-q{asked['No']}"
    question, answer = str(asked["question"]).strip(), str(asked["correct"]).strip()
    try:
        spans = _spans(
            patient, asked.get("answer_location") or {}, question, _stated(asked, answer)
        )
    except (AttributeError, TypeError, ValueError):
        warnings.append(f"{file}: the answer location of {id} cannot be read — it is left out")
        spans = []
    snippets = tuple(record.events[s.event].text[s.start : s.end].strip() for s in spans)
    order, time, token = place_of(record, spans[0]) if spans else (None, None, None)
    return (
        Instruction(id, key, question, task_type=task_type_of(question)),
        Gold(id, answer, snippets, tuple(spans), order, time, token=token),
    )


def _json_files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return sorted(p for p in path.iterdir() if p.suffix.lower() == ".json")


@LOADERS.register("longhealth")
class LongHealth:
    """LongHealth's benchmark file, whole or some patients of it."""

    name = "longhealth"
    title = "LongHealth (JSON of texts and questions)"

    def accepts(self, path: str) -> bool:
        """A JSON file that opens like LongHealth's, or a folder with one."""
        for file in _json_files(Path(path)):
            if file.suffix.lower() == ".json" and file.is_file():
                with file.open("rb") as opened:
                    if re.match(rb'\s*(?:\xef\xbb\xbf)?\s*\{\s*"[^"]*"\s*:\s*\{', opened.read(400)):
                        opened.seek(0)
                        if b'"texts"' in opened.read(1 << 16):
                            return True
        return False

    def load(self, path: str) -> Cohort:
        """Read all patients; raises DataError where there is not one."""
        place = Path(path)
        root = cohort_root(place)
        skipped: list[Skip] = []
        warnings: list[str] = []
        patients: dict[str, tuple[_Patient, str]] = {}
        for file in _json_files(place):
            name = shown(file, root)
            try:
                found = _read(file, name)
            except DataError as error:
                skipped.append(skip_of(error))
                continue
            for key, patient in found.items():
                problem = _problem(patient) or ("is there twice" if key in patients else "")
                if problem:
                    skipped.append(Skip(name, None, f"{key} {problem} — see LongHealth's format"))
                else:
                    patients[key] = (patient, name)
        if not patients:
            first = skipped[0] if skipped else Skip(place.name, None, "holds no patient")
            raise DataError(first.file, first.line, first.reason)
        readers = {k: partial(_record, k, patient, name) for k, (patient, name) in patients.items()}
        records = LazyRecords(readers, {}, skipped, warnings)
        asked = _ask(patients, records, skipped, warnings)
        default = Manifest(root.name, source="LongHealth", licence="Apache-2.0")
        return Cohort(
            path=str(place),
            format=self.name,
            manifest=read_manifest(root, default, skipped),
            records=records,
            instructions=tuple(instruction for instruction, _ in asked),
            gold={gold.instruction_id: gold for _, gold in asked},
            skipped=skipped,
            warnings=warnings,
        )


def _ask(
    patients: Mapping[str, tuple[_Patient, str]],
    records: LazyRecords,
    skipped: list[Skip],
    warnings: list[str],
) -> list[tuple[Instruction, Gold]]:
    asked: dict[str, tuple[Instruction, Gold]] = {}
    for key, (patient, name) in patients.items():
        for number, question in enumerate(patient.get("questions", [])):
            try:
                made = _question(key, patient, question, records[key], name, warnings)
            except (KeyError, TypeError):
                reason = f"question {number} of {key} lacks No, question or correct"
                skipped.append(Skip(name, None, f"{reason} — see LongHealth's format"))
                continue
            if made[0].id in asked:
                skipped.append(Skip(name, None, f"{made[0].id} is there twice — keep one of them"))
                continue
            asked[made[0].id] = made
    return list(asked.values())
