"""A file that is swapped between its check and its opening, or after it, is never read nor awaited,
in any format that another library reads and in any file of a run's folder."""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from midchart.core import api, config
from midchart.core.cohorts import files as cohort_files
from midchart.core.errors import DataError, InputError, MidchartError
from midchart.core.gate.checkpoint import load_arrays, save_arrays
from midchart.core.loaders import open as open_module
from midchart.core.loaders.open import content_digest, open_cohort
from midchart.core.results.reviews import reviews_folder
from midchart.core.runs.directory import RunDirectory
from midchart.core.samples import inspect
from midchart.core.storage import sql_files
from midchart.core.storage.rows import query
from midchart.core.storage.sql_files import quoted
from tests.fuzz import seeds
from tests.fuzz.mutate import zip_of
from tests.support.run_helpers import finished_run, in_time, workspace_at, write_cohort

Files = dict[str, bytes]


def in_duckdb(unwritten: bool) -> Files:
    """A database of the OMOP tables; ``unwritten``: its last row is only in its log."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(seeds.TemporaryDirectory()))
        base = stack.enter_context(duckdb.connect(str(folder / "cdm.duckdb")))
        for name, data in seeds.omop_parquet().items():
            if name.endswith(".parquet"):
                (folder / name).write_bytes(data)
                sql = f"CREATE TABLE {Path(name).stem} AS FROM read_parquet('{folder / name}')"
                base.execute(sql)
        base.execute("CHECKPOINT")
        if unwritten:
            base.execute(
                "INSERT INTO death BY NAME SELECT 8 AS person_id, 'x' AS cause_source_value"
            )
        return {path.name: path.read_bytes() for path in folder.glob("cdm.*")}


def packed() -> Files:
    tables = {name: data for name, data in seeds.omop_csv().items() if name.endswith(".csv")}
    return {f"{name}.gz": gzip.compress(data) for name, data in tables.items()}


def zipped() -> Files:
    return {"cohort.zip": zip_of(seeds.omop_csv())}


FORMATS: dict[str, tuple[Callable[[], Files], str]] = {
    "OMOP, CSV": (seeds.omop_csv, "NOTE.csv"),
    "OMOP, packed CSV": (packed, "NOTE.csv.gz"),
    "OMOP, Parquet": (seeds.omop_parquet, "note.parquet"),
    "OMOP, DuckDB": (lambda: in_duckdb(False), "cdm.duckdb"),
    "OMOP, DuckDB with a log": (lambda: in_duckdb(True), "cdm.duckdb"),
    "OMOP, log of a DuckDB file": (lambda: in_duckdb(True), "cdm.duckdb.wal"),
    "OMOP, zip": (zipped, "cohort.zip"),
    "MEDS": (seeds.meds, ""),
    "EHRSHOT": (seeds.ehrshot, "EHRSHOT_ASSETS/data/ehrshot.csv"),
    "notes": (seeds.notes, "notes.csv"),
    "bundles": (seeds.fhir_bundle, ""),
    "resources": (seeds.fhir_lines, ""),
    "C-CDA": (seeds.ccda, "d1.xml"),
}
"""Name → files of a cohort, and the one that is swapped ("": the largest)."""


def written(folder: Path, files: Files) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def content(folder: Path) -> object:
    """Everything that is read of a cohort; the error where it is refused."""
    try:
        cohort = open_cohort(folder)
        return {
            name: [str(event) for event in cohort.records[name].events] for name in cohort.records
        }
    except DataError as error:
        return type(error)


def link(file: Path, outside: Path) -> None:
    file.symlink_to(outside)


def pipe(file: Path, outside: Path) -> None:
    os.mkfifo(file)


def circle(file: Path, outside: Path) -> None:
    file.symlink_to(file.name)


SWAPS = {"link": link, "pipe": pipe}


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Path]:
    with workspace_at(tmp_path.resolve() / "home"):
        yield tmp_path.resolve()


@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("format_name", FORMATS)
def test_a_cohort_s_file_swapped_after_its_check_is_not_read(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, format_name: str, swap: str
) -> None:
    make, name = FORMATS[format_name]
    files = make()
    name = name or max(files, key=lambda one: len(files[one]))
    expected = in_time(lambda: content(written(workspace / "whole", files)))
    assert isinstance(expected, dict) and expected
    folder = written(workspace / "ward", files)
    outside = workspace / "outside"
    shutil.copy(folder / name, outside)  # read over the link, the cohort would be as before
    target = folder / name
    real = cohort_files.check_file

    def swapped(path: Path, *arguments: Any) -> os.stat_result:
        state = real(path, *arguments)
        if path == target and target.is_file() and not target.is_symlink():
            target.unlink()
            SWAPS[swap](target, outside)
        return state

    for module in (cohort_files, __import__("midchart.core.fhir.files", fromlist=["x"])):
        monkeypatch.setattr(module, "check_file", swapped)
    read = in_time(lambda: content(folder))
    if not target.is_symlink() and target.is_file():  # nothing checks it by itself
        target.unlink()
        SWAPS[swap](target, outside)
        read = in_time(lambda: content(folder))
    assert read != expected


@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("format_name", [name for name in FORMATS if name not in ("bundles",)])
def test_what_duckdb_reads_is_what_was_opened(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, format_name: str, swap: str
) -> None:
    make, name = FORMATS[format_name]
    files = make()
    name = name or max(files, key=lambda one: len(files[one]))
    expected = in_time(lambda: content(written(workspace / "whole", files)))
    folder = written(workspace / "ward", files)
    target, outside = folder / name, workspace / "outside"
    outside.write_bytes(b"planted")
    real = sql_files.open_regular

    def swapped(path: Path, *arguments: Any, **named: Any) -> Any:
        opened = real(path, *arguments, **named)
        if path == target:
            shutil.copy(target, workspace / "kept")
            target.rename(workspace / "moved")
            SWAPS[swap](target, outside)
        return opened

    def restored(path: Path, *arguments: Any, **named: Any) -> Any:
        if path == target and (workspace / "moved").exists():
            target.unlink()
            (workspace / "moved").rename(target)
        return swapped(path, *arguments, **named)

    monkeypatch.setattr(sql_files, "open_regular", restored)
    # Read as it was opened, or refused where the file is opened again.
    assert in_time(lambda: content(folder)) in (expected, DataError)


@pytest.mark.parametrize("swap", SWAPS)
def test_the_digest_of_a_cohort_is_of_its_own_files_alone(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, swap: str
) -> None:
    folder, outside = written(workspace / "ward", seeds.notes()), workspace / "outside"
    digest = content_digest(folder)
    outside.write_text("planted")
    link(folder / "zz.csv", outside)
    with_link = content_digest(folder)
    outside.write_text("planted otherwise")
    assert content_digest(folder) == with_link == digest
    real = open_module.open_file

    def swapped(path: Path, *arguments: Any) -> Any:
        if path.name == "notes.csv" and path.is_file():
            path.unlink()
            SWAPS[swap](path, outside)
        return real(path, *arguments)

    monkeypatch.setattr(open_module, "open_file", swapped)
    assert in_time(lambda: content_digest(folder)) != digest


def test_text_of_records_names_no_file_in_sql(tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\nplanted-secret\n")
    mark = quoted(secret).removeprefix("'").split(":")[0]
    assert len(mark) == 32
    guess = f"'{'0' * 32}:{secret}'"
    with sql_files.reading(f"SELECT {guess} AS a") as sql:
        assert sql == f"SELECT {guess} AS a"
    # A path as a parameter, or in a text, is a text.
    assert query(lambda: "SELECT ? AS a", [str(secret)]) == [{"a": str(secret)}]


def test_a_path_with_quotes_and_patterns_is_that_file(tmp_path: Path) -> None:
    for name in ("it's.csv", "a*.csv", "b[1].csv", "c?.csv", "d{1,2}.csv"):
        (tmp_path / name).write_text(f'a\n"{name}"\n')
        read = query(
            lambda name=name: (
                f"SELECT a FROM read_csv({quoted(tmp_path / name)}, header=true, "
                "auto_detect=false, delim=',', columns={'a': 'VARCHAR'})"
            )
        )
        assert read == [{"a": name}]


def test_more_files_than_the_limit_of_open_ones_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import resource

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] not in (resource.RLIM_INFINITY,) and limits[1] < 4096:
        pytest.skip("the system's limit is lower")
    paths = [tmp_path / f"{i}.csv" for i in range(400)]
    for number, path in enumerate(paths):
        path.write_text(f"{number}\n")
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, limits[1]))
    try:
        listed = ", ".join(map(quoted, paths))
        options = "header=false, columns={'a': 'INT'}, auto_detect=false, delim=','"
        sql = f"SELECT sum(a)::BIGINT AS s FROM read_csv([{listed}], {options})"
        assert query(lambda: sql) == [{"s": sum(range(400))}]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("swap", SWAPS)
def test_a_log_of_inspect_is_a_copy_of_what_was_checked(tmp_path: Path, swap: str) -> None:
    log, outside = tmp_path / "logs" / "a.json", tmp_path / "outside.json"
    outside.write_text("planted")
    log.parent.mkdir()
    log.write_text("{}")
    copy = inspect._private_copy(log, "a.json", tmp_path)
    assert copy.parent == tmp_path and copy.read_text() == "{}"
    copy.unlink()
    log.unlink()
    SWAPS[swap](log, outside)
    with pytest.raises(DataError, match=r"out of its folder|pipe"):
        inspect._private_copy(log, "a.json", tmp_path)


# The files of a run's folder.


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunDirectory]:
    home = tmp_path_factory.mktemp("swapped").resolve()
    with workspace_at(home):
        cohort = write_cohort(config.cohorts_folder() / "ward", records=2, events=8)
        table = {
            "name": "a",
            "kind": "answers",
            "arms": ["bm25"],
            "readers": ["extractive"],
            "judges": ["exact"],
        }
        id = finished_run({**table, "data": str(cohort)})
        folder = RunDirectory(config.runs_folder() / id)
        folder.log.write_text("a line\n")
        folder.people.touch()
        api.export_run(id, home / "whole.zip", False)
        yield folder


NAMES = (
    *("spec.json", "done.json", "events.jsonl", "log.txt", "people.jsonl", "labels.json", "lock"),
    *("slot", "place", "queued.json", "cancel", "gates.json", "items/answers.parquet"),
    *("items/answers.jsonl", "items/answers.damaged.jsonl", "items/answers.jsonl.tmp", "items"),
)
PLANTED = '{"planted-secret": 1}\n'


def calls(id: str, place: Path) -> dict[str, Callable[[], object]]:
    """What reads and writes a run."""
    return {
        "status": api.status,
        "damaged": api.damaged_runs,
        "report": lambda: api.report(id),
        "rows": lambda: api.rows(id, "answers"),
        "log": lambda: api.log_tail(id),
        "cards": lambda: api.review_cards(id, "ann"),
        "compare": lambda: api.compare_runs([id, id]),
        "export": lambda: api.export_run(id, place / "x.zip", True),
        "cancel": lambda: api.cancel(id),
        "resume": lambda: api.resume(id),
    }


@pytest.mark.parametrize("swap", {**SWAPS, "circle": circle})
@pytest.mark.parametrize("name", NAMES)
def test_a_run_s_file_that_is_a_link_or_pipe_is_neither_read_nor_written_nor_awaited(
    run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, swap: str
) -> None:
    id = "20200101-000001-aaaaaa"
    copy = config.runs_folder() / id
    shutil.copytree(run.path, copy)
    outside = tmp_path / "outside"
    file = copy / name
    if name == "items":
        file.rename(outside)
        (outside / "planted-secret").touch()
    else:
        outside.write_text(PLANTED)
        file.unlink(missing_ok=True)
    if name == "items/answers.jsonl":
        (copy / "items" / "answers.parquet").unlink()
        (copy / "done.json").unlink()
    {**SWAPS, "circle": circle}[swap](file, outside)
    before = sorted(outside.iterdir()) if outside.is_dir() else outside.read_text()
    launched: list[object] = []
    monkeypatch.setattr("midchart.core.runs.process.launch", lambda *a: launched.append(a))

    def result(call: Callable[[], object]) -> str:
        try:
            return str(call())
        except MidchartError as error:
            return str(error)

    try:
        for what, call in calls(id, tmp_path).items():
            shown = str(in_time(lambda call=call: result(call)))
            assert "planted-secret" not in shown, what
        if os.path.lexists(file):  # a note of the queue that is a link is taken away itself
            with pytest.raises(InputError, match="is a link or a special file"):
                api.resume(id)
            assert not launched
        after = sorted(outside.iterdir()) if outside.is_dir() else outside.read_text()
        assert after == before
        exported = tmp_path / "x.zip"
        assert not exported.exists() or b"planted-secret" not in exported.read_bytes()
        assert any(row["run"] == run.id for row in api.status())
    finally:
        shutil.rmtree(copy)


@pytest.mark.parametrize("swap", SWAPS)
def test_a_reviewer_s_file_that_is_a_link_or_pipe_is_neither_read_nor_written(
    run: RunDirectory, tmp_path: Path, swap: str
) -> None:
    (card, *_) = api.review_cards(run.id, "bea")
    file, outside = reviews_folder(run.id) / "bea.jsonl", tmp_path / "outside"
    file.parent.mkdir(parents=True, exist_ok=True)
    outside.write_text(PLANTED)
    SWAPS[swap](file, outside)
    try:
        for work in (
            lambda: api.review_rows(run.id),
            lambda: api.add_review(run.id, "bea", card.key, "correct"),
        ):
            refused = in_time(lambda work=work: _error(work))
            assert isinstance(refused, MidchartError) and "planted-secret" not in str(refused)
        assert outside.read_text() == PLANTED
    finally:
        file.unlink()


@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("name", ["gate.json", "gate.safetensors"])
def test_a_gate_s_file_that_is_a_link_or_pipe_is_refused(
    tmp_path: Path, name: str, swap: str
) -> None:
    place = tmp_path / "gate"
    place.mkdir()
    save_arrays(place, "gate", "format", {"w": np.ones(3, np.float32)}, {"of": 1})
    (place / name).rename(tmp_path / "outside")
    SWAPS[swap](place / name, tmp_path / "outside")
    refused = in_time(lambda: _error(lambda: load_arrays(place, "gate", "format")))
    assert isinstance(refused, DataError)


def _error(work: Callable[[], object]) -> object:
    try:
        return work() or "done"
    except MidchartError as error:
        return error


@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("name", ["spec.json", "items/answers.parquet", "manifest.json"])
def test_a_received_export_s_swapped_file_is_refused(
    run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, swap: str
) -> None:
    import zipfile

    received = tmp_path / "received"
    with zipfile.ZipFile(run.path.parents[2] / "whole.zip") as archive:
        archive.extractall(received)
    outside = tmp_path / "outside"
    shutil.copy(received / name, outside)
    from midchart.core.results import importing

    real = importing._checked

    def swapped(path: Path, sizes: Any) -> Any:
        (received / name).unlink()
        SWAPS[swap](received / name, outside)
        return real(path, sizes)

    monkeypatch.setattr(importing, "_checked", swapped)
    moved = run.path.rename(tmp_path / "away")
    try:
        refusal = in_time(lambda: _error(lambda: api.import_run(received)))
        assert isinstance(refusal, InputError)
        assert not run.path.exists()
    finally:
        shutil.rmtree(run.path, ignore_errors=True)
        moved.rename(run.path)
