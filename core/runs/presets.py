"""Preset specs (the files of ``docs/``, the paper's comparison among them), and TOML."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from core import config as settings
from core import parsing
from core.errors import DataError, SpecError
from core.runs.experiment import EXPERIMENTS

DEMO = "demo"
FIRST = {
    "paper-corrected": "Paper, corrected",
    "paper-published": "Paper, as published",
    DEMO: "Five-minute demo",
}
"""The presets that are listed first, with their titles."""
_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Preset:
    """A preset spec: a name that is safe in a URL, a title and its TOML."""

    name: str
    title: str
    text: str


def kinds() -> list[dict[str, Any]]:
    """The kinds of run: ``name``, ``title``, and ``answers``: its runs have answers to review."""
    built = [EXPERIMENTS.build(name) for name in EXPERIMENTS.names()]
    return [{"name": k.name, "title": k.title, "answers": "answers" in k.schemas} for k in built]


def presets() -> list[Preset]:
    """All presets, the files of ``docs/``: the paper's two, the demo, then the others by name."""
    files = {path.stem: path for path in sorted((settings.ROOT / "docs").glob("*.toml"))}
    titles = {name: f"docs/{name}.toml" for name in files} | FIRST
    order = dict.fromkeys((*FIRST, *files))
    return [Preset(n, titles[n], files[n].read_text(encoding="utf-8")) for n in order if n in files]


def read_toml(text: str) -> dict[str, Any]:
    """A spec's TOML as a mapping, fields unchecked; raises SpecError."""
    try:
        return parsing.read_toml(text, "the spec")
    except DataError as error:
        raise SpecError(str(error)) from None


def write_toml(table: Mapping[str, Any]) -> str:
    """A spec as TOML, a field a line: :func:`read_toml` gives the same mapping.

    Raises SpecError for a value that a spec cannot hold.
    """
    return "".join(f"{_key(name)} = {value_toml(value)}\n" for name, value in table.items())


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name)


def value_toml(value: Any) -> str:
    """A value of a spec as TOML; raises SpecError."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # TOML's basic strings are JSON's, but for DEL, which TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        inside = cast("Mapping[str, Any]", value)
        fields = ", ".join(f"{_key(k)} = {value_toml(v)}" for k, v in inside.items())
        return f"{{ {fields} }}" if fields else "{}"
    if isinstance(value, list | tuple):
        items = [value_toml(one) for one in cast("Sequence[Any]", value)]
        line = f"[{', '.join(items)}]"
        return line if len(line) < 80 else "[\n" + "".join(f"    {i},\n" for i in items) + "]"
    raise SpecError(f"a spec cannot hold {type(value).__name__}")
