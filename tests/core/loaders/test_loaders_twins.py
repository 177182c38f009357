"""Files of one patient under two spellings are named, whatever the format."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from midchart.core.cohorts.files import LoadLog
from midchart.core.cohorts.identity import warn_of_twins
from midchart.core.loaders.open import open_cohort

TWINS = [
    ("Anna", "anna"),
    ("anna", "ANNA"),
    (unicodedata.normalize("NFC", "Jürgen"), unicodedata.normalize("NFD", "Jürgen")),
    ("Ünal", unicodedata.normalize("NFD", "ünal")),
    ("file", "ﬁle"),
    ("p12", "ｐ１２"),
    ("Straße", "STRASSE"),
    ("p 1", "p\u00a01"),
    ("p 1", "p  1"),
]
SAID = "ids that differ in case, blanks or forms of one character alone"


def warnings(*ids: str) -> list[str]:
    log = LoadLog()
    warn_of_twins(ids, log)
    return [line for line in log.warnings if SAID in line]


@pytest.mark.parametrize(("first", "second"), TWINS)
def test_two_spellings_of_a_patient_are_named(first: str, second: str) -> None:
    (warning,) = warnings(first, second, "other")
    assert ascii(first) in warning and ascii(second) in warning and "other" not in warning
    assert warning.isprintable()


def test_different_patients_are_not() -> None:
    assert not warnings("Anna", "Anne", "Änna", "p1", "p11", "p-1", "p_1", "1", "01")


def test_a_cohort_names_them(tmp_path: Path) -> None:
    for name in ("Anna", "anna"):
        (tmp_path / f"{name}.txt").write_text("Blood pressure was 120 over 80.\n")
    assert [line for line in open_cohort(tmp_path).warnings if SAID in line]
