"""A finished run as a zip: what leaves, what another installation takes, and what it refuses."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.__main__ import main
from core.egress import audit
from core.errors import DataUseError, InputError
from core.loaders.data_use import set_data_use
from core.run import (
    cancel,
    export_run,
    import_run,
    report,
    resume,
    rows,
    start,
    status,
    wait,
)
from core.run.export import importing
from core.run.export.exporting import kept_columns
from core.run.export.html import interval_columns, report_html
from core.run.rows import ANSWERS, SELECTIONS, VERDICTS
from tests.run_helpers import DRUGS, members_place, spec, write_cohort


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    with members_place(folder):
        yield folder


@pytest.fixture(scope="module")
def cohort(place: Path) -> Path:
    return write_cohort(place / "data" / "cohorts" / "tiny")


@pytest.fixture(scope="module")
def done(cohort: Path) -> str:
    readers = [{"name": "test_echo", "shout": True}]
    run = start(spec(cohort, readers=readers, token_matched=[60]))
    wait(run)
    return run


@pytest.fixture(scope="module")
def exported(done: str, place: Path) -> Path:
    told = export_run(done, place / "out.zip")
    assert told["with_text"] is False
    return place / "out.zip"


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MIDCHART_DATA", str(tmp_path / "there"))
    monkeypatch.setenv("MIDCHART_CACHE", str(tmp_path / "cache"))
    return tmp_path / "there"


def unpacked(file: Path, into: Path) -> Path:
    with zipfile.ZipFile(file) as archive:
        archive.extractall(into)
    return into


def zipped(folder: Path, file: Path) -> Path:
    with zipfile.ZipFile(file, "w") as archive:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            archive.write(path, path.relative_to(folder).as_posix())
    return file


def sealed(folder: Path) -> Path:
    """The manifest's list made anew, as somebody who forges an export would."""
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"] = {
        path.relative_to(folder).as_posix(): {
            "bytes": path.stat().st_size,
            "sha256": sha256(path.read_bytes()).hexdigest(),
        }
        for path in folder.rglob("*")
        if path.is_file() and path.name != "manifest.json"
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def nothing_left(there: Path) -> bool:
    return not list((there / "runs").iterdir())


def test_another_installation_gets_the_same_tables_and_only_reads(
    done: str, exported: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
):
    there = elsewhere
    monkeypatch.setenv("MIDCHART_DATA", str(exported.parent / "data"))
    wanted = report(done)
    assert len(wanted["tables"]["accuracy"]) > 0
    monkeypatch.setenv("MIDCHART_DATA", str(there))
    told = import_run(exported)
    assert (told["run"], told["cohort"]) == (done, "absent")
    found = report(done)
    for name, table in wanted["tables"].items():
        assert found["tables"][name] == table, name
    assert found == wanted
    now = status(done)
    assert (now["status"], now["imported"], now["data"]) == ("done", True, "tiny")
    with pytest.raises(InputError, match="done on another installation"):
        resume(done)
    with pytest.raises(InputError, match="nothing to cancel"):
        cancel(done)
    with pytest.raises(InputError, match="is here already"):
        import_run(exported)
    assert all(row["answer"] is None and row["prompt"] is None for row in rows(done, "answers"))
    modes = {p.stat().st_mode & 0o222 for p in (there / "runs" / done / "items").iterdir()}
    assert modes == {0}


def test_an_import_is_linked_to_the_same_cohort_and_to_no_other(
    done: str, exported: Path, cohort: Path, elsewhere: Path
):
    here = elsewhere / "cohorts" / "tiny"
    shutil.copytree(cohort, here)
    # The data-use tag is no content: it may differ.
    (here / "midchart.toml").unlink(missing_ok=True)
    told = import_run(exported)
    assert (told["cohort"], told["data"]) == ("same", str(here))
    now = status(done)
    assert (now["cohort_here"], now["data"]) == ("same", str(here))


def test_an_import_says_that_a_cohort_of_its_name_is_another(
    done: str, exported: Path, cohort: Path, elsewhere: Path
):
    here = elsewhere / "cohorts" / "tiny"
    shutil.copytree(cohort, here)
    (here / "ehrs" / "9.xml").write_text("<eventstream/>")
    told = import_run(exported)
    assert (told["cohort"], told["data"]) == ("other", "")
    now = status(done)
    assert (now["cohort_here"], now["data"]) == ("other", "tiny")


def test_an_export_of_an_import_is_the_same_rows(done: str, exported: Path, elsewhere: Path):
    import_run(exported)
    again = elsewhere / "again"
    told = export_run(done, again)
    assert told["with_text"] is False
    first = json.loads(
        unpacked(exported, elsewhere / "first").joinpath("manifest.json").read_text()
    )
    second = json.loads((again / "manifest.json").read_text())
    assert second["rows"] == first["rows"]
    assert second["dropped"] == first["dropped"]
    with pytest.raises(DataUseError, match="no external services"):
        export_run(done, elsewhere / "text", with_text=True)


def test_no_text_of_a_record_leaves_by_default(exported: Path, cohort: Path, tmp_path: Path):
    folder = unpacked(exported, tmp_path / "open")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert {"prompt", "answer", "lines", "trace"} <= set(manifest["dropped"]["answers"])
    assert "raw" in manifest["dropped"]["verdicts"]
    shown = "".join(
        path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".parquet"
    )
    from core.store import query
    from core.store.query import quoted

    for table in (folder / "items").iterdir():
        found = query(lambda table=table: f"SELECT * FROM read_parquet({quoted(table)})")
        assert found
        shown += json.dumps(found, default=str)
    assert not re.search("|".join([*DRUGS, "glucose", "at a dose of", "milligram"]), shown, re.I)
    assert str(cohort) not in shown


def test_text_leaves_only_by_the_tag_and_is_noted(
    done: str, cohort: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    before = len(audit.lines())
    assert main(["export", done, "--out", str(tmp_path / "a.zip"), "--with-text"]) == 2
    assert "data-use tag" in capsys.readouterr().err
    assert not (tmp_path / "a.zip").exists()
    assert len(audit.lines()) == before
    field, reason = "external_services_allowed", "the tests' own cohort, by agreement"
    set_data_use(cohort, field, True, reason)
    try:
        assert export_run(done, tmp_path / "b")["with_text"] is True
        assert export_run(done, tmp_path / "c", with_text=False)["with_text"] is False
    finally:
        set_data_use(cohort, field, False, reason)
    assert [line["event"] for line in audit.lines()[before:]] == ["tag", "exported", "tag"]
    assert audit.lines()[-2]["rows"] > 0


@pytest.mark.parametrize("schema", [ANSWERS, SELECTIONS, VERDICTS])
def test_a_column_nobody_looked_at_is_taken_for_text(schema):
    kept = kept_columns("answers", {**schema, "remark": "VARCHAR", "n": "BIGINT"}, False)
    assert "remark" not in kept
    assert "n" in kept
    assert not {"prompt", "answer", "raw", "lines", "trace", "sources"} & set(kept)


def test_the_spec_in_it_gives_the_same_numbers_elsewhere(
    done: str, exported: Path, cohort: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = unpacked(exported, elsewhere / "open")
    text = (folder / "REPRODUCE.toml").read_text()
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["repeat_problem"] == ""
    table = tomllib.loads(text)
    assert table["data"] == "tiny"
    assert table["protocol"]["seed"] == table["seed"] == 7
    assert json.loads((folder / "spec.json").read_text())["cohort"]["digest"] in text
    shutil.copytree(cohort, elsewhere / "cohorts" / "tiny")
    again = start(folder / "REPRODUCE.toml")
    wait(again)
    here = report(again)["tables"]
    wanted = json.loads((folder / "report.json").read_text())["tables"]
    timed = re.compile("seconds|speed|_per_s|peak_mb")
    for name, found in json.loads(json.dumps(here)).items():
        assert [{k: v for k, v in row.items() if not timed.search(k)} for row in found] == [
            {k: v for k, v in row.items() if not timed.search(k)} for row in wanted[name]
        ], name


@pytest.mark.parametrize(
    "name",
    ["../evil.txt", "/etc/evil", "items/../../evil.parquet", "items/x.pkl", "lock", "C:evil"],
)
def test_no_file_but_an_exports_own_is_unpacked(exported: Path, elsewhere: Path, name: str):
    bad = elsewhere.parent / "bad.zip"
    shutil.copyfile(exported, bad)
    with zipfile.ZipFile(bad, "a") as archive:
        archive.writestr(name, "evil")
    with pytest.raises(InputError, match="which no export has"):
        import_run(bad)
    assert nothing_left(elsewhere)
    assert not list(elsewhere.parent.rglob("*evil*"))


def test_links_and_names_twice_are_refused(exported: Path, elsewhere: Path, tmp_path: Path):
    bad = tmp_path / "bad.zip"
    shutil.copyfile(exported, bad)
    with zipfile.ZipFile(bad, "a") as archive:
        link = zipfile.ZipInfo("report.json.link")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(InputError, match="a link"):
        import_run(bad)
    folder = unpacked(exported, tmp_path / "open")
    (folder / "report.json").unlink()
    (folder / "report.json").symlink_to("/etc/hostname")
    with pytest.raises(InputError, match="a link"):
        import_run(folder)
    assert nothing_left(elsewhere)


def test_another_compression_and_a_later_version_are_told_in_one_line(tmp_path, elsewhere):
    bad = tmp_path / "bad.zip"
    with zipfile.ZipFile(bad, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("export.json", "{}")
    with pytest.raises(InputError, match="compressed in a way"):
        import_run(bad)
    with zipfile.ZipFile(bad, "w") as archive:
        archive.writestr("export.json", "{}")
    data = bytearray(bad.read_bytes())
    data[data.index(b"PK\x01\x02") + 6] = 99  # the version needed, in the central directory
    bad.write_bytes(data)
    with pytest.raises(InputError, match="later version of zip"):
        import_run(bad)


@pytest.mark.parametrize("fault", [RuntimeError, EOFError, NotImplementedError])
def test_a_fault_of_our_own_is_not_told_as_a_bad_zip(exported, elsewhere, monkeypatch, fault):
    class Broken:
        def update(self, _: bytes) -> None:
            raise fault("ours")

    monkeypatch.setattr(importing, "sha256", Broken)
    with pytest.raises(fault, match="ours"):
        import_run(exported)


def test_too_much_is_not_unpacked(exported: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(importing, "MOST_BYTES", 1000)
    with pytest.raises(InputError, match="unpacks to more"):
        import_run(exported)
    monkeypatch.undo()
    monkeypatch.setenv("MIDCHART_DATA", str(elsewhere))
    monkeypatch.setattr(importing, "MOST_UNPACKED", 1000)
    with pytest.raises(InputError, match="unpacks to too much"):
        import_run(exported)
    assert nothing_left(elsewhere)


def test_a_changed_file_and_a_size_that_lies(exported: Path, elsewhere: Path, tmp_path: Path):
    folder = unpacked(exported, tmp_path / "open")
    events = (folder / "events.jsonl").read_bytes()
    for changed in (events[:-2] + b"x\n", events + b"more", events[:-9]):
        (folder / "events.jsonl").write_bytes(changed)
        with pytest.raises(InputError, match="changed or cut off"):
            import_run(zipped(folder, tmp_path / "changed.zip"))
    assert nothing_left(elsewhere)


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("manifest.json", {"schema": 99}),
        ("manifest.json", {"run": "../../evil"}),
        ("manifest.json", {"files": []}),
        ("spec.json", {"run": "20200101-000000-abcdef"}),
        ("spec.json", {"planned": "many"}),
        ("spec.json", {"protocol": {"preset": "corrected", "resamples": "all"}}),
        ("spec.json", {"cohort": {"path": "../secret", "digest": "", "data_use": {}}}),
        ("spec.json", {"spec": {}}),
        ("spec.json", {"versions": {"code": "", "packages": ["torch"]}}),
        ("spec.json", {"protocol": {"preset": "corrected", "resamples": 10**12}}),
        ("done.json", {"done": -1}),
    ],
)
def test_what_is_not_understood_is_refused_in_one_line(
    exported: Path, elsewhere: Path, tmp_path: Path, file: str, change: dict[str, object]
):
    folder = unpacked(exported, tmp_path / "open")
    document = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps(document | change))
    if file != "manifest.json":
        sealed(folder)
    with pytest.raises(InputError) as refused:
        import_run(folder)
    assert "\n" not in str(refused.value)
    assert nothing_left(elsewhere)


def test_rows_that_are_no_parquet_or_have_other_columns(
    exported: Path, elsewhere: Path, tmp_path: Path
):
    folder = unpacked(exported, tmp_path / "open")
    answers = folder / "items" / "answers.parquet"
    import pyarrow as arrow
    from pyarrow import parquet

    parquet.write_table(arrow.table({"key": [1, 2]}), answers)
    with pytest.raises(InputError, match="does not know so"):
        import_run(sealed(folder))
    answers.write_bytes(b"\x80\x04N.")  # a pickle of None
    with pytest.raises(InputError, match="no Parquet file"):
        import_run(sealed(folder))
    assert nothing_left(elsewhere)


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_in_one_line(tmp_path_factory, data: bytes):
    folder = tmp_path_factory.mktemp("bytes")
    (folder / "any.zip").write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIDCHART_DATA", str(folder / "data"))
        with pytest.raises(InputError):
            import_run(folder / "any.zip")


def test_the_html_report_needs_nothing_and_escapes_everything(
    done: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["export", done, "--html", str(tmp_path / "r.html")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "<svg" in page
    assert not re.search(r"<script|https?:|src=|url\(|@import|<link", page)
    hostile = "<script>alert(1)</script>\x1b\"'"
    found = report(done)
    row = {"label": hostile, "n": 3, "accuracy": 0.5, "wilson_low": 0.2, "wilson_high": 0.8}
    shown = report_html(
        {**found, "name": hostile, "warnings": [hostile], "tables": {hostile: [row]}},
        {hostile: hostile},
    )
    assert "<script" not in shown
    assert "\x1b" not in shown
    assert shown.count("&lt;script&gt;") >= 6


def test_the_estimate_of_an_interval_is_the_column_before_it():
    columns = ["label", "n", "share", "wilson_low", "wilson_high", "ci_low", "ci_high"]
    assert interval_columns(columns) == ("share", "wilson_low", "wilson_high")
    assert interval_columns(["share", "n", "ci_low", "ci_high"]) == ("share", "ci_low", "ci_high")
    assert interval_columns(["low", "high"]) is None
    assert interval_columns(["label", "n"]) is None


def test_only_what_is_finished_leaves(done: str, place: Path, tmp_path: Path):
    folder = Path(status(done)["folder"])
    (folder / "done.json").rename(folder / "aside")
    try:
        with pytest.raises(InputError, match="only a finished run"):
            export_run(done, tmp_path / "a.zip")
    finally:
        (folder / "aside").rename(folder / "done.json")
    (tmp_path / "there.zip").touch()
    with pytest.raises(InputError, match="is there already"):
        export_run(done, tmp_path / "there.zip")
