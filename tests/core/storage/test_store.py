"""Rows on disk: a partial line is never a row, and compaction loses and duplicates none."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midchart.core.errors import DataError, UnknownName, WorkFailed
from midchart.core.storage.jsonl import read_lines
from midchart.core.storage.lock import Lock, is_locked
from midchart.core.storage.rows import RowStore, cursor, encode

SCHEMA = {
    "key": "VARCHAR",
    "status": "VARCHAR",
    "text": "VARCHAR",
    "n": "BIGINT",
    "kept": "STRUCT(id VARCHAR, score DOUBLE)[]",
}


def row(i: int, **changes: object) -> dict[str, object]:
    lines = [{"id": f"e{i}", "score": i / 3}, {"id": "e0", "score": None}]
    return {"key": f"k{i}", "status": "ok", "text": f"text {i}", "n": i, "kept": lines, **changes}


def store(folder: Path) -> RowStore:
    folder.mkdir(exist_ok=True)
    return RowStore(folder, {"rows": SCHEMA})


def filled(folder: Path, count: int = 5, more: str = "") -> RowStore:
    opened = store(folder)
    for i in range(count):
        opened.append("rows", row(i, text=f"text {i}{more}"))
    return opened


def test_rows_are_read_back_unchanged(tmp_path: Path):
    rows_store = filled(tmp_path)
    assert rows_store.select("rows") == [row(i) for i in range(5)]
    rows_store.compact()
    assert [p.name for p in tmp_path.iterdir()] == ["rows.parquet"]
    assert rows_store.select("rows") == [row(i) for i in range(5)]


def test_a_column_newer_than_the_file_reads_as_nulls(tmp_path: Path):
    filled(tmp_path).compact()
    newer = RowStore(tmp_path, {"rows": {**SCHEMA, "later": "BIGINT"}})
    assert [(r["n"], r["later"]) for r in newer.select("rows")] == [(i, None) for i in range(5)]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("*", {}),
        ("n, kept, key, text, status", {}),
        ("* EXCLUDE (text, kept)", {"text": None, "kept": None}),
        ("*, 'x' AS other", {}),
        ("* REPLACE (n::TINYINT AS n)", {}),
        ("* REPLACE (n::VARCHAR AS n)", {}),
        ("* RENAME (text AS TEXT)", {}),
        ("* REPLACE ([{id: 'a', score: 1::DOUBLE}] AS kept)", {"kept": [{"id": "a", "score": 1}]}),
        ("* REPLACE ([{id: 'a', rank: 1}] AS kept)", {"kept": [{"id": "a", "score": None}]}),
    ],
)
def test_a_file_of_other_columns_reads_as_the_declared_ones(
    tmp_path: Path, columns: str, expected: dict[str, object]
):
    rows_store = filled(tmp_path)
    rows_store.compact()
    file = tmp_path / "rows.parquet"
    with cursor() as connection:
        rows_read = f"SELECT {columns} FROM read_parquet('{file}')"
        connection.execute(f"COPY ({rows_read}) TO '{tmp_path / 'other'}' (FORMAT parquet)")
    (tmp_path / "other").replace(file)
    rows = rows_store.select("rows")
    assert rows == [row(i) | expected for i in range(5)]
    assert list(rows[0]) == list(SCHEMA)
    assert rows_store.select("rows", "key, n", "n = 3") == [{"key": "k3", "n": 3}]


@settings(max_examples=25, deadline=None)
@given(st.text(max_size=60), st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)))
def test_any_text_survives_both_forms(tmp_path_factory, text: str, score: float | None):
    folder = tmp_path_factory.mktemp("any")
    rows_store = store(folder)
    wanted = row(1, text=text, kept=[{"id": text, "score": score}])
    rows_store.append("rows", wanted)
    assert rows_store.select("rows") == [wanted]
    rows_store.compact()
    assert rows_store.select("rows") == [wanted]
    rows_store.reopen()
    assert list(read_lines(folder / "rows.jsonl")) == [wanted]


HALF = len(encode(row(5))) - 1
"""A whole line without its newline."""


@pytest.mark.parametrize("cut", [*range(1, HALF, 9), HALF - 1, HALF])
def test_a_partly_written_last_line_is_no_row_wherever_it_is_cut(tmp_path: Path, cut: int):
    filled(tmp_path).close()
    path = tmp_path / "rows.jsonl"
    complete = path.read_bytes()
    path.write_bytes(complete + encode(row(5))[:cut])
    read = store(tmp_path).select("rows")
    # All of a line but its newline is a whole row already, for a reader; a writer does it again.
    assert read == [row(i) for i in range(6 if cut == HALF else 5)]
    again = store(tmp_path)
    again.reopen()
    assert path.read_bytes() == complete
    again.append("rows", row(5))
    assert path.read_bytes() == complete + encode(row(5))


def test_append_refuses_a_known_key_and_a_strange_column(tmp_path: Path):
    rows_store = filled(tmp_path)
    with pytest.raises(ValueError, match="has a row with the key k1"):
        rows_store.append("rows", row(1))
    with pytest.raises(ValueError, match="m, n"):
        rows_store.append("rows", {("m" if k == "n" else k): v for k, v in row(9).items()})
    with pytest.raises(UnknownName):
        rows_store.append("row", row(9))
    with pytest.raises(ValueError, match="JSON"):
        rows_store.append("rows", row(9, kept=[{"id": "x", "score": float("nan")}]))


def test_a_full_disk_is_reported_and_leaves_no_half_row(tmp_path: Path, monkeypatch):
    rows_store = filled(tmp_path)
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:10]))
    with pytest.raises(WorkFailed, match="full"):
        rows_store.append("rows", row(9))
    monkeypatch.undo()
    assert (tmp_path / "rows.jsonl").read_bytes() == b"".join(encode(row(i)) for i in range(5))


def test_failed_rows_are_removed_by_one_rewrite_and_only_where_there_are_any(tmp_path: Path):
    rows_store = filled(tmp_path)
    rows_store.append("rows", row(7, status="failed"))
    rows_store.close()
    path = tmp_path / "rows.jsonl"
    rows_store.reopen()
    before = path.stat().st_ino
    rows_store.reopen()
    assert path.stat().st_ino == before
    assert [r["key"] for r in store(tmp_path).select("rows")] == [f"k{i}" for i in range(5)]


def test_readers_never_see_rows_doubled_or_missing_while_files_move(tmp_path: Path):
    filled(tmp_path, 50).close()
    seen: list[int] = []
    stop = threading.Event()

    def read():
        reader = store(tmp_path)
        while not stop.is_set():
            seen.append(reader.select("rows", "count(*) AS n")[0]["n"])

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(8):
        store(tmp_path).compact()
        store(tmp_path).reopen()
    stop.set()
    for thread in threads:
        thread.join()
    assert len(seen) > 3
    assert set(seen) == {50}


def test_a_folder_name_may_contain_glob_characters(tmp_path: Path):
    folder = tmp_path / "it's [a] * ?"
    rows_store = filled(folder)
    assert len(rows_store.select("rows")) == 5
    rows_store.compact()
    assert len(rows_store.select("rows")) == 5


def test_an_absent_table_is_empty_with_its_columns(tmp_path: Path):
    assert store(tmp_path).select("rows") == []
    assert "kept" in store(tmp_path).source("rows")
    assert store(tmp_path).select("rows", "count(*) AS n") == [{"n": 0}]


def test_extensions_are_never_fetched():
    with cursor() as connection:
        for name in ("autoinstall_known_extensions", "autoload_known_extensions"):
            setting = connection.execute(f"SELECT current_setting('{name}')").fetchone()
            assert setting == (False,)


@pytest.mark.slow
def test_the_lock_is_visible_to_others_and_released_on_exit(tmp_path: Path):
    path = tmp_path / "lock"
    assert not is_locked(path)
    # A program of its own, not multiprocessing: spawn would run this process's main file again.
    code = (
        "import sys, time; from pathlib import Path; from midchart.core.storage.lock import Lock\n"
        "lock = Lock.take(Path(sys.argv[1])); print(lock is not None, flush=True); time.sleep(60)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline().strip() == "True"
    assert is_locked(path)
    assert Lock.take(path, patience_s=0.05) is None
    child.kill()
    child.wait()
    child.stdout.close()
    assert not is_locked(path)
    lock = Lock.take(path)
    assert lock is not None
    lock.release()
    lock.release()
    assert not is_locked(path)


def test_a_column_may_have_the_name_of_a_word_of_sql(tmp_path: Path):
    words = {"order": "BIGINT", "group": "VARCHAR", "end": "DOUBLE", "select": "BOOLEAN"}
    schema = {"key": "VARCHAR", "status": "VARCHAR", **words}
    line = {"key": "k", "status": "ok", "order": 1, "group": "a", "end": 0.5, "select": True}
    table = RowStore(tmp_path, {"rows": schema})
    assert table.select("rows") == []
    table.append("rows", line)
    assert table.select("rows") == [line]
    table.compact()
    assert table.select("rows") == [line]
    table.reopen()
    assert table.select("rows") == [line]
    table.close()


def test_sql_that_is_wrong_is_not_told_as_a_damaged_file(tmp_path: Path):
    table = filled(tmp_path)
    with pytest.raises(DataError, match="names SQL reserves"):
        table.select("rows", "order")
    table.close()
