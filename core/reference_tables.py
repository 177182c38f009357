"""Reads the program's own reference tables (YAML) into dataclasses, whose types pydantic checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, dataclass_transform

import yaml

T = TypeVar("T")
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def table_row(kind: type[T]) -> type[T]:
    """A frozen dataclass of a table's rows; a column that it does not have is an error."""
    kind.__pydantic_config__ = {"extra": "forbid"}  # pyright: ignore[reportAttributeAccessIssue]
    return dataclass(frozen=True, slots=True)(kind)


def yaml_table(kind: type[T], path: Path) -> Callable[[], T]:
    """A function that gives the content of a YAML file, read on its first call."""
    return cache(lambda: checked(kind, yaml.load(path.read_text("utf-8"), _Loader)))


def checked(kind: type[T], content: object) -> T:
    """The content of a table as ``kind``; raises pydantic's ValidationError, which names places."""
    from pydantic import TypeAdapter  # with the first table, so that imports stay fast

    return TypeAdapter(kind).validate_python(content)
