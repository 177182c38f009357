"""Every prefix of a run's writes, with all that was not synced lost or half lost: no finished item
is lost, and a resume completes the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from midchart.core.storage import rows as rows_module
from midchart.core.storage.rows import RowStore, encode
from tests.support.crashes import Recorder

SCHEMA = {"key": "VARCHAR", "status": "VARCHAR", "n": "BIGINT"}
ITEMS = 5


def row(i: int, status: str = "ok") -> dict[str, object]:
    return {"key": f"k{i}", "status": status, "n": i}


def store(folder: Path) -> RowStore:
    return RowStore(folder / "items", {"rows": SCHEMA})


def work(folder: Path, recorder: Recorder | None, failing: int = -1) -> None:
    """What a worker does with its rows, from the first look to the Parquet."""
    table = store(folder)
    table.reopen()
    done = {one["key"] for one in table.select("rows", "key")}
    for i in range(ITEMS):
        if f"k{i}" in done:
            continue
        status = "failed" if i == failing else "ok"
        table.append("rows", row(i, status))
        if recorder is not None and status == "ok":
            recorder.written["rows"].add(f"k{i}")
    table.compact()


@pytest.mark.parametrize("every_s", [0.0, 1e9], ids=["each row synced", "synced at the end"])
def test_no_synced_row_is_lost_at_any_point_and_a_resume_completes_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every_s: float
) -> None:
    monkeypatch.setattr(rows_module, "SYNC_EVERY_S", every_s)
    disk = tmp_path / "disk"
    disk.mkdir()
    recorder = Recorder(disk)
    with recorder.recording():
        work(disk, recorder, failing=2)
        work(disk, recorder, failing=3)  # the failed item again, while another fails
        journal = disk / "items" / "rows.jsonl"
        store(disk).reopen()
        with journal.open("ab") as damaged:
            damaged.write(b'{"key":"k9","sta\xff\n')
        work(disk, recorder)
    assert {"write", "fsync", "replace", "unlink", "mkdir"} <= {p.call for p in recorder.points}
    crashes = 0
    for place, keys, folder in recorder.states(tmp_path):
        crashes += 1
        table = store(folder)
        before = {r["key"] for r in table.select("rows", "key, status") if r["status"] == "ok"}
        assert keys <= before, place  # pages read it before any resume
        table.reopen()
        after = table.select("rows")
        assert keys <= {r["key"] for r in after}, place
        work(folder, None)
        done = store(folder).select("rows")
        assert sorted(r["key"] for r in done) == [f"k{i}" for i in range(ITEMS)], place
        assert all(r == row(r["n"]) for r in done), place
    assert crashes > 30


def test_a_row_is_lost_where_its_sync_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recorder finds a Parquet that takes its name before its content is on the disk."""
    disk = tmp_path / "disk"
    disk.mkdir()
    recorder = Recorder(disk)
    with recorder.recording():
        journal = disk / "rows.jsonl"
        journal.write_bytes(encode(row(1)))
        recorder.written["rows"].add("k1")
        rows_module.sync_folder(disk)
        with journal.open("rb") as file:
            rows_module.os.fsync(file.fileno())
        fresh = disk / "rows.jsonl.tmp"
        fresh.write_bytes(encode(row(1)) + encode(row(2)))
        fresh.replace(journal)  # without a sync of its content
        rows_module.sync_folder(disk)
    lost = [
        place
        for place, keys, folder in recorder.states(tmp_path)
        if keys and b'"k1"' not in (folder / "rows.jsonl").read_bytes()
    ]
    assert lost
