"""README and guide: every number is a figure written from a stored result, or a listed setting."""

from __future__ import annotations

import json
import re
from dataclasses import asdict

import pytest

from midchart.core.protocol import PRESETS
from tests.claims.figures import DOCUMENTS, FIGURE, MEASURED, ROWS, rendered, stored
from tests.support.run_helpers import ROOT

TEXTS = {document: (ROOT / document).read_text("utf-8") for document in DOCUMENTS}
SETTINGS = """
.01 .05 .1 .3 .4 .45 .5 .55 .7 .9 .95 2 3 4 6 7 8 8.1 11.7 15 19 25 30 40 50 70 72 75 80 81 90
100 256 400 443 500 512 0600 0700 1000 2000 4000 8192 16000 3.11 10 % 70 % 95 % 100 %"""
"""Definitions, defaults, limits and versions, where they are no value of a protocol's preset."""
NUMBER = re.compile(r"(?<![\w.,])(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?![\w.,]*\w)(?: %)?")
NO_PROSE = re.compile(r"```.*?```|`[^`\n]*`|\]\([^)\n]*\)|<!--.*?-->|https?://\S+", re.DOTALL)
CODE_NUMBER = re.compile(r"`([\d.,]+)`")


def numbers(text: str) -> list[str]:
    """Numbers of prose and tables as ".5", "1488" or "10 %"; links, addresses and code hold none,
    unless the code is a number alone."""
    prose = NO_PROSE.sub(" ", CODE_NUMBER.sub(r"\1", text))
    return [re.sub(r"^0\.", ".", match.replace(",", "")) for match in NUMBER.findall(prose)]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_has_the_figures_that_are_stored(document: str) -> None:
    assert rendered(TEXTS[document], stored()) == TEXTS[document], "make figures writes them"


def test_every_other_number_is_a_setting() -> None:
    others = (FIGURE.sub(" ", ROWS.sub(r"\1", text)) for text in TEXTS.values())
    stated = {number for text in others for number in numbers(text)}
    presets = (value for preset in PRESETS.values() for value in asdict(preset).values())
    defaults = {re.sub(r"^0\.", ".", str(value)) for value in presets}
    settings = {*re.findall(r"\S+(?: %)?", SETTINGS)}
    assert not stated - defaults - settings, "these have no source and are not in SETTINGS"
    assert not settings - (stated - defaults), "no document has these"


def test_a_measured_result_names_its_command_and_data_and_every_value_is_used() -> None:
    results = stored()
    for name, entry in json.loads(MEASURED.read_text("utf-8")).items():
        assert entry.keys() == {"command", "data", "values", "rows"}, name
        assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in entry["data"].values())
        assert any(f"`{entry['command']}`" in text for text in TEXTS.values()), name
        for part in (entry["values"], *entry["rows"]):
            for key, value in part.items():
                part[key] = value + "x" if isinstance(value, str) else value + 1
                changed = results | {name: entry}
                texts = [rendered(text, changed) for text in TEXTS.values()]
                assert texts != [*TEXTS.values()], f"no document states {key}"
                part[key] = value


def test_a_number_is_seen_with_and_without_a_unit() -> None:
    text = "keeps 41 %, .5 or 1,488 lines of 0.2; `40`; `k = 20`, v2 and [9](x/7.md)"
    assert numbers(text) == ["41 %", ".5", "1488", ".2", "40", "9"]
