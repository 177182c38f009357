"""MedAlign cohorts: a folder of record XML with its two tables, or one record's file.

Ids come from the head of each file, so opening a cohort does not parse its records. A record is
read by one streaming pass, in either dialect: (a) the release: ``<eventstream
person_id><encounter>…<events><entry timestamp><event …>``; (b) the public sample:
``<record><visit><day>`` with one element a table, each holding ``<code>`` lines. The root element
decides. The plain version is ``tests/reference/xml.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import IO, Any
from xml.parsers import expat

from midchart.core.cohorts.base import RecordLoader
from midchart.core.cohorts.columns import parse_time
from midchart.core.cohorts.files import (
    LoadLog,
    data_error,
    entries_of,
    open_file,
    read_unchanged,
    shown,
)
from midchart.core.cohorts.records import (
    QUESTION_COLUMNS,
    RESPONSE_COLUMNS,
    Entry,
    Questions,
    ReadRecord,
    ReadRecords,
    build_record,
    read_questions,
    read_responses,
)
from midchart.core.cohorts.tables import TableRow, read_table
from midchart.core.errors import DataError
from midchart.core.loaders import LOADERS
from midchart.core.types import Record

_CHUNK = 1 << 20


def _new_parser(name: str) -> expat.XMLParserType:
    """An expat parser that joins adjacent text and refuses a DOCTYPE."""
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.buffer_size = 1 << 16

    def refuse(*_: object) -> None:
        raise DataError(
            name,
            parser.CurrentLineNumber,
            "holds a DOCTYPE; entities and external definitions are refused",
            "remove the DOCTYPE",
        )

    parser.StartDoctypeDeclHandler = refuse
    return parser


def feed(
    parser: expat.XMLParserType, file: IO[bytes], name: str, stop: Callable[[], bool] | None = None
) -> None:
    """Parse a file to its end, or until ``stop()`` is true.

    Raises DataError with the line where it is not well-formed, is not in its declared encoding,
    or has a DOCTYPE.
    """
    try:
        while chunk := file.read(_CHUNK if stop is None else 1 << 12):
            parser.Parse(chunk, False)
            if stop is not None and stop():
                return
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        reason = f"is not well-formed XML ({expat.ErrorString(error.code)})"
        raise DataError(name, error.lineno, reason, "export the file again") from None
    except (LookupError, UnicodeError, ValueError):
        line = parser.CurrentLineNumber
        reason = "is in an encoding that cannot be read"
        raise DataError(name, line, reason, "save it as UTF-8") from None


def _read_root(path: Path, name: str) -> tuple[str, dict[str, str]]:
    """The root element's tag and attributes; reads no more than necessary."""
    root: list[tuple[str, dict[str, str]]] = []
    parser = _new_parser(name)

    def start(tag: str, attributes: dict[str, str]) -> None:
        root.append((tag, attributes))
        parser.StartElementHandler = None

    parser.StartElementHandler = start
    with open_file(path) as file:
        try:
            feed(parser, file, name, stop=lambda: bool(root))
        except DataError:
            if not root:
                raise
    return root[0]


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
    """The content of one file. ``undated``: lines of entries without a time; ``unknown``: first
    line of each unknown element."""

    entries: list[Entry] = field(default_factory=list[Entry])
    facts: dict[str, str] = field(default_factory=dict[str, str])
    person_id: str = ""
    undated: list[int] = field(default_factory=list[int])
    unknown: dict[str, int] = field(default_factory=dict[str, int])


_NULL = {"NULL": ""}


def _release(parser: expat.XMLParserType, parsed: Parsed) -> None:
    """Set the handlers for dialect (a)."""
    read_time, entries = cache(parse_time), parsed.entries
    texts: list[str] = []
    facts = parsed.facts
    specialties: dict[str, str] = {}
    time: datetime | None = None
    event: dict[str, str] | None = None
    line = nested = 0
    in_person = False
    tag_of_fact = ""

    # A tag opens: an event, its entry's time, a fact of the person, a provider.
    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal time, event, line, nested, in_person, tag_of_fact
        if event is not None:
            nested += tag == "event"
        elif tag == "event":
            event = attributes
            line = parser.CurrentLineNumber
            texts.clear()
            parser.CharacterDataHandler = texts.append
        elif tag == "entry":
            time = read_time(attributes.get("timestamp"))
        elif in_person:
            tag_of_fact = tag
            texts.clear()
            parser.CharacterDataHandler = texts.append
        elif tag == "person":
            in_person = True
        elif tag == "provider":
            specialties[attributes.get("provider_id", "")] = attributes.get("speciality", "")
        elif tag not in _CONTEXT:
            parsed.unknown.setdefault(tag, parser.CurrentLineNumber)

    # An event closes: it becomes an entry with the time of its tag "entry".
    def end(tag: str) -> None:
        nonlocal time, event, nested, in_person, tag_of_fact
        if event is not None:
            if tag != "event":
                return
            if nested:
                nested -= 1
                return
            text = "".join(texts)
            if "NULL" in event.values():
                event = {key: value for key, value in event.items() if value != "NULL"}
            if time is None:
                parsed.undated.append(line)
            get = event.get
            entries.append(
                (
                    time,
                    get("type") or "unknown",
                    get("code", ""),
                    get("name", ""),
                    "" if text == "NULL" else text,
                    get("unit", ""),
                    get("note_id", ""),
                    get("visit_id", ""),
                    line,
                    _NULL.get(author := specialties.get(get("provider_id", ""), ""), author),
                )
            )
            event = None
            parser.CharacterDataHandler = None
        elif tag == "entry":
            time = None
        elif tag == "person":
            in_person = False
        elif tag_of_fact:
            value = "".join(texts).strip()
            if value and value != "NULL":
                facts.setdefault(tag_of_fact, value)
            tag_of_fact = ""
            parser.CharacterDataHandler = None

    parser.StartElementHandler, parser.EndElementHandler = start, end


def _sample(parser: expat.XMLParserType, parsed: Parsed) -> None:
    """Set the handlers for dialect (b)."""
    read_time = cache(parse_time)
    texts: list[str] = []
    table, time, visit, note_name = "", None, "", ""
    line, coded = 0, False

    # A tag opens: a visit, a row of a table, or a code in it.
    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal table, time, visit, note_name, line, coded
        if tag == "visit":
            visit = f"{attributes.get('type', '')} {attributes.get('start', '')}".strip()
        elif tag == "day":
            return
        elif table == "note":
            return  # markup inside a note: only its text is used
        elif tag == "code" or tag == "person":
            line = parser.CurrentLineNumber
            coded = True
            texts.clear()
            parser.CharacterDataHandler = texts.append
        else:
            table, time, coded = tag, read_time(attributes.get("start")), False
            line = parser.CurrentLineNumber
            texts.clear()
            parser.CharacterDataHandler = texts.append
            if tag == "note":
                note_name = attributes.get("type", "")
                note_name = _NULL.get(note_name, note_name)

    def add(kind: str, code: str, name: str, text: str, unit: str) -> None:
        if time is None:
            parsed.undated.append(line)
        parsed.entries.append((time, kind, code, name, text, unit, "", visit, line, ""))

    # A code or a note closes: it becomes an entry.
    def end(tag: str) -> None:
        nonlocal table, time, visit
        if tag == "person" and table != "note":
            for row in "".join(texts).splitlines():
                key, colon, value = row.partition(":")
                if colon and value.strip() not in ("", "NULL"):
                    parsed.facts.setdefault(key.strip(), value.strip())
            parser.CharacterDataHandler = None
        elif tag == "note" and table == "note":
            text = "".join(texts).strip()
            add("note", "", note_name, _NULL.get(text, text), "")
            table, time, parser.CharacterDataHandler = "", None, None
        elif table == "note":
            return
        elif tag == "code" or (tag == table and not coded):  # or a table's own line
            kind = table.removesuffix("_occurrence")  # the name of the release
            code, name, text, unit = parse_code("".join(texts), kind)
            if code or name:
                add(kind, code, name, text, unit)
            parser.CharacterDataHandler = None
        if tag == table:
            table, time = "", None
        elif tag == "visit":
            visit = ""

    parser.StartElementHandler, parser.EndElementHandler = start, end


def _parse_xml(path: Path, name: str) -> Parsed:
    """One pass over a record's file, in the dialect of its root element.

    Raises DataError where it is in neither dialect, is malformed, has a DOCTYPE or changes
    meanwhile.
    """

    def read() -> Parsed:
        parsed = Parsed()
        parser = _new_parser(name)

        def root(tag: str, attributes: dict[str, Any]) -> None:
            _check_root(tag, name, parser.CurrentLineNumber)
            parsed.person_id = attributes.get("person_id", "").strip()
            (_release if tag == "eventstream" else _sample)(parser, parsed)

        parser.StartElementHandler = root
        with open_file(path) as file:
            feed(parser, file, name)
        return parsed

    return read_unchanged(path, name, read)


def _check_root(tag: str, name: str, line: int | None = None) -> None:
    """Raise DataError unless the root element is one of a MedAlign record's."""
    if tag not in _ROOTS:
        reason = "is not a MedAlign record: its root is neither <eventstream> nor <record>"
        raise DataError(name, line, reason, "move it out of the cohort")


def _warnings_of(parsed: Parsed, name: str) -> list[str]:
    """One line for each kind of doubtful content."""
    lines: list[str] = []
    if not parsed.entries:
        lines.append(f"{name}: holds no event — check the export; the record stays, empty")
    if parsed.undated:
        lines.append(
            f"{name}:{parsed.undated[0]}: {len(parsed.undated)} events have no readable time "
            "— they stay where the file has them and have no time position"
        )
    for tag, line in parsed.unknown.items():
        lines.append(f"{name}:{line}: element <{tag[:40]}> is not known — what it says is left out")
    return lines


def read_record(path: Path, name: str, id: str | None = None) -> tuple[Record, list[str]]:
    """The record of one file and its warnings; ``id`` defaults to person_id, else the stem."""
    parsed = _parse_xml(path, name)
    chosen = id or parsed.person_id or path.stem
    return build_record(chosen, parsed.entries, parsed.facts, name), _warnings_of(parsed, name)


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

    def accepts(self, path: str) -> bool:
        """A file ending in .xml, or a folder with ehrs/, medalign_ehr_xml/ or such files."""
        place = Path(path)
        if place.is_file():
            return place.suffix.lower() == ".xml"
        return place.is_dir() and bool(self.record_files(place))

    def companions(self, place: Path) -> list[Path]:
        """The tables of questions and responses, for the folder of the records."""
        if not place.is_dir() or (root := self.root(place)) == place:
            return []
        return [root / _QUESTION_FILE, root / _RESPONSE_FILE]

    def record_files(self, path: Path) -> list[Path]:
        """The record files of a cohort folder, or the one file itself."""
        if path.is_file():
            return [path]
        inner = (path / name for name in self.record_folders if (path / name).is_dir())
        return [p for p in entries_of(next(inner, path)) if p.suffix.lower() == ".xml"]

    def read(self, place: Path, root: Path, log: LoadLog) -> tuple[ReadRecords, Questions]:
        """Records, instructions with gold, and the model responses that clinicians reviewed."""
        records = self._records(place, root, log)
        if place.is_file():
            _ = records[next(iter(records))]  # a lone file that cannot be read is an error
            return records, Questions()
        questions = read_questions(_rows(root, _QUESTION_FILE, QUESTION_COLUMNS, log), records, log)
        reviewed = _rows(root, _RESPONSE_FILE, RESPONSE_COLUMNS, log)
        questions.responses = read_responses(reviewed, questions, records, log)
        return records, questions

    def _records(self, place: Path, root: Path, log: LoadLog) -> ReadRecords:
        """One record a file; of two files with one person_id the first is read."""
        try:
            files = self.record_files(place)
        except OSError as error:
            raise data_error(error, place.name) from None
        readers: dict[str, ReadRecord] = {}
        aliases: dict[str, str | None] = {}
        origin: dict[str, str] = {}
        for file, person in zip(files, _people(files, root), strict=True):
            name = shown(file, root)
            log.opened.add(file)
            if isinstance(person, DataError):
                log.skip_error(person)
                _add_aliases(aliases, file, None)
                continue
            id = person or file.stem
            if id in readers:
                log.skip(name, None, f"has the person_id of {origin[id]} — keep one of the two")
                _add_aliases(aliases, file, id if id == file.stem else None)
                continue
            readers[id] = partial(read_record, file, name, id)
            origin[id] = name
            _add_aliases(aliases, file, id)
        if not readers:
            first = log.nothing_read(root.name, "holds no record")
            if len(files) == 1:
                raise first
            reason = f"none of its {len(files)} record files can be read"
            raise DataError(root.name, None, reason, f"the first: {first.file}: {first.reason}")
        for file in files:
            other = origin.get(file.stem)
            if other is not None and aliases[file.name] != file.stem:
                log.warn(
                    f"{shown(file, root)}: its name is the person_id of {other} — a table's "
                    "filename means the file, its person_id the record; check that they agree"
                )
        return ReadRecords(readers, log, aliases)


def _people(files: Sequence[Path], root: Path) -> list[str | DataError]:
    """The person_id of each record file, "" where it states none, or why it cannot be read."""
    people: list[str | DataError] = []
    for file in files:
        name = shown(file, root)
        try:
            tag, attributes = read_unchanged(file, name, partial(_read_root, file, name))
            _check_root(tag, name)
        except DataError as error:
            people.append(error)
        else:
            people.append(attributes.get("person_id", "").strip())
    return people


def _add_aliases(aliases: dict[str, str | None], file: Path, id: str | None) -> None:
    """Enter a file's names; a stem that two files share belongs to neither."""
    aliases[file.name] = id
    aliases[file.stem] = id if aliases.get(file.stem, id) == id else None


def _rows(root: Path, file: str, columns: Sequence[str], log: LoadLog) -> list[TableRow]:
    path = root / file
    if path.exists() or path.is_symlink():
        log.opened.add(path)
        with log.skipping(file):
            return read_table(path, file, columns, log)
    return []
