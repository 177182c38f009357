"""Files of others are opened once: what is swapped for a link, pipe or device is never read."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path

import pytest

from midchart.core import regular_files
from midchart.core.cohorts.files import hold_root, open_file, read_text
from midchart.core.cohorts.tables import opened
from midchart.core.errors import DataError
from midchart.core.loaders.open import open_cohort
from midchart.core.regular_files import open_regular
from midchart.core.samples.files import document, head_of, objects, parquet_columns
from tests.support.run_helpers import in_time, make_socket, write_cohort

SECRET = "planted-secret"
DIRECTLY, BY_FOLDERS = "directly", "by folders"


@pytest.fixture(autouse=True, params=[DIRECTLY, BY_FOLDERS])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How files are opened: at once, or folder by folder, as where a link is on the way or where
    the system does not say what was opened."""
    if request.param == BY_FOLDERS:
        monkeypatch.setattr(regular_files, "_open_directly", lambda place: None)
    return request.param


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path.resolve() / "cohort" / "notes"
    inside.mkdir(parents=True)
    (tmp_path / "secret.json").write_text(f'{{"a": "{SECRET}"}}')
    (inside / "a.json").write_text('{"a": "mine"}')
    return inside


def make_pipe(file: Path) -> None:
    os.mkfifo(file)


OTHERS = {
    "a link to a file": (lambda f: f.symlink_to(f.parents[2] / "secret.json"), errno.EXDEV),
    "a link by dots": (lambda f: f.symlink_to("../../secret.json"), errno.EXDEV),
    "a link to the passwords": (lambda f: f.symlink_to("/etc/passwd"), errno.EXDEV),
    "a link to a device": (lambda f: f.symlink_to("/dev/zero"), errno.EXDEV),
    "a link in a circle": (lambda f: f.symlink_to(f.name), errno.ELOOP),
    "a link to nothing": (lambda f: f.symlink_to("nothing.json"), errno.ENOENT),
    "a pipe": (make_pipe, errno.ENODEV),
    "a socket": (make_socket, errno.ENODEV),
    "a folder": (Path.mkdir, errno.EISDIR),
}


@pytest.mark.parametrize("other", OTHERS)
def test_another_kind_of_file_is_refused_at_once(folder, other):
    make, code = OTHERS[other]
    file = folder / "b.json"
    make(file)
    with pytest.raises(OSError, match=r".") as refusal:
        open_regular(file)
    assert refusal.value.errno == code
    for read in (lambda: read_text(file, "b"), lambda: document(file, "b")):
        with pytest.raises(DataError) as error:
            read()
        assert SECRET not in str(error.value)
    assert head_of(file) == b"" and parquet_columns(file) == []
    troubles: list[str] = []
    assert list(objects(file, "b", troubles.append)) == [] and len(troubles) == 1


def test_a_device_is_refused():
    with pytest.raises(OSError, match="not a regular") as refusal:
        open_regular(Path("/dev/zero"))
    assert refusal.value.errno == errno.ENODEV


def test_links_that_stay_in_their_folder_are_followed(folder):
    (folder / "b.json").symlink_to("a.json")
    (folder.parent / "again").symlink_to("notes")
    (folder.parent / "deep").symlink_to("again/../notes")
    for file in (
        folder / "b.json",
        folder.parent / "again" / "b.json",
        folder.parent / "deep" / "a.json",
    ):
        with open_regular(file) as one:
            assert one.read() == b'{"a": "mine"}'


def test_a_folder_on_the_way_that_is_a_link_out_is_refused(folder, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.json").write_text(SECRET)
    folder.rename(tmp_path / "moved")
    folder.symlink_to(outside)
    with pytest.raises(OSError, match="out of its folder") as refusal:
        open_regular(folder / "a.json", root=folder.parent)
    assert refusal.value.errno == errno.EXDEV
    hold_root(folder.parent)
    with pytest.raises(DataError, match="link out of its folder"):
        read_text(folder / "a.json", "a")
    # A folder that a person names may be below a link.
    (tmp_path / "named").symlink_to(outside)
    assert read_text(tmp_path / "named" / "a.json", "a") == SECRET


def test_a_folder_around_the_installation_s_does_not_reach_into_it(folder, tmp_path):
    """A cache on another disk works on when somebody opens a folder that holds it all."""
    disk, cache = tmp_path / "disk", folder / "cache"
    disk.mkdir()
    (disk / "a.json").write_text("vectors")
    cache.mkdir()
    (cache / "kept").symlink_to(disk)
    (folder / "part").symlink_to(disk)
    hold_root(folder, [cache])
    assert read_text(cache / "kept" / "a.json", "a") == "vectors"
    with pytest.raises(DataError, match="link out of its folder"):
        read_text(folder / "part" / "a.json", "a")
    hold_root(cache / "run")  # there is none
    (cache / "run").mkdir()
    (cache / "run" / "items").symlink_to(disk)
    hold_root(cache / "run", [cache])
    with pytest.raises(DataError, match="link out of its folder"):
        read_text(cache / "run" / "items" / "a.json", "a")


def test_a_size_is_that_of_the_file_that_was_opened(folder):
    with pytest.raises(OSError, match="too large"):
        open_file(folder / "a.json", 3)
    with open_file(folder / "a.json", 13) as file:
        assert len(file.read()) == 13


SWAPS = {
    "link": lambda f: f.symlink_to("/etc/passwd"),
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
}


def content_or_none(file: Path, root: Path) -> bytes | None:
    """What a file is read as; None where it is refused."""
    try:
        with open_regular(file, root=root) as one:
            return one.read()
    except OSError:
        return None


SWAPPED = [("a.json", "file", swap) for swap in SWAPS] + [
    ("a.json", "folder", "link"),
    ("notes", "folder", "link"),
]
"""The name at whose opening something is swapped, what is, and for what."""


@pytest.mark.parametrize(("name", "what", "swap"), SWAPPED)
def test_a_swap_between_check_and_open_reads_nothing(
    folder, tmp_path, monkeypatch, name, what, swap, way
):
    """The swap happens after every check by name, right before the file or folder is opened."""
    file, swaps = folder / "a.json", []
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.json").write_text(SECRET)
    opening, content = os.open, file.read_bytes()

    def swapped(path, flags, *arguments, **named):
        if Path(path).name == name and not swaps:
            swaps.append(path)
            if what == "folder":
                folder.rename(tmp_path / "moved")
                folder.symlink_to(outside)
            else:
                file.unlink()
                SWAPS[swap](file)
        return opening(path, flags, *arguments, **named)

    monkeypatch.setattr(os, "open", swapped)
    read = in_time(lambda: content_or_none(file, folder.parent), 10.0)
    if way == DIRECTLY and name == "notes":
        assert read == content and not swaps  # no folder is opened
    elif way == BY_FOLDERS and what == "folder" and name == "a.json":
        assert read == content and swaps  # by its folder, which was open, wherever it is now
    else:
        assert read is None and swaps


def test_swaps_by_another_thread_never_read_the_link(folder, tmp_path):
    file, over = folder / "a.json", threading.Event()
    content = file.read_bytes()

    def swap() -> None:
        fresh = folder / "fresh"
        while not over.is_set():
            fresh.symlink_to("/etc/passwd")
            fresh.replace(file)
            os.mkfifo(fresh)
            fresh.replace(file)
            fresh.write_bytes(content)
            fresh.replace(file)

    thread = threading.Thread(target=swap)
    thread.start()
    read = refused = 0
    patience = time.monotonic() + 60  # on a busy machine one of the two may be rare
    try:
        while read + refused < 3000 or (not (read and refused) and time.monotonic() < patience):
            try:
                with opened(file) as one:
                    assert one.read() == content
                read += 1
            except OSError:
                refused += 1
    finally:
        over.set()
        thread.join()
    assert read and refused


@pytest.mark.parametrize("swap", SWAPS)
def test_a_cohort_with_a_swapped_record_loads_the_others(tmp_path, swap):
    cohort = write_cohort(tmp_path.resolve() / "ward", records=3)
    record = sorted((cohort / "ehrs").iterdir())[1]
    record.unlink()
    SWAPS[swap](record)
    opened_cohort = open_cohort(cohort)
    assert len(opened_cohort.records) == 2
