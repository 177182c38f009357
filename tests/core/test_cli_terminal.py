"""No command prints a character that acts on a terminal or hides in it."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path

import pytest

from midchart.core import cli
from midchart.core.cli import main
from midchart.core.format import for_terminal
from tests.support.run_helpers import workspace_at

HOSTILE = {
    "colour": "\x1b[31m",
    "title": "\x1b]0;owned\x07",
    "8-bit control": "\x9b31m",
    "bell and backspace": "\x07\x08",
    "override": "\u202e",
    "isolate": "\u2066",
    "mark": "\u200f\u061c",
    "zero width": "\u200b\u200d\u2060\ufeff",
    "tag": "\U000e0041\U000e007f",
    "selectors": "\ufe00\U000e0101",
    "separators": "\u2028\u2029\x85",
    "soft hyphen and filler": "\u00ad\u3164",
}
TEXT = " ".join(f"dose {value}of aspirin" for value in HOSTILE.values())


def acting(text: str) -> set[str]:
    """The characters of a text that act on a terminal, or that nobody sees there."""
    return {
        f"U+{ord(c):04X}"
        for c in text
        if (unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and c not in "\t\n")
        or c in "\u3164\ufe00\U000e0101"
    }


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    with workspace_at(tmp_path_factory.mktemp("terminal")) as home:
        cohort = home / "data" / "cohorts" / "hostile"
        cohort.mkdir(parents=True)
        row = {"patient_id": "p\u202e1", "time": "2020-01-01", "text": TEXT}
        (cohort / "notes.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
        yield home


COMMANDS = [
    ("select", "hostile", "--record=p\u202e1", "--question=dose of aspirin", "--arm=bm25"),
    ("select", "hostile", "--record=p\u202e1", "--question=dose of aspirin", "--arm=full"),
    ("select", "hostile", "--record=none\x1b[31m", "--question=dose of aspirin", "--arm=bm25"),
    ("check", "hostile"),
    ("check", "hostile\u202e\x1b[2J"),
    ("cohorts",),
]


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:2])[:20])
def test_what_a_command_prints_does_nothing(place, capsys, command, form):
    try:
        status = main([*command, *form])
    except SystemExit:
        pytest.skip("no such command")
    out, errors = capsys.readouterr()
    assert not acting(out) and not acting(errors)
    assert out or status


def test_json_holds_the_text_itself(place, capsys):
    assert main([*COMMANDS[1], "--json"]) == 0
    read = json.loads(capsys.readouterr().out)
    assert "\u202e" in json.dumps(read, ensure_ascii=False)
    assert any("\u200b" in one["text"] for one in read["sentences"])


def test_the_text_of_a_record_is_shown_with_its_hidden_characters_named(place, capsys):
    assert main(COMMANDS[1]) == 0
    printed = capsys.readouterr().out
    assert (
        "[U+202E]" in printed and "[U+E0041]" in printed and "\N{REPLACEMENT CHARACTER}" in printed
    )


def test_every_character_of_unicode_that_is_not_seen_is_shown():
    """Every control and separator; every format character but those that have a glyph."""
    seen = {0x600, 0x601, 0x602, 0x603, 0x604, 0x605, 0x6DD, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
    seen |= set(range(0x13430, 0x13456))
    for code in range(0x110000):
        character = chr(code)
        kind = unicodedata.category(character)
        if kind in ("Cc", "Cf", "Zl", "Zp") and code not in seen and character not in "\t\n":
            assert character not in for_terminal(f"a{character}b"), hex(code)
            text = json.dumps(character, ensure_ascii=False)
            assert json.loads(for_terminal(text, json=True)) == character
            assert character not in for_terminal(text, json=True), hex(code)
    assert for_terminal("Ä\tß\n中 🙂 é") == "Ä\tß\n中 🙂 é"


def test_the_command_line_prints_in_one_place():
    source = Path(cli.__file__).read_text(encoding="utf-8")
    printed = re.findall(r"(?<![\w.])print\(([^,()]*)", source)
    assert printed == [
        "for_terminal",
        "for_terminal",
        "line",
    ]  # the last: progress, of numbers alone
