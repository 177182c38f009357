"""Ledger of leaves: what became of every string, number and code of a cohort's files.

The files are read again by the format's plain parser (json, ElementTree, csv) and each leaf is
looked for in what the cohort shows. It is ``shown``; ``said twice``: its words are in what is shown
of the same resource, section or row; ``administrative``, by its address (``administrative.tsv``);
``left out``, where the cohort names its file or part with a reason; or ``unaccounted``.
"""

from __future__ import annotations

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import cache, lru_cache
from io import BytesIO
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

from midchart.core.cohorts.columns import DAY_FIRST, MONTH_FIRST, UNITS, Times, parse_time
from midchart.core.cohorts.tables import DELIMITERS, table_head
from midchart.core.confinement import OVER_LIMIT
from midchart.core.documents.ccda_entries import parse_ts
from midchart.core.documents.payloads import cell_text
from midchart.core.errors import DataError
from midchart.core.parsing import parse_xml, read_json, xml_text
from midchart.core.storage.encodings import decoded
from midchart.core.storage.sources import DEEP, Source
from midchart.core.text import event_text
from midchart.core.text.markup import is_deleted
from midchart.core.types import Cohort

SHOWN, TWICE, ADMINISTRATIVE = "shown", "said twice", "administrative"
LEFT_OUT, UNACCOUNTED = "left out", "unaccounted"
LARGEST = 4 << 20
"""Bytes of a cohort's files up to which its leaves are counted unless that is asked for."""
_WORD = re.compile(r"\d{4}-\d\d-\d\d|\d+(?:[.,]\d+)*|[^\W\d_]+")
_STAMP = re.compile(
    r"0\d{3,13}|(?:19|20)\d\d(?:0[1-9]|1[0-2])|\d{4}(?:-\d\d(?:-\d\d(?:[T ].*)?)?)?"
    r"|\d{8}(?:\d{2,6})?(?:[.+-].*)?|-?\d{5,}-\d\d-\d\d.*|<value out of range.*"
)
_NUMBER = re.compile(r"-?\d+[.,]\d+")
_TIMES = re.compile(r".*\.(?:effectiveTime|time)(?:\.\w+)?@value|entry@timestamp|.*@start")
"""Addresses of clinical documents, and of MedAlign, that hold a time."""
_ORDERS = (MONTH_FIRST, DAY_FIRST)
_BASE64, _ENCODED = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*"), 400
"""A document in base64, of more characters than a word has: its text is shown, or why not."""
_MOST_EVENTS = 40
"""Events of one word that are looked at for the leaves of a part."""
ANY_FILE = ""
"""Key of a reason that applies to all files of the cohort."""
_SECTION = "section"
_AROUND = ("record", "visit", "day", "events")
"""Elements around the entries and tables of MedAlign."""


class SourcePart(NamedTuple):
    """A resource, section, row or message: its place, what it is, and its leaves by address."""

    place: str
    kind: str
    leaves: list[tuple[str, str]]


Outcome = tuple[str, str]
"""What became of a leaf, and why."""


def leaves_of(cohort: Cohort) -> list[dict[str, Any]]:
    """The ledger of a cohort's files: one row an ``outcome``, ``reason`` and ``address``, those
    that are not shown first, with the number of ``leaves`` and the place of an ``example``."""
    counts, examples = Counter[tuple[str, str, str]](), dict[tuple[str, str, str], str]()
    for outcome, address, place in _entries(cohort):
        counts[*outcome, address] += 1
        examples.setdefault((*outcome, address), place)
    order = (UNACCOUNTED, LEFT_OUT, ADMINISTRATIVE, TWICE, SHOWN)
    names = ("outcome", "reason", "address")
    return [
        {**dict(zip(names, key, strict=True)), "leaves": n, "example": examples[key]}
        for key, n in sorted(counts.items(), key=lambda one: (order.index(one[0][0]), -one[1]))
    ]


def _entries(cohort: Cohort) -> Iterator[tuple[Outcome, str, str]]:
    """What became of each leaf, its address and place."""
    shown_texts, reasons = _ShownTexts(cohort), _reasons(cohort)
    for file in Source.at(cohort.path).entries(DEEP):
        if not file.is_file() or file.own_name.startswith("midchart."):
            continue
        name = file.name
        why = reasons.get((name, None)) or reasons.get((name, "files")) or ""
        why = why.partition(" — ")[0]
        parts = [] if why == OVER_LIMIT else list(parts_of(file))
        if why and not parts:
            yield (LEFT_OUT, why), "file", name
        for part in parts:
            if why:
                outcomes = [((LEFT_OUT, why), address) for address, _ in part.leaves]
            else:
                outcomes = _outcomes(part, cohort.format, shown_texts, reasons)
            for outcome, address in outcomes:
                yield outcome, address, part.place


def _reasons(cohort: Cohort) -> dict[tuple[str, str | None], str]:
    """(File, None or a line or kind of resource) → why that was left out, as the cohort says."""
    reasons: dict[tuple[str, str | None], str] = {}
    place = Path(cohort.path)
    for skip in cohort.skipped:
        of_file = skip.line is None or skip.reason.startswith("lacks the columns")
        file = ANY_FILE if skip.file == place.name and place.is_dir() else skip.file
        reasons.setdefault((file, None if of_file else str(skip.line)), skip.reason)
    stated = re.compile(r"(?P<file>[^:]+):(?P<line>\d+): (?P<kind>[A-Z]\w+) (?P<reason>.*)")
    for text in (*(f"{s.file}:{s.line}: {s.reason}" for s in cohort.skipped), *cohort.warnings):
        if one := stated.fullmatch(text):
            reasons.setdefault((one["file"], one["line"]), f"{one['kind']} {one['reason']}")
            reasons.setdefault((one["file"], one["kind"]), f"{one['kind']} {one['reason']}")
    for (file, what), account in cohort.accounts.items():
        if account.reasons:
            reasons.setdefault((file, what), ", ".join(why for why, _ in account.reasons))
    return reasons


class _ShownTexts:
    """What a cohort shows: events by their words, and all else in one text."""

    def __init__(self, cohort: Cohort) -> None:
        self._texts: list[str] = []
        self._events: dict[str, list[int]] = defaultdict(list)
        others: list[str] = []
        for id in cohort.records:
            try:
                record = cohort.records[id]
            except DataError:
                continue  # it is among the reasons
            others += [id, *(f"{name}: {value}" for name, value in record.facts)]
            for event in record.events:
                stamp = f"{event.time:%Y-%m-%d %H:%M:%S}" if event.time else ""
                written = event_text(event)
                parts = (stamp, event.kind, event.code, event.name, event.text, event.unit)
                self._add(
                    " ".join((*parts, "" if written == event.text else written, event.author))
                )
        for one in cohort.instructions:
            others += [one.id, one.question, *one.options, one.specialty, one.domain]
            if gold := cohort.gold.get(one.id):
                others.append(gold.answer)
        others += [text for r in cohort.responses for text in (r.text, r.model)]
        self._others = _plain(" ".join(filter(None, map(str, others))))
        self._words = frozenset(_WORD.findall(self._others))

    def _add(self, text: str) -> None:
        plain = _plain(text)
        for word in set(_WORD.findall(plain)):
            self._events[word].append(len(self._texts))
        self._texts.append(plain)

    def near(self, leaves: Sequence[tuple[str, str]]) -> tuple[str, Callable[[], frozenset[str]]]:
        """The text of the events that say one of these leaves in full and of what is no event, and
        what gives its words."""
        chosen: set[int] = set()
        days = [day for _, value in leaves for day in _days(value)]
        dated = {number for day in days for number in self._events.get(day, ())}
        ordered = sorted(leaves, key=lambda one: -len(one[1]))
        for plain in (
            text for _, value in ordered for text in _days(value) or [_plain(cell_text(value)[0])]
        ):
            words = set(_WORD.findall(plain))
            if not words or (len(plain) < 4 and chosen and not plain.isalpha()):
                continue  # a short one alone names no event
            rarest = min((self._events.get(word, ()) for word in words), key=len)
            same_day = dated.intersection(rarest) or rarest
            matching = (n for n in same_day if plain[:200] in self._texts[n])
            chosen.update(islice(matching, _MOST_EVENTS))
        text = " ".join(self._texts[n] for n in sorted(chosen))
        words = cache(lambda: self._words.union(_WORD.findall(text)))
        return f"{text} {self._others}", words


def _plain(text: str) -> str:
    """A text in lower case with single blanks and without marks of layout."""
    return " ".join(re.sub(r"[|;\\\[\]]+", " ", text).casefold().split())


def _outcomes(
    part: SourcePart,
    format: str,
    cohort: _ShownTexts,
    reasons: Mapping[tuple[str, str | None], str],
) -> Iterator[tuple[Outcome, str]]:
    """What became of each leaf of a part, and its address."""
    set_aside = {address: _administrative(format, address) for address, _ in part.leaves}
    if all(set_aside[address] or not value for address, value in part.leaves):
        for address, value in part.leaves:
            if value.strip():
                yield set_aside[address] or (ADMINISTRATIVE, ""), address
        return
    file, _, line = part.place.partition(":")
    near, words = cohort.near(part.leaves)
    why = reasons.get((file, line)) or reasons.get((file, part.kind)) or ""
    if not any(len(value) > 3 and _plain(value) in near for _, value in part.leaves):
        by_part = [reasons.get((file, what)) for what in (f"{part.kind}s", "resources", "rows")]
        by_part.append(reasons.get((ANY_FILE, None)))
        why = why or next(filter(None, by_part), "")  # all of the part is left out
    for address, value in part.leaves:
        plain = _plain(value)
        if not plain:
            continue
        if plain in near:
            outcome = SHOWN, ""
        elif len(value) > _ENCODED and _BASE64.fullmatch(value):
            outcome = ADMINISTRATIVE, "an encoded document"
        elif plain == "null":
            outcome = ADMINISTRATIVE, "says that there is no value"
        elif (_STAMP.fullmatch(plain) or _TIMES.fullmatch(address)) and not _days(value):
            outcome = ADMINISTRATIVE, "a time that is none"
        elif (stated := set_aside[address]) and stated[0] is ADMINISTRATIVE:
            outcome = stated
        elif _is_said(value, plain, near, words):
            outcome = TWICE, "in other words or another form"
        elif stated:
            outcome = stated
        elif len({*_days(value)}) > 1:
            outcome = LEFT_OUT, "a date of which day and month are not certain"
        else:
            outcome = (LEFT_OUT, why.partition(" — ")[0]) if why else (UNACCOUNTED, "")
        yield outcome, address


def _is_said(value: str, plain: str, near: str, words: Callable[[], frozenset[str]]) -> bool:
    """Whether a text has what a leaf says: its words, the day of a time, yes or no, or markup."""
    if plain in ("true", "false"):
        return True  # it is a word of the element that it is the value of
    if days := _days(value):
        return any(day in near or day[:4] in words() for day in days)
    if plain.isdecimal() and len(plain) > 4:
        times = (Times(unit=unit).read(plain) for unit in UNITS)
        if any(time and f"{time:%Y-%m-%d}" in near for time in times):
            return True
    if _NUMBER.fullmatch(plain):
        number = plain.replace(",", ".")
        return not words().isdisjoint((number, number.rstrip("0").rstrip(".")))
    in_cell = _plain(cell_text(value)[0])  # a document in a cell
    bare = (set(_WORD.findall(re.sub(r"<[^<>]*>|&\w+;", " ", text))) for text in (plain, in_cell))
    return any(one and one <= words() for one in bare)


def _days(value: str) -> list[str]:
    """The dates that a time may mean, as ISO 8601; none of anything else."""
    text = value.strip()
    if not _STAMP.fullmatch(text):
        read = () if text.isdigit() else (Times(order).read(text) for order in _ORDERS)
    elif text[4:5] == "-":
        read = [parse_time(f"{text[:10]}-01-01"[:10])]
    else:
        read = [parse_ts(text)[0]]
    return [f"{time:%Y-%m-%d}" for time in read if time and time.year > 1000]


@cache
def _table() -> list[tuple[re.Pattern[str], re.Pattern[str], Outcome]]:
    lines = Path(__file__).with_name("administrative.tsv").read_text("utf-8").splitlines()[1:]
    table: list[tuple[re.Pattern[str], re.Pattern[str], Outcome]] = []
    for format, address, why in (line.split("\t") for line in lines):
        left_out = why.removeprefix(f"{LEFT_OUT}: ")
        outcome = (ADMINISTRATIVE, why) if left_out == why else (LEFT_OUT, left_out)
        table.append((re.compile(format), re.compile(address), outcome))
    return table


@lru_cache(maxsize=1 << 14)
def _administrative(format: str, address: str) -> Outcome | None:
    """The outcome of a leaf at an address that says nothing of a patient; None where it may."""
    rows = (out for of, at, out in _table() if of.fullmatch(format) and at.fullmatch(address))
    return next(rows, None)


# Plain parsers.


def parts_of(file: Source) -> Iterator[SourcePart]:
    """The parts of a file, of its lines or of the files in it; none of one that holds no text."""
    # The loader names what cannot be parsed; pyarrow raises OSError or NotImplementedError.
    with suppress(DataError, ValueError, OSError, RecursionError, NotImplementedError, csv.Error):
        files = [file]
        if file.ending == ".zip":
            files = [one for one in file.members() if one.ending in (*DELIMITERS, ".parquet")]
        for one in files:
            yield from _parts(one.content(), one.ending, one.name)


def _parts(data: bytes, ending: str, name: str) -> Iterator[SourcePart]:
    if ending in DELIMITERS:
        yield from _rows(decoded(data, name)[0], DELIMITERS[ending], name)
    elif ending == ".parquet":
        yield from _parquet_rows(data, name)
    elif ending == ".json" and not data.lstrip()[:1000].count(b"}\n{"):
        yield from _json_parts(read_json(data, name, as_written=True), name)
    elif ending in (".ndjson", ".jsonl", ".json"):
        for number, line in enumerate(decoded(data, name)[0].splitlines(), 1):
            if line.strip():
                yield from _json_parts(read_json(line, name, as_written=True), name, number)
    elif ending in (".xml", ".ccd", ".ccda", ".cda") or b"<ClinicalDocument" in data[:4096]:
        yield from _xml_parts(parse_xml(xml_text(data, name), name), name)
    elif data[:5] != b"%PDF-" and b"\0" not in data[:1000]:
        text = decoded(data, name)[0]
        lines = (("line", line) for line in re.split(r"[\r\n]+", text) if line.strip())
        yield SourcePart(name, "text", list(_fields(text) if "MSH|" in text[:100] else lines))


def _fields(text: str) -> Iterator[tuple[str, str]]:
    """The components of HL7 v2 fields, by segment and number of the field."""
    for segment in re.split(r"[\r\n\x0b\x1c]+", text):
        name, *fields = segment.split("|")
        for number, content in enumerate(fields, 1 if name != "MSH" else 2):
            for component in re.split(r"[\^~&]", re.sub(r"\\[^\\]{1,20}\\", " ", content)):
                yield f"{name}-{number}", component


def _rows(text: str, delimiter: str, name: str) -> Iterator[SourcePart]:
    lines = text.splitlines(keepends=True)
    head = table_head(lines, delimiter)
    before = head.last
    reader = csv.reader(lines[before:], delimiter=head.delimiter, quotechar=head.quote)
    line = before + 1
    table = Path(name).name.partition(".")[0].lower()
    for cells in reader:
        leaves = [(f"{table}.{c}".lower(), v) for c, v in zip(head.header, cells, strict=False)]
        yield SourcePart(f"{name}:{line}", table, leaves)
        line = before + reader.line_num + 1


def _as_text(value: Any) -> str:
    """A value as a record states it: whole numbers without decimals."""
    text = f"{float(value):.15g}" if isinstance(value, float | Decimal) else str(value)
    return text.removesuffix(".0")


def _parquet_rows(data: bytes, name: str) -> Iterator[SourcePart]:
    from pyarrow import types
    from pyarrow.parquet import ParquetFile

    table = Path(name).name.partition(".")[0].lower()
    file = ParquetFile(BytesIO(data))
    addresses = [f"{table}.{column}".lower() for column in file.schema_arrow.names]
    lines = count(1)
    for batch in file.iter_batches():
        # Some timestamps are outside the range of datetime; 0.1 in 32 bits is written so.
        as_text = (types.is_temporal, types.is_float32)
        columns = [
            (one.cast("string") if any(of(one.type) for of in as_text) else one).to_pylist()
            for one in batch.columns
        ]
        for row in zip(*columns, strict=True):
            stated = zip(addresses, row, strict=True)
            leaves = [(address, _as_text(value)) for address, value in stated if value is not None]
            yield SourcePart(f"{name}:{next(lines)}", table, leaves)


def _json_parts(value: Any, name: str, line: int | None = None) -> Iterator[SourcePart]:
    """A part for each resource of a bundle, or each member of another document."""
    if isinstance(value, list):
        for number, one in enumerate(value, 1):
            yield from _json_parts(one, name, line or number)
        return
    kind = value.get("resourceType") if isinstance(value, dict) else ""
    if kind == "Bundle":
        for number, one in enumerate(value.get("entry") or [], 1):
            inner = one.get("resource") if isinstance(one, dict) else None
            yield from _json_parts(inner, name, line or number) if inner else ()
    else:
        kind = kind if isinstance(kind, str) else ""
        yield SourcePart(f"{name}:{line or 1}", kind, list(_json_leaves(value, kind)))


def _json_leaves(value: Any, address: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, one in value.items():
            inner = key if not address else f"{address}.{key}"
            yield from _json_leaves(one, inner)
    elif isinstance(value, list):
        for one in value:
            yield from _json_leaves(one, address)
    elif value is not None:
        yield address, str(value).lower() if isinstance(value, bool) else str(value)


def _xml_parts(root: Element, name: str) -> Iterator[SourcePart]:
    """A part for each resource; for each section of a clinical document, or entry or table of
    MedAlign; and for what is around these."""
    documents = list(root.iter("ClinicalDocument"))
    fhir = not documents and root.tag[:1].isupper()  # as all resources are
    if fhir:
        resources = [e for around in root.iter("resource") for e in around] or [root]
        for number, one in enumerate(resources, 1):
            leaves = _xml_leaves(one, one.tag, frozenset())
            named = [(address.removesuffix("@value").replace("@", "."), v) for address, v in leaves]
            yield SourcePart(f"{name}:{number}", one.tag, named)
    for top in documents or ([] if fhir else [root]):
        inner = list(top.iter(_SECTION))
        if not documents:
            tables = (one for around in top.iter() if around.tag in _AROUND for one in around)
            inner = [one for one in tables if one.tag not in (*_AROUND, "person")]
        apart = frozenset(inner)
        parts = [(name, "header", top, "" if documents else top.tag)]
        for number, one in enumerate(inner, 1):
            parts.append((name if documents else f"{name}:{number}", one.tag, one, one.tag))
        for place, kind, one, address in parts:
            yield SourcePart(place, kind, list(_xml_leaves(one, address, apart)))


def _xml_leaves(
    element: Element, address: str, apart: frozenset[Element]
) -> Iterator[tuple[str, str]]:
    """Attributes and texts of an element and those below, but for those that are ``apart``."""
    address += ".deleted" if is_deleted(element) else ""
    for attribute, value in element.attrib.items():
        yield f"{address}@{attribute.rpartition('}')[2]}", value
    for text in (element.text, *(child.tail for child in element)):
        if text and address.endswith(".day.person"):  # of MedAlign: lines of a name and a value
            for line in text.splitlines():
                yield f"{address}.{line.partition(':')[0].strip()}", line
        elif text and text.strip():
            yield address, text
    for child in element:
        if child not in apart:
            yield from _xml_leaves(child, f"{address}.{child.tag}".lstrip("."), apart)
