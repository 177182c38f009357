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

from midchart.core.cohorts import files
from midchart.core.errors import DataError
from midchart.core.loaders.check import check_cohort
from midchart.core.loaders.fhir import Fhir
from midchart.core.loaders.open import open_cohort
from midchart.core.types import Cohort
from tests.support.event_files import write_ehrshot, write_meds

SECRET = "code-of-another-ward"


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
        elsewhere.write_text(SECRET)
    file.symlink_to(elsewhere)


def pipe(file: Path) -> None:
    file.unlink(missing_ok=True)
    os.mkfifo(file)


def too_large(file: Path) -> None:
    with file.open("ab") as opened:
        opened.truncate(files.LARGEST_TABLE + 1)  # sparse: no bytes on disk


PLACES: dict[str, tuple[Callable[[Path], Path], str]] = {
    "MEDS events": (write_meds, "data/a/1.parquet"),
    "MEDS labels": (write_meds, "labels/anemia/0.parquet"),
    "MEDS splits": (write_meds, "metadata/subject_splits.parquet"),
    "MEDS names": (write_meds, "metadata/codes.parquet"),
    "OMOP Parquet": (write_omop, "note.parquet"),
    "OMOP CSV": (write_omop, "death.csv"),
    "EHRSHOT labels": (write_ehrshot, "EHRSHOT_ASSETS/benchmark/lab_anemia/labeled_patients.csv"),
    "EHRSHOT splits": (write_ehrshot, "EHRSHOT_ASSETS/splits/person_id_map.csv"),
}
KINDS = {link_out: "is a link out of its folder", pipe: "is a pipe", too_large: "is too large"}


def named(cohort: Cohort) -> str:
    """All that the check of a cohort names, once its records were read."""
    assert len(list(cohort.records.values())) == len(cohort.records)
    check = check_cohort(cohort)
    return "\n".join(
        [*(f"{s['file']} {s['reason']}" for s in check["skipped"]), *check["warnings"]]
    )


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIDCHART_DATA", str(tmp_path / "data"))


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("place", PLACES)
def test_a_file_that_is_not_the_cohorts_own_is_named_and_the_rest_loads(
    tmp_path: Path, place: str, make: Callable[[Path], None]
) -> None:
    write, name = PLACES[place]
    folder = write(tmp_path / "cohort")
    file = folder / name
    if not file.exists():
        shutil.copy(file.with_name("0.parquet"), file)
    patients = len(open_cohort(folder).records)
    make(file)
    if place == "EHRSHOT splits" and make is pipe:
        return  # no file of that name: the splits are missing, as the test of the layout holds
    cohort = open_cohort(folder)
    assert KINDS[make] in named(cohort)
    assert len(cohort.records) == patients


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize(
    ("write", "name"),
    [
        (write_meds, "data/a/0.parquet"),
        (write_ehrshot, "EHRSHOT_ASSETS/data/ehrshot.csv"),
        (write_omop, "person.csv"),
    ],
)
def test_a_cohort_without_another_file_says_what_is_wrong_with_its_only_one(
    tmp_path: Path, write: Callable[[Path], Path], name: str, make: Callable[[Path], None]
) -> None:
    folder = write(tmp_path / "cohort")
    make(folder / name)
    with pytest.raises(DataError) as refused:
        open_cohort(folder)
    assert "\n" not in str(refused.value) and SECRET not in str(refused.value)
    if not (make is pipe and write is write_ehrshot):  # nothing there that is an EHRSHOT_ASSETS
        assert KINDS[make] in str(refused.value) or "no person" in str(refused.value)


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


def test_a_fhir_file_that_is_a_link_out_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "one" / "cohort"
    folder.mkdir(parents=True)
    for name in ("a", "b"):
        (folder / f"{name}.ndjson").write_text(
            f'{{"resourceType": "Patient", "id": "{name}"}}\n'
            f'{{"resourceType": "Condition", "subject": {{"reference": "Patient/{name}"}}, '
            '"code": {"text": "Gout"}}\n'
        )
    link_out(folder / "b.ndjson")
    cohort = Fhir().load(str(folder))
    assert list(cohort.records) == ["a"]
    assert "is a link out" in named(cohort)
