"""Texts that people read use the field's terms: errors, command-line help, labels, documents.

``WORDS`` lists, by folder, terms the project once used in a sense of its own. A term that still
has a standard use in a folder is not on that folder's list.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SHARED = (
    *("mended", "mends", "mend", "tell apart", "told apart", "hangs on", "came out with", "seams"),
    *("forsaken", "reckon", "reckoned", "haste", "foretell", "foretold", "learnt", "soup", "hall"),
    *("forfeit", "spoilt", "torn", "anew", "as things stand", "labour", "of its own accord"),
    *("made up", "made-up", "as usual", "purse", "came along", "come along", "came true", "tells"),
    *("lesson", "lessons", "exam", "examine", "examined", "begun", "set aside", "sitting", "door"),
    *("house", "team", "portion", "portions", "goes on", "go on with", "ledger", "journal", "deal"),
    *("gladly", "seldom", "nought", "astray", "lasting", "half-way", "taken up", "aside", "bend"),
    *("gives way", "look-alikes", "read off", "comes to", "told right", "held against", "story"),
    *("stories", "beyond chance", "whose word", "company", "keeper", "forth", "what came true"),
)
WORDS = {
    "core": (
        *(*SHARED, "no number", "examination", "is here already", "is not here", "likeliest"),
        *("put in the queue", "know before you read", "stands still", "at once", "side by side"),
        *("by itself", "of one's own", "nowhere", "own words", "book", "look-alike"),
    ),
    "pages": (
        *(*SHARED, "told", "tell", "said", "beside", "lies", "lie", "lay", "alike", "drawn"),
        *("likeliest", "no number", "nowhere", "away", "own words", "of its own", "room", "book"),
    ),
    "docs": (
        *(*SHARED, "told", "tell", "said", "stands", "stand", "lies", "lie", "worth", "away"),
        *("book", "come to", "comes along", "no more", "of one's own"),
    ),
}
STANDARD_IN_COMMENTS = {
    *("examination", "drawn", "lay", "away", "room", "no number", "at once", "side by side"),
    *("by itself", "company"),
}
"""Terms with a standard use in docstrings and comments: a patient's examination, a drawn sample."""
COMMENTS = {
    *("said", "say of", "says of", "beside", "lies", "lie", "stand", "stands", "stood", "standing"),
    *("tell", "told", "of its own", "of their own", "alike", "nowhere", "whole or not"),
    *("likeliest", "look-alikes", "own words", *SHARED, *WORDS["core"]),
} - STANDARD_IN_COMMENTS
"""Terms that docstrings and comments avoid too, outside of quoted phrases."""
VAGUE = {
    *("found", "told", "said", "given", "mine", "theirs", "made", "here", "own", "whole"),
    *("spoilt", "anew", "kept", "beside", "torn", "mended"),
}
"""Names of locals, parameters and fields that say neither type nor content."""
DOMAIN_FIELDS = {"kept"}
"""Fields and properties of the interface with such a name: ``core.types.Selection.kept``."""
PRINTED = re.compile(r"\S+\s+\S+\s+\S+")
"""A text of three words or more; shorter ones are keys, names and column lists."""
QUOTED = re.compile(r'"[^"]*"')
FOLDERS = ("docs", "core", "data/published", "data/published-runs")
"""Folders whose Markdown files are documents of the project."""
RECORDS = ROOT / "core" / "synthetic"
"""Its texts are the wordings of synthetic records, not of the program."""


@cache
def nodes(source: str) -> tuple[ast.AST, ...]:
    """All nodes of a module's syntax tree."""
    return tuple(ast.walk(ast.parse(source)))


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of a module's strings that are printed or shown; docstrings are not."""
    documented = {
        id(node.value)
        for node in nodes(source)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in nodes(source):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if id(node) not in documented and PRINTED.search(node.value):
            yield node.lineno, node.value


def comments(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of a module's docstrings and comments, without phrases in quotation marks."""
    texts_by_line = [
        (node.value.lineno, node.value.value)
        for node in nodes(source)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            texts_by_line.append((token.start[0], token.string))
    for line, text in texts_by_line:
        yield line, QUOTED.sub(" ", text)


def terms_in(text: str, terms: tuple[str, ...]) -> list[str]:
    """Those of ``terms`` that occur in ``text`` as whole words, in any case."""
    flat = " ".join(text.split()).lower()
    matches = set(pattern(terms).findall(flat))
    return [term for term in terms if term in matches]


@cache
def pattern(terms: tuple[str, ...]) -> re.Pattern[str]:
    longest_first = sorted(terms, key=len, reverse=True)
    return re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, longest_first))})(?![\w-])")


@pytest.mark.parametrize("folder", ["core", "pages"])
def test_texts_of_the_program_use_standard_terms(folder: str) -> None:
    wrong = [
        f"{file.relative_to(ROOT)}:{line}: {term!r} in {text!r}"
        for file in sorted((ROOT / folder).rglob("*.py"))
        if not file.is_relative_to(RECORDS)
        for line, text in texts(file.read_text("utf-8"))
        for term in terms_in(text, WORDS[folder])
    ]
    assert not wrong, "\n".join(wrong)


def test_documents_use_standard_terms() -> None:
    documents = [*ROOT.glob("*.md"), *(f for of in FOLDERS for f in (ROOT / of).rglob("*.md"))]
    wrong = [
        f"{file.relative_to(ROOT)}: {term!r}"
        for file in sorted(documents)
        for term in terms_in(file.read_text("utf-8"), WORDS["docs"])
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("folder", ["core", "pages"])
def test_docstrings_and_comments_use_standard_terms(folder: str) -> None:
    wrong = [
        f"{file.relative_to(ROOT)}:{line}: {term!r}"
        for file in sorted((ROOT / folder).rglob("*.py"))
        for line, text in comments(file.read_text("utf-8"))
        for term in terms_in(text, tuple(sorted(COMMENTS)))
    ]
    assert not wrong, "\n".join(wrong)


def bound_names(source: str) -> Iterator[tuple[int, str]]:
    """Line and name, without leading underscores, of each local, parameter, field and function."""
    fields = {
        node for owner in nodes(source) if isinstance(owner, ast.ClassDef) for node in owner.body
    }
    fields |= {node.target for node in fields if isinstance(node, ast.AnnAssign)}
    for node in nodes(source):
        if isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        elif isinstance(node, ast.FunctionDef):
            name = node.name
        else:
            continue
        if not (node in fields and name in DOMAIN_FIELDS):
            yield node.lineno, name.lstrip("_")


@pytest.mark.parametrize("folder", ["core", "pages", "tests"])
def test_names_say_type_or_content(folder: str) -> None:
    vague = [
        f"{file.relative_to(ROOT)}:{line}: {name}"
        for file in sorted((ROOT / folder).rglob("*.py"))
        for line, name in bound_names(file.read_text("utf-8"))
        if name in VAGUE
    ]
    assert not vague, "\n".join(vague)


def test_bound_names_are_locals_parameters_fields_and_functions() -> None:
    source = (
        "class A:\n    found: int\n    kept: int\n\ndef _told(own):\n    here = own.said\n"
        "    kept = [whole for whole in here]\n"
    )
    names = [name for _, name in bound_names(source)]
    assert sorted(names) == ["found", "here", "kept", "own", "told", "whole"]


def test_comments_are_docstrings_and_comments_without_quoted_phrases() -> None:
    source = '"""A spoilt file: "told apart"."""\nx = "anew"  # torn\n'
    terms = [
        (line, terms_in(text, ("spoilt", "told", "anew", "torn")))
        for line, text in comments(source)
    ]
    assert terms == [(1, ["spoilt"]), (2, ["torn"])]


def test_a_private_term_is_found_in_texts_and_not_in_docstrings() -> None:
    source = (
        '"""A spoilt file."""\nraise ValueError(f"{path}: the file is\\n spoilt, not unspoilt")\n'
    )
    terms_by_line = [(line, terms_in(text, ("spoilt", "file"))) for line, text in texts(source)]
    assert terms_by_line == [(2, ["spoilt", "file"])]
