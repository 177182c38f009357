"""JSON, TOML, XML and paths that came from outside, read within limits.

Whatever is wrong with them is one DataError or InputError of one line: a document too deep, numbers
too long, a text that is not UTF-8, a path that no file system takes.
"""

from __future__ import annotations

import codecs
import errno
import json
import re
import stat
import tomllib
from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from math import isinf
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from midchart.core.errors import DataError, InputError
from midchart.core.format import HIDDEN

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from pydantic import TypeAdapter

DEEPEST = 64
"""Levels of arrays and objects that a document may have."""
LONGEST_LINE = 64 << 20
"""Bytes of one line of a file that is read line by line."""
LONGEST_NAME = 255
"""Bytes of a file's name that Linux and macOS take."""
_CONTAINERS = dict, list
_INTEGER = 1 << 63
_LONG_NUMBER = "holds a whole number of more than 64 bits"


class _Refused(ValueError):
    """What a standard parser accepts, and RFC 8259 or this program does not."""


def _refuse_constant(name: str) -> NoReturn:
    raise _Refused(f"holds {name}, which JSON does not have")


def _finite(number: str) -> float:
    value = float(number)
    if isinf(value):
        raise _Refused("holds a number too large for a double")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        twice = [name for name, n in Counter(name for name, _ in pairs).items() if n > 1]
        raise _Refused(f"names {', '.join(twice[:5])} twice")
    return members


_FAST = msgspec.json.Decoder(float_hook=str)
_PLAIN = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
_WRITTEN = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=str)
_STRICT = json.JSONDecoder(
    parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_unique
)


def read_json(
    data: bytes | str,
    name: str,
    line: int | None = None,
    remedy: str = "",
    unique: bool = False,
    as_written: bool = False,
) -> Any:
    """The value of a JSON document; raises DataError.

    ``line``: of the file ``name``, where the document is one of its lines. ``unique``: a name that
    an object has twice is an error, and not the last one's value. ``as_written``: numbers with a
    decimal point or exponent are texts of all their digits. Lone surrogates become U+FFFD.
    """
    remedy = remedy or "export it again"
    if as_written and isinstance(data, bytes):
        with suppress(ValueError, RecursionError):  # the standard parser says what is wrong
            value = _FAST.decode(data)
            if data.count(b"[") + data.count(b"{") <= DEEPEST or not _too_deep(value):
                return value
    decoder = _STRICT if unique else _WRITTEN if as_written else _PLAIN
    with _one_line(name, line, remedy):
        text = data if isinstance(data, str) else data.decode().removeprefix("\ufeff")
        value = decoder.decode(text)
        if text.count("[") + text.count("{") > DEEPEST and _too_deep(value):
            raise RecursionError
        return _without_surrogates(value) if "\\ud" in text or "\\uD" in text else value


@contextmanager
def _one_line(name: str, line: int | None, remedy: str) -> Generator[None]:
    """Raise DataError for what is wrong with a JSON or TOML document."""
    try:
        yield
    except UnicodeDecodeError:
        raise DataError(name, line, "is not UTF-8 text", "save it as UTF-8") from None
    except json.JSONDecodeError as error:
        what = f"is not JSON ({error.msg})" if line is None else "is not one JSON object"
        raise DataError(name, line or error.lineno, what, remedy) from None
    except tomllib.TOMLDecodeError as error:
        raise DataError(name, None, f"is not valid TOML: {error}", remedy) from None
    except _Refused as error:
        raise DataError(name, line, str(error), remedy) from None
    except ValueError:
        raise DataError(name, line, "holds a number of too many digits", remedy) from None
    except RecursionError:
        raise DataError(name, line, f"has more than {DEEPEST} levels", remedy) from None


def read_document(
    data: bytes,
    name: str,
    model: TypeAdapter[Any],
    remedy: str,
) -> Any:
    """A JSON document as it is written, once ``model`` accepts it; raises DataError."""
    document = read_json(data, name, None, remedy)
    check_document(document, name, model, remedy)
    return document


def check_document(
    document: Any,
    name: str,
    model: TypeAdapter[Any],
    remedy: str,
    line: int | None = None,
) -> None:
    """Raise DataError where ``model`` does not accept a JSON document, as :func:`read_document`."""
    from pydantic import ValidationError

    try:
        model.validate_python(document, strict=True)
    except ValidationError as error:
        steps = error.errors(include_input=False, include_context=False)[0]["loc"]
        place = ".".join(map(str, steps))[:LONGEST_NAME]
        raise DataError(name, line, f"{place!r} is missing or wrong", remedy) from None
    if _beyond_64_bits(document):
        raise DataError(name, line, _LONG_NUMBER, remedy)


def _too_deep(value: Any) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(DEEPEST):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, _CONTAINERS)
        ]
    return bool(level)


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else valid_unicode(value)
    if isinstance(value, list):
        return [_without_surrogates(one) for one in value]
    if isinstance(value, dict):
        return {valid_unicode(k): _without_surrogates(v) for k, v in value.items()}
    return value


def valid_unicode(text: str) -> str:
    """A text with surrogates that are a pair as their character, and each lone one replaced by
    U+FFFD, so that it can be written as UTF-8."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


_CHARACTER_SETS = re.compile(
    r"ascii|utf-8(-sig)?|utf-(16|32)(-[bl]e)?|iso8859-\d+|cp\d+|koi8-[rtu]|mac-\w+|kz1048|ptcp154"
    r"|tis-620|hp-roman8|big5(hkscs)?|gb2312|gbk|gb18030|hz|euc_(jp|jis_2004|jisx0213|kr)|johab"
    r"|shift_jis(_2004|x0213)?|iso2022_(jp(_\w+)?|kr)"
)
"""Python's names of the character sets that a file may name: each is read in one pass. Others that
Python knows are no character sets (``undefined``, ``unicode_escape``), or take the square of a
text's length (``punycode``)."""


def character_set(name: str) -> str:
    """Python's name of the character set that a file names; "" where it is none that is read."""
    try:
        known = codecs.lookup(name).name
    except (LookupError, ValueError):
        return ""
    return known if _CHARACTER_SETS.fullmatch(known) else ""


def toml_string(text: str) -> str:
    """A text as TOML, which :func:`read_toml` gives back; a lone surrogate becomes U+FFFD.

    TOML's basic strings are JSON's, but for the escapes of characters above U+FFFF; characters that
    nobody sees are escaped.
    """
    quoted = json.dumps(valid_unicode(text), ensure_ascii=False)
    return HIDDEN.sub(lambda match: f"\\U{ord(match.group()):08x}", quoted)


def literal(text: str | Path) -> str:
    """A text or path as an SQL string; DuckDB takes no lone surrogates and no NUL in SQL, and no
    row holds either."""
    return "'" + valid_unicode(str(text)).replace("'", "''").replace("\0", "\ufffd") + "'"


def identifier(name: str) -> str:
    """A column's name in SQL, also one that is a reserved word there (``order``, ``end``)."""
    return '"' + name.replace('"', '""') + '"'


def read_toml(data: bytes | str, name: str) -> dict[str, Any]:
    """The table of a TOML document; raises DataError."""
    with _one_line(name, None, "fix it"):
        table = tomllib.loads(data if isinstance(data, str) else data.decode("utf-8-sig"))
        if _too_deep(table):
            raise RecursionError
        if _beyond_64_bits(table):
            raise _Refused(_LONG_NUMBER)
        return table


def _beyond_64_bits(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_beyond_64_bits, value.values() if isinstance(value, dict) else value))
    return isinstance(value, int) and not -_INTEGER <= value < _INTEGER


def user_path(text: str | Path) -> Path:
    """The path that a person wrote, ``~`` expanded; raises InputError for what can be none."""
    shown = str(text)
    try:
        path = Path(text).expanduser()
    except RuntimeError:
        raise InputError(f"{shown!r}: there is no such user; write the path out") from None
    try:
        str(path).encode()
        path.stat()
        return path
    except ValueError as error:
        wrong = "is not UTF-8 text" if isinstance(error, UnicodeError) else "holds a NUL character"
        raise InputError(f"{shown!r}: {wrong}; rename the file or folder") from None
    except OSError as error:
        wrong = {
            errno.ENAMETOOLONG: "is too long for a path",
            errno.ELOOP: "is a link that leads back to itself; name the file itself",
        }.get(error.errno or 0)
        if wrong is not None:
            raise InputError(f"{shown!r}: {wrong}") from None
        return path


def read_named(path: Path) -> bytes:
    """The bytes of a file that a person names, who may have linked it to another place.

    Raises OSError, at once, for another kind of file; its ``strerror`` says what is wrong and what
    to give instead.
    """
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        kind = "folder" if stat.S_ISDIR(mode) else "pipe or device"
        raise OSError(errno.ENODEV, f"is a {kind}, not a regular file; give a regular file")
    return path.read_bytes()


def repeated(names: Iterable[str]) -> list[str]:
    """The names that are there more than once, sorted, without blank ones."""
    return sorted(name for name, n in Counter(names).items() if n > 1 and name)


# XML.

_XML_ENCODING = re.compile(rb"""\s*<\?xml[^>]{0,100}\sencoding\s*=\s*["']([\w.:-]{1,40})["']""")
_DOCTYPE = re.compile(r"(?>\ufeff|\s|<\?(?s:.*?)\?>|<!--(?s:.*?)-->)*+<!DOCTYPE")
"""A document type after what may precede it; entities are declared there alone (XML 1.0, 2.8)."""
_DEEPEST_XML = 200
"""Levels of elements that an XML document may have."""
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def decode_as(data: bytes, encoding: str, name: str, what: str) -> str:
    """A text in ``what``, Python's ``encoding``; raises DataError with the line of the first byte
    that is none."""
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(name, line, f"is not {what} text", "save it as UTF-8") from None


def xml_text(data: bytes, name: str) -> str:
    """An XML document's text by its byte-order mark or the encoding that it declares, else UTF-8;
    raises DataError."""
    stated = _XML_ENCODING.match(data[:400])
    encoding = stated[1].decode() if stated else "utf-8"
    if data.startswith(UTF_16):
        encoding = "utf-16"
    known = character_set(encoding)
    if not known:
        raise DataError(name, 1, "declares an unknown encoding", "save it as UTF-8")
    if known in ("utf-8", "utf-8-sig"):
        return decode_as(data, "utf-8-sig", name, "UTF-8")
    return decode_as(data, known, name, f"{encoding} as it declares")


def parse_xml(text: str, name: str) -> Element:
    """The root of an XML document, all tags as their local names; raises DataError, also for a
    DOCTYPE or entities."""
    from xml.etree.ElementTree import ParseError, fromstring

    try:
        if _DOCTYPE.match(text):
            raise ValueError
        root = fromstring(text)
    except ParseError as error:
        reason = "is not well-formed XML"
        raise DataError(name, error.position[0], reason, "export the file again") from None
    except (ValueError, LookupError):
        reason = "holds a DOCTYPE, entities or an encoding that is refused"
        raise DataError(name, None, reason, "save it as plain UTF-8 XML") from None
    level = [root]
    for _ in range(_DEEPEST_XML):
        for element in level:
            element.tag = element.tag.rpartition("}")[2]
        level = [child for element in level for child in element]
    if level:
        raise DataError(name, None, f"has more than {_DEEPEST_XML} levels", "export the file again")
    return root
