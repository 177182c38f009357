"""Vectors are computed once by any number of processes; a corrupt file only costs time."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midchart.core.embedding.embedder import Embedder, shared
from midchart.core.storage import vectors
from midchart.core.storage.vectors import Vectors

ROOT = Path(__file__).parents[3]
TEXTS = ["Hemoglobin: 9.5 g/dL", "no fever", "Hemoglobin: 9.5 g/dL", "", "two  words", "two words"]


@pytest.fixture(scope="module")
def embedder(tmp_path_factory):
    return Embedder(cache=tmp_path_factory.mktemp("cache"))


def key(i: int) -> bytes:
    return i.to_bytes(8, "little") * 2


def rows(n: int, dim: int = 8, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, dim)).astype(np.float32)


def test_vectors_have_unit_length_and_equal_texts_are_equal(embedder):
    vectors = embedder.embed(TEXTS)
    assert vectors.shape == (6, 384) and vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(6), abs=1e-6)
    assert (vectors[0] == vectors[2]).all() and (vectors[4] == vectors[5]).all()
    assert embedder.embed([]).shape == (0, 384)


def test_a_text_is_encoded_once(embedder):
    embedder.embed(TEXTS)
    before = embedder.encoded
    embedder.embed([*TEXTS, "no fever"])
    assert embedder.encoded == before
    embedder.embed([*TEXTS, "a new text", "a new text"])
    assert embedder.encoded == before + 1


def test_unusual_texts_have_vectors(embedder):
    vectors = embedder.embed(["\ud800", "\x00", "<|im_end|>", "\u202e", "x" * 20_000, "﷽ 𝟙"])
    assert np.isfinite(vectors).all()


def test_a_vector_hardly_depends_on_its_batch(embedder, tmp_path):
    """The tolerance that minilm.py states."""
    long = [f"{'word ' * n}end {n}" for n in range(0, 80, 7)]
    together = embedder.embed(long)
    alone = Embedder(cache=tmp_path)
    apart = np.concatenate([alone.embed([text]) for text in reversed(long)])[::-1]
    assert np.abs(together - apart).max() <= 1e-6


@pytest.mark.slow
def test_a_second_process_encodes_nothing_loads_no_model_and_asks_no_network(tmp_path, monkeypatch):
    monkeypatch.setenv("MIDCHART_CACHE", str(tmp_path))
    first = shared()
    expected = first.embed(TEXTS)
    assert first.encoded == 4
    code = (
        "import socket, sys\n"
        "def refuse(*a, **k): raise SystemExit('network!')\n"
        "socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse\n"
        "from midchart.core.embedding.embedder import shared\n"
        "from tests.core.embedding.test_embedding import TEXTS\n"
        "e = shared(); v = e.embed(TEXTS)\n"
        "print(e.encoded, 'torch' in sys.modules, v.astype('f8').sum())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["0", "False", str(expected.astype("f8").sum())]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 12)), max_size=8), st.integers(1, 8))
def test_added_vectors_are_read_by_other_processes(tmp_path_factory, spans, dim):
    folder = tmp_path_factory.mktemp("vectors")
    data, writer, reader = rows(50, dim), Vectors(folder, dim), Vectors(folder, dim)
    known: set[int] = set()
    for start, length in spans:
        chosen = list(range(start, start + length))
        writer.add([key(i) for i in chosen], data[chosen])
        known.update(chosen)
        present, read_vectors = reader.read([key(i) for i in range(50)])
        assert set(np.flatnonzero(present).tolist()) == known
        assert (read_vectors[present] == data[present]).all() and not read_vectors[~present].any()
    size = (folder / "keys.bin").stat().st_size if known else 0
    assert size == 24 * len(known), "each once"


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=12),
    st.lists(st.integers(0, 59), max_size=8),
)
def test_rows_that_are_not_sorted_yet_are_read_like_others(tmp_path_factory, sizes, again):
    folder = tmp_path_factory.mktemp("vectors")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vectors, "UNSORTED", 7)
        store, data, stored = Vectors(folder, 4), rows(120, 4), 0
        for size in sizes:
            chosen = list(range(stored, stored + size))
            store.add([key(i) for i in chosen], data[chosen])
            stored += size
            for row in again:  # a key whose row is corrupt is written again, behind the others
                if row < stored:
                    spoil(folder / "vectors.bin", 16 * row, b"\xff\xff")
            store.add([key(i) for i in range(stored)], data[:stored])
            present, got = store.read([key(i) for i in range(120)])
            assert np.flatnonzero(present).tolist() == list(range(stored))
            assert (got[:stored] == data[:stored]).all()


def spoil(path: Path, at: int, content: bytes | None = None) -> None:
    data = bytearray(path.read_bytes())
    if content is None:
        data = data[:at]
    else:
        data[at : at + len(content)] = content
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("name", ["keys.bin", "vectors.bin"])
@pytest.mark.parametrize("damage", ["a flipped byte", "cut short", "zeros", "empty", "gone"])
def test_a_corrupt_file_costs_its_rows_and_is_repaired(tmp_path, name, damage, caplog):
    data = rows(20)
    Vectors(tmp_path, 8).add([key(i) for i in range(20)], data)
    path = tmp_path / name
    size = path.stat().st_size // 20
    if damage == "gone":
        path.unlink()
    elif damage in ("empty", "cut short"):
        spoil(path, 0 if damage == "empty" else 7 * size + 5)
    else:
        spoil(path, 3 * size, b"\xff" if damage == "a flipped byte" else bytes(2 * size))
    reader = Vectors(tmp_path, 8)
    with caplog.at_level(logging.WARNING):
        present, read_vectors = reader.read([key(i) for i in range(20)])
    assert not present.all() and (read_vectors[present] == data[present]).all()
    if damage in ("a flipped byte", "zeros") and name == "vectors.bin":
        assert "computed again" in caplog.text and present.sum() >= 18
    reader.add([key(i) for i in range(20)], data)
    present, read_vectors = Vectors(tmp_path, 8).read([key(i) for i in range(20)])
    assert present.all() and (read_vectors == data).all()


def test_a_reader_survives_deletion_of_the_cache(tmp_path):
    folder, data = tmp_path / "v", rows(6)
    reader = Vectors(folder, 8)
    reader.add([key(i) for i in range(6)], data)
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    assert not reader.read([key(0)])[0].any()
    reader.add([key(5), key(4)], data[[5, 4]])
    present, read_vectors = reader.read([key(i) for i in range(6)])
    assert present.tolist() == [False] * 4 + [True] * 2 and (read_vectors[4:] == data[4:]).all()


def test_a_folder_that_cannot_be_written_is_reported_and_harms_nothing(tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    vectors = Vectors(tmp_path / "file" / "v", 8)
    with caplog.at_level(logging.WARNING):
        vectors.add([key(1)], rows(1))
        assert not vectors.read([key(1)])[0].any()
    assert "could not be stored" in caplog.text


WRITER = """
import sys; from pathlib import Path
from midchart.core.storage import vectors
from midchart.core.storage.vectors import Vectors
from tests.core.embedding.test_embedding import key, rows
data, store = rows(400), Vectors(Path(sys.argv[1]), 8)
for start in range(int(sys.argv[2]), 400, 7):
    chosen = list(range(start, min(start + 20, 400)))
    store.add([key(i) for i in chosen], data[chosen])
"""


@pytest.mark.slow
def test_processes_and_threads_write_concurrently(tmp_path):
    data = rows(400)
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(n)], cwd=ROOT)
        for n in range(3)
    ]
    store = Vectors(tmp_path, 8)
    threads = [
        Thread(target=store.add, args=([key(i) for i in range(n, 400, 4)], data[n::4]))
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for worker in [*threads]:
        worker.join()
    assert [w.wait() for w in writers] == [0, 0, 0]
    present, read_vectors = Vectors(tmp_path, 8).read([key(i) for i in range(400)])
    assert present.all() and (read_vectors == data).all()
    assert (tmp_path / "keys.bin").stat().st_size == 24 * 400
