"""Markup as text: the narrative of CDA documents and HTML, one line a paragraph, item or table row.

White space of the file is no content, but for preformatted text. A table row is one line,
``Header: cell; Header: cell``: an empty cell leaves out its header and shifts nothing, cells that
span rows are repeated in each, and a row of more than :data:`ROW_TOKENS` tokens continues in
further lines that begin with its name (its first cell), as do the rows of a table in a cell.
Deleted and hidden text is left out. Superscript digits are written ``10^9``, so that no number
changes. Markup that is itself text (CDATA) is read as markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

ROW_TOKENS = 96
"""Tokens of one line of a table row; a longer row is continued with its name repeated."""
MOST_REPEATED = 200
"""Characters of a text wherever it is written again: the name of a column or row, a cell in the
rows below its own, a footnote where it is referred to."""
_DEEPEST = 100
"""Levels of elements that are laid out; anything deeper is read as plain text."""


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_BLOCKS = _set(
    "p div paragraph section article header footer main nav address blockquote figure "
    "figcaption form fieldset hr dl dt dd body html tbody center text"
)
_HEADINGS = _set("h1 h2 h3 h4 h5 h6 caption title legend summary")
_LISTS = _set("ul ol list menu dir")
_NESTED = _LISTS | {"table"}
_ITEMS = _set("li item")
_UNREAD = _set("script style head template noscript svg math object iframe")
_DELETED = _set("del s strike")
_HIDDEN = re.compile("display:none|visibility:hidden")
_SAY_HIDDEN = _set("hidden style styleCode revised")
_BOLD = _set("b strong th")
_KNOWN_TAGS = (
    r"content|paragraph|item|list|caption|linkhtml|br|b|i|u|em|strong|p|div|span|font|a|ul|ol|li"
    r"|table|thead|tbody|tr|td|th|sup|sub|h[1-6]|pre|hr"
)
_MARKUP_IN_TEXT = re.compile(rf"</?(?:{_KNOWN_TAGS})(?:\s[^<>]*)?/?>", re.IGNORECASE)
_FIRST_MARK, _LAST_MARK = 0xF0000, 0xFFFFD
"""Characters of private use that stand for the elements of :func:`markup_lines` in a layout."""
_MARK = re.compile(f"[{chr(_FIRST_MARK)}-{chr(_LAST_MARK)}]")
_TOKEN = re.compile(rf"\w+|[^\w\s{chr(_FIRST_MARK)}-{chr(_LAST_MARK)}]")
_NUMBER = re.compile(r"[+\-−–]?\d+(?:[.,]\d+)?\Z")
_LETTERS = re.compile(r"[^\W\d_]{4}")
_ENDED = re.compile(r"[.!?:;,]\Z")


def markup_text(root: Any) -> str:
    """The text of an element of ElementTree or lxml and of all elements in it."""
    return "\n".join(line for line, _ in markup_lines(root, ()))


def markup_lines(root: Any, ids: Iterable[str]) -> list[tuple[str, frozenset[str]]]:
    """The lines of :func:`markup_text`, each with those of ``ids`` that are the ID of an element
    which is, holds or is in what the line says.

    ``ids``: of elements in ``root``, whose tags, local names, are put into lower case.
    """
    for one in root.iter():
        one.tag = one.tag.lower()
    marks = dict(zip(map(chr, range(_FIRST_MARK, _LAST_MARK)), ids, strict=False))
    layout = _Layout(_footnotes(root), {id: mark for mark, id in marks.items()})
    without = str.maketrans(dict.fromkeys(marks))
    lines: list[tuple[str, frozenset[str]]] = []
    for line in layout.lines(root):
        line_ids = frozenset(marks[mark] for mark in _MARK.findall(line) if mark in marks)
        if plain := (line.translate(without) if line_ids else line).strip():
            lines.append((plain, line_ids))
    return lines


def html_text(markup: str) -> str:
    """The text of an HTML document or fragment; "" where it holds none."""
    from lxml.etree import ParserError

    try:
        root = _parsed(markup)
        title = " ".join((root.findtext("head/title") or "").split())
        text = markup_text(root)
        return text if title in text else f"{title}\n{text}"
    except (ParserError, ValueError):
        return ""


def _parsed(markup: str) -> Any:
    """The root of a document or fragment of HTML, without comments and instructions."""
    from lxml.html import HTMLParser, document_fromstring

    return document_fromstring(markup, parser=HTMLParser(remove_comments=True, remove_pis=True))


def is_deleted(element: Any) -> bool:
    """Whether an element's text was struck out or marked as deleted."""
    style = (element.get("styleCode") or "").lower() + (element.get("style") or "").lower()
    return (
        element.tag in _DELETED
        or element.get("revised") == "delete"
        or "line-through" in style
        or "strikethrough" in style
    )


def _is_left_out(element: Any) -> bool:
    is_choice = element.tag == "option" and "selected" not in element.attrib
    if is_choice or element.tag in _UNREAD or element.tag in _DELETED:
        return True
    if _SAY_HIDDEN.isdisjoint(element.keys()):
        return False
    style = (element.get("style") or "").replace(" ", "").lower()
    return (
        element.get("hidden") is not None
        or _HIDDEN.search(style) is not None
        or is_deleted(element)
    )


def _again(text: str) -> str:
    """A text as it is written where it is not for the first time."""
    return text if len(text) <= MOST_REPEATED else f"{text[: MOST_REPEATED - 1].rstrip()}…"


def _footnotes(root: Any) -> Mapping[str, str]:
    """ID → text of the footnotes of a narrative."""
    notes = root.iter("footnote")
    return {one.get("ID") or "": " ".join("".join(one.itertext()).split()) for one in notes}


@dataclass
class _TableCell:
    """A table's cell: its lines, the rows of tables in it, the rows and columns it spans, and its
    first column; ``again``: it begins in a row above."""

    lines: list[str]
    inner_rows: list[str]
    is_header: bool
    columns: int
    rows: int
    start: int = 0
    again: bool = False

    @property
    def text(self) -> str:
        """The lines in one, joined by commas where they do not end in a mark."""
        parts = [line if _ENDED.search(line) else f"{line}," for line in self.lines[:-1]]
        return " ".join([*parts, *self.lines[-1:]])

    def below(self) -> _TableCell:
        """The cell in the next row that it spans."""
        lines = [_again(self.text)] if sum(map(len, self.lines)) >= MOST_REPEATED else self.lines
        inner = self.inner_rows if sum(map(len, self.inner_rows)) <= MOST_REPEATED else []
        return replace(self, lines=lines, inner_rows=inner, rows=self.rows - 1, again=True)

    def over(self) -> range:
        """The columns that it is in."""
        return range(self.start, self.start + self.columns)


@dataclass
class _Layout:
    """Lays elements out as lines. ``footnotes``: ID → text; ``marks``:
    ID → the character that is written at its beginning; ``cell_rows``: within a cell, takes the
    rows of inner tables whose columns have names."""

    footnotes: Mapping[str, str]
    marks: Mapping[str, str]
    cell_rows: list[str] | None = None
    depth: int = 0
    _lines: list[str] = field(default_factory=list[str])
    _line: list[str] = field(default_factory=list[str])

    def lines(self, root: Any) -> list[str]:
        """The lines of an element, none blank."""
        if self.depth > _DEEPEST:
            return [" ".join("".join(root.itertext()).split())]
        self._write_mark(root)
        self._children(root)
        self._end_line()
        return self._lines

    def _inside(self, element: Any, cell_rows: list[str] | None) -> list[str]:
        text = element.text or ""
        if len(element) or "<" in text:
            return _Layout(self.footnotes, self.marks, cell_rows, self.depth + 1).lines(element)
        mark = self.marks.get(element.get("ID") or "", "")
        return list(filter(None, [" ".join(f"{mark}{text}".split())]))

    def _write_mark(self, element: Any) -> None:
        if self.marks and (mark := self.marks.get(element.get("ID") or "")):
            self._line.append(mark)

    def _end_line(self, ending: str = "") -> None:
        text = " ".join("".join(self._line).split())
        self._line.clear()
        if text:
            self._lines.append(text if _ENDED.search(text) else text + ending)

    def _write(self, text: str | None) -> None:
        if not text:
            return
        if "<" in text and _MARKUP_IN_TEXT.search(text):
            inner = _Layout(self.footnotes, {}, self.cell_rows, self.depth + 1)
            lines = inner.lines(_parsed(f"<div>{text}</div>"))
            self._line.append(lines[0] if lines else "")
            if len(lines) > 1:
                self._end_line()
                self._lines += lines[1:]
        else:
            self._line.append(text)

    def _children(self, element: Any) -> None:
        self._write(element.text)
        before = ""
        for child in element:
            tag = child.tag
            if before == tag == "content" and self._line and self._line[-1][-1:].isalnum():
                self._line.append(" ")  # two runs of a narrative are two words
            if not _is_left_out(child):
                self._element(child, tag)
            self._write(child.tail)
            before = "" if child.tail else tag

    def _element(self, element: Any, tag: str) -> None:
        if tag == "br":
            self._end_line()
        elif tag == "table":
            self._end_line()
            self._table(element)
        elif tag in _LISTS:
            self._end_line()
            self._list(element)
        elif tag == "pre":
            self._end_line()
            written = (" ".join(line.split()) for line in "".join(element.itertext()).splitlines())
            self._lines += filter(None, written)
        elif tag in _HEADINGS or tag in _BLOCKS or tag in _ITEMS:
            self._end_line()
            self._lines += _headed(self._inside(element, self.cell_rows), tag in _HEADINGS)
        elif tag in ("sup", "sub"):
            self._raised(element, "^" if tag == "sup" else "_")
        elif tag == "footnote":
            self._line.append(f" ({' '.join(self._inside(element, self.cell_rows))}) ")
        elif tag == "footnoteref":
            note = _again(self.footnotes.get(element.get("IDREF") or "", ""))
            self._line.append(f" ({note}) " if note else " ")
        elif tag in ("rendermultimedia", "img", "video", "audio"):
            title = element.get("alt") or " ".join(self._inside(element, self.cell_rows))
            self._line.append(f" [image not read{': ' if title else ''}{title}] ")
        elif tag == "input" and element.get("type") in ("checkbox", "radio"):
            self._line.append(" [x] " if "checked" in element.attrib else " [ ] ")
        elif tag == "input" and element.get("type", "text") == "text":
            self._line.append(f" {element.get('value', '')} ")
        elif self.depth + 1 > _DEEPEST:
            self._line.append("".join(element.itertext()))
        else:
            self.depth += 1
            self._write_mark(element)
            self._children(element)
            self.depth -= 1
            if tag in ("td", "th"):
                self._line.append(" ")

    def _raised(self, element: Any, mark: str) -> None:
        """Superscript and subscript: digits after a digit (all of a superscript) stay apart."""
        text = " ".join(self._inside(element, self.cell_rows))
        written = (one for one in reversed(self._line) if one.strip())
        before = next(written, "").rstrip()[-1:]
        apart = _NUMBER.match(text) and (mark == "^" or before.isdigit())
        if text:
            self._line.append(f"{mark}{text}" if apart else text)

    def _list(self, element: Any) -> None:
        ordered = element.tag == "ol" or element.get("listType") == "ordered"
        number = 0
        for child in element:
            if _is_left_out(child):
                continue
            if child.tag not in _ITEMS:
                self._lines += _headed(self._inside(child, self.cell_rows), child.tag in _HEADINGS)
                continue
            number += 1
            inside = self._inside(child, self.cell_rows)
            is_outer = not (child.text or "").strip() and child[:1] and child[0].tag in _NESTED
            if inside and self.cell_rows is None and not is_outer:
                inside[0] = f"{number}. {inside[0]}" if ordered else f"- {inside[0]}"
            self._lines += inside

    # Tables.

    def _table(self, element: Any) -> None:
        for caption in _parts(element, "caption"):
            self._lines += _headed(self._inside(caption, self.cell_rows), True)
        rows: list[tuple[list[_TableCell], bool]] = []
        for row, in_head in _table_rows(element):
            cells = [self._cell(cell) for cell in _parts(row, "td", "th")]
            mark = self.marks.get(row.get("ID") or "", "")
            first = next((cell for cell in cells if cell.lines), None)
            if mark and first is not None:
                first.lines[0] = mark + first.lines[0]
            if any(cell.lines or cell.inner_rows for cell in cells):
                rows.append((cells, in_head))
        lines, is_named = _row_lines(rows)
        target = self.cell_rows if is_named and self.cell_rows is not None else self._lines
        target += lines

    def _cell(self, element: Any) -> _TableCell:
        inner: list[str] = []
        lines = self._inside(element, inner)
        bold = _is_bold(element) and not any(map(str.isdigit, "".join(lines)))
        header = bold or element.tag == "th"
        return _TableCell(
            lines, inner, header, _span(element, "colspan"), _span(element, "rowspan")
        )


def _headed(lines: list[str], heading: bool) -> list[str]:
    """Lines of a heading, whose last one ends in a colon."""
    if heading and lines and not _ENDED.search(lines[-1]):
        lines[-1] += ":"
    return lines


def _span(cell: Any, name: str) -> int:
    if not (text := (cell.get(name) or "").strip()):
        return 1
    return min(max(int(text), 1), 1000) if text.isdecimal() and len(text) < 5 else 1


def _is_bold(cell: Any) -> bool:
    """Whether all text of a cell is in one bold element."""
    if len(cell) != 1 or (cell.text or "").strip() or (cell[0].tail or "").strip():
        return False
    only = cell[0]
    style = f"{only.get('styleCode') or ''} {only.get('style') or ''}".lower()
    return only.tag in _BOLD or "bold" in style.replace("font-weight:normal", "")


def _parts(element: Any, *tags: str) -> list[Any]:
    return [child for child in element if child.tag in tags and not _is_left_out(child)]


def _table_rows(table: Any) -> Iterator[tuple[Any, bool]]:
    """The rows of a table and whether they are in its head; those of inner tables left out."""
    for child in _parts(table, "tr", "thead", "tbody", "tfoot"):
        rows = [child] if child.tag == "tr" else _parts(child, "tr")
        yield from ((row, child.tag == "thead") for row in rows)


def _place(rows: Iterable[list[_TableCell]]) -> list[list[_TableCell]]:
    """The cells of each row from the left; one that spans rows is in each of them."""
    grid: list[list[_TableCell]] = []
    above: list[_TableCell] = []
    for cells in rows:
        taken = {column for one in above for column in one.over()}
        column = 0
        for cell in cells:
            while column in taken:
                column += 1
            cell.start = column
            column += cell.columns
        placed = sorted([*above, *cells], key=lambda one: one.start)
        grid.append(placed)
        above = [one.below() for one in placed if one.rows > 1]
    return grid


def _row_lines(rows: list[tuple[list[_TableCell], bool]]) -> tuple[list[str], bool]:
    """The lines of a table's rows, each with whether it is in the head, and whether its columns
    have names."""
    heads = _head_count(rows)
    grid = _place(cells for cells, _ in rows)
    if heads == len(rows):  # only headers: they are what the table says
        heads = 0
    names = _column_names(grid[:heads])
    width = max((placed[-1].over().stop for placed in grid if placed), default=0)
    lines: list[str] = []
    for placed in grid[heads:]:
        filled = [one for one in placed if one.lines or one.inner_rows]
        if len(filled) == len(placed) == 1 and width > 1 and filled[0].columns >= width:
            cell = filled[0]  # a heading between rows, or a remark
            lines += _headed([cell.text] if cell.lines else [], cell.is_header) + cell.inner_rows
        else:
            lines += _one_row(filled, names)
    return lines, bool(names)


def _head_count(rows: list[tuple[list[_TableCell], bool]]) -> int:
    """Number of rows at the top that name the columns."""
    in_head = len([*takewhile(lambda row: row[1], rows)])
    width = max((sum(cell.columns for cell in cells) for cells, _ in rows), default=0)
    named = takewhile(lambda row: _names_columns(row[0], width), rows)
    return in_head or len([*named])


def _names_columns(row: list[_TableCell], width: int) -> bool:
    """Whether all cells of a row are headers; the corner may be empty, and one may not span all.

    Bold values are no headers, so a bold cell with a digit is none.
    """
    cells = row[1:] if row and not row[0].lines else row
    spanning = len(cells) == 1 and cells[0].columns >= width > 1
    return bool(cells) and not spanning and all(cell.is_header for cell in cells)


def _column_names(head: list[list[_TableCell]]) -> dict[int, str]:
    """The texts of the header cells over each column, from the top."""
    stacked: dict[int, dict[str, None]] = {}
    for one in (one for placed in head for one in placed if not one.again):
        if text := _MARK.sub("", one.text).rstrip(" :"):
            for column in one.over():
                stacked.setdefault(column, {})[text] = None
    return {column: " ".join(texts) for column, texts in stacked.items()}


def _one_row(filled: list[_TableCell], column_names: dict[int, str]) -> list[str]:
    """A row as one line, or several that begin with its name."""
    parts: list[str] = []
    for cell in (cell for cell in filled if cell.lines):
        names = {column_names[at] for at in cell.over() if at in column_names}
        header = names.pop() if len(names) == 1 else ""  # below several headers it is a remark
        parts.append(f"{header}: {cell.text}" if header else cell.text)
        if len(header) > MOST_REPEATED:
            column_names |= {n: _again(header) for n, one in column_names.items() if one == header}
    name = parts[0] if parts else ""
    dated = not _LETTERS.search(name.rpartition(": ")[2])
    if not column_names and len(parts) > 1 and filled[0].is_header:
        parts[:2] = [f"{parts[0].rstrip(' :')}: {parts[1]}"]
    separator = "; " if column_names else " | "
    if dated and len(parts) > 2:  # a date alone names no row
        parts[:2] = [separator.join(parts[:2])]
        name = parts[0]
    full, name = name, _again(name)
    lines: list[str] = []
    line, length = "", 0
    for part in parts:
        tokens = len(_TOKEN.findall(part)) + 1
        if line and length + tokens > ROW_TOKENS and line not in (full, name):
            lines.append(line)
            line, length = name, len(_TOKEN.findall(name)) + 1
        line = f"{line}{separator}{part}" if line else part
        length += tokens
    inner = [row for cell in filled for row in cell.inner_rows]
    if line and not (inner and line == name):
        lines.append(line)
    return lines + [f"{name}{separator}{row}" if name else row for row in inner]
