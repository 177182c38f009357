"""The audit log: its chain, its end that is known outside of the data, and what it permits."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from midchart.core import api
from midchart.core import config as settings
from midchart.core.cli import main
from midchart.core.cohorts import data_use
from midchart.core.egress import audit, gate_of
from midchart.core.errors import EgressRefused, InputError, WorkFailed
from midchart.core.loaders.open import open_cohort, set_data_use
from midchart.core.services import cohorts
from midchart.core.storage import chain, files
from midchart.core.storage.chain import ChainedLog
from midchart.core.synthetic.cohort import make_clinical
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


def test_a_complete_audit_log_is_verified(data, capsys):
    assert main(["audit", "--verify"]) == 0 and capsys.readouterr().out.startswith("whole: 0 lines")
    file = audited(data)
    lines = file.read_bytes().splitlines()
    hashes = [hashlib.sha256(line).hexdigest() for line in lines]
    assert [json.loads(line)["previous"] for line in lines] == ["", *hashes[:2]]
    assert main(["audit-log", "--verify"]) == 0
    (printed,) = capsys.readouterr().out.splitlines()
    assert printed.endswith(hashes[-1])
    assert main(["audit-log"]) == 0 and len(capsys.readouterr().out.splitlines()) == 3


CHANGES = {
    "a changed line": (lambda lines: [lines[0], lines[1].replace(b"May", b"Mai"), lines[2]], 3),
    "a removed line": (lambda lines: [lines[0], lines[2]], 2),
    "an added line": (lambda lines: [lines[0], b'{"event":"tag"}', *lines[1:]], 2),
    "an added first line": (lambda lines: [b'{"event":"tag"}', *lines], 1),
    "an added last line": (lambda lines: [*lines, b'{"event":"tag"}'], 4),
    "an added line that is no JSON": (lambda lines: [*lines[:2], b"no JSON", lines[2]], 3),
    "a first line that is no JSON": (lambda lines: [b"no JSON", *lines], 1),
    "a last line that is no JSON": (lambda lines: [*lines, b"no JSON"], 4),
    "an added empty line": (lambda lines: [lines[0], b"", *lines[1:]], 2),
    "an added list": (lambda lines: [lines[0], b"[1]", *lines[1:]], 2),
    "a damaged line": (lambda lines: [lines[0], b"{", lines[2]], 2),
    "a line twice": (lambda lines: [lines[0], lines[1], lines[1], lines[2]], 3),
    "the newest line twice": (lambda lines: [*lines, lines[2]], 4),
    "lines in another order": (lambda lines: [lines[1], lines[0], lines[2]], 1),
    "a changed last line": (lambda lines: [*lines[:2], lines[2].replace(b"May", b"Mai")], 3),
    "the newest line removed": (lambda lines: lines[:2], 2),
    "two last lines removed": (lambda lines: lines[:1], 1),
    "all lines removed": (lambda lines: [], 0),
    "only other lines": (lambda lines: [b"no JSON"], 1),
}


STILL_VOUCHED = ("a changed line", "lines in another order")
"""Changes before the newest line, which still leads to the known end and says yes."""


@pytest.mark.parametrize("change", CHANGES)
def test_the_first_broken_line_of_the_audit_log_is_named(data, capsys, change):
    file = audited(data)
    assert allowed(data / "ward")
    make, number = CHANGES[change]
    file.write_bytes(b"".join(line + b"\n" for line in make(file.read_bytes().splitlines())))
    assert main(["audit-log", "--verify"]) == 1
    assert f"line {number}: it " in capsys.readouterr().err
    # What it permitted before the break is no until one command; later lines hide nothing.
    assert allowed(data / "ward") == (change in STILL_VOUCHED)
    set_data_use(data / "ward", FIELD, True, REASON)
    assert allowed(data / "ward")
    assert main(["audit-log", "--verify", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["verified"]["broken"]["line"] >= min(number, 1) and document["lines"]


def test_a_newest_line_without_its_newline_is_named(data):
    file = audited(data)
    file.write_bytes(file.read_bytes()[:-1])
    assert broken_line() == 3
    file.write_bytes(file.read_bytes()[:-40])
    assert broken_line() == 3 and not allowed(data / "ward")


def test_a_log_that_was_removed_is_broken_and_permits_nothing(data):
    file = audited(data)
    file.unlink()
    assert broken_line() == 0 and not allowed(data / "ward")
    set_data_use(data / "ward", FIELD, True, REASON)
    assert broken_line() == 1 and allowed(data / "ward")


@pytest.mark.parametrize("target", ["nowhere.jsonl", "empty.jsonl", "audit.jsonl"])
def test_a_link_in_place_of_the_log_is_refused_and_permits_nothing(data, target):
    file = audited(data)
    file.unlink()
    (file.parent / "empty.jsonl").touch()
    file.symlink_to(target)
    tags, problem = audit.tags()
    assert not tags
    assert problem
    with pytest.raises(WorkFailed, match="cannot be read"):
        audit.verify()
    with pytest.raises(WorkFailed):
        audit.accept("a reason of some words")
    assert not (file.parent / "nowhere.jsonl").exists()
    assert not (file.parent / "empty.jsonl").read_bytes()


def test_a_log_without_its_anchor_is_broken_until_the_owner_accepts_it(data, capsys):
    file = audited(data)
    settings.audit_anchor().unlink()
    assert broken_line() == 3 and not allowed(data / "ward")
    with pytest.raises(InputError, match="reason"):
        api.accept_audit("no")
    assert main(["audit-log", "--accept", "--reason", "restored from the backup of 3 May"]) == 0
    assert "3 accepted as they are" in capsys.readouterr().out
    line = audit.lines()[-1]
    assert (line["event"], line["lines"], line["who"]) == ("accepted", 3, settings.user())
    # An acceptance keeps the history; a permission is a person's word about a cohort.
    assert not allowed(data / "ward")
    set_data_use(data / "ward", FIELD, True, REASON)
    assert allowed(data / "ward") and broken_line() is None
    # What was accepted stays what it was.
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:1], b"no JSON\n", *lines[1:]]))
    assert broken_line() == 2
    file.write_bytes(b"".join(lines[1:]))
    assert broken_line() == 1


def test_data_folders_do_not_share_an_anchor_and_a_moved_one_is_named(data, monkeypatch):
    file = audited(data)
    first = settings.audit_anchor()
    moved = data / "moved"
    shutil.copytree(data / "data", moved)
    monkeypatch.setenv("MIDCHART_DATA", str(moved))
    assert settings.audit_anchor() != first
    reason = audit.verify()["broken"]["reason"]
    assert "moved, restored" in reason and not allowed(data / "ward")
    audit.accept("the data folder has a new disk")
    assert broken_line() is None
    monkeypatch.setenv("MIDCHART_DATA", str(data / "data"))
    assert broken_line() is None and len(file.read_bytes().splitlines()) == 3


class Killed(BaseException):
    """The end of a process at a step."""


@pytest.mark.parametrize("step", ["intent", "line", "half", "end"])
def test_a_kill_at_any_step_of_a_line_breaks_nothing(data, monkeypatch, step):
    file = audited(data)
    before = file.read_bytes()
    keep, write = ChainedLog._keep, ChainedLog._write

    def anchored_until(log, anchor):
        if step == "end" and not anchor.intent:
            raise Killed
        keep(log, anchor)
        if step == "intent":
            raise Killed

    def written(log, handle, content):
        write(log, handle, content[: len(content) // 2] if step == "half" else content)
        if step != "end":
            raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(ChainedLog, "_keep", anchored_until)
        patch.setattr(ChainedLog, "_write", written)
        audit.run_action("started", run="r1")
    short = len(file.read_bytes().splitlines()) - len(before.splitlines())
    assert short == (step != "intent") and audit.verify()["broken"] is None
    assert allowed(data / "ward")
    # The next writer completes that very line; then the intent excuses nothing any more.
    audit.run_action("cancelled", run="r1")
    assert [line["event"] for line in audit.lines()[3:]] == ["started", "cancelled"]
    assert audit.verify()["broken"] is None
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-1]))
    assert broken_line() == 4


def test_an_intent_excuses_its_own_line_alone(data, monkeypatch):
    file = audited(data)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(ChainedLog, "_write", lambda *_: (_ for _ in ()).throw(Killed()))
        audit.run_action("started", run="r1")
    for other in (b"no JSON\n", b'{"event":"started"', b"{"):
        before = file.read_bytes()
        file.write_bytes(before + other)
        assert (broken_line() is None) == (other == b"{")
        file.write_bytes(before)
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-1]))
    assert broken_line() == 2


def test_a_log_from_before_anchors_waits_for_a_person_whatever_its_head_says(data):
    file = settings.audit_file()
    file.parent.mkdir(parents=True)
    written, last = b"", ""
    for n in range(3):
        line = json.dumps({"event": "left", "n": n, "previous": last}, separators=(",", ":"))
        written, last = written + line.encode() + b"\n", hashlib.sha256(line.encode()).hexdigest()
    file.write_bytes(written)
    file.with_suffix(".head").write_text(f"-\n{last}\n")
    audit.run_action("started", run="r1")
    assert broken_line() is not None
    audit.accept("begun by the version of last year")
    assert broken_line() is None and len(audit.lines()) == 5


def refused_by(patch: pytest.MonkeyPatch, place: str) -> None:
    """A full or failing disk: at the anchor, after its rename, at the log, or as it is synced."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def read_only(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    if place == "anchor":
        patch.setattr(chain, "replacing", full)
    elif place == "anchor's folder is read-only":
        patch.setattr(chain, "replacing", read_only)
    elif place == "anchor cannot be read":
        patch.setattr(chain, "read_regular", full)
    elif place == "anchor's folder":
        patch.setattr(files, "sync_folder", full)
    elif place == "log, and the anchor's second file":
        replacing = chain.replacing
        left = iter([replacing])
        patch.setattr(chain, "replacing", lambda path: next(left, full)(path))
        patch.setattr(os, "write", full)
    elif place == "half of a line":
        write = os.write
        patch.setattr(os, "write", lambda file, content: write(file, content[:20]))
    else:
        sync = os.fsync

        def sync_all_but(file: int) -> None:
            if Path(f"/proc/self/fd/{file}").readlink().name == "audit.jsonl":
                raise OSError(errno.EIO, "Input/output error")
            sync(file)

        patch.setattr(os, "fsync", sync_all_but)


@pytest.mark.parametrize(
    "place",
    ["anchor", "anchor's folder is read-only", "anchor cannot be read", "anchor's folder",
     "log, and the anchor's second file", "half of a line", "sync"],
)  # fmt: skip
def test_a_full_or_failing_disk_refuses_a_line_and_breaks_nothing(data, monkeypatch, place):
    file = audited(data)
    before = file.read_bytes()
    for act in (
        lambda: audit.run_action("started", run="r1"),
        lambda: audit.left(
            run="r", cohort="c", host="h", encrypted=True, purpose="p", records=1, items=1
        ),
    ):
        with monkeypatch.context() as patch, pytest.raises(WorkFailed, match="nothing was entered"):
            refused_by(patch, place)
            act()
        assert file.read_bytes() == before and broken_line() is None and allowed(data / "ward")
    audit.run_action("cancelled", run="r2")
    assert [line["event"] for line in audit.lines()[3:]] == ["cancelled"] and broken_line() is None


def test_an_anchor_that_cannot_be_read_for_a_moment_breaks_nothing(data, monkeypatch):
    audited(data)
    with monkeypatch.context() as patch:
        refused_by(patch, "anchor cannot be read")
        with pytest.raises(WorkFailed, match="cannot be read"):
            audit.verify()
    assert broken_line() is None and allowed(data / "ward")


def test_a_line_that_is_announced_and_stays_so_is_told_and_is_entered_next(data, monkeypatch):
    audited(data)
    keep = ChainedLog._keep

    def fail_afterwards(log, anchor):
        if not anchor.intent:
            raise OSError(errno.EIO, "Input/output error")
        keep(log, anchor)
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch, pytest.raises(WorkFailed, match="next writer enters it"):
        patch.setattr(ChainedLog, "_keep", fail_afterwards)
        patch.setattr(chain, "open_private", lambda *_: fail_afterwards(None, chain.Anchor("x")))
        audit.run_action("started", run="r1")
    audit.run_action("cancelled", run="r1")
    assert [line["event"] for line in audit.lines()[3:]] == ["started", "cancelled"]
    assert broken_line() is None


def test_temporary_copies_of_the_anchor_are_deleted_with_the_next_line(data):
    audited(data)
    left = settings.audit_anchor().with_name(f".{settings.audit_anchor().name}.abcd1234")
    left.write_text("{}")
    audit.run_action("started", run="r1")
    assert not left.exists() and broken_line() is None


def test_a_pipe_or_a_device_in_place_of_the_anchor_is_no_anchor(data):
    audited(data)
    anchor = settings.audit_anchor()
    anchor.unlink()
    os.mkfifo(anchor)
    assert broken_line() == 3 and not allowed(data / "ward")


def test_without_a_place_for_the_anchor_work_goes_on_and_nothing_may_leave(data, monkeypatch):
    cohort = write_cohort(data / "ward", records=1)
    (data / "state").write_text("a file where the folder should be")
    audit.run_action("started", run="r1")
    audit.run_action("started", run="r2")
    assert len(audit.lines()) == 2 and broken_line() == 2
    for act in (
        lambda: set_data_use(cohort, FIELD, True, REASON),
        lambda: audit.left(
            run="r", cohort="c", host="h", encrypted=True, purpose="p", records=1, items=1
        ),
    ):
        with pytest.raises(WorkFailed, match="MIDCHART_STATE"):
            act()
    assert len(audit.lines()) == 2 and not allowed(cohort)
    monkeypatch.setenv("MIDCHART_STATE", str(data / "data" / "state"))
    with pytest.raises(InputError, match="outside"):
        audit.verify()


def test_appending_does_not_read_a_long_log(data, monkeypatch):
    file = audited(data)
    with file.open("ab") as opened:
        opened.write(b'{"i":-1}\n' * 100_000)
    monkeypatch.setattr(chain, "_scan", lambda lines: pytest.fail("reads the whole log"))
    audit.run_action("started", run="r1")


@pytest.mark.slow
def test_concurrent_writers_do_not_fork_the_hash_chain(data):
    code = (
        "from midchart.core.egress import audit\n"
        "for i in range(40): audit.run_action('started', run=str(i))"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    for writer in writers:
        while writer.poll() is None:
            assert audit.verify()["broken"] is None
            with suppress(subprocess.TimeoutExpired):
                writer.wait(0.2)
    assert [writer.returncode for writer in writers] == [0, 0, 0]
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


def test_an_import_and_its_removal_are_noted_for_its_files(data):
    source = write_cohort(data / "source", records=1)
    api.import_cohort("north", source, allowed={FIELD: True}, reason=REASON)
    folder = settings.cohorts_folder() / "north"
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


def test_demo_cohorts_of_an_older_version_are_recognised_at_the_next_start(data, monkeypatch):
    monkeypatch.setattr(cohorts, "DEMOS", {
        "clinical": ("demo", 2, 30), "letters": ("demo-letters", 1, 100),
        "ehrshot": ("demo-laboratory", 3, 60),
    })  # fmt: skip
    (data / "data" / "runs").mkdir(parents=True)
    api.prepare_first_start()
    folder = settings.cohorts_folder() / "demo"
    assert allowed(folder)
    (data / "state" / "generated.jsonl").unlink()
    assert not allowed(folder)
    api.prepare_first_start()
    assert allowed(folder) and allowed(settings.cohorts_folder() / "demo-laboratory")
    # Where it is not what the program generates, it is like any other folder.
    (data / "state" / "generated.jsonl").unlink()
    next((folder / "ehrs").iterdir()).write_text("<eventstream></eventstream>")
    api.prepare_first_start()
    assert not allowed(folder)


def test_a_line_from_before_digests_permits_nothing(data):
    cohort = placed(data / "ward")
    audit.tag_changed(
        cohort="ward", folder=cohort, field=FIELD, before=False, after=True, reason=REASON
    )
    assert not allowed(cohort)


def test_unchanged_files_are_not_read_again(data, monkeypatch):
    cohort = placed(data / "ward")
    monkeypatch.setattr(data_use, "_SETTLED_NS", -1)
    digest = data_use.files_digest(cohort)
    with monkeypatch.context() as patch:
        patch.setattr(data_use, "open_regular", lambda *_: pytest.fail("reads a file"))
        assert data_use.files_digest(cohort) == digest
    (cohort / "ehrs" / "new.xml").write_text("<eventstream/>")
    assert data_use.files_digest(cohort) != digest


def test_a_permission_ends_in_a_running_process_when_the_log_is_removed(data):
    cohort = placed(data / "ward")
    set_data_use(cohort, FIELD, True, REASON)
    assert allowed(cohort)
    settings.audit_file().unlink()
    assert not allowed(cohort)
