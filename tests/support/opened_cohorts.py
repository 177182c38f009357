"""Calls that open a cohort by the path in a run's plan or status, by the syntax of a module.

In an imported run that path is its sender's choice: what opens a run's cohort asks
:meth:`midchart.core.runs.directory.RunDirectory.cohort_path` for it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

OPENERS = {
    "open_data", "find_cohort", "open_cohort", "open_source", "opened", "read_cohort",
    "find_loader", "cohort_folder", "content_digest", "digest_of", "files_state", "read_manifest",
    "kept_questions", "sets_in", "own_question", "own_questions", "question_sets",
    "questions_table", "keep_question", "answer_question", "mark_evidence", "withdraw_question",
    "marking_agreement", "save_question_set", "check", "still_allows", "labelled_cases",
}  # fmt: skip
"""Functions that read or write a cohort at the path that they are given."""


def opened_by_plan(source: str) -> Iterator[str]:
    """Each call of :data:`OPENERS` with ``X.data`` of a plan, or ``X["data"]`` of a run."""
    tree = ast.parse(source)
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.Lambda):
            names = {
                target.id
                for node in ast.walk(function)
                if isinstance(node, ast.Assign) and _names_data(node.value)
                for target in node.targets
                if isinstance(target, ast.Name)
            }
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and _called(node) in OPENERS:
                    arguments = [*node.args, *(one.value for one in node.keywords)]
                    if any(_names_data(one) or _is_in(one, names) for one in arguments):
                        yield ast.unparse(node)


def _called(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]


def _is_in(node: ast.expr, names: set[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def _names_data(node: ast.expr) -> bool:
    """Whether an expression is such a path, also within ``Path(...)``."""
    if isinstance(node, ast.Call) and _called(node) in ("Path", "PurePath", "str") and node.args:
        return _names_data(node.args[0])
    if isinstance(node, ast.Attribute) and node.attr == "data":
        return ast.unparse(node.value).endswith(("plan", "plan()", "started"))
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Constant)
        and node.slice.value == "data"
        and ast.unparse(node.value).endswith(("run", "row", "baseline", ")"))
    )
