"""Tables as hospitals export them: what each says is read, and what was decided is stated."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midchart.core.cohorts.files import LoadLog
from midchart.core.cohorts.tables import read_table
from midchart.core.errors import DataError
from midchart.core.loaders.open import open_cohort
from midchart.core.types import Cohort

PERSON = "person_id,gender_concept_id,year_of_birth\n1,8532,1951\n2,8507,1988\n"
NOTE = "note_id,person_id,note_date,note_title,note_text\n"
MEASURED = "measurement_id,person_id,measurement_concept_id,measurement_date,value_as_number\n"


def omop(folder: Path, **tables: str | bytes) -> Cohort:
    for name, content in ({"person": PERSON} | tables).items():
        file = folder / f"{name}.csv"
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return open_cohort(folder)


def texts(cohort: Cohort) -> dict[str, list[str]]:
    return {id: [e.text for e in cohort.records[id].events] for id in cohort.records}


# OMOP.


@pytest.mark.parametrize("encoding", ["gb18030", "cp1251", "shift_jis", "cp850"])
def test_a_table_of_another_encoding_is_named_and_never_misread(
    tmp_path: Path, encoding: str
) -> None:
    text = {"gb18030": "患者发热两天", "cp1251": "Лихорадка два дня", "shift_jis": "発熱がある"}
    note = (NOTE + f"1,1,2021-05-01,Ward,{text.get(encoding, 'Fièvre élevée à 39')}\n").encode(
        encoding
    )
    cohort = omop(tmp_path, note=note, measurement=MEASURED + "1,1,3,2021-05-01,5.9\n")
    assert texts(cohort)["1"] == ["5.9"]
    (skip,) = cohort.skipped
    assert skip.file == "note.csv" and "save it as UTF-8" in skip.reason


# Plain notes.


def test_a_table_of_one_column_is_read(tmp_path: Path) -> None:
    (tmp_path / "one.tsv").write_text('question\n"a; b, c"\nd\n')
    rows = read_table(tmp_path / "one.tsv", "one.tsv", ("question",), LoadLog())
    assert [row.get("question") for row in rows] == ["a; b, c", "d"]


def test_a_packed_table_that_is_damaged_is_named(tmp_path: Path) -> None:
    packed = gzip.compress(b"patient_id,text\n1,a\n")
    (tmp_path / "n.csv.gz").write_bytes(packed[:-9])
    with pytest.raises(DataError, match="damaged or no gzip file"):
        read_table(tmp_path / "n.csv.gz", "n.csv.gz", (), LoadLog())


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
    read = [list(row.cells.values()) for row in read_table(file, "t.csv", ("id", "text"), log, ",")]
    expected = [row for row in rows if any(cell.strip() for cell in row)]
    apostrophes = any(cell.startswith("'") for row in rows for cell in row)
    assert len(read) == len(expected) and not log.skipped
    assert apostrophes or read == expected
    assert log.accounts["t.csv", "rows"].unaccounted == 0
