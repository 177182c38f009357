"""JSON objects whose members are parsed when they are asked for, each text of a member once.

A reader of a resource looks at some of its elements, and most elements (a code, a category, a
status) have the same text in many resources. :func:`read_document` splits a document into the texts
of its members and checks it as :func:`midchart.core.parsing.read_json` does; what depends on one
element alone is computed once for a text (:func:`once_a_text`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

from midchart.core.parsing import DEEPEST, LONGEST_INTEGER, json_depth, read_json

P = ParamSpec("P")
T = TypeVar("T")

_ELEMENT = msgspec.json.Decoder(float_hook=str)
"""Parses what :func:`midchart.core.parsing.read_json` does ``as_written``, to the same values."""
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_CACHED = 4096
"""Most recently used texts of which a result is in memory, by function."""
_LONGEST_CACHED = 1024
"""Bytes of the longest text of which a result is in memory."""
_OPENING = re.compile(rb"\s*([\[{])")
_DIGITS = re.compile(rb"[0-9]{%d}" % (LONGEST_INTEGER + 1))


def once_a_text(
    function: Callable[Concatenate[bytes, P], T],
) -> Callable[Concatenate[bytes, P], T]:
    """A function of the text of an element, whose results for short texts are remembered.

    They are shared: nothing changes one.
    """
    remembered = lru_cache(maxsize=_CACHED)(function)

    def call(text: bytes, *args: P.args, **more: P.kwargs) -> T:
        if len(text) <= _LONGEST_CACHED:
            return remembered(text, *args, **more)
        return function(text, *args, **more)

    return call


def parse_element(text: bytes | msgspec.Raw) -> Any:
    """The value of an element's text; numbers with a decimal point or exponent are texts."""
    return _ELEMENT.decode(text)


class JsonObject(Mapping[str, Any]):
    """The members of a JSON object by name; ``texts``: the JSON text of each."""

    __slots__ = ("texts",)

    def __init__(self, texts: dict[str, msgspec.Raw]) -> None:
        self.texts = texts

    @staticmethod
    def of(value: Mapping[str, Any]) -> JsonObject:
        """The object of a parsed value."""
        return value if isinstance(value, JsonObject) else JsonObject(_MEMBERS.decode(_text(value)))

    @staticmethod
    def of_array(text: bytes, names: Sequence[str]) -> JsonObject:
        """The object whose members ``names`` have the values of a JSON array (:meth:`array`)."""
        return JsonObject(dict(zip(names, _ITEMS.decode(text), strict=True)))

    def __getitem__(self, name: str) -> Any:
        return _ELEMENT.decode(self.texts[name])

    def get(self, name: str, default: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The value of a member, or ``default`` where there is none of that name."""
        text = self.texts.get(name)
        return default if text is None else _ELEMENT.decode(text)

    def text(self, name: str) -> bytes:
        """The JSON text of a member; that of null where there is none."""
        text = self.texts.get(name)
        return b"null" if text is None else bytes(text)

    def array(self, names: Iterable[str]) -> bytes:
        """The JSON array of the values of members that are there."""
        return b"[%b]" % b",".join(map(self.texts.__getitem__, names))

    def inner(self, name: str) -> Any:
        """The value of a member; an object, or each of an array, is a :class:`JsonObject`."""
        text = self.texts.get(name)
        return None if text is None else _split(text)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, JsonObject):
            return NotImplemented
        return self.texts == other.texts or dict(self.items()) == dict(other.items())

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __contains__(self, name: object) -> bool:
        return name in self.texts

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    def __len__(self) -> int:
        return len(self.texts)


def _split(text: bytes | msgspec.Raw) -> Any:
    """The value of a JSON text: an object as a :class:`JsonObject`, an array as a list of such
    values."""
    opening = _OPENING.match(text)
    if opening is None:
        return parse_element(text)
    if opening[1] == b"{":
        return JsonObject(_MEMBERS.decode(text))
    return [_split(item) for item in _ITEMS.decode(text)]


def read_document(data: bytes | str, name: str, line: int | None = None, remedy: str = "") -> Any:
    """The value of a JSON document; objects of it, and of its arrays, are :class:`JsonObject`.

    The arguments and the errors are those of :func:`midchart.core.parsing.read_json`, which reads
    what is not plain UTF-8 JSON within the limits. Numbers are as written.
    """
    if isinstance(data, bytes) and is_plain(data):
        try:
            return JsonObject(_MEMBERS.decode(data)) if data[:1] == b"{" else _split(data)
        except (ValueError, RecursionError):
            pass  # the standard parser reads it, or says what is wrong
    return _split(_text(read_json(data, name, line, remedy, as_written=True)))


def is_plain(data: bytes) -> bool:
    """Whether a document is UTF-8 and surely within the limits, if it is JSON at all."""
    try:
        data.decode()
        if len(data) > LONGEST_INTEGER and _has_long_number(data):
            return False
    except UnicodeDecodeError:
        return False
    return data.count(b"[") + data.count(b"{") <= DEEPEST or json_depth(data) <= DEEPEST


def _has_long_number(data: bytes) -> bool:
    """Whether there are more digits in a row than an integer may have.

    Such a row holds a byte whose place is a multiple of its length, and digits before or after it.
    """
    for place in range(LONGEST_INTEGER, len(data), LONGEST_INTEGER):
        if data[place : place + 40].isdigit() or data[place - 40 : place].isdigit():
            return _DIGITS.search(data) is not None
    return False


def _text(value: Any) -> bytes:
    """A parsed value as JSON."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
