"""Hardened streaming over XML: expat fed in pieces, no DOCTYPE, one line for each failure.

No tree is built, so a 50 MB note costs its own length and little more. A DOCTYPE is refused
where it begins, before any entity could be declared, expanded or fetched; expat by itself opens
neither files nor connections.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import IO
from xml.parsers import expat

from core.errors import DataError

CHUNK = 1 << 20


def new_parser(name: str) -> expat.XMLParserType:
    """An expat parser that joins neighbouring text and refuses a DOCTYPE."""
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
    """Give a file to a parser, up to its end or until ``stop()`` is true.

    Raises DataError with the line where it is not well-formed, is not in the encoding it says, or
    has a DOCTYPE.
    """
    try:
        while chunk := file.read(CHUNK if stop is None else 1 << 14):
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


def read_root(path: Path, name: str) -> tuple[str, dict[str, str]]:
    """The root element's tag and attributes; reads no further than it must."""
    found: list[tuple[str, dict[str, str]]] = []
    parser = new_parser(name)

    def start(tag: str, attributes: dict[str, str]) -> None:
        found.append((tag, attributes))
        parser.StartElementHandler = None

    parser.StartElementHandler = start
    with path.open("rb") as file:
        try:
            feed(parser, file, name, stop=lambda: bool(found))
        except DataError:
            if not found:
                raise
    return found[0]
