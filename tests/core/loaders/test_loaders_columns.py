"""Columns are read as all of their values say: times, numbers, ids and names of columns."""

from __future__ import annotations

from datetime import date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midchart.core.cohorts.columns import (
    are_decimal_ids,
    decide_numbers,
    decide_times,
    distinct,
    known_names,
    read_id,
)
from midchart.core.cohorts.files import LoadLog


def times(*texts: str, setting: str = "") -> tuple[list[datetime | None], list[str]]:
    log = LoadLog()
    chosen = {"m.day": setting} if setting else {}
    reading = decide_times("m.csv", "m", {"day": distinct(texts)}, chosen, log)["day"]
    return [reading.read(text) for text in texts], log.warnings


def numbers(*texts: str, setting: str = "") -> tuple[list[str], list[str]]:
    log = LoadLog()
    chosen = {"m.value": setting} if setting else {}
    reading = decide_numbers("m.csv", "m", "value", distinct(texts), chosen, log)
    return [reading.read(text) for text in texts], log.warnings


APRIL = datetime(2021, 4, 25)


def test_one_date_decides_the_order_of_its_column() -> None:
    read, statements = times("10.05.2021", "03/04/2021", "25/04/2021")
    assert read == [datetime(2021, 5, 10), datetime(2021, 4, 3), APRIL]
    assert statements == ["m.csv: day read as day first (25/04/2021 in row 3)"]
    read, statements = times("03/04/2021", "04-25-2021 8:05 PM")
    assert read == [datetime(2021, 3, 4), datetime(2021, 4, 25, 20, 5)]
    assert statements == ["m.csv: day read as month first (04-25-2021 in row 2)"]


def test_a_column_that_proves_no_order_is_undated_and_named_until_it_is_settled() -> None:
    read, (statement,) = times("03/04/2021", "05/06/2021", "04/04/2021", "2021-01-02")
    assert read == [None, None, datetime(2021, 4, 4), datetime(2021, 1, 2)]
    assert "2 dates may be day first or month first (03/04/2021 in row 1)" in statement
    assert '"m.day" = "day first" or "month first"' in statement
    assert times("03/04/2021", setting="day first")[0] == [datetime(2021, 4, 3)]
    read, statements = times("03/04/2021", setting="month first")
    assert read == [datetime(2021, 3, 4)]
    assert statements == ["m.csv: day read as month first, as midchart.toml says"]


def test_a_column_of_both_orders_reads_what_can_be_no_other_date() -> None:
    read, (statement,) = times("25/04/2021", "04/25/2021", "03/04/2021")
    assert read == [APRIL, APRIL, None]
    assert "day first in row 1, month first in row 2" in statement
    read, (statement,) = times("10.05.2021", "04/25/2021")
    assert read == [None, APRIL] and "1 dates may be" in statement


def test_dates_with_points_are_day_first() -> None:
    read, (statement,) = times("03.04.2021", "05.06.2021 14:30")
    assert read == [datetime(2021, 4, 3), datetime(2021, 6, 5, 14, 30)]
    assert "as dates with points are" in statement


def test_an_order_is_taken_from_the_other_dates_of_the_table() -> None:
    log = LoadLog()
    columns = {"start": distinct(["03/04/2021"]), "end": distinct(["25/04/2021"])}
    readings = decide_times("v.csv", "v", columns, {}, log)
    assert readings["start"].read("03/04/2021") == datetime(2021, 4, 3)
    assert "v.csv: start read as day first, as the other dates of the table" in log.warnings


@pytest.mark.parametrize(
    ("texts", "unit"),
    [
        (("1619308800", "1619308801.5"), "seconds"),
        (("1619308800000",), "milliseconds"),
        (("1619308800000000",), "microseconds"),
        (("44311", "44311.5"), "days of Excel's calendar"),
    ],
)
def test_numbers_are_times_of_one_unit(texts: tuple[str, ...], unit: str) -> None:
    read, (statement,) = times(*texts)
    assert read[0] == APRIL and None not in read
    assert f"day read as {unit}" in statement


def test_numbers_of_no_unit_are_no_times() -> None:
    read, (statement,) = times("12", "44311")
    assert read == [None, None]
    assert "2 times cannot be read, the first in row 1" in statement


@pytest.mark.parametrize(
    "text",
    [
        *("2021-04-25", "2021/4/25", "20210425", "25-Apr-2021", "25APR2021:00:00:00"),
        *("April 25, 2021", "25 April 2021", "2021-04-25T00:00:00.000+0000"),
        *("2021-04-25 00:00:00 UTC", "2021-04-25 12:00 AM", "20210425000000"),
        "2021-04-25T00:00:00+02:00",
    ],
)
def test_times_without_doubt_need_no_statement(text: str) -> None:
    assert times(text) == ([APRIL], [])


def test_times_that_cannot_be_read_are_counted_and_missing_ones_are_not() -> None:
    read, (statement,) = times("", "NULL", r"\N", "2021-04-25", "soon", "25/04/21", "soon")
    assert read == [None, None, None, APRIL, None, None, None]
    assert "3 times cannot be read, the first in row 5" in statement
    assert "soon" not in statement and "25/04/21" not in statement


@settings(max_examples=100, deadline=None)
@given(st.lists(st.dates(date(1900, 1, 1), date(2100, 1, 1)), min_size=1, max_size=8))
def test_no_date_is_read_as_another(days: list[date]) -> None:
    read, _ = times(*(f"{day:%d/%m/%Y}" for day in days))
    # A date that is not proven to be day first may be undated, and is never the wrong day unless
    # every date of the column is a date of the other order too, which then is no proof.
    proven = any(day.day > 12 for day in days)
    for day, time in zip(days, read, strict=True):
        right = time == datetime(day.year, day.month, day.day)
        assert right if proven else right or time is None


@settings(max_examples=100, deadline=None)
@given(st.lists(st.datetimes(datetime(1990, 1, 1), datetime(2060, 1, 1)), min_size=1, max_size=5))
def test_iso_and_epoch_times_are_exact(moments: list[datetime]) -> None:
    assert times(*(m.isoformat(" ") for m in moments)) == (moments, [])
    seconds = [m.replace(microsecond=0) for m in moments]
    epoch = datetime(1970, 1, 1)
    texts = [str((m - epoch) // timedelta(seconds=1)) for m in seconds]
    assert times(*texts)[0] == seconds


def test_the_decimal_mark_is_decided_by_column() -> None:
    assert numbers("1.10", "20.09414", "NULL", "12") == (["1.10", "20.09414", "", "12"], [])
    read, statements = numbers("5,9", "12", "20,09414")
    assert read == ["5.9", "12", "20.09414"]
    assert statements == ["m.csv: value read with a decimal comma (5,9 in row 1)"]
    assert numbers("5,9", "6.1")[0] == ["5.9", "6.1"]
    assert numbers("1.234,50", "1.234", "5,9")[0] == ["1234.50", "1234", "5.9"]
    read, (statement,) = numbers("1,234", "5.9")
    assert read == ["1234", "5.9"] and "commas between thousands (1,234 in row 1)" in statement
    assert numbers("1,234.50", "1,234,567")[0] == ["1234.50", "1234567"]
    assert numbers("<0,5", "1 234,5", ",5")[0] == ["<0.5", "1234.5", ".5"]


def test_a_number_that_may_be_two_stays_as_written_until_it_is_settled() -> None:
    read, (statement,) = numbers("1,234", "12")
    assert read == ["1,234", "12"]
    assert '"m.value" = "decimal comma" or "decimal point"' in statement
    assert numbers("1,234", setting="decimal comma")[0] == ["1.234"]
    assert numbers("1,234", setting="decimal point")[0] == ["1234"]
    read, statements = numbers("5,9", "1.234")
    assert read == ["5.9", "1.234"] and "1 numbers may have a point" in statements[1]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.from_regex(r"[1-9]\d{0,5},\d{1,6}", fullmatch=True), min_size=1, max_size=6))
def test_every_digit_is_kept(texts: list[str]) -> None:
    read, _ = numbers(*texts)
    for text, number in zip(texts, read, strict=True):
        assert [c for c in number if c.isdigit()] == [c for c in text if c.isdigit()]


def test_ids_are_whole_numbers_where_the_whole_column_says_so() -> None:
    assert are_decimal_ids(["1.0", "2.0", "007", "", "nan"])
    assert not are_decimal_ids(["1", "007", "123456789012345678"])
    assert not are_decimal_ids(["1.0", "1.5"]) and not are_decimal_ids(["1.0", "A1"])
    assert [read_id(id, True) for id in ("1.0", "007", "123456789012345678.0", " 2 ", "nan")] == [
        *("1", "007", "123456789012345678", "2", "")
    ]
    assert read_id("1.0", False) == "1.0"


def test_names_of_columns_have_other_spellings_and_synonyms() -> None:
    names = {"patient_id": ("subject_id", "mrn"), "time": ("charttime", "date")}
    assert known_names(["Patient ID", "DATE"], names) == {
        "Patient ID": "patient_id",
        "DATE": "time",
    }
    assert known_names(["mrn", "SubjectId"], names) == {"SubjectId": "patient_id"}
    assert known_names(["patient_id", "mrn", "date"], names) == {
        **{"patient_id": "patient_id", "date": "time"}
    }
