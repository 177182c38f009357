"""MedAlign cohorts: a folder of record XML with its two tables, or one record's file.

Ids come from the head of each file. A record is in either dialect: (a) the release: ``<eventstream
person_id><encounter>…<events><entry timestamp><event …>``; (b) the public sample:
``<record><visit><day>`` with one element a table, each holding ``<code>`` lines. The root element
decides.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from xml.etree.ElementTree import Element

from midchart.core.cohorts.base import RecordLoader
from midchart.core.cohorts.columns import parse_time
from midchart.core.cohorts.files import LoadLog
from midchart.core.cohorts.records import (
    QUESTION_COLUMNS,
    RESPONSE_COLUMNS,
    Entry,
    Questions,
    ReadRecords,
    build_record,
    read_questions,
    read_responses,
)
from midchart.core.cohorts.tables import TableRow, read_table
from midchart.core.errors import DataError
from midchart.core.loaders import LOADERS
from midchart.core.parsing import UTF_16
from midchart.core.storage.sources import Source
from midchart.core.types import Record


def _get(element: Element, name: str) -> str:
    """An attribute; "" where it is missing or NULL."""
    return _value(element.get(name, ""))


def _text(element: Element) -> str:
    """All text in an element and in those that it holds."""
    return "".join(element.itertext())


def _value(text: str) -> str:
    return "" if text == "NULL" else text


_HEAD = 1 << 16
_FIRST = re.compile(r"<([A-Za-z][\w.:-]*)([^<>]*)")
_PERSON = re.compile(r"""\sperson_id\s*=\s*["']\s*([^"'<>]*?)\s*["']""")


def _check_root(tag: str, name: str) -> None:
    if tag not in _ROOTS:
        reason = "is not a MedAlign record: its root is neither <eventstream> nor <record>"
        raise DataError(name, None, reason, "move it out of the cohort")


def _head_id(source: Source) -> str:
    """The person_id of the root element of a record's file, "" for none; raises DataError where it
    is no record of MedAlign."""
    head = source.start(_HEAD)
    text = head.decode("utf-16" if head[:2] in UTF_16 else "utf-8", "replace")
    first = _FIRST.search(re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL))
    _check_root(first[1] if first else "", source.name)
    stated = _PERSON.search(first[2] if first else "")
    return html.unescape(stated[1]) if stated else ""


# ``[VOCAB/code] name value unit``: the one-line entries of MedAlign's public sample.


_LINE = re.compile(r"\[([^\]\s]*)\]\s*(.*)", re.DOTALL)
_UNIT = (
    r"%|[A-Za-zµμ°%{}\[\].*^0-9]+/[A-Za-zµμ°%{}\[\].*^0-9/]+|mm\s?\[?Hg\]?|cm\s?H2O|sq\s(?:meters|m)|"
    r"(?:k|m|u|µ|μ|n|p)?g|lbs?|oz|(?:k|c|m)?m|in(?:ches)?|ft|(?:m|d|u|µ)?L|ml|°?[CF]|deg\s?[CF]|"
    r"degrees\s\w+|bpm|beats\sper\sminute|(?:m|µ|u|n|p)?mol|m?Eq|IU|U|units?|seconds?|sec|s|ms|"
    r"min(?:utes)?|hours?|hrs?|h|days?|weeks?|months?|years?|fL|pg|kPa|mmol|K|M|score|points?"
)
_VALUE = re.compile(
    rf"(?P<name>.*\S)\s+(?P<value>(?:[<>]=?\s?)?[+-]?\d[\d,]*(?:\.\d+)?(?:/\d+(?:\.\d+)?)?)"
    rf"(?:\s*(?P<unit>{_UNIT}))?",
    re.DOTALL,
)
_VALUED = frozenset({"measurement", "observation"})


def parse_code(line: str, kind: str) -> tuple[str, str, str, str]:
    """Code, name, value and unit of a line; what cannot be separated stays in the name.

    >>> parse_code("[LOINC/8478-0] Mean blood pressure 122 mm Hg", "measurement")
    ('LOINC/8478-0', 'Mean blood pressure', '122', 'mm Hg')
    """
    line = line.strip()
    match = _LINE.fullmatch(line)
    code, rest = (match.group(1), match.group(2).strip()) if match else ("", line)
    valued = _VALUE.fullmatch(rest) if kind in _VALUED else None
    if valued is None:
        return code, rest, "", ""
    return code, valued["name"], valued["value"], valued["unit"] or ""


_ROOTS = ("eventstream", "record")
_CONTEXT = frozenset(
    {"encounter", "events", "caresites", "caresite", "providers", "provider", "eventstream"}
)
"""Elements that hold no event."""


@dataclass(slots=True)
class Parsed:
    """The content of one file. ``unknown``: the unknown elements."""

    entries: list[Entry] = field(default_factory=list[Entry])
    facts: dict[str, str] = field(default_factory=dict[str, str])
    specialties: dict[str, str] = field(default_factory=dict[str, str])
    unknown: dict[str, None] = field(default_factory=dict[str, None])

    def release(self, element: Element, time: datetime | None = None) -> None:
        """Enter what is in an element of dialect (a); ``time``: of the entry that it is in."""
        for one in element:
            if one.tag == "event":
                author = self.specialties.get(one.get("provider_id", ""), "")
                code, name, unit, note, visit = (
                    _get(one, part) for part in ("code", "name", "unit", "note_id", "visit_id")
                )
                kind, text = _get(one, "type") or "unknown", _value(_text(one))
                entry = (time, kind, code, name, text, unit, note, visit, None, author)
                self.entries.append(entry)
            elif one.tag == "person":
                for fact in one.iter():
                    if len(fact) == 0 and (value := _value(_text(fact).strip())):
                        self.facts.setdefault(fact.tag, value)
            else:
                if one.tag == "provider":
                    self.specialties[one.get("provider_id", "")] = _get(one, "speciality")
                elif one.tag != "entry" and one.tag not in _CONTEXT:
                    self.unknown[one.tag] = None
                self.release(one, _read_time(one.get("timestamp")) if one.tag == "entry" else time)

    def sample(self, element: Element, visit: str = "") -> None:
        """Enter what is in an element of dialect (b); ``visit``: that it is in."""
        for one in element:
            if one.tag == "visit":
                named = f"{one.get('type', '')} {one.get('start', '')}".strip()
                if kind := _get(one, "type"):
                    time = _read_time(one.get("start"))
                    self.entries.append((time, "visit", "", kind, "", "", "", named, None, ""))
                self.sample(one, named)
            elif one.tag == "day":
                self.sample(one, visit)
            elif one.tag == "person":
                for row in _text(one).splitlines():
                    key, colon, value = row.partition(":")
                    if colon and _value(value.strip()):
                        self.facts.setdefault(key.strip(), value.strip())
            else:
                self._add_table(one, visit)

    def _add_table(self, table: Element, visit: str) -> None:
        """Enter a note, or the codes of an element that is named after its table."""
        time = _read_time(table.get("start"))
        kind = table.tag.removesuffix("_occurrence")  # the name of the release
        if kind == "note":
            rows = [("", _get(table, "type"), _value(_text(table).strip()), "")]
        else:
            coded = table.findall("code") or [table]
            rows = [parse_code(_text(one), kind) for one in coded]
        for code, name, text, unit in rows:
            if kind == "note" or code or name:
                self.entries.append((time, kind, code, name, text, unit, "", visit, None, ""))


_read_time = lru_cache(maxsize=1 << 16)(parse_time)


def _warn_of(parsed: Parsed, name: str, log: LoadLog) -> None:
    """One warning for each kind of doubtful content."""
    if not parsed.entries:
        log.warn(f"{name}: holds no event — check the export; the record stays, empty")
    if undated := sum(one[0] is None for one in parsed.entries):
        log.warn(
            f"{name}: {undated} events have no readable time "
            "— they stay where the file has them and have no time position"
        )
    for tag in parsed.unknown:
        log.warn(f"{name}: element <{tag[:40]}> is not known — what it says is left out")


def read_record(file: Source, log: LoadLog, id: str | None = None) -> Record:
    """The record of one file; ``id`` defaults to person_id, else the stem."""
    root, parsed = file.xml(), Parsed()
    _check_root(root.tag, file.name)
    (parsed.release if root.tag == "eventstream" else parsed.sample)(root)
    _warn_of(parsed, file.name, log)
    chosen = id or root.get("person_id", "").strip() or file.stem
    return build_record(chosen, parsed.entries, parsed.facts, file.name)


_QUESTION_FILE = "clinician-instruction-responses.tsv"
_RESPONSE_FILE = "clinician-reviewed-model-responses.tsv"


@LOADERS.register("medalign")
class MedAlign(RecordLoader):
    """MedAlign's release (dialect a) and public sample (dialect b)."""

    name = "medalign"
    title = "MedAlign (record XML, instruction and response tables)"
    source = "MedAlign"
    licence = (
        "MedAlign data use agreement: test only, no training; no commercial services without a "
        "HIPAA agreement; no redistribution"
    )
    record_folders = ("ehrs", "medalign_ehr_xml")

    def accepts(self, place: Source) -> bool:
        """A file ending in .xml, or a folder with ehrs/, medalign_ehr_xml/ or such files."""
        return bool(self.files(place))

    def companions(self, place: Source) -> list[Source]:
        """The tables of questions and responses, for the folder of the records."""
        if not place.is_folder() or place == place.cohort:
            return []
        return [*map(place.parent.within, (_QUESTION_FILE, _RESPONSE_FILE))]

    def files(self, place: Source) -> list[Source]:
        """The record files of a cohort folder, or the one file itself."""
        inner = filter(Source.is_folder, map(place.within, self.record_folders))
        return [file for file in next(inner, place).entries() if file.ending == ".xml"]

    def read(self, place: Source, log: LoadLog) -> tuple[ReadRecords, Questions]:
        """Records, instructions with gold, and the model responses that clinicians reviewed."""
        records = self._records(place, log)
        if place.is_file():
            _ = records[next(iter(records))]  # a lone file that cannot be read is an error
            return records, Questions()
        asked = _rows(place.cohort.within(_QUESTION_FILE), QUESTION_COLUMNS, log)
        questions = read_questions(asked, records, log)
        reviewed = _rows(place.cohort.within(_RESPONSE_FILE), RESPONSE_COLUMNS, log)
        questions.responses = read_responses(reviewed, questions, records, log)
        return records, questions

    def _records(self, place: Source, log: LoadLog) -> ReadRecords:
        """One record a file; of two files with one person_id the first is read."""
        files = self.files(place)
        aliases: dict[str, str | None] = {}
        origin: dict[str, Source] = {}
        for file in files:
            name, id = file.name, ""
            with log.reading(file):
                id = _head_id(file) or file.stem
            if id in origin:
                reason = f"has the person_id of {origin[id].name} — keep one of the two"
                log.skip(name, None, reason)
                id = id if id == file.stem else ""
            elif id:
                origin[id] = file
            aliases[file.own_name] = alias = id or None
            # A stem that two files share belongs to neither.
            aliases[file.stem] = alias if aliases.get(file.stem, alias) == alias else None
        if not origin:
            first = log.nothing_read(place.root.name, "holds no record")
            if len(files) == 1:
                raise first
            reason = f"none of its {len(files)} record files can be read"
            raise DataError(
                place.root.name, None, reason, f"the first: {first.file}: {first.reason}"
            )
        for file in files:
            other = origin.get(file.stem)
            if other is not None and aliases[file.own_name] != file.stem:
                log.warn(
                    f"{file.name}: its name is the person_id of {other.name} — a table's "
                    "filename means the file, its person_id the record; check that they agree"
                )
        return ReadRecords(origin, lambda id: read_record(origin[id], log, id), log, aliases)


def _rows(file: Source, columns: Sequence[str], log: LoadLog) -> list[TableRow]:
    if file.exists():
        with log.reading(file):
            return read_table(file, columns, log)
    return []
