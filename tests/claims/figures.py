"""Writes the figures of README and guide from stored results: ``python -m tests.claims.figures``.

A figure is followed by a comment with its source, ``69.2 %<!--{search[values][share]:.1%}-->``, a
replacement field of :class:`string.Formatter`. The rows of a table are written where a comment
above it has a template of one row: ``<!--rows of judges: | {judge} | {kappa:.2f} |-->``.
"""

from __future__ import annotations

import csv
import json
import re
import string
from collections.abc import Iterable, Mapping
from typing import Any

from midchart.core.judges.agreement import ALL, card
from tests.support.run_helpers import ROOT

DOCUMENTS = ("README.md", "docs/guide.md")
MEASURED = ROOT / "docs" / "measured.json"
FIGURE = re.compile(r"(?:\.?\d[\d.,]*(?: %)?)?<!--(\{[^{}]*\})-->")
ROWS = re.compile(r"(<!--rows of (\w+): (.*?)-->\n(?:\|.*\n){2})((?:\|.*\n)*)")


class Figures(string.Formatter):
    """Numbers as the documents have them: "0.9 %", ".58", "2,196"."""

    def format_field(self, value: Any, format_spec: str) -> str:
        number = float(value) if format_spec and isinstance(value, str) else value
        text = format(number, format_spec)
        return text.replace("%", " %") if text.endswith("%") else re.sub(r"^0\.", ".", text)


def stored() -> dict[str, Any]:
    """Results by name: those of docs/measured.json, of the judges' card, of the included cohorts,
    and each table of data/published by its first column."""
    results: dict[str, Any] = {}
    for path in (ROOT / "data" / "published").glob("*.csv"):
        with path.open(encoding="utf-8", newline="") as file:
            results[path.stem] = {next(iter(row.values())): row for row in csv.DictReader(file)}
    results["judges"] = {row["judge"]: row for row in card()["agreement"] if row["kind"] == ALL}
    results["statements"] = card()["model"]
    results["demos"] = json.loads((ROOT / "data" / "demo" / "demos.json").read_text("utf-8"))
    return results | json.loads(MEASURED.read_text("utf-8"))


def rendered(text: str, results: Mapping[str, Any]) -> str:
    """A document with each figure, and each row of a table with a template, as stored; raises
    KeyError for a source that is not among the results."""
    write = Figures().vformat

    def rows(match: re.Match[str]) -> str:
        above, name, row, _ = match.groups()
        result = results[name]
        lines: Iterable[Any] = result["rows"] if "rows" in result else result.values()
        return above + "".join(write(row, (), line) + "\n" for line in lines)

    text = FIGURE.sub(lambda match: write(match[1], (), results) + f"<!--{match[1]}-->", text)
    return ROWS.sub(rows, text)


if __name__ == "__main__":
    for document in DOCUMENTS:
        place = ROOT / document
        place.write_text(rendered(place.read_text("utf-8"), stored()), "utf-8")
