"""Which files people who sign in reach through the interface: role × object, in this one place.

They name what the installation knows (cohorts, runs, checkpoints, received files) by its name, or
by the path that the interface gave for it; anything else is refused in one sentence, before a file
is looked at, so that the refusal is the same whether or not there is such a file. What an argument
names is said by its type (:mod:`midchart.core.access`); a folder or file in a spec's field that is
not marked in its model (:data:`midchart.core.options.FORMAT`) is refused.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass, replace
from functools import cache
from pathlib import Path, PurePath
from typing import Any, get_args, get_type_hints

from midchart.core import config as settings
from midchart.core.access import Names, needs
from midchart.core.errors import MidchartError, NotPermitted
from midchart.core.identity import person
from midchart.core.named_files import ELSEWHERE, name_of
from midchart.core.options import CHECKPOINT, COHORT, FORMAT, RECEIVED, WORDS
from midchart.core.results.reviews import data_of_runs
from midchart.core.runs.experiment import MADE
from midchart.core.runs.spec import read_toml, spec_schema
from midchart.core.types import Cohort

RECEIVED_ROLE = "researcher"
"""The role that may have a received file read: it is not checked as a cohort is."""
REFUSED = (
    "needs a cohort, run, checkpoint or received file that this installation knows, by its name; "
    "other files and folders are for the command line of its account"
)
_PLACE = re.compile(
    r"^\s*(?:file:|~|/|\\|\.{1,2}(?:[/\\]|$)|[A-Za-z]:\\)|(?:^|[/\\])\.\.(?:[/\\]|$)"
)
"""What a path that leads out of a folder looks like."""


def call(function: Callable[..., Any], arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """The result of a function for a person who signed in: arguments checked, paths as names.

    Raises NotPermitted where an argument is no object of this installation.
    """
    signature = inspect.signature(function)
    try:
        bound = signature.bind_partial(*arguments, **named)
    except TypeError:  # the call itself says what is wrong with it, having looked at nothing
        return function(*arguments, **named)
    check = _Check(function.__name__)
    kinds = kinds_of(function)
    for parameter, value in bound.arguments.items():
        if signature.parameters[parameter].kind is inspect.Parameter.VAR_KEYWORD:
            checked: Any = {name: check.value(one) for name, one in value.items()}
        else:
            checked = check.of_kind(kinds[parameter], value)
        bound.arguments[parameter] = checked
    result = function(*bound.args, **bound.kwargs)
    for field in getattr(function, "path_fields", ()):
        result = _with_names(result, field)
    return result


@cache
def kinds_of(function: Callable[..., Any]) -> dict[str, Names | None]:
    """What each parameter of a function names, by its type; None for a value, which names nothing.

    A path that is not typed as what it names is one of the caller's choice.
    """
    hints = get_type_hints(function, include_extras=True)
    return {name: _kind(hints.get(name, Path)) for name in inspect.signature(function).parameters}


def _kind(hint: Any) -> Names | None:
    if hint is Cohort:
        return Names.COHORT
    if isinstance(hint, type) and issubclass(hint, os.PathLike):
        return Names.PATH
    for mark in getattr(hint, "__metadata__", ()):
        if isinstance(mark, Names):
            return mark
    return next(filter(None, map(_kind, get_args(hint))), None)


def _with_names(value: Any, field: str) -> Any:
    if isinstance(value, list):
        return [_with_names(one, field) for one in value]
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field: name_of(getattr(value, field))})
    if not isinstance(value, Mapping):
        return value
    if isinstance(value.get(field), str):
        return {**value, field: name_of(value[field])}
    return {key: _with_names(one, field) for key, one in value.items()}


class _Check:
    """Checks of one call: each gives the argument as the function is to have it, a name as a path,
    or raises NotPermitted. Only entries of the installation's own folders are looked at."""

    def __init__(self, function: str) -> None:
        self.message = f"{function.replace('_', ' ')} {REFUSED}"

    def of_kind(self, kind: Names | None, value: Any) -> Any:
        """An argument that names an object of this kind."""
        checks = {
            None: self.value,
            Names.COHORT: self.cohort,
            Names.RUN: self.run,
            Names.SPEC: self.spec,
            Names.SPEC_TEXT: self.spec_text,
            Names.ENTRIES: self.entries,
            Names.OPTIONS: self.options,
            Names.RECEIVED: self.received,
            Names.UPLOADS: self.uploads,
            Names.PATH: self.path,
        }
        return checks[kind](value)

    def refusal(self) -> NotPermitted:
        """The one refusal, which says nothing of the object."""
        return NotPermitted(self.message)

    def value(self, value: Any) -> Any:
        """A value, which is no path."""
        if isinstance(value, os.PathLike):
            raise self.refusal()
        return value

    def path(self, value: Any) -> None:
        """A path of the person's choice: none."""
        if value is not None:
            raise self.refusal()

    def cohort(self, value: Any) -> Any:
        """A cohort by name or path, an opened one, or None."""
        opened = getattr(value, "path", None)
        if value is None or opened == MADE:
            return value
        if opened is not None and not isinstance(value, PurePath):
            self.cohort(opened)
            return value
        written = self._text(value)
        place = _entry(settings.cohorts_folder(), written, "data/cohorts/")
        if place is not None:
            return str(place)
        if Path(written).is_absolute() or written.startswith(f"{ELSEWHERE}/"):
            for path in data_of_runs():
                if Path(path).is_absolute() and written in (path, name_of(path)):
                    inside = Path(path).is_relative_to(settings.cohorts_folder().resolve())
                    if not inside and os.path.realpath(path) == path:
                        return path
        raise self.refusal()

    def run(self, value: Any) -> Any:
        """A run by id, or several, or None."""
        if value is None:
            return None
        if isinstance(value, Mapping):
            return {name: self.run(one) for name, one in value.items()}
        if not isinstance(value, str | os.PathLike):
            return [self.run(one) for one in value]
        run = self._text(value)
        if PurePath(run).is_absolute() or _entry(settings.runs_folder(), run) is None:
            raise self.refusal()
        return run

    def spec(self, value: Any) -> Any:
        """A spec as a table; not its file."""
        if not isinstance(value, Mapping):
            raise self.refusal()
        return self._table(_schema(), _schema()["$defs"].get(str(value.get("kind"))), value)

    def spec_text(self, value: Any) -> Any:
        """A spec as a table or as text in TOML; not its file."""
        if not isinstance(value, str):
            return self.spec(value)
        if value.strip() and not {"=", "\n"} & set(value):
            raise self.refusal()  # a path, which no text of a spec looks like
        try:
            return self.spec(read_toml(value))
        except NotPermitted:
            raise
        except MidchartError:
            return value  # the function itself says what is wrong with the text

    def entries(self, value: Any) -> Any:
        """Arms, readers or judges of a spec, or several fields of it."""
        forms = {name: {"$ref": f"#/$defs/{name}"} for name in ("arms", "readers", "judges")}
        several = {name: {"items": form} for name, form in forms.items()}
        fields = {"properties": {**several, "reader": forms["readers"]}}
        return self._checked(_schema(), {"anyOf": [*forms.values(), fields]}, value)

    def options(self, value: Any) -> Any:
        """A reader's options, whichever reader."""
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.refusal()
        return self._checked(_schema(), {"$ref": "#/$defs/readers"}, value)

    def received(self, value: Any) -> Any:
        """A file or folder that the owner has placed in the folder of received files."""
        if not value:
            return value
        place = _received(self._text(value))
        if place is None or not person().may(RECEIVED_ROLE):
            raise self.refusal()
        if any(one.is_symlink() for one in place.rglob("*")):
            raise self.refusal()
        return str(place)

    def checkpoint(self, value: Any) -> Any:
        """A trained gate or a calibration of this installation."""
        if not value:
            return value
        text = self._text(value)
        for folder in (settings.gates_folder(), settings.calibrations_folder()):
            for name in (text, f"{text}.json"):
                place = _entry(folder, name, f"cache/{folder.name}/")
                if place is not None:
                    return str(place)
        raise self.refusal()

    def uploads(self, value: Any) -> Any:
        """Files that a browser sent, by name: open ones, no paths."""
        if isinstance(value, str | os.PathLike):
            raise self.refusal()
        files = list(value)
        if any(isinstance(source, str | os.PathLike) for _, source in files):
            raise self.refusal()
        return files

    def _text(self, value: Any) -> str:
        if not isinstance(value, str | os.PathLike):
            raise self.refusal()
        text = os.fspath(value)
        if not isinstance(text, str) or "\0" in text:
            raise self.refusal()
        return text

    def _checked(self, schema: Mapping[str, Any], node: Any, value: Any) -> Any:
        """A value of a spec, held to its node of the JSON schema."""
        if isinstance(value, os.PathLike):
            raise self.refusal()
        if isinstance(value, str):
            formats = {str(one[FORMAT]) for one in _forms(schema, node) if FORMAT in one}
            if COHORT in formats:
                return self.cohort(value)
            if RECEIVED in formats or CHECKPOINT in formats:
                check = self.checkpoint if CHECKPOINT in formats else self.received
                return name_of(check(value))
            if WORDS not in formats and _PLACE.search(value):
                raise self.refusal()
            return value
        if isinstance(value, Mapping):
            return self._table(schema, node, value)
        if isinstance(value, list | tuple):
            forms = list(_forms(schema, node))
            items = [one["items"] for one in forms if "items" in one]
            node = {"anyOf": items} if items else node
            return [self._checked(schema, node, one) for one in value]
        return value

    def _table(self, schema: Mapping[str, Any], node: Any, table: Mapping[str, Any]) -> Any:
        """A table of a spec; of a component's, the schema is that of its name."""
        forms = [one["properties"] for one in _forms(schema, node) if "properties" in one]
        named = [one for one in forms if one.get("name", {}).get("const") == table.get("name")]
        fields: dict[str, list[Any]] = {}
        for one in named or forms:
            for field, of_field in one.items():
                fields.setdefault(field, []).append(of_field)
        if "reader" in fields:  # an arm's reader: a name, or a table as in the list of readers
            fields["reader"] = [{"$ref": "#/$defs/readers"}]
        return {
            field: self._checked(schema, {"anyOf": fields.get(field, [])}, value)
            for field, value in table.items()
        }


@needs("researcher")
def received_files() -> list[str]:
    """Names of the received files and folders, which an audit may read (``data/logs``); of a
    cohort's own folder there, those of its files, as ``COHORT/FILE``."""
    folder = settings.received_folder()
    names: list[str] = []
    for path in folder.iterdir() if folder.is_dir() else ():
        of_cohort = path.is_dir() and _entry(settings.cohorts_folder(), path.name) is not None
        inside = [f"{path.name}/{one.name}" for one in path.iterdir()] if of_cohort else []
        names += inside if of_cohort else [path.name]
    return sorted(name for name in names if _received(name) is not None)


def _received(written: str) -> Path | None:
    """The received file or folder that a text names, also one in a cohort's folder of them."""
    folder = settings.received_folder()
    for prefix in ("data/logs/", f"{folder}/", f"{folder.resolve()}/"):
        if written.startswith(prefix):
            written = written.removeprefix(prefix)
            break
    head, inside, tail = written.partition("/")
    place = _entry(folder, head)
    if not inside or place is None:
        return place
    return _entry(place, tail) if place.is_dir() else None


@cache
def _schema() -> dict[str, Any]:
    return spec_schema()


def _forms(schema: Mapping[str, Any], node: Any) -> Iterator[Mapping[str, Any]]:
    """The forms that a value of a node may have, references followed."""
    if node is None:
        return
    if "$ref" in node:
        yield from _forms(schema, schema["$defs"][node["$ref"].rpartition("/")[2]])
    elif "anyOf" in node:
        for one in node["anyOf"]:
            yield from _forms(schema, one)
    else:
        yield node


def _entry(folder: Path, written: str, *prefixes: str) -> Path | None:
    """The entry of a folder that a text names, by itself or by its path; None where it is none.

    A link is no entry, nor is anything below one. Nothing outside of the folder is looked at.
    """
    for prefix in (*prefixes, f"{folder}/", f"{folder.resolve()}/"):
        if written.startswith(prefix):
            written = written.removeprefix(prefix)
            break
    if not written or written.startswith(".") or set(written) & set("/\\\0~"):
        return None
    place = folder.resolve() / written
    try:
        return None if place.is_symlink() or not place.exists() else place
    except (OSError, ValueError):  # a name that no folder can hold
        return None
