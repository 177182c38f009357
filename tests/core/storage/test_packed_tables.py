"""Tables that hold a text once and have it in many rows: what is refused, and what is read."""

import re
import zipfile
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as arrow
import pytest
from pyarrow import parquet

from midchart.core.errors import DataError
from midchart.core.loaders.check import check_cohort
from midchart.core.loaders.open import open_cohort
from midchart.extras.audit.samples.files import parquet_rows

ROWS = 2_000
TOO_MUCH = r"unpacks to over \d+ MB, as no text of records of its size — write it again without"
SHORT, LONG = "patient has a cough. ", "patient has a cough. " * 500
"""Texts that are 42 KB and 21 MB in all rows."""


def repeated(text: str) -> arrow.Array:
    return arrow.array([text] * ROWS)


def write(file: Path, columns: dict[str, Any], **how: Any) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(arrow.table(columns), file, compression="zstd", **how)
    return file


def meds(folder: Path, text: str, **how: Any) -> Path:
    times = arrow.array([datetime(2020, 1, 1)] * ROWS, arrow.timestamp("us"))
    events = {"subject_id": [1] * ROWS, "time": times, "code": ["NOTE"] * ROWS}
    write(folder / "data/0.parquet", events | {"text_value": repeated(text)}, **how)
    return folder


def omop(folder: Path, text: str) -> Path:
    write(folder / "person.parquet", {"person_id": [1], "year_of_birth": [1950]})
    dated = {"note_id": range(ROWS), "person_id": [1] * ROWS, "note_date": ["2020-01-01"] * ROWS}
    write(folder / "note.parquet", dated | {"note_text": repeated(text)})
    return folder


def omop_zip(folder: Path, text: str) -> Path:
    omop(folder, text)
    with zipfile.ZipFile(folder.with_suffix(".zip"), "w", zipfile.ZIP_DEFLATED) as archive:
        for file in folder.iterdir():
            archive.write(file, file.name)
    return folder.with_suffix(".zip")


@pytest.mark.parametrize("how", [{}, {"column_encoding": {"text_value": "DELTA_BYTE_ARRAY"}}])
def test_events_of_one_text_in_many_rows_are_refused(tmp_path, how) -> None:
    how = how | {"use_dictionary": not how}
    checked = check_cohort(open_cohort(str(meds(tmp_path / "short", SHORT, **how))))
    assert (checked["records"], checked["events"]) == (1, ROWS)
    place = meds(tmp_path / "long", LONG, **how)
    with pytest.raises(DataError, match=f"^data: {TOO_MUCH}") as refused:
        check_cohort(open_cohort(str(place)))
    assert "\n" not in str(refused.value) and "cough" not in str(refused.value)


@pytest.mark.parametrize("container", [omop, omop_zip])
def test_a_table_of_one_text_in_many_rows_is_left_out(tmp_path, container) -> None:
    short = open_cohort(str(container(tmp_path / "short", SHORT)))
    assert len(short.records["1"].events) == ROWS
    place = container(tmp_path / "long", LONG)
    cohort = open_cohort(str(place))
    assert [re.search(TOO_MUCH, skip.reason) is not None for skip in cohort.skipped] == [True]
    assert not [entry for entry in cohort.records["1"].events if "cough" in entry.text]


def test_columns_of_lists_are_no_part_of_a_table(tmp_path) -> None:
    place = omop(tmp_path / "c", SHORT)
    note = parquet.read_table(place / "note.parquet")
    parquet.write_table(note.append_column("x", [[["a"]] * ROWS]), place / "note.parquet")
    cohort = open_cohort(str(place))
    assert "note.parquet: columns of lists or structures are not read: 1" in cohort.warnings
    assert len(cohort.records["1"].events) == ROWS
    times = arrow.array([datetime(2020, 1, 1)], arrow.timestamp("us"))
    events = {"subject_id": [1], "time": times, "code": ["NOTE"], "text_value": [["a"]]}
    write(tmp_path / "m/data/0.parquet", events)
    with pytest.raises(DataError, match="data: holds lists or structures in a column"):
        check_cohort(open_cohort(str(tmp_path / "m")))


@pytest.mark.parametrize("form", ["text", "in a list"])
def test_a_log_of_one_text_in_many_rows_is_read_to_its_limit(tmp_path, form) -> None:
    def cells(text: str) -> arrow.Array:
        return repeated(text) if form == "text" else arrow.array([[text]] * ROWS)

    for text, rows in ((SHORT, ROWS), (LONG, None)):
        troubles: list[str] = []
        file = write(tmp_path / "log.parquet", {"question": ["q"] * ROWS, "context": cells(text)})
        read = list(parquet_rows(file, "log.parquet", troubles.append))
        if rows:
            assert [len(read), troubles] == [rows, []]
            assert text in str(read[-1][1]["context"])
        else:
            assert len(read) < ROWS and re.match(f"log.parquet: {TOO_MUCH}", troubles[0])
