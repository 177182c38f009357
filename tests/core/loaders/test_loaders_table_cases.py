"""Tables as hospitals export them: what each says is read, and what was decided is stated."""

from __future__ import annotations

import csv
import gzip
import io
from datetime import datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midchart.core.cohorts.files import LoadLog
from midchart.core.cohorts.manifest import write_column_settings
from midchart.core.cohorts.tables import read_table
from midchart.core.errors import DataError
from midchart.core.loaders.open import open_cohort
from midchart.core.types import Cohort

CASES = Path(__file__).parents[4] / "shared" / "data" / "cases"
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


def balanced(cohort: Cohort) -> bool:
    return all(account.unaccounted == 0 for account in cohort.accounts.values())


def notes(folder: Path, content: str | bytes, name: str = "notes.csv") -> Cohort:
    data = content if isinstance(content, bytes) else content.encode()
    (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return open_cohort(folder)


# OMOP.


def test_person_ids_written_as_decimals_are_whole_numbers(tmp_path: Path) -> None:
    rows = "1,1.0,3,2021-05-10,5.9\n2,2.0,3,2021-05-11,6.1\n3,,3,2021-05-11,6.1\n"
    cohort = omop(tmp_path, measurement=MEASURED + rows)
    assert texts(cohort) == {"1": ["5.9"], "2": ["6.1"]}
    assert "measurement.csv: person_id read as whole numbers (1.0 is 1)" in cohort.warnings
    assert [s.reason for s in cohort.skipped] == ["1 rows name no person — fill in person_id"]
    account = cohort.accounts["measurement.csv", "rows"]
    assert (account.total, account.shown) == (3, 2) and balanced(cohort)


def test_ids_with_zeros_in_front_and_of_18_digits_stay(tmp_path: Path) -> None:
    person = "person_id,year_of_birth\n007,1951\n123456789012345678,1960\nnan,1970\n"
    note = NOTE + "1,007,2021-05-01,Ward,a\n2,123456789012345678,2021-05-01,Ward,b\n"
    assert texts(omop(tmp_path, person=person, note=note)) == {
        **{"007": ["a"], "123456789012345678": ["b"]}
    }


def test_a_person_who_is_in_person_twice_is_named(tmp_path: Path) -> None:
    person = "person_id,year_of_birth,gender_source_value\n1,1951,F\n1,1988,M\n2,1960,F\n2,1960,F\n"
    cohort = omop(tmp_path, person=person, note=NOTE + "1,1,2021-05-01,Ward,a\n")
    assert dict(cohort.records["1"].facts)["birth year"] == "1951"
    another, twice = (skip.reason for skip in cohort.skipped)
    assert "another person" in another and "birth date, sex differ" in another
    assert twice == "1 rows repeat a person — the first is used"
    assert cohort.accounts["person.csv", "rows"].shown == 2 and balanced(cohort)


def test_parquet_columns_of_text_and_of_zones_are_decided_too(tmp_path: Path) -> None:
    with duckdb.connect() as base:
        for table, columns in (
            ("person", "1.0 AS person_id, 1951::DOUBLE AS year_of_birth"),
            (
                "measurement",
                "1 AS person_id, '25/04/2021' AS measurement_date, 5.25::DECIMAL(9, 4) AS "
                "value_as_number, make_timestamptz(1619308800000000) AS measurement_datetime",
            ),
            ("note", "1 AS person_id, 1619308800 AS note_date, 'a' AS note_text"),
        ):
            file = tmp_path / f"{table}.parquet"
            base.execute(f"COPY (SELECT {columns}) TO '{file}' (FORMAT parquet)")
    cohort = open_cohort(tmp_path)
    events = cohort.records["1"].events
    assert {(e.time, e.text) for e in events} == {(datetime(2021, 4, 25), t) for t in ("5.25", "a")}
    assert dict(cohort.records["1"].facts) == {"birth year": "1951"} and balanced(cohort)


@pytest.mark.parametrize("moment", [9 * 10**17, 2**63 - 2, 3 - 2**63])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_times_that_no_record_can_hold_are_counted_and_hide_nothing(
    tmp_path: Path, moment: int, zone: str | None
) -> None:
    people = {"person_id": [1, 2], "year_of_birth": [1950, 1951]}
    notes = {
        "note_id": [1, 2],
        "person_id": [1, 2],
        "note_date": pa.array([18_000, 18_000], pa.date32()),
        "note_datetime": pa.array([moment, 18_000 * 86_400_000_000], pa.timestamp("us", zone)),
        "note_text": ["cough", "fever"],
    }
    for name, table in (("person", people), ("note", notes)):
        parquet.write_table(pa.table(table), tmp_path / f"{name}.parquet")
    cohort = open_cohort(tmp_path)
    events = [event for record in cohort.records.values() for event in record.events]
    assert [(str(e.time)[:10], e.text) for e in events] == [
        ("2019-04-14", "cough"),
        ("2019-04-14", "fever"),
    ]
    counted = "note.parquet: note_datetime: 1 times are outside of the years 1 to 9999"
    assert any(counted in warning for warning in cohort.warnings) and balanced(cohort)


def test_a_table_with_times_that_duckdb_cannot_read_is_named_and_hides_no_other(
    tmp_path: Path,
) -> None:
    people = {"person_id": [1, 2], "year_of_birth": [1950, 1951]}
    date = pa.array([18_000, 18_000], pa.date32())
    notes = {"person_id": [1, 2], "note_date": date, "note_text": ["cough", "fever"]}
    moments = pa.array([3 - 2**63, 0], pa.timestamp("ms"))
    drugs = {"person_id": [1, 2], "drug_exposure_start_datetime": moments}
    for name, table in (("person", people), ("note", notes), ("drug_exposure", drugs)):
        parquet.write_table(pa.table(table), tmp_path / f"{name}.parquet")
    cohort = open_cohort(tmp_path)
    assert [e.text for r in cohort.records.values() for e in r.events] == ["cough", "fever"]
    (skip,) = cohort.skipped
    assert skip.file == "drug_exposure.parquet"
    assert "DuckDB could not read it" in skip.reason


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("'Quoted speech' she said: x", "'Quoted speech' she said: x"),
        ('"He said ""no"", then\nline 2, with comma"', 'He said "no", then\nline 2, with comma'),
        (r'"Backslash \"quoted\" text"', 'Backslash "quoted" text'),
        (r'"ends in a backslash \"', "ends in a backslash \\"),
        (r'"C:\temp and \"x\",' + '\nnext line"', 'C:\\temp and "x",\nnext line'),
        ("5'10\" tall", "5'10\" tall"),
        ("NULL", "NULL"),
        ("NA", "NA"),
        (' "after a space, quoted"', "after a space, quoted"),
        ("'in apostrophes, with comma'", "in apostrophes, with comma"),
    ],
)  # fmt: skip
def test_each_way_to_quote_keeps_its_row_and_its_neighbours(
    tmp_path: Path, cell: str, text: str
) -> None:
    rows = f'1,1,2021-05-01,Ward,first\n2,1,2021-05-02,Ward,{cell}\n3,1,2021-05-03,"Ward",\'tis\n'
    cohort = omop(tmp_path, note=NOTE + rows)
    assert texts(cohort)["1"] == ["first", text, "'tis"]
    assert not cohort.skipped and balanced(cohort)


def test_cells_in_apostrophes_are_quoted_where_all_of_the_column_are(tmp_path: Path) -> None:
    rows = "1,1,2021-05-01,\"Ward\",\"one, two\"\n2,1,2021-05-02,Ward,'it''s quoted'\n"
    cohort = omop(tmp_path, note=NOTE + rows)
    assert texts(cohort)["1"] == ["one, two", "it's quoted"]
    assert "note.csv: note_text: 1 cells are quoted by apostrophes" in cohort.warnings


def test_an_unclosed_quote_in_omop_costs_its_own_row(tmp_path: Path) -> None:
    rows = '1,1,2021-05-01,Ward,"open\n2,1,2021-05-02,Ward,B\n3,2,2021-05-03,Ward,"C"\n'
    cohort = omop(tmp_path, note=NOTE + rows)
    assert texts(cohort) == {"1": ["B"], "2": ["C"]}
    assert [(s.file, s.line) for s in cohort.skipped] == [("note.csv", 2)]
    assert cohort.accounts["note.csv", "rows"].total == 3 and balanced(cohort)


def test_rows_of_too_few_or_too_many_cells(tmp_path: Path) -> None:
    rows = "1,1,2021-05-01,Ward\n2,1,2021-05-02,Ward,B,,\n3,1,2021-05-03,Ward,C,D\n"
    cohort = omop(tmp_path, note=NOTE + rows)
    assert texts(cohort)["1"] == ["", "B"], "a missing cell is empty, blank ones too many are none"
    assert [(s.file, s.line) for s in cohort.skipped] == [("note.csv", 4)]


def test_a_european_export_is_decided_by_column(tmp_path: Path) -> None:
    rows = "1;1;3;10.05.2021;5,9\n2;1;3;03/04/2021;6,10\n3;1;3;25/04/2021;6,1\n"
    cohort = omop(
        tmp_path, measurement=MEASURED.replace(",", ";") + rows, person=PERSON.replace(",", ";")
    )
    events = cohort.records["1"].events
    assert [(e.time, e.text) for e in events] == [
        (datetime(2021, 4, 3), "6.10"),
        (datetime(2021, 4, 25), "6.1"),
        (datetime(2021, 5, 10), "5.9"),
    ]
    for statement in (
        "measurement.csv: columns are separated by semicolons",
        "measurement.csv: measurement_date read as day first (25/04/2021 in row 3)",
        "measurement.csv: value_as_number read with a decimal comma (5,9 in row 1)",
    ):
        assert statement in cohort.warnings


def test_dates_of_no_proven_order_are_undated_until_the_tag_settles_them(tmp_path: Path) -> None:
    measurement = MEASURED + "1,1,3,03/04/2021,5.9\n"
    cohort = omop(tmp_path, measurement=measurement)
    assert [e.time for e in cohort.records["1"].events] == [None]
    assert any('"measurement.measurement_date" = "day first"' in w for w in cohort.warnings)
    write_column_settings(tmp_path, {"measurement.measurement_date": "day first"})
    settled = open_cohort(tmp_path)
    assert [e.time for e in settled.records["1"].events] == [datetime(2021, 4, 3)]
    assert settled.manifest.source == "OMOP CDM" and not settled.manifest.training_allowed
    write_column_settings(tmp_path, {"measurement.measurement_date": "backwards"})
    assert any("midchart.toml" in s.file for s in open_cohort(tmp_path).skipped)


def test_numbers_keep_the_digits_that_were_written(tmp_path: Path) -> None:
    rows = "1,1,3,2021-05-01,20.09414\n2,1,3,2021-05-02,1.10\n3,1,3,2021-05-03,1234567.125\n"
    cohort = omop(tmp_path, measurement=MEASURED + rows + "4,1,3,2021-05-04,NULL\n")
    assert texts(cohort)["1"] == ["20.09414", "1.10", "1234567.125", "recorded"]


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-8-sig", "utf-16-le"])
def test_omop_tables_of_other_encodings(tmp_path: Path, encoding: str) -> None:
    note = (NOTE + "1,1,2021-05-01,Ward,Fièvre 39 °C – «ça va»\n2,1,2021-05-02,Ward,b\n").encode(
        encoding
    )
    cohort = omop(tmp_path, note=note)
    assert texts(cohort)["1"] == ["Fièvre 39 °C – «ça va»", "b"]
    assert any("note.csv: read as" in w for w in cohort.warnings) == (encoding != "utf-8-sig")


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


def test_packed_tab_separated_and_upper_case_tables(tmp_path: Path) -> None:
    (tmp_path / "NOTE.TSV").write_text(
        (NOTE + "1,1,2021-05-01,Ward,a\n").upper().replace(",", "\t")
    )
    packed = gzip.compress((MEASURED + "1,1,3,2021-05-02,5.9\n").encode())
    (tmp_path / "Measurement.csv.gz").write_bytes(packed)
    (tmp_path / "death.csv.gz").write_bytes(b"no gzip")
    cohort = omop(tmp_path)
    assert texts(cohort)["1"] == ["A", "5.9"]
    assert [s.file for s in cohort.skipped] == ["death.csv.gz"]


# Plain notes.


@pytest.mark.parametrize(
    ("content", "name", "statement"),
    [
        ("patient_id;time;text\np1;2021-04-03;Seen\n", "notes.csv", "separated by semicolons"),
        ("patient_id\ttime\ttext\np1\t2021-04-03\tSeen\n", "notes.csv", "separated by tabs"),
        ("patient_id|time|text\np1|2021-04-03|Seen\n", "notes.csv", "separated by vertical bars"),
        ("sep=;\npatient_id;time;text\np1;2021-04-03;Seen\n", "n.csv", "semicolons"),
        ("subject_id,charttime,text\np1,2021-04-03,Seen\n", "n.csv", "charttime read as time"),
        ("MRN,Visit Date,Report\np1,2021-04-03,Seen\n", "n.csv", "Visit Date read as time"),
        ('"Patient ID","Date","Note"\n"p1","2021-04-03","Seen"\n', "n.csv", "Note read as text"),
        ("patient_id,date,time,text\np1,2021-04-03,00:00,Seen\n", "n.csv", "clock time of date"),
        ("patient_id,charttime,chartdate,text\np1,,2021-04-03,Seen\n", "n.csv", "1 rows without"),
        ("patient_id,time,text\np1,03/04/2021,Seen\np2,25/04/2021,x\n", "n.csv", "day first"),
        ("patient_id,time,text\np1,44289,Seen\n", "n.csv", "Excel"),
        ("patient_id,time,text\np1,1617408000000,Seen\n", "n.csv", "milliseconds"),
        ("\ufeffPatient_ID,Time,Text\r\np1,2021-04-03,Seen\r\n", "n.csv", ""),
        ("patient_id,time,text\np1,2021-04-03,Seen\n", "n.csv.gz", ""),
        ("patient_id\ttime\ttext\np1\t2021-04-03\tSeen\n", "n.tsv", ""),
        ('{"subject_id": "p1", "time": "2021-04-03", "note": "Seen"}\n', "n.jsonl.gz", ""),
        ("patient_id,time,text\rp1,2021-04-03,Seen\r", "n.csv", ""),
        ("'patient_id','time','text'\n'p1','2021-04-03','Seen'\n", "n.csv", ""),
    ],
)  # fmt: skip
def test_tables_of_notes_are_read_as_they_say(
    tmp_path: Path, content: str, name: str, statement: str
) -> None:
    cohort = notes(tmp_path, content, name)
    (event,) = cohort.records["p1"].events
    assert (event.text, event.time) == ("Seen", datetime(2021, 4, 3))
    assert any(statement in w for w in cohort.warnings) if statement else not cohort.warnings
    assert not cohort.skipped and balanced(cohort)


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-16-be"])
def test_notes_of_other_encodings(tmp_path: Path, encoding: str) -> None:
    content = "patient_id,time,text\np1,2021-04-03,Fièvre – 39°\np2,2021-04-03,plain\n"
    cohort = notes(tmp_path, content.encode(encoding))
    assert texts(cohort) == {"p1": ["Fièvre – 39°"], "p2": ["plain"]}
    (statement,) = cohort.warnings
    assert statement.startswith("notes.csv: read as ")


def test_text_files_of_other_encodings(tmp_path: Path) -> None:
    for patient, encoding in (("p1", "cp1252"), ("p2", "utf-16"), ("p3", "gb18030")):
        text = "发热两天" if encoding == "gb18030" else "Fièvre 39°"
        (tmp_path / patient).mkdir()
        (tmp_path / patient / "2021-04-03.txt").write_bytes(text.encode(encoding))
    cohort = open_cohort(tmp_path)
    assert texts(cohort) == {"p1": ["Fièvre 39°"], "p2": ["Fièvre 39°"]}
    assert [s.file for s in cohort.skipped] == ["p3/2021-04-03.txt"]
    assert len(cohort.warnings) == 2


def test_a_row_without_a_person_and_a_row_of_another_person_are_named(tmp_path: Path) -> None:
    head = "patient_id,time,text,last_name,date_of_birth,sex\n"
    rows = (
        "1.0,2021-04-03,a,Quarrie,1951-02-03,F\n2.0,2021-04-03,b,,,\n,2021-04-03,c,,,\n"
        "nan,2021-04-03,d,,,\n1.0,2021-04-04,e,Brunel,1950-02-03,F\n1.0,2021-04-05,f,,,\n"
    )
    cohort = notes(tmp_path, head + rows)
    assert texts(cohort) == {"1": ["a", "f"], "2": ["b"]}
    reasons = {s.line: s.reason for s in cohort.skipped}
    assert reasons[4] == reasons[5] == "names no person — fill in patient_id"
    assert "family name, birth date differ" in reasons[6] and "Brunel" not in reasons[6]
    assert balanced(cohort) and cohort.accounts["notes.csv", "rows"].shown == 3


def test_questions_of_other_separators_encodings_and_ids(tmp_path: Path) -> None:
    head = "Patient ID;Question;Evidence;Clinician Response\n"
    asked = (head + "1.0;Fièvre?;Seen;oui\n2.0;Who?;;x\n").encode("cp1252")
    (tmp_path / "questions.csv").write_bytes(asked)
    cohort = notes(tmp_path, "patient_id,time,text\n1,2021-04-03,Seen\n")
    (instruction,) = cohort.instructions
    assert (instruction.record_id, instruction.question) == ("1", "Fièvre?")
    assert [(s.file, s.line) for s in cohort.skipped] == [("questions.csv", 3)]
    assert balanced(cohort)


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


READINGS = {
    "21-omop-float-person-ids": {"1": ["5.9"], "2": ["6.1"]},
    "23-omop-apostrophes": {
        "1": ["'Quoted speech' she said  no: x", "'tis well", "'ok'", "5.9"],
        "2": [],
    },
    "24-omop-quotes-newlines": {
        "1": [
            'He said "no" to surgery, then\nsecond line, with comma',
            *('Backslash "quoted" text', "plain", "5.9"),
        ],
        "2": ["NULL", "NA"],
    },
    "26-omop-european-decimals": {"1": ["6.1", "6.1", "5.9"], "2": []},
    "28-notes-semicolon": {"p1": ["Seen in clinic"]},
    "29-notes-other-columns": {"p1": ["Seen in clinic"]},
    "30-notes-bom-crlf-upper": {"p1": ["Seen in clinic"]},
    "31-notes-latin1": {"p1": ["Fièvre"], "p2": ["plain"]},
    "31-notes-latin1-txt": {"p1": ["Fièvre 39°"], "p2": ["Afebrile"]},
    "32-notes-bom-crlf": {
        "p1": ['Seen in clinic\r\nsecond line "quoted"'],
        "007": ["leading zeros"],
    },
    "33-notes-utf16": {"p1": ["Seen"]},
    "40-bm25-empty": {"p1": ["", "---", "Sodium 140"]},
    "42-meds-tz-null-codes": {"1": ["", "5.9", "Admitted with fever"]},
    "47-omop-latin1": {"1": ["Fièvre 39", "Apyrétique"]},
    "48-omop-visit-missing": {"1": ["5.9"]},
    "49-omop-gz": {"1": ["5.9", "recorded"]},
    "56-omop-mixed-quotes": {"1": ["text one", "text, with comma", "single quoted"]},
}


@pytest.mark.parametrize("case", READINGS)
@pytest.mark.skipif(not CASES.is_dir(), reason="the small cases are not here")
def test_each_case_reads_as_its_row_says(case: str) -> None:
    cohort, expected = open_cohort(CASES / case), READINGS[case]
    read = {id: [event.text for event in cohort.records[id].events] for id in expected}
    assert read == expected
    assert balanced(cohort)


@pytest.mark.skipif(not CASES.is_dir(), reason="the small cases are not here")
def test_a_question_without_an_answer_is_not_documented() -> None:
    cohort = open_cohort(CASES / "38-squad-impossible")
    assert "Not documented." in {gold.answer for gold in cohort.gold.values()}
