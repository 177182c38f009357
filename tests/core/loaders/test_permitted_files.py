"""What a permission covers: every file that a loader reads, and the cohort that was permitted."""

from __future__ import annotations

import os
from hashlib import blake2b
from pathlib import Path

import pytest

from midchart.core import api
from midchart.core import config as settings
from midchart.core.cohorts.data_use import files_digest
from midchart.core.cohorts.files import LoadLog
from midchart.core.cohorts.manifest import column_settings
from midchart.core.errors import DataError, DataUseError, InputError
from midchart.core.loaders.open import (
    content_digest,
    files_state,
    open_cohort,
    read_cohort,
    refuse_untrainable,
    set_data_use,
    settle_columns,
)
from tests.support.run_helpers import write_cohort

_FHIR = (
    '{"resourceType":"Patient","id":"p9"}\n{"resourceType":"Condition","id":"c9","subject":'
    '{"reference":"Patient/p9"},"code":{"text":"x"},"onsetDateTime":"2020-01-01"}\n'
)
_FORMATS = {"notes.txt": "A first note.", "patients.ndjson": _FHIR}
_HIDDEN = (".midchart.questions.p9", ".midchart.toml.x", ".p9")


@pytest.mark.parametrize("visible", _FORMATS)
@pytest.mark.parametrize("hidden", _HIDDEN)
def test_a_hidden_file_is_no_record_and_ends_the_permission(
    tmp_path: Path, visible: str, hidden: str
) -> None:
    text = _FORMATS[visible]
    (tmp_path / visible).write_text(text)
    patients, permitted = list(read_cohort(tmp_path).records), files_digest(tmp_path)
    content = content_digest(tmp_path)
    (tmp_path / f"{hidden}{Path(visible).suffix}").write_text(text.replace("p9", "p8"))
    assert list(read_cohort(tmp_path).records) == patients
    assert files_digest(tmp_path) != permitted
    assert content_digest(tmp_path) == content


def test_the_hash_of_all_files_is_that_of_their_names_and_bytes(tmp_path: Path) -> None:
    total = blake2b(digest_size=20)
    for path in sorted(one for one in write_cohort(tmp_path).rglob("*") if one.is_file()):
        name = path.relative_to(tmp_path).as_posix()
        total.update(f"{len(name)}:{name}".encode())
        total.update(blake2b(path.read_bytes(), digest_size=20).digest())
    assert content_digest(tmp_path) == total.hexdigest()


def test_a_link_to_a_hidden_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".notes").mkdir()
    (tmp_path / ".notes" / "p1.txt").write_text("A note that no digest of a run covers.")
    (tmp_path / "notes").symlink_to(".notes")
    with pytest.raises(DataError, match="link to a hidden folder"):
        read_cohort(tmp_path)


def test_an_edit_of_one_size_with_its_time_put_back_is_noticed(tmp_path: Path) -> None:
    note = tmp_path / "notes.txt"
    note.write_text("A first note.")
    before, times = files_state(tmp_path), note.stat()
    note.write_text("B other note.")
    os.utime(note, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert files_state(tmp_path) != before


@pytest.mark.parametrize("stated", ["", "synthetic = true\n"])
def test_a_demo_does_not_replace_other_data(tmp_path: Path, stated: str) -> None:
    (tmp_path / "README.txt").write_text("A note.")
    (tmp_path / "midchart.toml").write_text(stated)
    with pytest.raises(InputError, match="not known as an unchanged"):
        api.prepare_demo(tmp_path, patients=1, events_per_patient=40)
    assert (tmp_path / "README.txt").read_text() == "A note."


def test_a_generated_demo_is_replaced(tmp_path: Path) -> None:
    for patients in (2, 1):
        api.prepare_demo(tmp_path / "demo", patients=patients, events_per_patient=40)
    assert len(api.open_data(tmp_path / "demo").records) == 1


@pytest.mark.parametrize("change", ["log", "folder"])
def test_a_cohort_that_is_held_open_loses_a_permission_as_it_ends(
    workspace: Path, change: str
) -> None:
    cohort = write_cohort(workspace / "ward", records=1)
    set_data_use(cohort, "training_allowed", True, "agreement number 12")
    held = open_cohort(cohort)
    refuse_untrainable(held)
    if change == "folder":
        cohort.rename(workspace / "moved")
    else:
        settings.audit_file().unlink()
    for _ in range(2):
        with pytest.raises(DataUseError, match="does not allow training"):
            refuse_untrainable(held)


def test_a_tag_with_any_characters_is_read_as_it_was_written(workspace: Path) -> None:
    name = "\U00020bb7\u91ce \U0001f4c5\U000e0100\x7f\"\\'"
    cohort = write_cohort(workspace / name, records=1)
    set_data_use(cohort, "training_allowed", True, "agreement number 12")
    settle_columns(cohort, {f"visits.{name}": "day first"})
    held = open_cohort(cohort)
    assert held.manifest.training_allowed and held.manifest.name == name
    assert column_settings(cohort, LoadLog()) == {f"visits.{name}".lower(): "day first"}
    assert not held.skipped and not held.warnings
