"""Which files people reach through the interface: role × object, decided in this one place.

The account that runs the program may name any path. People who sign in name what the installation
knows (cohorts, runs, checkpoints, received files) by its name, or by the path that the interface
gave for it; anything else is refused in one sentence, before a file is looked at, so that the
refusal is the same whether or not there is such a file.

Every parameter of every function of the interface has a kind below. One without a kind is refused
to people who sign in, so a new function is closed until somebody says what it takes; so is a
folder or file in a spec's field that is not marked in its model
(:data:`midchart.core.options.FORMAT`).
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass, replace
from functools import cache
from pathlib import Path, PurePath
from typing import Any, cast

from midchart.core import config as settings
from midchart.core.errors import MidchartError, NotPermitted
from midchart.core.identity import by_name_alone, person, without_places
from midchart.core.named_files import ELSEWHERE, name_of
from midchart.core.options import CHECKPOINT, COHORT, FORMAT, RECEIVED, WORDS
from midchart.core.types import Cohort

RUN, SPEC, ENTRIES, OPTIONS, UPLOADS, PATH, VALUE = (
    "run", "spec", "entries", "options", "uploads", "path", "value"
)  # fmt: skip
KINDS: Mapping[str, str] = {
    COHORT: "data cohort",
    RUN: "run runs baseline published corrected others",
    SPEC: "spec source",
    ENTRIES: "arms judges reader changes",
    OPTIONS: "ask.options",
    RECEIVED: "path import_run.file",
    UPLOADS: "files",
    PATH: "file folder html out",
    VALUE: """
        again allowed answer arm bin bins budget_usd by card cards cell cells cluster comment
        content control count cutoff documented events_per_patient family field first folds gold
        hosts id index instruction instruction_id judge k key kind label least_score lines locator
        make most name new_questions number on outcome part patients plus position progress protocol
        question questions queued reading readings reason record record_id resamples reviewer
        rows_only sample_format score second seconds seed selection sentence_id snippets spans
        stratum table tables task text to validate validation value with_text
        ask.reader answer_cells.reader disagreements.reader
        download.file open_examples.folder outcomes.reader paper_runs.reader remove_cohort.runs
        scores.arms wrong_in_the_middle.arms wrong_in_the_middle.reader""",
}
"""Kind → parameters of the interface, where needed with their function: cohorts, runs, specs, lists
of arms, readers and judges, options of a reader, received files, uploads,
other paths, and values that no function opens. A person who signs in may leave out a path and never
name one."""
_KIND_OF = {name: kind for kind, names in KINDS.items() for name in names.split()}
PATHS = {
    "cohorts": "path", "check": "path", "import_cohort": "path", "status": "data",
    "import_run": "data", "open_shipped": "data", "other_runs": "data",
    "question_set_spec": "data", "replication_specs": "data", "step_specs": "data",
    "audit_lines": "folder",
}  # fmt: skip
"""Functions of the interface whose result, or tables in it, have the path of a cohort, and its
field. An opened cohort has its path, by which other functions take it; nobody is shown it."""
PLACES = {
    "audit_lines": "file", "export_run": "file", "export_to": "folder", "import_results": "folder",
    "import_run": "folder", "make_gate": "folder",
    "open_shipped": "folder",
}  # fmt: skip
"""The same of other files and folders."""
TEXT = ("preflight",)
"""Functions that take a spec's text in TOML where others take its file's path."""
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


def kind_of(function: str, parameter: str) -> str:
    """The kind of a parameter of a function of the interface; "" where nobody has stated one."""
    return _KIND_OF.get(f"{function}.{parameter}") or _KIND_OF.get(parameter, "")


def listed_path(cohort: Cohort) -> str:
    """The path of a cohort as lists of cohorts and runs give it to who acts."""
    return name_of(cohort.path) if by_name_alone() else cohort.path


def without_paths(name: str, result: Any) -> Any:
    """The result of a function for a person who signed in: paths as names."""
    if name in PATHS:
        result = _with_names(result, PATHS[name], name_of)
    return _with_names(result, PLACES[name], without_places) if name in PLACES else result


def _with_names(value: Any, field: str, named: Callable[[str], str]) -> Any:
    if isinstance(value, list):
        return [_with_names(one, field, named) for one in cast("list[Any]", value)]
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field: named(getattr(value, field))})
    if not isinstance(value, Mapping):
        return value
    table = cast("Mapping[str, Any]", value)
    if isinstance(table.get(field), str):
        return {**table, field: named(table[field])}
    return {key: _with_names(one, field, named) for key, one in table.items()}


def known_arguments(
    name: str, function: Callable[..., Any], arguments: Sequence[Any], named: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call by a person who signed in, names of objects as their paths.

    Raises NotPermitted where one of them is no object of this installation.
    """
    signature = inspect.signature(function)
    try:
        bound = signature.bind_partial(*arguments, **named)
    except TypeError:  # the call itself says what is wrong with it, having looked at nothing
        return tuple(arguments), dict(named)
    objects = _Objects(name)
    for parameter, value in bound.arguments.items():
        kind = kind_of(name, parameter)
        check = getattr(objects, kind.replace(" ", "_"), None)
        if check is None:
            raise objects.refusal()
        bound.arguments[parameter] = check(value)
    return bound.args, bound.kwargs


class _Objects:
    """Checks of one call: each gives the argument as the function is to have it, a name as a path,
    or raises NotPermitted. Only entries of the installation's own folders are looked at."""

    def __init__(self, function: str) -> None:
        self.message = f"{function.replace('_', ' ')} {REFUSED}"
        self.takes_text = function in TEXT

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
        from midchart.core.results.reviews import data_of_runs
        from midchart.core.runs.experiment import MADE

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
            return {name: self.run(one) for name, one in cast("Mapping[str, Any]", value).items()}
        if not isinstance(value, str | os.PathLike):
            return [self.run(one) for one in value]
        run = self._text(value)
        if PurePath(run).is_absolute() or _entry(settings.runs_folder(), run) is None:
            raise self.refusal()
        return run

    def spec(self, value: Any) -> Any:
        """A spec as a table or, as TOML, as text; not its file."""
        from midchart.core.runs.spec import read_toml

        if isinstance(value, str) and self.takes_text:
            if value.strip() and not {"=", "\n"} & set(value):
                raise self.refusal()  # a path, which no text of a spec looks like
            try:
                value = read_toml(value)
            except MidchartError:
                return value  # the function itself says what is wrong with the text
        if not isinstance(value, Mapping):
            raise self.refusal()
        table = cast("Mapping[str, Any]", value)
        return self._table(_schema(), _schema()["$defs"].get(str(table.get("kind"))), table)

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

    def received_file(self, value: Any) -> Any:
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
        text = os.fspath(cast("str | os.PathLike[Any]", value))
        if not isinstance(text, str) or "\0" in text:
            raise self.refusal()
        return text

    def _checked(self, schema: Mapping[str, Any], node: Any, value: Any) -> Any:
        """A value of a spec, held to its node of the JSON schema."""
        if isinstance(value, os.PathLike):
            raise self.refusal()
        if isinstance(value, str):
            formats = {str(one[FORMAT]) for one in _forms(schema, node) if FORMAT in one}
            for kind in sorted(formats & {COHORT, RECEIVED, CHECKPOINT}):
                place = getattr(self, kind.replace(" ", "_"))(value)
                return place if kind == COHORT else name_of(place)
            if WORDS not in formats and _PLACE.search(value):
                raise self.refusal()
            return value
        if isinstance(value, Mapping):
            return self._table(schema, node, cast("Mapping[str, Any]", value))
        if isinstance(value, list | tuple):
            values = cast("Sequence[Any]", value)
            forms = list(_forms(schema, node))
            items = [one["items"] for one in forms if "items" in one]
            node = {"anyOf": items} if items else node
            return [self._checked(schema, node, one) for one in values]
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
    from midchart.core.runs.spec import spec_schema

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
