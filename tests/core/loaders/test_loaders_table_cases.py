"""Tables as hospitals export them: what each says is read, and what was decided is stated."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midchart.core.cohorts.files import LoadLog
from midchart.core.cohorts.tables import read_table
from midchart.core.storage.sources import Source

CELL = st.text("ab,;\t\"'é\n \\|.0", max_size=10)


@settings(max_examples=300, deadline=None)
@given(
    rows=st.lists(st.lists(CELL, min_size=3, max_size=3), min_size=1, max_size=6),
    delimiter=st.sampled_from(",;\t|"),
    encoding=st.sampled_from(("utf-8", "utf-8-sig", "utf-16")),
)
def test_no_row_of_a_well_quoted_table_is_lost_or_changed(
    rows: list[list[str]], delimiter: str, encoding: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Every cell is quoted, so that no other reading of the table is right."""
    written = io.StringIO()
    writer = csv.writer(written, delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows([["id", "time", "text"], *rows])
    file = tmp_path_factory.mktemp("t") / "t.csv"
    file.write_bytes(written.getvalue().encode(encoding))
    log = LoadLog()
    read = [[*row.cells.values()] for row in read_table(Source.at(file), ("id", "text"), log)]
    expected = [row for row in rows if any(cell.strip() for cell in row)]
    apostrophes = any(cell.startswith("'") for row in rows for cell in row)
    assert len(read) == len(expected) and not log.skipped
    assert apostrophes or read == expected
    assert log.accounts["t.csv", "rows"].unaccounted == 0
