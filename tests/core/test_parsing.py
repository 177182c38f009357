"""JSON, TOML and paths from outside: what cannot be used is refused in one line, in linear time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from midchart.core.errors import DataError, InputError, MidchartError, one_line
from midchart.core.loaders.open import open_cohort
from midchart.core.parsing import DEEPEST, character_set, read_json, read_toml, user_path
from midchart.core.results.importing import import_run
from midchart.core.runs.spec import read_spec


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"9" * 5_000, "a number of too many digits"),
        (b"[" * 100_000, f"more than {DEEPEST} levels"),
        (b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1), f"more than {DEEPEST} levels"),
        (b'{"a":' * 300 + b"1" + b"}" * 300, f"more than {DEEPEST} levels"),
        (b"[NaN]", "holds NaN"),
        (b"[-Infinity]", "holds -Infinity"),
        (b"[1, -1e999]", "holds a number too large for a double"),
        (b'{"a": \n x}', "f.json:2: is not JSON"),
        ('["é"]'.encode("utf-16"), "is not UTF-8"),
    ],
)
def test_json_that_cannot_be_used_is_refused(text: bytes, reason: str) -> None:
    with pytest.raises(DataError, match=reason.replace("[", r"\[")) as error:
        read_json(text, "f.json")
    assert "\n" not in str(error.value)
    assert " — " in str(error.value)


def test_json_within_the_limits_is_as_it_is_written() -> None:
    deepest = "[" * DEEPEST + "]" * DEEPEST
    assert json.dumps(read_json("\ufeff".encode() + deepest.encode(), "f")) == deepest
    assert read_json(r'{"\ud800": ["a\udc00", "\ud83d\ude00", "\\ud800"]}', "f") == {
        "\ufffd": ["a\ufffd", "\U0001f600", r"\ud800"]
    }
    assert read_json('{"a": 1, "a": 2}', "f") == {"a": 2}
    with pytest.raises(DataError, match="names a twice"):
        read_json('{"a": 1, "a": 2}', "f", unique=True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a = " + "9" * 5_000, "a number of too many digits"),
        ("a = " + "9" * 30, "more than 64 bits"),
        ("a = " + "[" * 5_000, f"more than {DEEPEST} levels"),
        ("a = 1\na = 2", "is not valid TOML"),
    ],
)
def test_toml_that_cannot_be_used_is_refused(text: str, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        read_toml(text, "f.toml")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("~nosuchuser/x", "no such user"),
        ("a\0b", "NUL"),
        ("n" * 256, "too long"),
        ("a/" * 3_000, "too long"),
        ("a\udcff", "UTF-8"),
    ],
)
def test_what_can_be_no_path_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as error:
        user_path(text)
    assert str(error.value).isprintable()


def test_a_link_that_leads_back_to_itself_is_refused_in_one_line(tmp_path: Path) -> None:
    circle = tmp_path / "circle.zip"
    circle.symlink_to(circle)
    for read in (user_path, open_cohort, import_run, read_spec):
        with pytest.raises(MidchartError, match="circle"):
            read(circle)
    with pytest.raises(InputError, match="leads back to itself"):
        user_path(circle / "inside")


def test_a_path_is_what_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    assert user_path("~/a b") == Path("/home/ann/a b")
    assert user_path(Path("/x") / ("n" * 255)).name == "n" * 255


def test_a_message_is_one_line_that_can_be_printed_and_keeps_its_remedy() -> None:
    message = str(DataError("a\nb\u202e.csv", 3, "x" * 10_000, "export it again"))
    assert message.startswith(r"a\nb\u202e.csv:3: xxx")
    assert message.endswith(" — export it again")
    assert len(message) < 2_000
    assert one_line("Größe 5 – ok") == "Größe 5 – ok"


@pytest.mark.parametrize(
    ("stated", "name"),
    [
        ("UTF-8", "utf-8"),
        ("us-ascii", "ascii"),
        ("ISO-8859-15", "iso8859-15"),
        ("windows-1252", "cp1252"),
        ("Shift_JIS", "shift_jis"),
        ("utf-16le", "utf-16-le"),
        ("macintosh", "mac-roman"),
        *((one, "") for one in ("punycode", "idna", "undefined", "unicode_escape", "utf-7")),
        *((one, "") for one in ("raw_unicode_escape", "charmap", "hex", "rot13", "a\0b", "\ud800")),
    ],
)
def test_character_sets_are_those_that_take_one_pass(stated: str, name: str) -> None:
    assert character_set(stated) == name


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{}", b" \r\n\t{ } \n", b"{} x", b"{}\x0b", b"1.50", b'"x"', b"\xef\xbb\xbf{}",
        b'{"a": 1.50, "b": -0, "c": -0.0, "d": 1e400, "e": 1E+2}', b'{"a": NaN}', b'{"a": 01}',
        b'{"a": 1, "a": {"c": 3, "c": 4}}', b'{"\\u0061": 1, "a": 2}', b'{"a": "\x01"}',
        b'{"a": [1,]}', b'{"a": "\\ud800", "b": {"\\udc00": "\\ud83d\\ude00"}}',
        b'{"a": ' + b"9" * 4301 + b"}", b'{"a": [0.' + b"1" * 9000 + b"]}",
        b"[" * DEEPEST + b"]" * DEEPEST, b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1),
        b"[" + b"{}," * 200 + b'"[[[["]', b"[" * 100_000,
    ],
)  # fmt: skip
def test_bytes_and_text_give_one_value_as_written_or_one_error(data: bytes) -> None:
    def outcome(document: bytes | str) -> Any:
        try:
            return read_json(document, "a", 3, "r", as_written=True)
        except DataError as error:
            return str(error)

    assert outcome(data) == outcome(data.decode().removeprefix("\ufeff"))
