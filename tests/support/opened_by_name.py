"""Calls that open a file by its name to read it, by the syntax of a module.

What is opened so may be another file than the one that was checked, a link, or a pipe whose writer
is waited for: :mod:`midchart.core.regular_files` opens files instead.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

_OF_PATH = {"read_text", "read_bytes"}
_BY_FUNCTION = {
    "gzip": {"open"}, "bz2": {"open"}, "lzma": {"open"}, "tarfile": {"open"}, "io": {"open"},
    "os": {"open"}, "zipfile": {"ZipFile"}, "shutil": {"copy", "copy2", "copyfile", "copytree"},
    "np": {"load", "fromfile", "memmap", "loadtxt", "genfromtxt"},
    "parquet": {"read_table", "ParquetFile", "read_metadata", "read_schema"},
}  # fmt: skip
_BY_NAME = {"load_file", "safe_open", "ZipFile", "ParquetFile"}
_WITHOUT_MODE = {"os", "shutil", "np", "parquet"}
_IN_MEMORY = {"BytesIO", "BufferReader"}
_OPENERS = {"open_regular", "open_file"}


def opened_by_name(source: str) -> Iterator[tuple[str, str]]:
    """Function (with its class) and the call, of each opening of a file by its name for reading.

    A call with an open file, one that a ``with`` or one of ``open_regular`` and ``open_file`` gave,
    opens nothing.
    """
    tree = ast.parse(source)
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    yield from _inside(tree, "", "open" in defined, frozenset())


def _inside(
    node: ast.AST, function: str, own_open: bool, files: frozenset[str]
) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        function = f"{function}.{node.name}".lstrip(".")
        if isinstance(node, ast.FunctionDef):
            files |= {name for one in ast.walk(node) for name in _open_files(one)}
    if isinstance(node, ast.Attribute) and node.attr in _OF_PATH:
        yield function, ast.unparse(node)
    if isinstance(node, ast.Call) and _opens(node, own_open, files):
        yield function, ast.unparse(node)
    for child in ast.iter_child_nodes(node):
        yield from _inside(child, function, own_open, files)


def _open_files(node: ast.AST) -> Iterator[str]:
    """Names that hold an open file from this statement on."""
    if isinstance(node, ast.withitem) and isinstance(node.optional_vars, ast.Name):
        yield node.optional_vars.id
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        called = {one.id for one in ast.walk(node.value) if isinstance(one, ast.Name)}
        if called & _OPENERS:
            yield node.targets[0].id


def _opens(call: ast.Call, own_open: bool, files: frozenset[str]) -> bool:
    function = call.func
    if isinstance(function, ast.Name):
        if function.id == "open":
            return not own_open and not _writes(call, 1)
        return function.id in _BY_NAME and not _writes(call, 1) and not _is_open(call, files)
    if not isinstance(function, ast.Attribute):
        return False
    module = function.value.id if isinstance(function.value, ast.Name) else ""
    if function.attr in _BY_FUNCTION.get(module, ()):
        return not _is_open(call, files) and (module in _WITHOUT_MODE or not _writes(call, 1))
    if function.attr != "open" or module in _BY_FUNCTION:
        return False
    # Path.open has its mode first; what opens something within a file or folder has a name there.
    of_path = not call.args or isinstance(call.args[0], ast.Constant)
    return of_path and not _writes(call, 0)


def _writes(call: ast.Call, place: int) -> bool:
    """Whether a call has a mode of writing."""
    modes = [*call.args[place : place + 1], *(k.value for k in call.keywords if k.arg == "mode")]
    return any(isinstance(m, ast.Constant) and set("wax") & set(str(m.value)) for m in modes)


def _is_open(call: ast.Call, files: frozenset[str]) -> bool:
    """Whether the first argument of a call is an open file."""
    first = call.args[0] if call.args else None
    if isinstance(first, ast.Call):
        return isinstance(first.func, ast.Attribute | ast.Name) and (
            ast.unparse(first.func).rpartition(".")[2] in _IN_MEMORY | _OPENERS
        )
    return isinstance(first, ast.Name) and first.id in files
