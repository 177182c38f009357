"""Vectors are computed once by any number of processes; a corrupt file only costs time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from midchart.core.embedding.embedder import MINILM, Embedder, shared
from midchart.core.storage.vectors import Once

ROOT = Path(__file__).parents[3]
TEXTS = ["Hemoglobin: 9.5 g/dL", "no fever", "Hemoglobin: 9.5 g/dL", "", "two  words", "two words"]


@pytest.fixture(scope="module")
def embedder(tmp_path_factory):
    return Embedder(cache=tmp_path_factory.mktemp("cache"))


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
    before = embedder.once.made
    embedder.embed([*TEXTS, "no fever"])
    assert embedder.once.made == before
    embedder.embed([*TEXTS, "a new text", "a new text"])
    assert embedder.once.made == before + 1


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
    first = shared(MINILM)
    expected = first.embed(TEXTS)
    assert first.once.made == 4
    code = (
        "import socket, sys\n"
        "def refuse(*a, **k): raise SystemExit('network!')\n"
        "socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse\n"
        "from midchart.core.embedding.embedder import MINILM, shared\n"
        "from tests.core.embedding.test_embedding import TEXTS\n"
        "e = shared(MINILM); v = e.embed(TEXTS)\n"
        "print(e.once.made, 'torch' in sys.modules, v.astype('f8').sum())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["0", "False", str(expected.astype("f8").sum())]


WRITER = """
import sys; from pathlib import Path
from tests.core.embedding.test_embedding import stored
stored(Path(sys.argv[1]), list(range(int(sys.argv[2]), 400, 2)))
"""


def stored(folder: Path, numbers: list[int]) -> tuple[np.ndarray, int]:
    """The rows of these numbers, and how many of them were made."""
    data = rows(400)
    once = Once(folder, "weights", 8, chunk=20)
    contents = [str(number).encode() for number in numbers]
    return once.rows(contents, lambda index, _: data[[numbers[i] for i in index]]), once.made


@pytest.mark.slow
def test_processes_and_threads_write_concurrently(tmp_path):
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(n)], cwd=ROOT)
        for n in range(3)
    ]
    threads = [Thread(target=stored, args=(tmp_path, list(range(n, 400, 4)))) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [w.wait() for w in writers] == [0, 0, 0]
    vectors, encoded = stored(tmp_path, list(range(400)))
    assert (vectors == rows(400)).all() and encoded == 0


def test_a_damaged_file_costs_time_alone(tmp_path, caplog):
    (tmp_path / "rows.sqlite").write_bytes(b"no database" * 1000)
    vectors, encoded = stored(tmp_path, [3, 1, 3])
    assert (vectors == rows(400)[[3, 1, 3]]).all() and encoded == 2
    assert "rows.sqlite: cannot be used" in caplog.text
