"""Cohorts come in whole or not at all, within limits, without links, and go with their caches."""

from __future__ import annotations

import io
import stat
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from midchart.core import api, config
from midchart.core.errors import DataError, InputError
from midchart.core.loaders import open as loading
from midchart.core.loaders.worker import convert_files
from tests.support import patient_cohort

NOTES = "patient_id,time,text\np1,2020-01-01,No fever.\n"


def zipped(**members: bytes | str) -> io.BytesIO:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return data


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("way", ["file", "zip", "zip of a folder", "folder"])
def test_a_cohort_is_imported_privately_with_safe_defaults(tmp_path: Path, way: str) -> None:
    tag = (
        'name = "x"\ntraining_allowed = true\nexternal_services_allowed = true\nsynthetic = true\n'
    )
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "notes.csv").write_text(NOTES)
    (folder / "midchart.toml").write_text(tag)
    sources = {
        "file": [("notes.csv", io.BytesIO(NOTES.encode()))],
        "zip": [("a.zip", zipped(**{"notes.csv": NOTES, "midchart.toml": tag}))],
        "zip of a folder": [
            ("a.zip", zipped(**{"d/e/notes.csv": NOTES, "__MACOSX/._n": b"\x00", "d/.x": "y"}))
        ],
        "folder": folder,
    }
    report = api.import_cohort("Ward 3", sources[way])
    assert not api.open_data("ward-3").manifest.training_allowed
    place = config.cohorts_folder() / "ward-3"
    assert (report["records"], report["name"]) == (1, "ward-3")
    manifest = api.open_data("ward-3").manifest
    assert not (manifest.training_allowed or manifest.external_services_allowed)
    assert not manifest.synthetic
    assert stat.S_IMODE((place / "notes.csv").stat().st_mode) == 0o600
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert [line["event"] for line in api.audit_lines()] == ["imported"]
    assert [card.name for card in api.cohorts()] == ["ward-3"]
    with pytest.raises(InputError, match="already"):
        api.import_cohort("ward-3", sources[way])


HOSTILE = [
    ({"../../evil.csv": NOTES}, "leads out"),
    ({"notes.csv": b"0" * (32 << 20)}, "zip bomb"),
    ({"cat.jpg": b"\xff\xd8"}, "no format that is known"),
    ({}, "no file"),
]


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(("members", "says"), HOSTILE, ids=[says for _, says in HOSTILE])
def test_a_zip_that_is_refused_leaves_nothing(members: dict[str, bytes | str], says: str) -> None:
    with pytest.raises(DataError, match=says) as refused:
        api.import_cohort("one", [("a.zip", zipped(**members))])
    assert "\n" not in str(refused.value)
    assert ".incoming" not in str(refused.value)
    assert not list(config.cohorts_folder().iterdir())


@pytest.mark.usefixtures("elsewhere")
def test_of_two_imports_of_one_name_at_once_one_is_complete_and_the_other_is_refused() -> None:
    begun: list[int] = []
    notes = [("notes.csv", io.BytesIO(NOTES.encode())), ("more.txt", io.BytesIO(b"A note."))]

    def import_again(done: int, planned: int) -> None:
        if not begun:
            begun.append(done)
            api.import_cohort("one", [("notes.csv", io.BytesIO(NOTES.encode()))])

    with pytest.raises(InputError, match="already"):
        api.import_cohort("one", notes, progress=import_again)
    place = config.cohorts_folder() / "one"
    assert sorted(path.name for path in place.iterdir()) == ["midchart.toml", "notes.csv"]
    assert [path.name for path in config.cohorts_folder().iterdir()] == ["one"]
    assert [line["event"] for line in api.audit_lines()] == ["imported"]


@pytest.mark.usefixtures("elsewhere")
def test_links_and_limits_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "notes.csv").write_text(NOTES)
    monkeypatch.setattr("midchart.core.services.import_cohort.LARGEST_COHORT", 10)
    with pytest.raises(DataError, match="the limits are"):
        api.import_cohort("one", folder)
    monkeypatch.undo()
    monkeypatch.setenv("MIDCHART_DATA", str(tmp_path / "there"))
    (folder / "passwords").symlink_to("/etc/passwd")
    with pytest.raises(DataError, match="is a link"):
        api.import_cohort("one", folder)
    assert not list(config.cohorts_folder().iterdir())


@pytest.mark.parametrize("name", ["", "../x", "a" * 65, "UPPER/case", ".hidden"])
def test_names_that_are_no_folder_names_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="letters, digits"):
        api.cohort_name(name)


def test_listing_cohorts_reads_only_those_whose_files_changed(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = workspace / "data" / "cohorts"
    for number in range(4):
        patient_cohort.make(folder / f"c{number}")
    opened: list[str] = []
    monkeypatch.setattr(
        loading,
        "convert_files",
        lambda path, *rest: opened.append(path.name) or convert_files(path, *rest),
    )
    names = [card.name for card in api.cohorts()]
    assert opened == names == sorted(names)
    opened.clear()
    assert [card.name for card in api.cohorts()] == names and opened == []
    (folder / "c1" / "ehrs" / "9003.xml").unlink()
    assert [card.name for card in api.cohorts()] == names and opened == ["c1"]


def test_a_cohort_on_which_a_loader_fails_hides_no_other(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = workspace / "data" / "cohorts"
    for name in ("bad", "good"):
        patient_cohort.make(folder / name)

    def converted(path: Path, *rest: Any) -> None:
        if path.name == "bad":
            raise ValueError("chr() arg of Nell Quarrie")
        convert_files(path, *rest)

    monkeypatch.setattr(loading, "convert_files", converted)
    problems = {card.name: card.problem for card in api.cohorts()}
    assert problems == {"bad": "bad: cannot be read (ValueError)", "good": ""}


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has no such names")
def test_a_file_whose_name_is_not_utf_8_is_left_out_by_name(workspace: Path) -> None:
    folder = workspace / "data" / "cohorts"
    for name in ("good", "file", "folder-\udcff"):
        (folder / name).mkdir(parents=True)
        (folder / name / "p1.txt").write_text("No fever.")
    (folder / "file" / "p\udcff.txt").write_text("No fever.")
    cards = {card.name: card.problem for card in api.cohorts()}
    assert list(cards) == ["file", "folder-\ufffd", "good"]
    assert cards["good"] == ""
    assert cards["file"] == ""
    cohort = api.open_data(str(folder / "file"))
    assert list(cohort.records) == ["p1"]
    assert [(one.file, one.reason) for one in cohort.skipped] == [
        ("p\ufffd.txt", "has a name that is not UTF-8 — rename it")
    ]
    assert "is not UTF-8 text; rename the file or folder" in cards["folder-\ufffd"]
