"""The audit log: its chain of lines, and what it permits."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from midchart.core import api
from midchart.core import config as settings
from midchart.core.cli import main
from midchart.core.cohorts import data_use
from midchart.core.egress import audit, gate_of
from midchart.core.errors import EgressRefused, InputError, WorkFailed
from midchart.core.loaders.open import open_cohort, set_data_use
from midchart.core.storage.sources import Source
from midchart.extras.lab.synthetic.cohort import make_clinical
from tests.support.run_helpers import write_cohort

REASON = "data protection officer, letter of 2 May"
FIELD = "training_allowed"


@pytest.fixture
def data(workspace: Path) -> Path:
    return workspace


def audited(data: Path) -> Path:
    """A cohort with an audit log of three lines; the log."""
    cohort = write_cohort(data / "ward", records=1)
    for value in (True, False, True):
        set_data_use(cohort, FIELD, value, REASON)
    return settings.audit_file()


def allowed(cohort: Path) -> bool:
    return open_cohort(cohort).manifest.training_allowed


def broken_line() -> int | None:
    broken = audit.verify()["broken"]
    return broken and broken["line"]


# The chain.


def test_each_line_holds_the_hash_of_the_line_before(data, capsys):
    assert main(["audit-log", "--verify"]) == 0
    assert capsys.readouterr().out.startswith("whole: 0 lines")
    file = audited(data)
    lines = file.read_bytes().splitlines()
    hashes = [hashlib.sha256(line).hexdigest() for line in lines]
    assert [json.loads(line)["previous"] for line in lines] == ["", *hashes[:2]]
    assert main(["audit-log", "--verify"]) == 0
    (printed,) = capsys.readouterr().out.splitlines()
    assert printed.endswith(hashes[-1])
    assert main(["audit-log"]) == 0 and len(capsys.readouterr().out.splitlines()) == 3


ACCIDENTS = {
    "a changed line": (lambda lines: [lines[0], lines[1].replace(b"May", b"Mai"), lines[2]], 3),
    "a removed line": (lambda lines: [lines[0], lines[2]], 2),
    "a removed first line": (lambda lines: lines[1:], 1),
    "an added line": (lambda lines: [lines[0], b'{"event":"tag"}', *lines[1:]], 2),
    "an added last line": (lambda lines: [*lines, b'{"event":"tag"}'], 4),
    "no JSON": (lambda lines: [*lines[:2], b"no JSON", lines[2]], 3),
    "an empty line": (lambda lines: [lines[0], b"", *lines[1:]], 2),
    "a line twice": (lambda lines: [lines[0], lines[1], lines[1], lines[2]], 3),
    "lines in another order": (lambda lines: [lines[1], lines[0], lines[2]], 1),
}


@pytest.mark.parametrize("accident", ACCIDENTS)
def test_an_accident_is_named_and_ends_permissions_given_before(data, capsys, accident):
    file = audited(data)
    make, number = ACCIDENTS[accident]
    file.write_bytes(b"".join(line + b"\n" for line in make(file.read_bytes().splitlines())))
    assert main(["audit-log", "--verify"]) == 1
    assert f"line {number}: it " in capsys.readouterr().err
    if accident == "an added last line":
        assert not allowed(data / "ward")
    set_data_use(data / "ward", FIELD, True, REASON)
    assert allowed(data / "ward") and broken_line() == number
    file.rename(file.with_name("audit of May.jsonl"))
    assert main(["audit-log", "--verify"]) == 0 and not allowed(data / "ward")


def test_a_line_of_a_killed_writer_is_cut_off_by_the_next_one(data):
    file = audited(data)
    content = file.read_bytes()
    for size in (len(content) - 1, len(content) - 40):
        file.write_bytes(content[:size])
        assert broken_line() is None and not allowed(data / "ward")
        audit.note("started", run="r1")
        assert len(audit.lines()) == 3 and broken_line() is None


@pytest.mark.parametrize("fault", ["half of a line", "sync", "full"])
def test_a_full_or_failing_disk_refuses_a_line_and_breaks_nothing(data, monkeypatch, fault):
    file = audited(data)
    before, write, sync = file.read_bytes(), os.write, os.fsync

    def fail(handle: int, *_: object) -> None:
        if Path(f"/proc/self/fd/{handle}").readlink().name != "audit.jsonl":
            return sync(handle)
        raise OSError(errno.ENOSPC, "No space left on device")

    for act in (
        lambda: audit.note("started", run="r1"),
        lambda: audit.note("left", run="r", cohort="c", host="h", records=1),
    ):
        with monkeypatch.context() as patch, pytest.raises(WorkFailed, match="cannot be written"):
            if fault == "half of a line":
                patch.setattr(os, "write", lambda file, content: write(file, content[:20]))
            else:
                patch.setattr(os, "fsync" if fault == "sync" else "write", fail)
            act()
        assert file.read_bytes() == before and broken_line() is None and allowed(data / "ward")


@pytest.mark.slow
def test_concurrent_writers_do_not_fork_the_hash_chain(data):
    code = (
        "from midchart.core.egress import audit\n"
        "for i in range(40): audit.note('started', run=str(i))"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    verified = audit.verify()
    assert (verified["lines"], verified["broken"]) == (120, None)


# What counts as a permission.


def placed(folder: Path, name: str = "ward") -> Path:
    """A folder placed by hand whose tag allows everything."""
    cohort = write_cohort(folder, records=1)
    tag = f'name = "{name}"\ntraining_allowed = true\nexternal_services_allowed = true\n'
    (cohort / "midchart.toml").write_text(tag)
    return cohort


def test_a_folder_placed_by_hand_is_not_allowed_until_one_command(data, capsys):
    cohort = placed(settings.cohorts_folder() / "ward")
    manifest = open_cohort(cohort).manifest
    assert not manifest.training_allowed and not manifest.external_services_allowed
    with pytest.raises(EgressRefused, match="data-use tag"):
        gate_of(manifest, ["api.example.org"]).permit("https://api.example.org")
    assert main(["check", str(cohort)]) == 0
    warnings = [s for s in capsys.readouterr().out.splitlines() if s.startswith("warning")]
    assert len(warnings) == 2 and all("midchart data-use ward " in text for text in warnings)
    assert main(["data-use", "ward", FIELD, "yes", "--reason", REASON]) == 0
    manifest = open_cohort(cohort).manifest
    assert manifest.training_allowed and not manifest.external_services_allowed


def test_a_cohort_that_claims_the_name_or_place_of_an_allowed_one_is_not_allowed(data):
    cohort = placed(data / "ward")
    set_data_use(cohort, FIELD, True, REASON)
    assert allowed(cohort)
    assert not allowed(placed(data / "other", name="ward"))
    copied = Path(shutil.copytree(cohort, data / "copied"))
    assert not allowed(copied)
    set_data_use(copied, FIELD, True, REASON)
    assert allowed(copied) and allowed(cohort)
    # Another cohort at the place of an allowed one.
    shutil.rmtree(cohort)
    shutil.copytree(data / "other", cohort)
    (cohort / "ehrs" / "extra.xml").write_text("<eventstream></eventstream>")
    assert not allowed(cohort)
    renamed = copied.rename(data / "renamed")
    assert not allowed(renamed)


CONTENT = {
    "a changed file": lambda folder: next(folder.rglob("*.xml")).write_bytes(
        next(folder.rglob("*.xml")).read_bytes() + b"\n"
    ),
    "a new file": lambda folder: (folder / "ehrs" / "new.xml").write_text("<eventstream/>"),
    "a hidden new file": lambda folder: (folder / ".new.tsv").write_text("a\tb\n"),
    "a removed file": lambda folder: next(folder.glob("*.tsv")).unlink(),
    "a renamed file": lambda folder: next(folder.rglob("*.xml")).rename(folder / "ehrs" / "b.xml"),
}


@pytest.mark.parametrize("change", CONTENT)
def test_a_cohort_whose_files_change_asks_again_by_name(data, change):
    cohort = placed(data / "ward")
    set_data_use(cohort, FIELD, True, REASON)
    assert allowed(cohort)
    CONTENT[change](cohort)
    opened = open_cohort(cohort)
    assert not opened.manifest.training_allowed
    (warning,) = [text for text in opened.warnings if FIELD in text]
    assert "changed since" in warning and str(cohort) in warning
    set_data_use(cohort, FIELD, True, REASON)
    assert allowed(cohort)


def test_what_people_keep_with_a_cohort_changes_no_permission(data):
    cohort = placed(data / "ward")
    set_data_use(cohort, FIELD, True, REASON)
    opened = open_cohort(cohort)
    record = next(iter(opened.records))
    api.keep_question(cohort, record, "Which dose was given?", "Ada")
    (cohort / "midchart.toml").write_text(
        (cohort / "midchart.toml").read_text() + 'licence = "agreement 7"\n'
    )
    (cohort / ".DS_Store").write_text("a view of a file manager")
    assert open_cohort(cohort).manifest.licence == "agreement 7" and allowed(cohort)


def test_a_tag_that_says_no_is_no_whatever_the_log_says(data):
    cohort = placed(data / "ward")
    set_data_use(cohort, FIELD, True, REASON)
    file = cohort / "midchart.toml"
    allowing = file.read_text()
    file.write_text(allowing.replace(f"{FIELD} = true", f"{FIELD} = false"))
    assert not allowed(cohort)
    set_data_use(cohort, FIELD, False, REASON)
    file.write_text(allowing)
    assert not allowed(cohort)


def test_an_import_permits_nothing_and_a_removal_takes_back_what_was_permitted(data):
    source = write_cohort(data / "source", records=1)
    api.import_cohort("north", source)
    folder = settings.cohorts_folder() / "north"
    assert not allowed(folder)
    set_data_use(folder, FIELD, True, REASON)
    assert allowed(folder)
    copy = Path(shutil.copytree(folder, data / "kept"))
    api.remove_cohort("north")
    shutil.copytree(copy, folder)
    assert not allowed(folder)


def test_generated_cohorts_are_allowed_wherever_they_are_and_only_as_generated(data):
    folder = data / "demo"
    make_clinical(folder, 2, 30)
    manifest = open_cohort(folder).manifest
    assert manifest.training_allowed and manifest.external_services_allowed
    copied = Path(shutil.copytree(folder, data / "copied"))
    assert allowed(copied)
    (copied / "ehrs" / "real.xml").write_text("<eventstream></eventstream>")
    assert not allowed(copied)
    # What others left in the folder is not made permitted by generating into it.
    make_clinical(folder, 2, 30, seed=7)
    assert allowed(folder)
    (folder / "notes.csv").write_text("patient_id,text\n1,x\n")
    with pytest.raises(InputError, match="not known as an unchanged"):
        make_clinical(folder, 2, 30, seed=8)
    assert not allowed(folder)
    # A person may forbid it.
    set_data_use(copied, FIELD, False, REASON)
    assert not allowed(copied)


def test_unchanged_files_are_not_read_again(data, monkeypatch):
    cohort = placed(data / "ward")
    digest = data_use.files_digest(cohort)
    with monkeypatch.context() as patch:
        patch.setattr(Source, "digest", property(lambda _: pytest.fail("reads a file")))
        assert data_use.files_digest(cohort) == digest
    (cohort / "ehrs" / "new.xml").write_text("<eventstream/>")
    assert data_use.files_digest(cohort) != digest


def test_a_permission_ends_in_a_running_process_when_the_log_is_removed(data):
    cohort = placed(data / "ward")
    set_data_use(cohort, FIELD, True, REASON)
    assert allowed(cohort)
    settings.audit_file().unlink()
    assert not allowed(cohort)
