"""Every file that a loader opens is covered by the digest of a permission and by that of a run's
cohort, whichever part of the cohort a person names."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from midchart.core.cohorts.data_use import files_digest
from midchart.core.cohorts.kept_questions import QUESTIONS_FILE, SETS_FILE
from midchart.core.cohorts.labelled import labelled
from midchart.core.cohorts.manifest import FILE
from midchart.core.errors import DataError, InputError
from midchart.core.loaders import LOADERS
from midchart.core.loaders.open import (
    cohort_folder,
    content_digest,
    open_cohort,
    read_cohort,
    set_data_use,
    still_allows,
)
from midchart.core.types import Cohort
from tests.core import test_attacks as attacks
from tests.fuzz import seeds

Files = dict[str, bytes]
_OMOP = {name: make for name, (make, _) in attacks.COHORTS.items() if name.startswith("OMOP")}
FORMATS: dict[str, Callable[[], Files]] = _OMOP | {
    make.__name__: make
    for make in (
        *(seeds.archehr_qa, seeds.ccda, seeds.ehrnoteqa, seeds.ehrshot, seeds.fhir_bundle),
        *(seeds.fhir_lines, seeds.kept_questions, seeds.longhealth, seeds.medalign),
        *(seeds.medalign_sample, seeds.medcalc, seeds.meds, seeds.note_files, seeds.note_lines),
        *(seeds.notes, seeds.squad, seeds.hl7v2, seeds.synthea_csv, seeds.fhir_xml),
    )
}
_OF_PEOPLE = {FILE, QUESTIONS_FILE, SETS_FILE}
"""Read with a cohort, and no part of what is permitted."""
_watched: list[list[str]] = []


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and _watched and isinstance(arguments[0], str | os.PathLike):
        _watched[-1].append(os.fspath(arguments[0]))


@pytest.fixture(scope="module", autouse=True)
def watching() -> None:
    sys.addaudithook(_watch)  # stays as long as the process does


@contextmanager
def opened() -> Iterator[list[str]]:
    """The paths that are opened meanwhile."""
    _watched.append([])
    try:
        yield _watched[-1]
    finally:
        _watched.pop()


def read_all(place: Path) -> Cohort:
    """The cohort at a path once everything of it was read."""
    cohort = read_cohort(place)
    for record in cohort.records:
        with suppress(DataError):
            assert list(cohort.records[record].events) is not None
    for instruction in cohort.instructions:
        with suppress(DataError):
            assert cohort.gold.get(instruction.id) is not Ellipsis
    if cohort.labels:
        data = labelled(cohort)
        assert data.store().events and all(len(data.labels(task)) for task in cohort.labels)
    return cohort


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("DATA", "CACHE", "STATE"):
        monkeypatch.setenv(f"MIDCHART_{name}", str(tmp_path / "others" / name))
    return tmp_path.resolve() / "ward"


def changes(digest: Callable[[], str], file: Path) -> bool:
    """Whether a digest is another one once a file is."""
    before, content = digest(), file.read_bytes()
    file.write_bytes(content + b"\n")
    after = digest()
    file.write_bytes(content)
    return after != before


@pytest.mark.parametrize("name", FORMATS)
def test_both_digests_cover_every_file_that_is_opened(folder: Path, name: str) -> None:
    attacks.write_files(folder, {**FORMATS[name](), "README.txt": b"about these files"})
    parts = 0
    for place in (folder, *sorted(folder.rglob("*"))):
        with opened() as paths:
            try:
                read_all(place)
            except InputError:
                assert place != folder
                continue
        within = {Path(path) for path in paths if Path(path).is_relative_to(folder.parent)}
        files = {path for path in within if path.is_file() and path.name not in _OF_PEOPLE}
        files = {path for path in files if not path.is_relative_to(folder.parent / "others")}
        assert files, f"no opened file of {place} was seen"
        permission, content = (
            partial(files_digest, cohort_folder(place)),
            partial(content_digest, place),
        )
        for file in files:
            assert file.is_relative_to(folder)
            assert changes(permission, file) and changes(content, file), (place, file)
        parts += 1
    assert parts


def test_every_format_of_the_program_is_among_them(folder: Path) -> None:
    formats = {
        read_cohort(attacks.write_files(folder / str(number), make())).format
        for number, make in enumerate(FORMATS.values())
    }
    assert formats == set(LOADERS.names()) - set(LOADERS.of_packages())


def held_to(folder: Path, place: Path) -> tuple[bool, bool]:
    """Whether a part of a cohort, opened while its folder was permitted for training, is so still,
    by itself and opened again: once a person says no, and once a table next to it changed."""
    outcomes: list[bool] = []
    for end in ("no", "change"):
        set_data_use(folder, "training_allowed", True, "allowed by the agreement")
        cohort = open_cohort(place)
        assert cohort.manifest.training_allowed and still_allows(cohort, "training_allowed")
        if end == "no":
            set_data_use(folder, "training_allowed", False, "the agreement has ended")
        else:
            (companion,) = folder.rglob("person_id_map.csv" if place.is_file() else "*-instr*.tsv")
            companion.write_bytes(companion.read_bytes() + b"\n")
        again = open_cohort(place).manifest.training_allowed
        outcomes.append(again or still_allows(cohort, "training_allowed"))
    return outcomes[0], outcomes[1]


@pytest.mark.parametrize("inner_tag", [False, True])
def test_a_part_that_is_held_open_loses_the_permission_of_its_folder(
    folder: Path, inner_tag: bool
) -> None:
    attacks.write_files(folder / "records", seeds.medalign())
    attacks.write_files(folder / "events", seeds.ehrshot())
    if inner_tag:
        (folder / "records" / "ehrs" / FILE).write_text('name = "inner"\n')
    assets = folder / "events" / "EHRSHOT_ASSETS"
    assert held_to(folder / "records", folder / "records" / "ehrs") == (False, False)
    assert held_to(assets, assets / "data" / "ehrshot.csv") == (False, False)


def test_a_companion_that_comes_or_goes_changes_the_digest_of_a_part(folder: Path) -> None:
    files = seeds.archehr_qa()
    attacks.write_files(folder, files)
    place, key = folder / "archehr-qa.xml", folder / "archehr-qa_key.json"
    before = content_digest(place)
    key.rename(folder / "elsewhere")
    without = content_digest(place)
    (folder / "another.xml").write_bytes(files["archehr-qa.xml"])
    assert content_digest(place) == without != before
