"""Names in the code say a type or a content: words that say neither are refused."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
VAGUE = {
    *("found", "told", "said", "given", "mine", "theirs", "made", "here", "own", "whole"),
    *("spoilt", "anew", "kept", "beside", "torn", "mended"),
}
"""Names of locals, parameters, fields and functions that say neither type nor content."""
DOMAIN_FIELDS = {"kept"}
"""Fields and properties of the interface with such a name: ``core.types.Selection.kept``."""


def bound_names(source: str) -> Iterator[tuple[int, str]]:
    """Line and name, without leading underscores, of each local, parameter, field and function."""
    nodes = list(ast.walk(ast.parse(source)))
    fields = {node for owner in nodes if isinstance(owner, ast.ClassDef) for node in owner.body}
    fields |= {node.target for node in fields if isinstance(node, ast.AnnAssign)}
    for node in nodes:
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


@pytest.mark.parametrize("folder", ["core", "pages", "extras", "tests"])
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
