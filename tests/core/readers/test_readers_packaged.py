"""Weights that packages carry: prepared once, with progress; specs are checked without them."""

from __future__ import annotations

import hashlib
import importlib.util
import time
from dataclasses import replace
from pathlib import Path

import pytest

from midchart.core import weights
from midchart.core.errors import MissingModel, SpecError
from midchart.core.protocol import parse
from midchart.core.readers import READERS, packaged
from midchart.core.readers.gemma import Gemma
from midchart.core.runs.directory import make_run
from midchart.core.runs.planner import plan
from midchart.core.runs.spec import read_spec
from tests.support.run_helpers import ROOT, continue_run, set_workspace, write_cohort

PROTOCOL = parse({"answer_tokens": 12})
CONTENT = (b"GGUF", b"the rest")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where installed packages' file, of two pieces, is to be joined."""
    place = tmp_path / "cache" / "models" / f"{weights.GEMMA}.gguf"
    model = replace(
        weights.MODELS[weights.GEMMA], sha256=hashlib.sha256(b"".join(CONTENT)).hexdigest()
    )
    pieces = [tmp_path / f"weights.part{at}" for at in range(2)]
    for piece, content in zip(pieces, CONTENT, strict=True):
        piece.write_bytes(content)
    monkeypatch.setenv("MIDCHART_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(weights.MODELS, weights.GEMMA, model)
    monkeypatch.setattr(weights, "gguf_parts", lambda name: pieces if name == weights.GEMMA else [])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    return place


def test_it_refuses_what_it_cannot_do(file: Path) -> None:
    for options in ({"model": "Qwen2.5-7B-Instruct"}, {"window": 40_000}):
        with pytest.raises(SpecError):
            Gemma(PROTOCOL, **options)
    assert not file.exists()


def test_without_the_packages_one_line_says_how_to_install_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIDCHART_MODELS", str(tmp_path))
    monkeypatch.setattr(weights, "gguf_parts", lambda name: [])
    with pytest.raises(MissingModel) as refused:
        READERS.build("gemma", PROTOCOL)
    message = str(refused.value)
    assert "midchart models get gemma-3-270m" in message and "\n" not in message


@pytest.mark.parametrize("name", [weights.GEMMA, weights.SMOLLM2])
def test_every_package_of_the_weights_is_pinned_by_hash_and_only_wheels_are_taken(name) -> None:
    model = weights.MODELS[name]
    text = (ROOT / model.requirements).read_text()
    assert "--only-binary :all:" in text and "--require-hashes" in text
    pinned = [line for line in text.splitlines() if "==" in line]
    assert all("--hash=sha256:" in line for line in pinned)
    names = {line.partition("==")[0].replace("-", "_") for line in pinned}
    assert {piece.partition("/")[0] for piece in model.gguf} <= names


def test_a_file_of_another_hash_is_not_kept(file: Path, tmp_path: Path) -> None:
    (tmp_path / "weights.part1").write_bytes(b"another")
    with pytest.raises(MissingModel, match="is not the known one"):
        Gemma(PROTOCOL)
    assert not file.exists() and [p.suffix for p in file.parent.iterdir()] == [".lock"]


def test_a_spec_is_checked_and_planned_without_preparing_the_weights(file: Path) -> None:
    Gemma.check(PROTOCOL)
    assert Gemma.mark() == weights.MODELS[weights.GEMMA].sha256
    assert not file.exists()


def test_building_it_prepares_once_and_says_how_far_it_is(file: Path) -> None:
    states: list[str] = []
    for _ in range(2):
        Gemma(PROTOCOL, watch=states.append)
    assert file.read_bytes() == b"".join(CONTENT)
    assert states == [f"preparing the weights: {n} of 2 pieces" for n in range(2)]


def test_a_run_that_is_cancelled_while_weights_are_prepared_stops(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_workspace(monkeypatch, tmp_path)
    cohort = write_cohort(tmp_path / "data" / "cohorts" / "tiny", records=1)
    table = {"kind": "answers", "data": str(cohort), "arms": ["bm25"], "readers": ["gemma"]}
    folder = make_run(plan(read_spec(table)))
    join = packaged.join

    def cancelled(parts, sha256, place, watch) -> None:
        folder.cancel.touch()
        join(parts, sha256, place, lambda text: (time.sleep(1.2), watch(text)))

    monkeypatch.setattr(packaged, "join", cancelled)
    assert continue_run(folder) == "cancelled"
    assert not file.exists() and folder.store(folder.plan()).select("answers") == []
