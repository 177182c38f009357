"""What others can put before the program, by every door through which it comes in: nothing that
they planted is read or shown, and every refusal is one line, at once."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import duckdb
import pytest

from midchart.core import config
from midchart.core.cli import main
from midchart.core.errors import DataError, InputError, MidchartError
from midchart.core.loaders.open import content_digest, open_cohort
from midchart.core.parsing import read_named
from midchart.core.runs.spec import read_spec
from midchart.core.storage.files import output_path
from tests.fuzz.mutate import zip_of
from tests.support.cases import CASES
from tests.support.event_files import write_ehrshot, write_meds
from tests.support.fhir import patient, reading
from tests.support.run_helpers import ROOT, in_time, make_socket, write_cohort

SECRET = "planted-secret"
AT_ONCE_S = 10.0
"""A pipe is waited for without end; a busy machine takes some of these seconds to import."""


def outcome(work: Callable[[], object]) -> object:
    """What ``work`` gives at once, or its error, which is one line."""

    def attempt() -> object:
        try:
            return work()
        except MidchartError as error:
            assert len(str(error).splitlines()) == 1
            return error

    return in_time(attempt, AT_ONCE_S)


# Something else in the place of a file.


def pipe(file: Path) -> None:
    os.mkfifo(file)


def link_to_pipe(file: Path) -> None:
    pipe(file.with_name("pipe"))
    file.symlink_to("pipe")


def link_out(file: Path) -> None:
    outside = file.parents[1] / "outside"
    outside.write_text(f"patient_id,time,text\n1,2020-01-01,{SECRET}\n")
    file.symlink_to(outside)


IN_PLACE: dict[str, Callable[[Path], None]] = {
    "link out": link_out,
    "link to passwords": lambda file: file.symlink_to("/etc/passwd"),
    "link to a device": lambda file: file.symlink_to("/dev/zero"),
    "link in a circle": lambda file: file.symlink_to(file.name),
    "link to nothing": lambda file: file.symlink_to("nothing"),
    "pipe": pipe,
    "link to a pipe": link_to_pipe,
    "socket": make_socket,
    "folder": Path.mkdir,
}


OMOP = {
    "person.csv": "person_id,year_of_birth\n1,1950\n",
    "note.csv": "note_id,person_id,note_date,note_text\n7,1,2020-01-01,No fever today.\n",
}


def omop(place: Path, ending: str) -> None:
    """OMOP tables in files of an ending, or in one file that holds them."""
    texts = {name: text.encode() for name, text in OMOP.items()}
    if ending == "zip":
        texts = {"c.zip": zip_of(texts)}
    elif ending == "csv.gz":
        texts = {f"{name}.gz": gzip.compress(text) for name, text in texts.items()}
    for name, text in texts.items():
        (place / name).write_bytes(text)
    if ending in ("parquet", "duckdb"):
        with duckdb.connect(str(place / "cdm.duckdb")) as base:
            for name in texts:
                base.execute(f"CREATE TABLE {name[:-4]} AS FROM read_csv('{place / name}')")
                base.execute(f"COPY {name[:-4]} TO '{place / name[:-4]}.parquet'")
        for file in place.glob("*"):
            if file.suffix != f".{ending}":
                file.unlink()


def resources(place: Path) -> None:
    lines = [patient("1"), reading("r", "Potassium", "Patient/1")]
    (place / "a.ndjson").write_text("\n".join(map(json.dumps, lines)))


def ccda(place: Path) -> None:
    shutil.copytree(
        CASES / "ccda" / "body_without_sections_leaves_a_dated_note-10" / "input",
        place,
        dirs_exist_ok=True,
    )


NOTES = "patient_id,time,text\n1,2020-01-01,No fever today.\n"
COHORTS: dict[str, tuple[Callable[[Path], object], str]] = {
    **{
        f"OMOP, {ending}": (partial(omop, ending=ending), name)
        for ending, name in (
            ("csv", "note.csv"), ("csv.gz", "note.csv.gz"), ("parquet", "note.parquet"),
            ("duckdb", "cdm.duckdb"), ("zip", "c.zip"),
        )
    },
    "MEDS": (write_meds, ""),
    "EHRSHOT": (write_ehrshot, "EHRSHOT_ASSETS/data/ehrshot.csv"),
    "notes": (lambda place: (place / "notes.csv").write_text(NOTES), "notes.csv"),
    "resources": (resources, "a.ndjson"),
    "C-CDA": (ccda, ""),
    "MedAlign": (partial(write_cohort, records=1), ""),
}  # fmt: skip
"""Format → writes a cohort, and the file that is replaced ("": the largest)."""


def content(folder: Path) -> str:
    """Everything that is read of a cohort."""
    cohort = open_cohort(folder)
    return str([str(event) for id in cohort.records for event in cohort.records[id].events])


@pytest.mark.usefixtures("workspace")
@pytest.mark.parametrize("form", COHORTS)
def test_what_is_in_the_place_of_a_cohort_s_file_is_not_read(tmp_path: Path, form: str) -> None:
    write, name = COHORTS[form]
    intact = tmp_path / "whole"
    intact.mkdir()
    write(intact)
    unharmed = outcome(lambda: content(intact))
    assert isinstance(unharmed, str) and len(unharmed) > 2
    largest = max(intact.rglob("*.*"), key=lambda one: one.stat().st_size * one.is_file())
    target = name or largest.relative_to(intact)
    for number, (kind, replace) in enumerate(IN_PLACE.items()):
        folder = shutil.copytree(intact, tmp_path / f"c{number}" / "ward")
        file = folder / target
        if kind == "link out":
            file.rename(folder.parent / "outside")  # read over the link, all would be as before
            file.symlink_to(folder.parent / "outside")
        else:
            file.unlink()
            replace(file)
        read = outcome(lambda folder=folder: content(folder))
        assert isinstance(read, DataError) or (read != unharmed and "root:" not in str(read)), kind


@pytest.mark.usefixtures("workspace")
def test_a_folder_of_a_cohort_that_is_a_link_out_is_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "ward"
    folder.mkdir()
    (folder / "2.txt").write_text("one lone note")
    digest = content_digest(folder)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "2020-02-02.txt").write_text(SECRET)
    (folder / "3").symlink_to(tmp_path / "outside")
    refused = outcome(lambda: content(folder))
    assert "link out of the cohort's folder" in str(refused) and SECRET not in str(refused)
    (folder / "3").unlink()
    (folder / "3.txt").symlink_to(tmp_path / "outside" / "2020-02-02.txt")
    assert SECRET not in str(outcome(lambda: content(folder)))
    assert content_digest(folder) == digest
    (tmp_path / "linked").symlink_to(folder)  # a whole cohort may be elsewhere, and a file of it
    (folder / "4.txt").symlink_to("2.txt")
    assert str(outcome(lambda: content(tmp_path / "linked"))).count("lone") == 2


# Files that a person names, for reading and for results.


def keys_of(file: Path) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIDCHART_SECRETS", str(file))
        return config.secret("ANTHROPIC_API_KEY")


def printed(*words: str) -> object:
    return main(list(words))


NAMED: dict[str, Callable[[Path], object]] = {
    "spec": read_spec,
    "keys": keys_of,
    "questions": lambda file: printed(
        "ask", str(write_cohort(file.parent / "ward", records=1)), str(file)
    ),
}


@pytest.mark.usefixtures("workspace")
@pytest.mark.parametrize("door", NAMED)
def test_what_a_person_names_is_a_regular_file_or_refused_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], door: str
) -> None:
    for kind in ("pipe", "link to a pipe", "link to a device", "socket", "folder"):
        file = tmp_path / kind.replace(" ", "-") / "named.toml"
        file.parent.mkdir()
        IN_PLACE[kind](file)
        refused = outcome(lambda file=file: NAMED[door](file))
        text = str(refused) if isinstance(refused, MidchartError) else capsys.readouterr().err
        what = "folder" if kind == "folder" else "pipe or device"
        assert f"is a {what}, not a regular file; give a regular file" in text, kind
        assert "named.toml" in text and len(text.strip().splitlines()) == 1


def test_a_file_that_a_person_names_may_be_linked(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text("0123456789")
    (tmp_path / "link.toml").symlink_to("middle")
    (tmp_path / "middle").symlink_to(tmp_path / "spec.toml")
    assert read_named(tmp_path / "link.toml") == b"0123456789"


@pytest.mark.parametrize("kind", ["link out", "link to nothing", "pipe", "folder"])
def test_a_result_replaces_nothing_but_a_regular_file(
    workspace: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    desk = workspace / "desk" / "inside"
    desk.mkdir(parents=True)
    IN_PLACE[kind](desk / "out")
    before = sorted(desk.parent.rglob("*"))
    with pytest.raises(InputError, match="is a link, folder, pipe or device"):
        output_path(desk / "out")
    ward = str(write_cohort(workspace / "ward", records=1))
    assert main(["calibrate", ward, "--out", str(desk / "out")]) != 0
    assert "is a link, folder, pipe or device" in capsys.readouterr().err
    assert sorted(desk.parent.rglob("*")) == before


# What other accounts may see.

MODES = """
import os, sys
from pathlib import Path
from midchart.core.cli import main
place = Path(sys.argv[1])
for call in (["demo", "--patients", "2", "--events-per-patient", "20"],
             ["run", str(place / "spec.toml")]):
    assert main(call) == 0, call
(run,) = [one.name for one in (place / "data" / "runs").iterdir() if one.is_dir()]
assert main(["export", run, "--out", str(place / "out.zip")]) == 0
assert main(["report", run, "--csv", str(place / "tables")]) == 0
"""


@pytest.mark.slow
def test_files_are_their_owner_s_and_exports_have_the_person_s_own_mode(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text('kind = "selection"\ndata = "demo"\narms = ["bm25"]\n')
    places = {
        f"MIDCHART_{name}": str(tmp_path / name.lower()) for name in ("DATA", "CACHE", "STATE")
    }
    subprocess.run(
        [sys.executable, "-c", MODES, str(tmp_path)],
        cwd=ROOT, env=os.environ | places, umask=0o022, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    modes = {one: stat.S_IMODE(one.stat().st_mode) for one in tmp_path.rglob("*")}
    inside = [one for one in modes if one.parts[len(tmp_path.parts)] in ("data", "cache", "state")]
    assert {"audit.jsonl", "done.json", "notes.csv"} & {one.name for one in inside}
    assert not [one for one in inside if modes[one] & 0o077]
    assert {modes[tmp_path / "out.zip"], *(modes[o] for o in (tmp_path / "tables").iterdir())} == {
        0o644
    }
