"""Every file that a loader opens is covered by the digest of a permission and by that of a run's
cohort, whichever part of the cohort a person names."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from midchart.core.cohorts.data_use import files_digest
from midchart.core.cohorts.kept_questions import QUESTIONS_FILE, SETS_FILE
from midchart.core.cohorts.labelled import labelled
from midchart.core.cohorts.manifest import FILE
from midchart.core.errors import InputError
from midchart.core.loaders import LOADERS
from midchart.core.loaders.open import (
    cohort_folder,
    content_digest,
    open_cohort,
    read_cohort,
    set_data_use,
    still_allows,
)
from tests.support.cases import CASES
from tests.support.event_files import write_ehrshot
from tests.support.run_helpers import write_cohort

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


def read_all(place: Path) -> None:
    """Read everything of the cohort at a path."""
    cohort = read_cohort(place)
    for instruction in cohort.instructions:
        cohort.gold.get(instruction.id)
    if cohort.labels:
        data = labelled(cohort)
        assert data.store().events and [len(data.labels(task)) for task in cohort.labels]
    else:
        assert list(cohort.records.values())


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


def readable(format: str, folder: Path) -> None:
    """Copy the first case of a format of which everything can be read."""
    for case in sorted((CASES / format).iterdir()):
        shutil.copytree(case / "input", folder)
        try:
            if read_cohort(folder).format == format:
                return read_all(folder)
        except (InputError, AssertionError):
            pass
        shutil.rmtree(folder)
    raise AssertionError(f"no case of {format} can be read")


@pytest.mark.parametrize(
    "format", sorted({*LOADERS.names()} - entry_points(group="midchart.loaders").names)
)
def test_both_digests_cover_every_file_that_is_opened(folder: Path, format: str) -> None:
    readable(format, folder)
    (folder / "README.txt").write_text("about these files")
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
        permission = partial(files_digest, cohort_folder(place))
        content = partial(content_digest, place)
        for file in files:
            assert file.is_relative_to(folder)
            assert changes(permission, file) and changes(content, file), (place, file)


@pytest.mark.parametrize("end", ["no", "change"])
@pytest.mark.parametrize(
    ("write", "root", "part", "companion"),
    [
        (write_cohort, ".", "ehrs", "*-instr*.tsv"),
        (write_ehrshot, "EHRSHOT_ASSETS", "data/ehrshot.csv", "splits/person_id_map.csv"),
    ],
)
def test_a_part_that_is_held_open_loses_the_permission_of_its_folder(
    folder: Path, write: Callable[[Path], object], root: str, part: str, companion: str, end: str
) -> None:
    folder.mkdir()
    write(folder)
    agreed = folder / root
    set_data_use(agreed, "training_allowed", True, "allowed by the agreement")
    cohort = open_cohort(agreed / part)
    assert cohort.manifest.training_allowed and still_allows(cohort, "training_allowed")
    if end == "no":
        set_data_use(agreed, "training_allowed", False, "the agreement has ended")
    else:
        (file,) = agreed.glob(companion)
        file.write_bytes(file.read_bytes() + b"\n")
    assert not open_cohort(agreed / part).manifest.training_allowed
    assert not still_allows(cohort, "training_allowed")
