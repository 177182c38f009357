"""Weights that a package carries: prepared once, with a notice; specs are checked without them."""

from __future__ import annotations

import hashlib
import importlib.util
import time
from dataclasses import replace
from pathlib import Path

import pytest

from midchart.core import weights
from midchart.core.errors import InputError, MissingModel, SpecError
from midchart.core.protocol import parse
from midchart.core.readers import READERS, packaged
from midchart.core.readers.packaged import prepare
from midchart.core.readers.smollm2 import Smollm2
from midchart.core.runs.directory import make_run
from midchart.core.runs.planner import plan
from midchart.core.runs.spec import read_spec
from tests.support.run_helpers import ROOT, continue_run, set_workspace, write_cohort

PROTOCOL = parse({"answer_tokens": 12})
NAME = weights.SMOLLM2
CONTENT = b"GGUF and the rest"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the file of an installed package is to be unpacked."""
    packed = tmp_path / "weights.gguf"
    packed.write_bytes(CONTENT)
    model = replace(weights.MODELS[NAME], sha256=hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setenv("MIDCHART_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(weights.MODELS, NAME, model)
    monkeypatch.setattr(weights, "gguf_file", lambda name: packed)
    monkeypatch.setattr(packaged, "unpack", copied)
    return tmp_path / "cache" / "models" / NAME


def copied(file: Path, folder: Path) -> Path:
    folder.mkdir()
    (folder / "model").write_bytes(file.read_bytes())
    return folder


def test_it_refuses_what_it_cannot_do(folder: Path) -> None:
    for options in ({"model": "Qwen2.5-7B-Instruct"}, {"window": 40_000}):
        with pytest.raises(SpecError):
            Smollm2(PROTOCOL, **options)
    assert not folder.exists()


def test_without_the_package_one_line_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIDCHART_MODELS", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingModel) as refused:
        READERS.build("smollm2", PROTOCOL)
    message = str(refused.value)
    assert "midchart models get smollm2" in message and "\n" not in message


def test_the_package_of_the_weights_is_pinned_by_hash_and_only_a_wheel_is_taken() -> None:
    text = (ROOT / weights.MODELS[NAME].requirements).read_text()
    assert "--only-binary :all:" in text and "--require-hashes" in text
    (pinned,) = [line for line in text.splitlines() if "==" in line]
    assert "--hash=sha256:" in pinned
    assert weights.MODELS[NAME].gguf.startswith(pinned.partition("==")[0].replace("-", "_"))


def test_weights_that_no_package_carries_are_not_installed_but_explained() -> None:
    with pytest.raises(InputError, match="get it with: hf download"):
        weights.get_model("Qwen2.5-7B-Instruct")


def test_a_file_of_another_hash_is_not_used(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "weights.gguf").write_bytes(b"another")
    with pytest.raises(MissingModel, match="is not the known one"):
        prepare(NAME)
    assert not folder.exists() and [p.suffix for p in folder.parent.iterdir()] == [".lock"]


def test_a_spec_is_checked_and_planned_without_preparing_the_weights(folder: Path) -> None:
    Smollm2.check(PROTOCOL)
    assert Smollm2.mark() == weights.MODELS[NAME].sha256
    assert not folder.exists()


def test_it_is_prepared_once_and_says_so(folder: Path) -> None:
    notices: list[str] = []
    for _ in range(2):
        prepare(NAME, watch=notices.append)
    assert (folder / "model").read_bytes() == CONTENT
    assert notices == ["preparing the weights, once: this takes about half a minute"]


def test_a_run_that_is_cancelled_before_weights_are_prepared_stops(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_workspace(monkeypatch, tmp_path)
    cohort = write_cohort(tmp_path / "data" / "cohorts" / "tiny", records=1)
    table = {"kind": "answers", "data": str(cohort), "arms": ["bm25"], "readers": ["smollm2"]}
    run = make_run(plan(read_spec(table)))
    original = packaged.prepare

    def cancelled(name, watch):
        run.cancel.touch()
        return original(name, lambda text: (time.sleep(1.2), watch(text)))

    monkeypatch.setattr("midchart.core.readers.smollm2.prepare", cancelled)
    assert continue_run(run) == "cancelled"
    assert not folder.exists() and run.store(run.plan()).select("answers") == []
