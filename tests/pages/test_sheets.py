"""CSV output: every column of every row, and no live spreadsheet formula."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pandas as pd
import pytest

from midchart.core.format import FORMULA_STARTS
from midchart.core.results.report import write_tables
from midchart.pages.ui.shared import tables

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("start", FORMULA_STARTS)
def test_no_exit_writes_a_live_formula(tmp_path, start):
    text = f"{start}cmd|' /C calc'!A0"
    rows = [{"answer": text, start + "name": -1}]
    (path,) = write_tables({"t": rows}, tmp_path)
    with path.open(encoding="utf-8", newline="") as file:
        by_command = list(csv.reader(file))
    page = tables.csv_bytes(pd.DataFrame(rows)).decode()
    by_page = list(csv.reader(io.StringIO(page, newline="")))
    assert by_command == by_page == [["answer", "'" + start + "name"], ["'" + text, "-1"]]


def test_every_module_that_writes_csv_makes_its_cells_inert():
    modules = [*(ROOT / "core").rglob("*.py"), *(ROOT / "pages").rglob("*.py")]
    texts = {file.relative_to(ROOT).as_posix(): file.read_text("utf-8") for file in modules}
    writing = {name for name, text in texts.items() if "csv.writer(" in text or ".to_csv(" in text}
    assert {"core/format.py", "pages/ui/shared/tables.py"} < writing
    assert all("sheet_cell(" in texts[x] or ".sheet_cell)" in texts[x] for x in writing)
