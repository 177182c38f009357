"""Paths, commands and targets that the documents name exist, and options are the parser's.

Left out are ``docs/log.md``, which tells what was run at its dates, and the small reader's card,
whose commands are those of a commit that it names.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from functools import cache

import pytest

from midchart.core.cli import _parser
from tests.support.run_helpers import ROOT

DOCUMENTS = [
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
    *(f"docs/{name}.md" for name in ("README", "guide", "architecture", "scale", "methods")),
    *(f"docs/{name}.md" for name in ("notebook", "power", "site/index", "site/gallery")),
]
TO_BE_WRITTEN = (
    "core/arms/first_words.py",  # examples of docs/architecture.md
    "core/experiments/question_lengths.py",
    ".streamlit/secrets.toml",  # of an installation with sign-in
)
"""Files that a reader of the documents makes."""
PATH = re.compile(r"(?:core|pages|tests|docs|\.streamlit|\.github|\.ci)/[\w./-]+")


@cache
def text_of(document: str) -> str:
    return (ROOT / document).read_text("utf-8")


def code_of(text: str) -> Iterator[str]:
    """Each inline code and each line of a code block, without comments of a shell."""
    for block in re.findall(r"^```\w*[^\n]*\n(.*?)^```$", text, re.M | re.S):
        yield from re.sub(r"\\\n\s*", " ", block).splitlines()
    yield from re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))


def absent_paths(text: str) -> list[str]:
    named = {path.rstrip("./") for code in code_of(text) for path in PATH.findall(code)}
    return sorted(p for p in named - {*TO_BE_WRITTEN} if not (ROOT / p).exists())


def subparsers() -> dict[str, argparse.ArgumentParser]:
    (action,) = (a for a in _parser()._actions if isinstance(a, argparse._SubParsersAction))
    return action.choices


def wrong_commands(text: str) -> list[str]:
    """The commands of a text that the program does not have, with what it lacks."""
    commands, wrong = subparsers(), []
    for code in code_of(text):
        match = re.match(r"\s*(?:\$ )?(?:\.venv/bin/)?midchart ([a-z][a-z-]+)\b(.*)", code)
        if match is None:
            continue
        name, rest = match.groups()
        if name not in commands:
            wrong.append(f"midchart {name}")
            continue
        options = set(re.findall(r"(?<!\S)(--[a-z][a-z-]*)", re.split(r"\s{3,}|#", rest)[0]))
        unknown = options - set(commands[name]._option_string_actions) - {"--help"}
        wrong += [f"midchart {name} {option}" for option in sorted(unknown)]
    return wrong


def absent_tools(text: str) -> list[str]:
    """Targets of make and modules of ``python -m`` that do not exist."""
    targets = set(re.findall(r"^([a-z][\w-]*):", text_of("Makefile"), re.M))
    absent = []
    for code in code_of(text):
        for target in re.findall(r"^\s*make ([a-z][\w-]*)", code):
            absent += [] if target in targets else [f"make {target}"]
        for module in re.findall(r"python -m ((?:tests|core|midchart)[\w.]*)", code):
            path = ROOT.joinpath(*module.removeprefix("midchart.").split("."))
            exists = path.with_suffix(".py").is_file() or (path / "__main__.py").is_file()
            absent += [] if exists or module == "midchart" else [f"python -m {module}"]
    return absent


@pytest.mark.parametrize("document", DOCUMENTS)
def test_what_a_document_names_exists(document: str) -> None:
    text = text_of(document)
    assert absent_paths(text) == []
    assert wrong_commands(text) == []
    assert absent_tools(text) == []


def test_a_stale_reference_is_seen() -> None:
    text = (
        "See `core/loaders/medaling.py` and `python -m tests.benches`.\n"
        "```\nmidchart check FOLDER --colour\n.venv/bin/midchart train-reader\n"
        "make everything\n```\n"
    )
    assert absent_paths(text) == ["core/loaders/medaling.py"]
    assert wrong_commands(text) == ["midchart check --colour", "midchart train-reader"]
    assert absent_tools(text) == ["make everything", "python -m tests.benches"]


def test_each_spec_is_in_the_index() -> None:
    index = text_of("docs/README.md")
    specs = [path.name for path in (ROOT / "docs").glob("*.toml")]
    assert sorted(name for name in specs if f"({name})" not in index) == []
