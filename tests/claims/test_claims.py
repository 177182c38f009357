"""Every number of README and guide is a measured figure, compared with its stored source, or a
setting that is listed once.

A measured figure cannot be changed in a document and in the list alone: its value is read from
data/published, data/demo or docs/measured.json, which has the command and the data's SHA-256 too.
"""

from __future__ import annotations

import csv
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from midchart.core.judges.agreement import card, measured
from tests.support.run_helpers import ROOT

LISTED = tomllib.loads(Path(__file__).with_name("figures.toml").read_text(encoding="utf-8"))
MEASURED = json.loads((ROOT / "docs" / "measured.json").read_text(encoding="utf-8"))
DOCUMENTS = tuple(LISTED["settings"])
NUMBER = re.compile(r"(?<![\w.,])(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?![\w.,]*\w)")
NO_PROSE = re.compile(r"```.*?```|`[^`\n]*`|\]\([^)\n]*\)|<!--.*?-->|https?://\S+", re.DOTALL)


def numbers(text: str) -> list[str]:
    """Numbers of a document's prose and tables; code, links and addresses hold none."""
    return [match.rstrip(",") for match in NUMBER.findall(NO_PROSE.sub(" ", text))]


def stored(value: dict[str, Any]) -> float:
    """The value of a figure as its source has it."""
    if "product" in value:
        share, n = (float(part.replace(",", "")) for part in value["product"])
        return share * n / 100
    if "card" in value:
        known = card()["model"]["answers_to_other_questions"][value["card"]]
        return float(known) * (100 if value.get("percent") else 1)
    if "judge" in value:
        rows = {row["kind"]: row for row in measured(value["judge"])}
        return float(rows["all"][value["column"]]) * (100 if value.get("percent") else 1)
    if "measured" in value:
        return float(MEASURED[value["measured"]]["value"])
    if "demo" in value:
        demos = json.loads((ROOT / "data" / "demo" / "demos.json").read_text(encoding="utf-8"))
        return float(demos[value["demo"]]["counts"][value["count"]])
    with (ROOT / "data" / "published" / value["csv"]).open(encoding="utf-8", newline="") as file:
        column, wanted = value["where"]
        (row,) = [row for row in csv.DictReader(file) if row[column] == wanted]
    return float(row[value["column"]])


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_number_is_a_figure_or_a_listed_setting(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    for figure in LISTED["figures"]:
        if figure["document"] == document:
            assert text.count(figure["states"]) == 1, figure["states"]
            text = text.replace(figure["states"], " ")
    unknown = sorted(set(numbers(text)) - set(LISTED["settings"][document].split()))
    assert not unknown, f"{document}: {unknown} is neither in [[figures]] nor in [settings]"


@pytest.mark.parametrize("figure", LISTED["figures"], ids=lambda figure: figure["states"][:40])
def test_a_figure_is_what_its_source_holds(figure: dict[str, Any]) -> None:
    stated = set(numbers(NO_PROSE.sub(" ", figure["states"])))
    assert stated == {value["stated"] for value in figure["values"]}, "each number has a source"
    for value in figure["values"]:
        decimals = len(value["stated"].partition(".")[2])
        unit = 1 if "product" in value else 0.5 * 10**-decimals
        assert abs(stored(value) - float(value["stated"].replace(",", ""))) <= unit, value


def test_a_measured_value_names_its_command_and_its_data() -> None:
    used = {value.get("measured") for one in LISTED["figures"] for value in one["values"]}
    assert set(MEASURED) <= used, "a value that no document states"
    for name, entry in MEASURED.items():
        assert entry.keys() == {"value", "command", "data", "sha256"}, name
        assert entry["command"].split()[0] in ("midchart", "python"), name
        assert re.fullmatch("[0-9a-f]{64}", entry["sha256"]), name


def test_a_number_is_seen_with_and_without_a_unit() -> None:
    text = "keeps 41 %, 3.7 points, .5 or 1,488 lines; `k = 20`, v2 and [9](x/7.md) are none"
    assert numbers(text) == ["41", "3.7", ".5", "1,488", "9"]
