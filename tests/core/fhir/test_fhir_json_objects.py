"""Documents that are split into the texts of their members read as by the standard parser."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midchart.core.errors import DataError
from midchart.core.fhir.json_objects import (
    JsonObject,
    is_plain,
    once_a_text,
    read_document,
)
from midchart.core.parsing import DEEPEST, read_json

LONG = 4300
"""Digits of the longest whole number that Python reads."""
MOST_S = 5.0
"""Processor time; a pattern that starts again at each quote takes several times as long."""
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.sampled_from(["[{", "]}", '"', "\\", "\ud800", "\U0001f600", "\u2028", "9" * 30]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=20,
)


def plain(value: Any) -> Any:
    """A value with its objects as dictionaries."""
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


def outcome(read: Any, data: bytes) -> Any:
    """The value that a reader gives, or its error."""
    try:
        return plain(read(data))
    except DataError as error:
        return str(error)


def check_same(data: bytes) -> None:
    """Both readers give one value or one error."""
    standard = outcome(lambda text: read_json(text, "a", 3, "r", as_written=True), data)
    assert outcome(lambda text: read_document(text, "a", 3, "r"), data) == standard


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{}", b"[]", b" \r\n\t{ } \n", b"{} x", b"{}\x0b", b"null", b"1.50", b'"x"',
        b"[{}, 1]",
        b'{"a": 1.50, "b": -0, "c": -0.0, "d": 1e400, "e": 1E+2}',
        b'{"a": NaN}', b'{"a": [-Infinity]}', b'{"a": 01}', b'{"a": 1.}', b'{"a": .5}',
        b'{"a": 1, "b": 2, "a": {"c": 3, "c": 4}}', b'{"\\u0061": 1, "a": 2}',
        b'{"a": "\x01"}', b'{"a": "\\x"}', b'{"a": "\\u12g4"}', b'{"a": tru}', b'{"a": [1,]}',
        b'{"a": "\xff"}', b'{"a": {"b": "\xed\xa0\x80"}}', b"\xef\xbb\xbf{}",
        b'{"a": "\\ud800", "b": {"\\udc00": "\\ud83d\\ude00"}}', '{"a": "é\u2028"}'.encode(),
        b'{"a": ' + b"9" * LONG + b"}", b'{"a": ' + b"9" * (LONG + 1) + b"}",
        b'{"a": [0.' + b"1" * 9000 + b', {"b": -' + b"8" * (LONG + 1) + b"}]}",
        b'{"a": "' + b"7" * 9000 + b'"}', b'{"' + b"x" * 5000 + b'": 12345678901234567890}',
        b"[" * DEEPEST + b"]" * DEEPEST, b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1),
        b'{"a":' * DEEPEST + b"1" + b"}" * DEEPEST,
        b'{"a":' * (DEEPEST + 1) + b"1" + b"}" * (DEEPEST + 1),
        b'["]",' * (DEEPEST + 1) + b"1" + b"]" * (DEEPEST + 1),
        b'["\\"]",' * (DEEPEST + 1) + b"1" + b"]" * (DEEPEST + 1),
        b"[" + b"{}," * 200 + b'"[[[[", "\\\\"]', b"[" * 100_000, b'{"a":' * 100_000,
    ],
)  # fmt: skip
def test_documents_read_as_by_the_standard_parser(data: bytes) -> None:
    check_same(data)


@settings(max_examples=300, deadline=None)
@given(VALUES, st.booleans(), st.binary(max_size=3), st.integers(0, 400))
def test_any_document_reads_as_by_the_standard_parser(
    value: Any, is_ascii: bool, inserted: bytes, place: int
) -> None:
    """As it was written, and with some bytes put into it."""
    data = json.dumps(value, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    check_same(data)
    check_same(data[:place] + inserted + data[place:])


def test_members_of_an_object_are_those_of_the_mapping() -> None:
    one = read_document(b'{"a": {"b": [1.0]}, "c": null}', "a")
    assert isinstance(one, JsonObject)
    assert (list(one), len(one), "a" in one, "x" in one) == (["a", "c"], 2, True, False)
    assert one["a"] == {"b": ["1.0"]} and one.get("x", 5) == 5 and one.get("c", 5) is None
    assert (one.text("a"), one.text("x")) == (b'{"b": [1.0]}', b"null")
    assert isinstance(one.inner("a"), JsonObject) and one.inner("x") is None
    assert JsonObject.of_array(one.array(("c", "a")), ("c", "a")) == one
    assert one == JsonObject.of({"c": None, "a": {"b": ["1.0"]}})
    assert one != JsonObject.of({"c": None, "a": {"b": ["1.00"]}})
    with pytest.raises(KeyError):
        one["x"]


def test_a_result_is_computed_once_for_a_short_text() -> None:
    calls: list[tuple[bytes, int]] = []

    @once_a_text
    def double(text: bytes, factor: int) -> bytes:
        calls.append((text, factor))
        return text * factor

    long = b"x" * 5000
    assert [double(b"ab", 2), double(b"ab", 2), double(b"ab", 3)] == [b"abab", b"abab", b"ababab"]
    assert double(long, 1) == double(long, 1) == long
    assert calls == [(b"ab", 2), (b"ab", 3), (long, 1), (long, 1)]


@pytest.mark.parametrize("end", [b"", b"\\"])
def test_a_document_that_ends_in_a_string_is_looked_at_in_linear_time(end: bytes) -> None:
    brackets = b'["[",' * DEEPEST + b"[]" + b"]" * (DEEPEST - 1) + b","
    data = b"[" + brackets + b'"' + b'\\"' * 20_000 + end
    begun = time.process_time()
    is_plain(data)
    with pytest.raises(DataError):
        read_document(data, "a")
    assert time.process_time() - begun < MOST_S
