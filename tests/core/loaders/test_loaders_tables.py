"""Tables with unclosed quotes: the damaged rows are named, the others load."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midchart.core.cohorts.files import LoadLog
from midchart.core.cohorts.tables import parse_rows, read_table
from midchart.core.storage.sources import Source

HEAD = "patient_id,time,text\n"


def read(folder: Path, body: str) -> tuple[dict[int, str], dict[int | None, str], list[str]]:
    path = folder / "notes.csv"
    path.write_bytes((HEAD + body).encode())
    log = LoadLog()
    rows = read_table(Source.at(path), ("patient_id", "text"), log)
    rows_by_line = {row.line: f"{row.get('patient_id')}: {row.cells['text']}" for row in rows}
    return rows_by_line, {s.line: s.reason for s in log.skipped}, log.warnings


def test_rows_inside_an_unclosed_quote_are_left_out_if_they_may_be_prose(tmp_path: Path):
    body = '1,2020-01-01,A\n2,2020-01-01,"Felt ill,\nwith fever, cough, chills\n\n3,2020-01-01,C\n'
    rows_by_line, skipped, _ = read(tmp_path, body)
    assert rows_by_line == {2: "1: A"}
    assert list(skipped) == [3] and "with 3 lines after it" in skipped[3]


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_file_that_ends_inside_quotes_keeps_its_other_rows(tmp_path: Path, end: str):
    rows_by_line, skipped, _ = read(tmp_path, f'1,,"A"\n2,,"cut off{end}')
    assert rows_by_line == {2: "1: A"} and list(skipped) == [3]
    rows_by_line, skipped, _ = read(tmp_path, f'1,,A\n"{end}')
    assert rows_by_line == {2: "1: A"} and list(skipped) == [3]
    rows_by_line, skipped, _ = read(tmp_path, f'1,,A\n2,,"whole"{end}')
    assert rows_by_line == {2: "1: A", 3: "2: whole"} and skipped == {}


def test_an_open_quote_that_the_next_row_closes(tmp_path: Path):
    rows_by_line, skipped, _ = read(tmp_path, '1,,"A\n2,,"B"\n3,,"C\nD"\n')
    assert rows_by_line == {3: "2: B", 4: "3: C\nD"} and list(skipped) == [2]
    rows_by_line, skipped, _ = read(tmp_path, '1,,"A\n2,,"B\n3,,"C\nD"\n')
    assert rows_by_line == {4: "3: C\nD"} and list(skipped) == [2], "no patient gets another's text"


@settings(max_examples=150, deadline=None)
@given(st.lists(st.text('a,"\n ', max_size=9), max_size=6))
def test_every_line_is_in_one_row_in_order(pieces: list[str]):
    lines = "\n".join(pieces).splitlines(keepends=True)
    at = 0
    for row in parse_rows(lines, ",", 0, 2):
        assert row.first == at + 1 <= row.last
        at = row.last
    assert at == len(lines)
