"""Export of a run (no text without permission, a spec that repeats it, HTML report) and import."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from midchart.core.cli import main
from midchart.core.egress import audit
from midchart.core.errors import InputError
from midchart.core.loaders.open import set_data_use
from midchart.core.results import importing
from midchart.core.results.export import (
    MANIFEST,
    export_run,
    kept_columns,
    report_html,
)
from midchart.core.results.importing import import_run
from midchart.core.results.items import rows
from midchart.core.results.report import report
from midchart.core.runs.process import cancel, resume, status
from midchart.core.runs.schemas import ANSWERS, SELECTIONS, VERDICTS
from tests.support.exports import (
    Exported,
    exported_run,
    nothing_left,
    sealed,
    unpacked,
    zipped,
)
from tests.support.run_helpers import DRUGS, finished_run


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    with exported_run(tmp_path_factory.mktemp("export")) as exported:
        yield exported


def test_no_text_of_a_record_leaves_by_default(place: Exported, tmp_path: Path):
    folder = unpacked(place.file, tmp_path / "open")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert {"prompt", "answer", "lines", "trace"} <= set(manifest["dropped"]["answers"])
    assert "raw" in manifest["dropped"]["verdicts"]
    shown = "".join(
        path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".parquet"
    )
    from midchart.core.storage.rows import literal, query

    for table in (folder / "items").iterdir():
        table_rows = query(lambda table=table: f"SELECT * FROM read_parquet({literal(table)})")
        assert table_rows
        shown += json.dumps(table_rows, default=str)
    assert not re.search("|".join([*DRUGS, "glucose", "at a dose of", "milligram"]), shown, re.I)
    assert str(place.cohort) not in shown


def test_text_leaves_only_by_the_tag_and_is_noted(
    place: Exported, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    before = len(audit.lines())
    assert main(["export", place.run, "--out", str(tmp_path / "a.zip"), "--with-text"]) == 2
    assert "data-use tag" in capsys.readouterr().err
    assert not (tmp_path / "a.zip").exists()
    assert len(audit.lines()) == before
    field, reason = "external_services_allowed", "the tests' own cohort, by agreement"
    set_data_use(place.cohort, field, True, reason)
    try:
        assert export_run(place.run, tmp_path / "b")["with_text"] is True
        assert export_run(place.run, tmp_path / "c", with_text=False)["with_text"] is False
    finally:
        set_data_use(place.cohort, field, False, reason)
    lines = audit.lines()[before:]
    assert [line["event"] for line in lines] == ["tag", "exported", "exported", "tag"]
    assert [line["with_text"] for line in lines[1:3]] == [True, False]
    assert all(line["rows"] > 0 for line in lines[1:3])


@pytest.mark.parametrize("schema", [ANSWERS, SELECTIONS, VERDICTS])
def test_an_unknown_text_column_is_not_exported(schema):
    columns = kept_columns("answers", {**schema, "remark": "VARCHAR", "n": "BIGINT"}, False)
    assert "remark" not in columns
    assert "n" in columns
    assert not {"prompt", "answer", "raw", "lines", "trace", "sources"} & set(columns)


def test_the_spec_in_it_gives_the_same_numbers_elsewhere(
    place: Exported, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = unpacked(place.file, elsewhere / "open")
    text = (folder / "REPRODUCE.toml").read_text()
    table = tomllib.loads(text)
    assert table["data"] == "tiny"
    assert table["protocol"]["seed"] == table["seed"] == 7
    assert json.loads((folder / "spec.json").read_text())["cohort"]["digest"] in text
    shutil.copytree(place.cohort, elsewhere / "cohorts" / "tiny")
    again = finished_run(folder / "REPRODUCE.toml")
    tables = report(again)["tables"]
    wanted = json.loads((folder / "report.json").read_text())["tables"]
    timed = re.compile("seconds|speed|_per_s|peak_mb")
    for name, table_rows in json.loads(json.dumps(tables)).items():
        assert [{k: v for k, v in row.items() if not timed.search(k)} for row in table_rows] == [
            {k: v for k, v in row.items() if not timed.search(k)} for row in wanted[name]
        ], name


def test_the_html_report_is_self_contained_and_escaped(
    place: Exported, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["export", place.run, "--html", str(tmp_path / "r.html")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert not re.search(r"<script|https?:|src=|url\(|@import|<link", page)
    hostile = "<script>alert(1)</script>\x1b\"'"
    run_report = report(place.run)
    row = {"label": hostile, "n": 1234, "accuracy": 0.5, "wilson_low": 0.2, "wilson_high": 0.8}
    row |= {"none": None, "yes": True, "no": False}
    shown = report_html(
        {**run_report, "name": hostile, "warnings": [hostile], "tables": {hostile: [row]}},
        {hostile: hostile},
    )
    assert "<script" not in shown
    assert "\x1b" not in shown
    assert shown.count("&lt;script&gt;") >= 6
    numbers = "".join(f'<td class="n">{n}</td>' for n in ("1,234", "0.500", "0.200", "0.800"))
    assert f"{numbers}<td>–</td><td>yes</td><td>no</td></tr>" in shown


def test_only_finished_runs_are_exported(place: Exported, tmp_path: Path):
    folder = Path(status(place.run)["folder"])
    (folder / "done.json").rename(folder / "aside")
    try:
        with pytest.raises(InputError, match="only a finished run"):
            export_run(place.run, tmp_path / "a.zip")
    finally:
        (folder / "aside").rename(folder / "done.json")
    (tmp_path / "there.zip").touch()
    with pytest.raises(InputError, match="is there already"):
        export_run(place.run, tmp_path / "there.zip")


# Import on another installation, and the zips it refuses.


def test_another_installation_gets_the_same_tables_read_only(
    place: Exported, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
):
    there = elsewhere
    monkeypatch.setenv("MIDCHART_DATA", str(place.file.parent / "data"))
    wanted = report(place.run)
    assert len(wanted["tables"]["accuracy"]) > 0
    monkeypatch.setenv("MIDCHART_DATA", str(there))
    imported = import_run(place.file)
    assert (imported["run"], imported["cohort"]) == (place.run, "absent")
    run_report = report(place.run)
    for name, table in wanted["tables"].items():
        assert run_report["tables"][name] == table, name
    assert run_report == wanted
    now = status(place.run)
    assert (now["status"], now["imported"], now["data"]) == ("done", True, "tiny")
    with pytest.raises(InputError, match="imported from another installation"):
        resume(place.run)
    with pytest.raises(InputError, match="nothing to cancel"):
        cancel(place.run)
    with pytest.raises(InputError, match="already exists"):
        import_run(place.file)
    assert all(
        row["answer"] is None and row["prompt"] is None for row in rows(place.run, "answers")
    )
    modes = {p.stat().st_mode & 0o222 for p in (there / "runs" / place.run / "items").iterdir()}
    assert modes == {0}


@pytest.mark.parametrize("changed", [False, True])
def test_an_import_is_linked_to_the_same_cohort_and_to_no_other(
    place: Exported, elsewhere: Path, changed: bool
):
    local_cohort = elsewhere / "cohorts" / "tiny"
    shutil.copytree(place.cohort, local_cohort)
    if changed:
        (local_cohort / "ehrs" / "9.xml").write_text("<eventstream/>")
    # The data-use tag is no content: it may differ.
    (local_cohort / "midchart.toml").unlink(missing_ok=True)
    imported = import_run(place.file)
    wanted = ("other", "") if changed else ("same", str(local_cohort))
    assert (imported["cohort"], imported["data"]) == wanted
    now = status(place.run)
    assert (now["cohort_here"], now["data"]) == (wanted[0], wanted[1] or "tiny")


# Attacks on the door for exports: each is refused in one line, and nothing of it stays.


def rewrite(folder: Path, file: str, **change: object) -> None:
    document = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps(document | change))
    if file != MANIFEST:
        sealed(folder)


def write_rows(folder: Path, **columns: list[Any]) -> None:
    """An answers table with these columns alone."""
    import pyarrow as arrow
    from pyarrow import parquet

    file = folder / "items" / "answers.parquet"
    parquet.write_table(arrow.table(columns), file, compression="zstd")
    sealed(folder)


def pickled(folder: Path) -> None:
    (folder / "items" / "answers.parquet").write_bytes(b"\x80\x04N.")
    sealed(folder)


def link(folder: Path) -> None:
    (folder / "report.json").unlink()
    (folder / "report.json").symlink_to("/etc/hostname")


def longer(folder: Path) -> None:
    with (folder / "events.jsonl").open("ab") as opened:
        opened.write(b"more")


MANY = list(map(str, range(1_000)))
ATTACKS: dict[str, tuple[Callable[[Path], None], str]] = {
    "another file": (lambda f: (f / "items" / "x.pkl").write_text("evil"), "which no export has"),
    "a link": (link, "holds a link"),
    "changed bytes": (longer, "changed or truncated"),
    "pickle": (pickled, "no Parquet file"),
    "other columns": (lambda f: write_rows(f, key=["a"], remark=["b"]), "does not know"),
    "other types": (lambda f: write_rows(f, key=["a"], k=["many"]), "no Parquet file"),
    "one key in many rows": (
        lambda f: write_rows(f, key=["a"] * 9, status=["ok"] * 9), "without a key or status"
    ),
    "a value of no run": (lambda f: write_rows(f, key=MANY), "without a key or status"),
    **{
        f"{file} {change}": (lambda f, file=file, change=change: rewrite(f, file, **change), says)
        for file, change, says in (
            (MANIFEST, {"schema": 99}, "is of schema"),
            (MANIFEST, {"run": "../../evil"}, "names no run"),
            (MANIFEST, {"files": []}, "no files"),
            ("spec.json", {"run": "20200101-000000-abcdef"}, "not the run"),
            ("spec.json", {"created": "0001-01-01T00:00:00+14:00"}, "'created' is missing"),
            ("spec.json", {"planned": 10**16}, "'planned' is missing or wrong"),
            ("spec.json", {"cohort": {"path": "../secret", "digest": ""}}, "'cohort"),
            ("spec.json", {"spec": {}}, "'spec"),
            ("spec.json", {"versions": {"code": "", "packages": ["torch"]}}, "'versions"),
            ("done.json", {"done": -1}, "'done' is missing or wrong"),
        )
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("attack", "packed"),
    [*((attack, False) for attack in ATTACKS), ("a link", True), ("another file", True)],
)
def test_what_no_run_exports_is_refused(
    place: Exported, elsewhere: Path, tmp_path: Path, attack: str, packed: bool
):
    folder = unpacked(place.file, tmp_path / "open")
    change, says = ATTACKS[attack]
    change(folder)
    if packed and attack == "a link":
        with zipfile.ZipFile(place.file) as archive:
            names = archive.namelist()
        with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
            for name in names:
                info = zipfile.ZipInfo(name)
                info.external_attr = (0o120777 if name == "report.json" else 0o100600) << 16
                archive.writestr(info, "/etc/passwd")
        source = tmp_path / "x.zip"
    else:
        source = zipped(folder, tmp_path / "x.zip") if packed else folder
    with pytest.raises(InputError, match=says) as refused:
        import_run(source)
    assert len(str(refused.value).splitlines()) == 1
    assert nothing_left(elsewhere)


@pytest.mark.parametrize("name", ["../evil.txt", "/etc/evil", "items/../../evil.parquet", "C:evil"])
def test_no_file_of_a_zip_is_unpacked_by_its_name(place: Exported, elsewhere: Path, name: str):
    bad = elsewhere.parent / "bad.zip"
    shutil.copyfile(place.file, bad)
    with zipfile.ZipFile(bad, "a") as archive:
        archive.writestr(name, "evil")
    with pytest.raises(InputError, match=r"which no export has|leads out"):
        import_run(bad)
    assert nothing_left(elsewhere) and not list(elsewhere.parent.rglob("*evil*"))


def test_zips_beyond_the_size_limits_are_not_unpacked(
    place: Exported, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(importing, "MOST_BYTES", 1000)
    with pytest.raises(InputError, match="unpacks to more"):
        import_run(place.file)
    assert nothing_left(elsewhere)
