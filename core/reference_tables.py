"""Reads reference tables (YAML) into dataclasses checked by pydantic.

A misspelt column, a wrong type, a repeated key and a reference to a missing entry are errors that
name file, line and remedy. The class of a row is decorated with :func:`table_row`; a text that
must be an entry of another table is annotated with :class:`TableKey`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

import yaml

from midchart.core.errors import DataError, UnknownName

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, ValidationError
    from pydantic_core.core_schema import CoreSchema

T = TypeVar("T")
Place = Sequence[int | str]
"""A value's place in a table: row numbers and column names, outermost first."""

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _itself(text: str) -> Iterable[str]:
    return (text,)


@dataclass(frozen=True, slots=True)
class TableKey:
    """Annotation of a text whose ``parts`` (by default the text) must each be one of ``valid()``;
    ``what`` names a part in errors."""

    what: str
    valid: Callable[[], Collection[str]]
    parts: Callable[[str], Iterable[str]] = _itself

    def check(self, text: str) -> str:
        """Return ``text``; raises ValueError that lists the nearest valid parts."""
        valid = self.valid()
        for part in self.parts(text):
            if part not in valid:
                raise ValueError(str(UnknownName(self.what, part, valid)))
        return text

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        # Imported with the first table, so that importing the generator stays fast.
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(self.check, handler(source))


SLOT = re.compile(r"\{(\w*)\}")
"""A name in braces, as templates have them."""


def slots_of(template: str) -> list[str]:
    """The names in braces of a template."""
    return SLOT.findall(template)


def slot_names(*names: str) -> TableKey:
    """Annotation of a template in which only these names are in braces."""
    return TableKey("slot", lambda: names, slots_of)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def table_row(kind: type[T]) -> type[T]:
    """A frozen dataclass of a table's rows; a column that it does not have is an error."""
    kind.__pydantic_config__ = {"extra": "forbid"}  # pyright: ignore[reportAttributeAccessIssue]
    return dataclass(frozen=True, slots=True)(kind)


def yaml_table(kind: type[T], path: Path) -> Callable[[], T]:
    """A function that gives the content of a YAML file, read on its first call."""
    return cache(lambda: read_yaml(kind, path))


def read_yaml(kind: type[T], path: Path) -> T:
    """The content of a YAML file as ``kind``.

    Raises DataError with the line of the first error.
    """
    loader = _Loader(path.read_text("utf-8"))
    try:
        root = loader.get_single_node()
        _refuse_repeats(path, root)
        content = loader.construct_document(root)
    except yaml.MarkedYAMLError as e:
        line = e.problem_mark.line + 1 if e.problem_mark else None
        raise DataError(str(path), line, str(e.problem), "correct its YAML syntax") from None
    return checked(kind, content, path, lambda place: _line(root, place))


def checked(kind: type[T], content: object, path: Path, line: Callable[[Place], int]) -> T:
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind).validate_python(content)
    except ValidationError as e:
        place, reason, remedy = _misfit(e)
        raise DataError(str(path), line(place), reason, remedy) from None


def _misfit(error: ValidationError) -> tuple[Place, str, str]:
    """Place, reason and remedy of the first error; a misspelt column comes before the missing one
    that was meant."""
    errors = error.errors(include_url=False)
    missing = {one["loc"][:-1]: one["loc"][-1] for one in errors if one["type"] == "missing"}
    for one in errors:
        if one["type"] == "unexpected_keyword_argument":
            *row, name = one["loc"]
            meant = missing.get(tuple(row))
            remedy = f"rename it to {meant!r}" if meant else "correct its name or remove it"
            return one["loc"], f"unknown column {name!r}", remedy
    first = errors[0]
    place = first["loc"]
    if first["type"] == "missing":
        return place[:-1], f"column {place[-1]!r} is missing", "add it"
    if first["type"] == "value_error":
        return place, first["msg"].removeprefix("Value error, "), "correct it"
    return place, f"{first['input']!r} at {place}: {first['msg']}", "correct it"


def _refuse_repeats(path: Path, node: Any) -> None:
    """Raise DataError where a mapping has a name twice, or a list two entries of one ``key``."""
    if isinstance(node, yaml.MappingNode):
        _refuse_equal(path, [name for name, _ in node.value])
        for _, value in node.value:
            _refuse_repeats(path, value)
    elif isinstance(node, yaml.SequenceNode):
        rows = [row for row in node.value if isinstance(row, yaml.MappingNode)]
        _refuse_equal(path, [v for row in rows for k, v in row.value if k.value == "key"])
        for value in node.value:
            _refuse_repeats(path, value)


def _refuse_equal(path: Path, nodes: Sequence[Any]) -> None:
    seen: set[str] = set()
    for node in nodes:
        if node.value in seen:
            line = node.start_mark.line + 1
            raise DataError(str(path), line, f"{node.value!r} is repeated", "rename or remove one")
        seen.add(node.value)


def _line(node: Any, place: Place) -> int:
    """The line of the value at ``place`` below ``node``, counted from 1."""
    line = node.start_mark.line + 1
    for part in place:
        if isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            node = node.value[part]
            line = node.start_mark.line + 1
        elif isinstance(node, yaml.MappingNode):
            pairs = [(k, v) for k, v in node.value if k.value == str(part)]
            if not pairs:
                break
            name, node = pairs[0]
            line = name.start_mark.line + 1
    return line
