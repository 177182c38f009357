"""Delimited tables of any encoding, separator and quoting: all rows, and which reading was chosen.

An unclosed quote costs its own row, not the rows after it.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from midchart.core.cohorts.columns import MISSING, folded, known_names
from midchart.core.cohorts.files import LoadLog, read_all
from midchart.core.errors import DataError
from midchart.core.format import count
from midchart.core.parsing import repeated
from midchart.core.regular_files import open_regular

WESTERN = "Windows-1252"
_SAMPLE = 1 << 20
"""Characters by which the encoding of a text is recognised."""


# Encodings.

_PUNCTUATION = "‘’“”–—…•·«»\xa0\xad´¨™®©°±×µ€£§²³¹½¼¾‰†‡‹›„‚º ª¿¡"
_BETWEEN_LETTERS = frozenset("‚ƒ„†‡ˆ‰‹˜™›¡¢£¤¥¦§¨©ª«¬®¯²³¶¸¹º»¼½¾¿")
_MOST_ODD = 0.1
"""Share of runs of letters beyond ASCII that may be odd in text of Western Europe."""
_NOT_WESTERN = re.compile(
    r"(?=.*[øï])(?=.*[ìèùò])(?!.*[åæÅÆ])|(?=.*õ)(?=.*û)|(?=.*\wþ)(?=.*[ýð])(?!.*[áéíóúæ])",
    re.DOTALL,
)
"""Czech, Slovak, Hungarian or Turkish that is read as Windows-1252."""
_OTHERS: tuple[tuple[str, str, str, str], ...] = (
    ("Windows-1251", "cp1251", "оеаинтсрвлкмдпу", "А-яЁёЂ-џҐґ"),
    ("KOI8-R", "koi8_r", "оеаинтсрвлкмдпу", "А-яЁё"),
    ("DOS 866", "cp866", "оеаинтсрвлкмдпу", "А-яЁё"),
    ("Mac Cyrillic", "mac_cyrillic", "оеаинтсрвлкмдпу", "А-яЁё"),
    ("Shift_JIS", "cp932", "ぁ-んァ-ヶー、。・「」", "一-龥々〇-〕！-ﾟ"),
    ("EUC-JP", "euc_jp", "ぁ-んァ-ヶー、。・「」", "一-龥々〇-〕！-ﾟ"),
    ("EUC-KR", "cp949", "이가을를은는에의로다고하환자있습니어지한서도사없음증혈통과",
     "가-힣ㄱ-ㆎ、。"),
    ("GB18030", "gb18030", "的一是不了在人有我他这中大来上个国和地到说时要就出会可也你对生能而子年"
     "日月者患病无痛血治疗院入既往史查体性未见为，。：、；", "一-龥（）《》“”"),
    ("Big5", "big5", "的一是不了在人有我他這中大來上個國和地到說時要就出會可也你對生能而子年"
     "日月者患病無痛血治療院入既往史查體性未見為，。：、；", "一-龥（）《》「」"),
    ("Windows-1253", "cp1253", "αοιετσνηυρπκλμάόίέήύώς", "Α-ώ"),
    ("Windows-1250", "cp1250", "ąęłśżźćńóáéíýčěřšžťňůúďľĺőűöüăâîşţđ", "À-žŔ-ż„”“–°"),
    ("Windows-1254", "cp1254", "ışğİçöü", "âîû"),
    ("DOS 850", "cp850", "éèàâçêëîïôùûöüäßñóíáúãõåæøÉÅÆØÖÄÜ°", "ìòÀ-ÿ«»"),
    ("Mac Roman", "mac_roman", "éèàâçêëîïôùûöüäßñóíáúãõåæøÉÅÆØÖÄÜ’‘“”–—…•°µ≤≥±",
     "ìòÀ-ÿœŒ«»\xa0"),
)  # fmt: skip
"""Encodings that are looked at in text that is none of Western Europe: name, codec, the characters
beyond ASCII that are frequent in it, and others that it has."""
_MARKS = {b"\xff\xfe\x00\x00": "UTF-32", b"\x00\x00\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16",
          b"\xfe\xff": "UTF-16"}  # fmt: skip
"""Byte-order mark → encoding."""
_LEAST_NATURAL, _FEW = 0.6, 4
"""How natural a text must be in an encoding, and with fewer characters beyond ASCII less so."""


def decoded(data: bytes, name: str) -> tuple[str, str]:
    """The text of a file and its encoding, "" for UTF-8 (with or without a byte-order mark).

    UTF-16 and UTF-32 are read by their byte-order mark, UTF-16 also by its zero bytes, what is
    left by the letters that it has: Windows-1252 where they are those of Western Europe, else one
    of :data:`_OTHERS`. Raises DataError for another.
    """
    start = data[: 1 << 16]
    zeros = start.count(b"\0")
    encoding = next((name for mark, name in _MARKS.items() if data.startswith(mark)), "")
    if not encoding and zeros * 5 > len(start):
        halves = {"UTF-16-LE": start[1::2], "UTF-16-BE": start[::2]}
        encoding = next((name for name, half in halves.items() if half.count(b"\0") == zeros), "")
    if encoding:
        try:
            return data.decode(encoding).removeprefix("\ufeff"), encoding
        except UnicodeDecodeError:
            reason = f"begins like {encoding} text and is not"
            raise DataError(name, None, reason, "save it as UTF-8") from None
    try:
        return data.decode("utf-8-sig"), ""
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
    text = _western(data)
    if text is not None and not _NOT_WESTERN.match(text):
        return text, WESTERN
    natural, text, encoding = max((_natural(data, *one) for one in _OTHERS), key=lambda one: one[0])
    if natural < _LEAST_NATURAL:
        raise DataError(
            name, line, f"is text of no encoding that is recognised (the nearest is {encoding})",
            "save it as UTF-8 (iconv -f ENCODING -t UTF-8)",
        )  # fmt: skip
    return text, encoding


def _natural(
    data: bytes, encoding: str, codec: str, frequent: str, letters: str
) -> tuple[float, str, str]:
    """How natural text is in an encoding, at most 1; the text; the name of the encoding."""
    try:
        text = data.decode(codec)
    except UnicodeDecodeError:
        return -1.0, "", encoding
    sample = text[:_SAMPLE]
    beyond = "".join(re.findall(r"[^\x00-\x7f]", sample)) or "-"
    usual = len(re.findall(f"[{frequent}]", beyond, re.IGNORECASE))
    known = len(re.findall(f"[{letters}]", re.sub(f"(?i:[{frequent}])", "", beyond)))
    mixed = len(re.findall("[a-z](?=[Ͱ-ӿぁ-힣])|[Ͱ-ӿぁ-힣](?=[a-z])", sample))
    switches = mixed + sum(
        a.islower() and b.isupper() and not b.isascii() for a, b in pairwise(sample)
    )
    score = usual + known / 2 - (len(beyond) - usual - known) - 2 * switches
    certain = min(1.0, len(beyond) / _FEW)
    return certain * score / len(beyond), text, encoding


def _western(data: bytes) -> str | None:
    """Text in Windows-1252; None where bytes beyond ASCII make no words of Western Europe."""
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:
        return None
    odd = total = 0
    for run in re.finditer(r"[^\x00-\x7f]+", text):
        characters, before = run[0], text[run.start() - 1 : run.start()]
        inside = before.isalpha() and text[run.end() : run.end() + 1].isalpha()
        capital = inside and before.islower() and characters[0].isupper()
        symbol = inside and not _BETWEEN_LETTERS.isdisjoint(characters)
        letters = any(map(str.isalpha, characters))
        long = len(characters.strip(_PUNCTUATION)) > 2 or (len(characters) > 3 and letters)
        total, odd = total + 1, odd + (capital or symbol or long)
    return None if odd > _MOST_ODD * total else text


def read_bytes(path: Path, name: str) -> bytes:
    """The content of a file, unpacked where its name ends in ``.gz``; raises DataError."""
    data = read_all(path, name)
    if path.suffix.lower() != ".gz":
        return data
    try:
        return gzip.decompress(data)
    except DAMAGED_FILE:
        raise DataError(name, None, "is damaged or no gzip file", "pack it again") from None


DAMAGED_FILE = (OSError, EOFError, zlib.error)
"""Errors of a packed file that cannot be unpacked."""


@contextmanager
def opened(path: Path) -> Generator[IO[bytes]]:
    """A file opened for reading its bytes, unpacked where its name ends in ``.gz``; raises as
    :func:`midchart.core.regular_files.open_regular`."""
    with open_regular(path) as file:
        if path.suffix.lower() != ".gz":
            yield file
        else:
            with gzip.GzipFile(fileobj=file) as unpacked:
                yield cast("IO[bytes]", unpacked)


def read_any_text(path: Path, name: str, log: LoadLog) -> str:
    """A text file of any encoding (:func:`decoded`), stated in ``log`` where it is not UTF-8."""
    text, encoding = decoded(read_bytes(path, name), name)
    if encoding:
        log.warn(encoding_read(name, encoding))
    return text


def encoding_read(name: str, encoding: str) -> str:
    """A statement that a file was read in an encoding other than UTF-8."""
    doubt = "" if encoding.startswith("UTF") else " — if letters look wrong, save it as UTF-8"
    return f"{name}: read as {encoding}, as it is not UTF-8{doubt}"


# Rows.

_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")


def lines_of(text: str) -> list[str]:
    """The lines of a text with their ends, as csv reads them."""
    return _LINE.findall(text)  # io.StringIO holds four bytes a character


class ParsedRow(NamedTuple):
    """A row's cells and its lines, ``first`` to ``last``, counted from 1.

    ``unclosed``: its quotes do not close properly, so its cells are not reliable. ``suspicious``:
    its quotes close, but a line inside a cell looks like a row.
    """

    first: int
    last: int
    cells: list[str]
    unclosed: bool = False
    suspicious: bool = False


def parse_rows(
    lines: Sequence[str],
    delimiter: str,
    after: int = 0,
    width: int = 0,
    quote: str = '"',
    mixed: bool = False,
) -> Iterator[ParsedRow]:
    """The rows of ``lines`` after the first ``after`` lines, blank ones included.

    ``width``: the number of cells of a complete row. ``mixed``: some rows may quote in another way
    (:func:`_row_in_other_quotes`).
    """
    begin = after
    while begin < len(lines):
        end, closed = begin + 1, True
        if quote in lines[begin]:
            # Two empty cells are appended; an unclosed quote swallows them and so is detected.
            ahead = chain(map(lines.__getitem__, range(begin, len(lines))), [delimiter])
            reader = csv.reader(ahead, delimiter=delimiter, quotechar=quote)
            cells = next(reader)
            end = begin + reader.line_num
            closed, end = end <= len(lines), min(end, len(lines))
        else:
            cells = lines[begin].rstrip("\r\n").split(delimiter)
        row = None
        if mixed:
            row = _row_in_other_quotes(lines, begin, end, cells, delimiter, width)
        if row is None:
            inner = lines[begin + 1 : end]
            rows = [_is_row(line, delimiter, width) for line in inner]
            if closed and (not inner or _well_quoted(lines[begin:end], delimiter, quote)):
                row = ParsedRow(begin + 1, end, cells, suspicious=any(rows))
            else:
                end = begin + 1 if inner and all(rows) else end
                row = ParsedRow(begin + 1, end, cells, unclosed=True)
        yield row
        begin = row.last


def _well_quoted(lines: Sequence[str], delimiter: str, quote: str = '"') -> bool:
    try:
        return len(list(csv.reader(lines, delimiter=delimiter, quotechar=quote, strict=True))) == 1
    except csv.Error:
        return False


def _is_row(line: str, delimiter: str, width: int) -> bool:
    """Whether a line is a row and not prose, which has a space after its commas."""
    if width < 2 or line.count(delimiter) < width - 1 or not _well_quoted([line], delimiter):
        return False
    (cells,) = csv.reader([line], delimiter=delimiter)
    return len(cells) == width and not any(cell[:1].isspace() for cell in cells)


_MOST_LINES = 5_000
"""Lines of a row that is read again with other quotes."""


def _row_in_other_quotes(
    lines: Sequence[str], begin: int, end: int, cells: Sequence[str], delimiter: str, width: int
) -> ParsedRow | None:
    r"""The row from line ``begin`` on, where ``cells`` to line ``end`` are not what it says.

    Quotes inside a cell may be written ``\"``, a space may precede an opening quote, and
    apostrophes may quote a cell that holds the delimiter. None where no such reading has ``width``
    cells.
    """
    row, ahead = lines[begin:end], lines[begin : begin + _MOST_LINES]
    dialects: list[tuple[Iterable[str], dict[str, Any]]] = []
    if any('\\"' in line for line in row) and (
        len(cells) != width or not _well_quoted(row, delimiter)
    ):
        # Other backslashes are characters of the text.
        escaped = (re.sub(r'\\(?!")', r"\\\\", line) for line in ahead)
        dialects.append((escaped, {"escapechar": "\\"}))
    if any(f'{delimiter} "' in line for line in row):
        dialects.append((ahead, {"skipinitialspace": True}))
    for source, dialect in dialects:
        reader = csv.reader(source, delimiter=delimiter, strict=True, **dialect)
        with suppress(csv.Error, StopIteration):
            other = next(reader)
            if len(other) == width:
                return ParsedRow(begin + 1, begin + reader.line_num, other)
    if len(cells) <= width or len(row) > 1 or f"{delimiter}'" not in row[0]:
        return None
    mark = re.escape(delimiter)
    cell = rf"""'((?:[^']|'')*)'(?={mark}|$)|"((?:[^"]|"")*)"(?={mark}|$)|([^{mark}]*)"""
    parts = [
        (m[1] or "").replace("''", "'") + (m[2] or "").replace('""', '"') + (m[3] or "")
        for m in re.finditer(rf"(?:^|(?<={mark}))(?:{cell})", row[0].rstrip("\r\n"))
    ]
    return ParsedRow(begin + 1, end, parts) if len(parts) == width else None


# Tables.

DELIMITERS: Mapping[str, str] = {"csv": ",", "tsv": "\t", "psv": "|"}
"""Ending of a delimited table → the separator that needs no statement."""
_ENDING = re.compile(r"(.*)\.(csv|tsv|psv|jsonl|ndjson|parquet)(?:\.gz)?", re.IGNORECASE)
_DELIMITERS = (",", "\t", ";", "|")
DELIMITER_NAMES = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "vertical bars"}
MOST_CSV_COLUMNS = 64
"""Columns of a CSV that DuckDB reads: it copies a short row for each column that the row lacks."""
_LONGEST_CELL = 2**31 - 1
"""The csv module's default limit, 128 KiB, is shorter than a long note."""
_HEADER_LINES = 64
"""Lines in which a table's header ends."""
_SEPARATOR_LINE = re.compile(r'"?sep=([,;|\t])"?\s*')


class TableRow(NamedTuple):
    """One row of a table: file name in messages, first line, and cells by column."""

    file: str
    line: int
    cells: dict[str, str]

    def get(self, column: str) -> str:
        """The cell of a column, stripped; "" where it has no value or there is no such column."""
        value = self.cells.get(column, "").strip()
        return "" if value in MISSING else value


@dataclass(frozen=True, slots=True)
class Head:
    """How a table is written: its separator and quote, its columns, the header's last line, and
    its encoding ("" for UTF-8) where it was decided."""

    delimiter: str
    quote: str
    header: list[str]
    last: int
    encoding: str = ""


def table_head(lines: Sequence[str], delimiter: str, names: Sequence[str] = ()) -> Head:
    """The header of a table and how it is written, decided among separators and quotes.

    The separator is that by which the header has most of the columns ``names``, else most columns;
    ``delimiter`` where none separates any. A line ``sep=;`` before the header states it.
    """
    accept_long_cells()
    filled = (n for n, line in enumerate(lines) if line.strip())
    first = next(filled, 0)
    stated = _SEPARATOR_LINE.fullmatch(lines[first]) if lines else None
    first = next(filled, first + 1) if stated else first
    quote = "'" if first < len(lines) and lines[first][0] == "'" else '"'
    heads: list[Head] = []
    for mark in [stated[1]] if stated else dict.fromkeys((delimiter, *_DELIMITERS)):
        rows = parse_rows(lines[: first + _HEADER_LINES], mark, first, 0, quote)
        top = next(rows, ParsedRow(0, first, []))
        heads.append(Head(mark, quote, [cell.strip() for cell in top.cells], top.last))
    wanted: dict[str, tuple[str, ...]] = dict.fromkeys(names, ())
    return max(heads, key=lambda head: (len(known_names(head.header, wanted)), len(head.header)))


def table_kind(path: Path) -> str:
    """The ending of a table's name without ``.gz``, in lower case; "" where it is no table's."""
    match = _ENDING.fullmatch(path.name)
    return match[2].lower() if match else ""


def table_name(path: Path) -> str:
    """The name of a table's file without its ending, in lower case, as ``midchart.toml`` has it."""
    match = _ENDING.fullmatch(path.name)
    return (match[1] if match else path.stem).lower()


_HEAD = 1 << 16


def read_head(path: Path, delimiter: str, names: Sequence[str] = ()) -> Head:
    """:func:`table_head` of a file by its first 64 KB; raises DataError, OSError, zlib.error."""
    with opened(path) as file:
        data = file.read(_HEAD)
    if len(data) == _HEAD:  # whole lines, and whole characters of UTF-16 and UTF-32
        data = data[: data.rfind(b"\n") + 1] or data
        data = data[: len(data) & ~3] if data[:2] in (b"\xff\xfe", b"\xfe\xff") else data
    try:
        text, encoding = decoded(data, path.name)
    except DataError:  # reading the table names its encoding; its columns show that it is one
        text, encoding = data.decode("latin-1"), "unknown"
    head = table_head(lines_of(text), delimiter, names)
    return replace(head, encoding=encoding)


def header_of(path: Path, names: Sequence[str] = ()) -> list[str]:
    """The columns of a delimited table (:func:`table_head`); none of any other file, or of one that
    cannot be read, which reading it names."""
    kind = table_kind(path)
    try:
        is_table = kind in DELIMITERS and path.is_file()
        return read_head(path, DELIMITERS[kind], names).header if is_table else []
    except (DataError, *DAMAGED_FILE):
        return []


def state_delimiter(head: Head, delimiter: str, name: str, log: LoadLog) -> None:
    """State the separator of a table where it is not ``delimiter``."""
    if head.delimiter != delimiter:
        log.warn(f"{name}: columns are separated by {DELIMITER_NAMES[head.delimiter]}")


def accept_long_cells() -> None:
    """Let the csv module, whose limit holds for the process, read cells of any length."""
    if csv.field_size_limit() < _LONGEST_CELL:
        csv.field_size_limit(_LONGEST_CELL)


def read_table(
    path: Path,
    name: str,
    required: Sequence[str],
    log: LoadLog,
    delimiter: str = "\t",
    names: Mapping[str, Sequence[str]] | None = None,
) -> list[TableRow]:
    """All rows of a delimited table with a header, of any encoding, separator and quoting.

    ``delimiter``: the one that needs no statement. ``names``: further columns, and other names that
    a column may have (:func:`midchart.core.cohorts.columns.known_names`). Raises DataError where
    the file is no text, has no header, names a column twice or lacks one of ``required`` (all
    missing ones are named).
    """
    text = read_any_text(path, name, log)
    lines = lines_of(text)
    known = {**dict.fromkeys(required, ()), **(names or {})}
    head = table_head(lines, delimiter, [*known, *chain.from_iterable(known.values())])
    header = column_names(head, required, known, name, log)
    state_delimiter(head, delimiter, name, log)
    needed = max((header.index(column) for column in required), default=-1) + 1
    marks = ('\\"', f'{head.delimiter} "', f"{head.delimiter}'")
    mixed = head.quote == '"' and any(mark in text for mark in marks)
    width, tabbed = len(header), head.delimiter == "\t"
    rows: list[TableRow] = []
    suspicious: list[int] = []
    reasons, total = Counter[str](), 0
    for row in parse_rows(lines, head.delimiter, head.last, width, head.quote, mixed):
        cells = row.cells
        while len(cells) > width and not cells[-1].strip():
            cells.pop()
        if not row.unclosed and not any(map(str.strip, cells)):
            continue
        total += 1
        if row.unclosed:
            reasons["has quotes that do not close"] += 1
            more = row.last - row.first
            also = f", with {more:,} lines after it," if more else ""
            problem = "has a quote that is not closed, or not doubled inside a cell — the row"
            log.skip(name, row.first, f"{problem}{also} is skipped; fix the quote")
        elif not needed <= len(cells) <= width:
            reasons["has another number of columns"] += 1
            problem = f"has {len(cells)} columns where the header names {width}"
            what = DELIMITER_NAMES[head.delimiter]
            log.skip(name, row.first, f"{problem} — quote cells that hold {what}")
        else:
            if row.suspicious or (tabbed and any("\n" in c and "\t" in c for c in cells)):
                suspicious.append(row.first)
            padded = cells + [""] * (width - len(cells))
            rows.append(TableRow(name, row.first, dict(zip(header, padded, strict=True))))
    log.account(name, "rows", total=total, shown=len(rows), reasons=reasons)
    if suspicious:
        log.warn(
            f"{name}:{suspicious[0]}: {len(suspicious):,} rows hold what looks like a row of its "
            "own in a cell — check for a quote that is not closed"
        )
    if "'" in text:
        _strip_apostrophes(rows, header, name, log)
    return rows


_APOSTROPHES = re.compile(r"'(?:[^']|'')*'")


def _strip_apostrophes(
    rows: Sequence[TableRow], header: Sequence[str], name: str, log: LoadLog
) -> None:
    """Take away the apostrophes that quote the cells of a column: of those that start with one, all
    end with one."""
    for column in header:
        quoted = [row for row in rows if row.cells[column][:1] == "'"]
        if quoted and all(_APOSTROPHES.fullmatch(row.cells[column]) for row in quoted):
            log.warn(f"{name}: {column}: {len(quoted):,} cells are quoted by apostrophes")
            for row in quoted:
                row.cells[column] = row.cells[column][1:-1].replace("''", "'")


def leave_out(log: LoadLog, name: str, reasons: Mapping[str, int]) -> None:
    """Move rows of a table from those that are shown to those left out, by reason."""
    before = log.accounts[name, "rows"]
    log.account(
        name,
        "rows",
        total=before.total,
        shown=before.shown - sum(reasons.values()),
        reasons={**dict(before.reasons), **reasons},
    )


def column_names(
    head: Head,
    required: Sequence[str],
    names: Mapping[str, Sequence[str]],
    name: str,
    log: LoadLog,
) -> list[str]:
    """The columns of a header under the names that are known; synonyms are stated in ``log``.

    Raises DataError as :func:`check_columns`.
    """
    known = known_names(head.header, names)
    for column, meaning in known.items():
        if folded(column) != folded(meaning):
            log.warn(f"{name}: {column} read as {meaning}")
    header = [known.get(column, column) for column in head.header]
    check_columns([column for column in header if column], required, name, head.last or 1)
    return [column or f"column {n}" for n, column in enumerate(header, 1)]


def check_columns(
    header: Sequence[str],
    required: Sequence[str],
    name: str,
    line: int | None = 1,
    most: int = 0,
) -> None:
    """Raise DataError naming columns that are missing or there twice, or for more than ``most``.

    Only required columns are named: a file without a header has text of records in its place.
    """
    missing = [column for column in required if column not in header]
    if missing:
        needs = ", ".join(required)
        raise DataError(name, line, f"lacks the columns {', '.join(missing)}", f"it needs {needs}")
    if 0 < most < len(header):
        reason = f"names {len(header):,} columns"
        raise DataError(name, line, reason, f"at most {most:,} are read")
    twice = repeated(header)
    if twice:
        known = [column for column in twice if column in required]
        words = [f"the columns {', '.join(known)}"] if known else []
        if len(known) < len(twice):
            words.append(count(len(twice) - len(known), "other column"))
        raise DataError(name, line, f"names {' and '.join(words)} twice", "rename one")
