"""Only regular files of a cohort's own folder are read, within limits, also by DuckDB: no link out
of it, no pipe; each is named and the rest loads."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from midchart.core.errors import DataError
from midchart.core.loaders.open import open_cohort
from tests.support.event_files import write_meds


def write_omop(folder: Path) -> Path:
    folder.mkdir()
    (folder / "person.csv").write_text("person_id,year_of_birth\n1,1950\n2,1960")
    notes = pd.DataFrame({"person_id": [1], "note_date": ["2020-01-01"], "note_text": ["No fever"]})
    notes.to_parquet(folder / "note.parquet")
    (folder / "death.csv").write_text("person_id,death_date\n1,2020-01-01")
    return folder


def link_out(file: Path) -> None:
    """Another ward's file, elsewhere, and a link to it in its place."""
    elsewhere = Path(os.environ["MIDCHART_DATA"]).with_name("elsewhere") / file.name
    elsewhere.parent.mkdir(exist_ok=True)
    if file.exists():
        shutil.move(file, elsewhere)
    else:
        elsewhere.write_text("another ward")
    file.symlink_to(elsewhere)


def pipe(file: Path) -> None:
    file.unlink(missing_ok=True)
    os.mkfifo(file)


KINDS = {link_out: "is a link out of its folder", pipe: "is a pipe"}


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIDCHART_DATA", str(tmp_path / "data"))


@pytest.mark.parametrize("make", [link_out, pipe])
def test_a_database_that_is_not_the_cohorts_own_is_refused(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    folder = tmp_path / "one" / "cohort"
    folder.mkdir(parents=True)
    with duckdb.connect(str(folder / "cdm.duckdb")) as base:
        base.execute("CREATE TABLE person AS SELECT 1 AS person_id")
    make(folder / "cdm.duckdb")
    with pytest.raises(DataError, match=KINDS[make]):
        open_cohort(folder)


@pytest.mark.parametrize(
    ("write", "linked"), [(write_meds, "data"), (write_meds, "labels/anemia"), (write_omop, "more")]
)
def test_a_folder_that_is_a_link_out_of_the_cohort_is_refused(
    tmp_path: Path, write: Callable[[Path], Path], linked: str
) -> None:
    folder, elsewhere = write(tmp_path / "cohort"), tmp_path / "elsewhere"
    if (folder / linked).exists():
        shutil.move(folder / linked, elsewhere)
    else:
        elsewhere.mkdir()
    (folder / linked).symlink_to(elsewhere)
    with pytest.raises(DataError, match=f"{linked}: is a link out of the cohort's folder"):
        open_cohort(folder)


def test_a_cohort_may_itself_be_a_link_and_hold_links_within(tmp_path: Path) -> None:
    folder = write_meds(tmp_path / "real")
    (folder / "data" / "a" / "1.parquet").symlink_to("0.parquet")
    (folder / "copy").symlink_to(folder / "labels")
    (tmp_path / "linked").symlink_to(folder)
    assert len(open_cohort(tmp_path / "linked").records) == 3
