"""Files of one patient under two spellings are named, whatever the format."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from midchart.core.cohorts.files import LoadLog
from midchart.core.cohorts.identity import MOST_TWINS, warn_of_twins
from midchart.core.loaders.check import check_cohort
from midchart.core.loaders.open import open_cohort

TWINS = [
    ("Anna", "anna"),
    ("anna", "ANNA"),
    (unicodedata.normalize("NFC", "Jürgen"), unicodedata.normalize("NFD", "Jürgen")),
    ("Ünal", unicodedata.normalize("NFD", "ünal")),
    ("file", "ﬁle"),
    ("p12", "ｐ１２"),
    ("Straße", "STRASSE"),
    ("p\u200b1", "p1"),
    ("p\u00ad1", "p1"),
    ("p 1", "p\u00a01"),
    ("p 1", "p  1"),
    ("p\U000e0041", "p"),
    *((f"p{hidden}1", "p1") for hidden in "\x01\x08\x1b\x7f\x85\x9f\u2028\u2800"),
    *((f"p{hidden}1", "p 1") for hidden in "\x0b\x1c\x1f\x85\u2028\u2800\u3164"),
    *((f"p{dash}1", "p-1") for dash in "\u2010\u2011\u2013\u2014\u2212\u1806\u2043\uff0d\u207b"),
    *((f"O{quote}Neil", "o'neil") for quote in "\u2018\u2019\u00b4`\u02bc\u2032\uff07"),
    ("\u201canna\u201d", "\xabanna\xbb"),
]
SAID = "ids that differ in case, blanks or forms of one character alone"


def notes(folder: Path, name: str) -> None:
    (folder / f"{name}.txt").write_text("Blood pressure was 120 over 80.\n")


def folders_of_notes(folder: Path, name: str) -> None:
    (folder / name).mkdir()
    (folder / name / "2020-01-01.txt").write_text("Blood pressure was 120 over 80.\n")


def rows_of_notes(folder: Path, name: str) -> None:
    table = folder / "notes.csv"
    if not table.exists():
        table.write_text("patient_id,time,text\n")
    with table.open("a", encoding="utf-8") as file:
        file.write(f'"{name}",2020-01-01,"Blood pressure was 120 over 80."\n')


def ehrs(folder: Path, name: str) -> None:
    (folder / "ehrs").mkdir(exist_ok=True)
    (folder / "ehrs" / f"{name}.xml").write_text(
        "<eventstream><encounter><events>"
        '<entry timestamp="2020-01-01 08:00"><event type="note" code="N" name="note">Well.</event>'
        "</entry></events></encounter></eventstream>"
    )


@pytest.mark.parametrize("write", [notes, folders_of_notes, rows_of_notes, ehrs])
@pytest.mark.parametrize(("first", "second"), TWINS)
def test_two_spellings_of_a_patient_are_named(tmp_path, write, first, second):
    for name in (first, second, "other"):
        write(tmp_path, name)
    cohort = open_cohort(tmp_path)
    (warning,) = [line for line in check_cohort(cohort)["warnings"] if SAID in line]
    if len(cohort.records) == 3:  # a table's blanks at the ends are no part of an id
        assert ascii(first) in warning and ascii(second) in warning and "other" not in warning
    assert warning.isprintable()


@pytest.mark.parametrize("write", [notes, folders_of_notes, rows_of_notes, ehrs])
def test_different_patients_are_not(tmp_path, write):
    for name in ("Anna", "Anne", "Änna", "p1", "p11", "p-1", "p_1", "1", "01"):
        write(tmp_path, name)
    assert not [line for line in open_cohort(tmp_path).warnings if SAID in line]


def test_many_are_counted():
    log = LoadLog()
    warn_of_twins([name for i in range(MOST_TWINS + 3) for name in (f"a{i}", f"A{i}")], log)
    (line,) = log.warnings
    assert line.count(" and ") == MOST_TWINS + 1 and "and 3 more" in line
