"""Damaged lines of a table are left out and counted; the other rows remain byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from midchart.core.errors import WorkFailed
from midchart.core.storage.rows import RowStore, encode

SCHEMA = {
    "key": "VARCHAR",
    "status": "VARCHAR",
    "text": "VARCHAR",
    "n": "BIGINT",
    "share": "DOUBLE",
    "hit": "BOOLEAN",
    "kept": "STRUCT(id VARCHAR, score DOUBLE, place STRUCT(x DOUBLE, parts BIGINT[]))[]",
}


def row(i: int, **changes: object) -> dict[str, object]:
    lines = [{"id": f"e{i}", "score": i / 3, "place": {"x": 1, "parts": [1, None]}}, None]
    values = {"status": "ok", "text": f"täxt {i}", "n": i, "share": 1, "hit": None, "kept": lines}
    return {"key": f"k{i}", **values, **changes}


def store(folder: Path) -> RowStore:
    return RowStore(folder, {"rows": SCHEMA})


def changed(**changes: object) -> bytes:
    return json.dumps(row(9, **changes)).encode()


DAMAGE = {
    "cut": encode(row(9))[:30],
    "two in one": encode(row(9))[:-1] + encode(row(8))[:-1],
    "zeros": b"\0" * 40,
    "empty": b"",
    "list": b"[1]",
    "number": b"5",
    "null": b"null",
    "long number": b"9" * 5000,
    "deep": b"[" * 100_000,
    "surrogate bytes": encode(row(9)).strip().replace(b"\xc3\xa4", b"\xed\xa0\x80"),
    "surrogate escape": changed(text="\ud800"),
    "not UTF-8": encode(row(9)).strip().replace(b"\xc3\xa4", b"\xff"),
    "key is a list": changed(key=[1]),
    "no key": changed(key=None),
    "status is another": changed(status="done"),
    "share is NaN": changed(share=float("nan")),
    "a key twice": encode(row(1)).strip(),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_line_is_left_out_and_the_others_remain(tmp_path: Path, name: str):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(encode(row(0)) + encode(row(1)) + DAMAGE[name] + b"\n" + encode(row(2)))
    table = store(tmp_path)
    assert table.reopen() == ["rows.jsonl: 1 damaged line left out; their items are done again"]
    assert table.select("rows") == [row(i) for i in range(3)]
    assert path.read_bytes() == b"".join(encode(row(i)) for i in range(3))
    assert table.reopen() == []
    table.append("rows", row(9))
    table.compact()
    assert [r["key"] for r in table.select("rows")] == ["k0", "k1", "k2", "k9"]


@pytest.mark.parametrize("name", ["cut", "no key", "a key twice"])
def test_a_table_damaged_while_its_run_works_is_not_finished_silently(tmp_path: Path, name: str):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(encode(row(1)) + DAMAGE[name] + b"\n" + encode(row(2)))
    with pytest.raises(WorkFailed, match="1 damaged line; resume"):
        store(tmp_path).compact()
    assert not (tmp_path / "rows.parquet").exists()
    store(tmp_path).reopen()
    assert [r["key"] for r in store(tmp_path).select("rows")] == ["k1", "k2"]


def test_missing_columns_are_not_damage_and_a_kill_while_lines_go_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "rows.jsonl"
    older = b'{"key":"a","status":"ok"}\n'
    path.write_bytes(older + b"{\n" + encode(row(1)))

    def die(*args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", die)
        with pytest.raises(KeyboardInterrupt):
            store(tmp_path).reopen()
    store(tmp_path).reopen()
    assert path.read_bytes() == older + encode(row(1))
