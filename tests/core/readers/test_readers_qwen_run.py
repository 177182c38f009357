"""The qwen reader in a run: options, refusals before the start, kill and resume."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from midchart.core.errors import InputError, MissingModel, SpecError, UnknownName
from midchart.core.protocol import parse
from midchart.core.readers.qwen import Qwen
from midchart.core.results.items import rows
from midchart.core.results.report import report
from midchart.core.runs.directory import find_run
from midchart.core.runs.process import children, resume, start, status, wait
from midchart.core.runs.spec import parse_spec
from midchart.core.types import Prompt
from tests.support.run_helpers import spec, until, write_cohort

NEW = 24
PROTOCOL = parse({"answer_tokens": NEW})


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({"model": "Qwen2.5-14B-Instruct"}, MissingModel, ["29,540 MB", "hf download"]),
        ({"model": "Qwen2.5-7B"}, UnknownName, ["Qwen2.5-7B-Instruct", "short"]),
        *(
            ({"model": name}, SpecError, ["one file or folder", "255 bytes"])
            for name in ("../models/short", "..", "x" * 256, "é" * 128, "a\0b", "\ud800", "")
        ),
        ({"model": "x" * 255}, UnknownName, ["Valid"]),
        ({"model": "llama"}, SpecError, ["'llama'", "'qwen2'"]),
        ({"dtype": "int8"}, UnknownName, ["'int8'", "bfloat16"]),
        ({"window": 4 * 32768 + 1}, SpecError, ["'window'", "131072"]),
        ({"window": -1}, SpecError, ["'window'"]),
        ({"group": 0}, SpecError, ["'group'", "equal to 1"]),
    ],
)
def test_impossible_runs_are_refused_before_anything_is_loaded(options, kind, says, models: Path):
    (models / "llama").mkdir(exist_ok=True)
    (models / "llama" / "config.json").write_text('{"model_type": "llama"}')
    (models / "llama" / "model.safetensors").write_bytes(b"")
    table = {"kind": "answers", "data": "x", "arms": ["bm25"]}
    for make in (
        lambda: Qwen(PROTOCOL, **options),
        lambda: parse_spec({**table, "readers": [{"name": "qwen", **options}]}),
    ):
        with pytest.raises(kind) as error:
            make()
        assert isinstance(error.value, InputError)
        assert "\n" not in str(error.value)
        for word in says:
            assert word in str(error.value)


@pytest.mark.slow
def test_a_killed_and_resumed_run_has_the_answers_of_the_reader_in_this_process(
    workspace: Path, models: Path
):
    cohort = write_cohort(workspace / "data" / "cohorts" / "tiny", records=3)
    option = {"name": "qwen", "dtype": "float32", "group": 5, "batch_tokens": 1500}
    run = start(
        spec(
            cohort,
            readers=[option],
            judges=["token_overlap"],
            protocol={"preset": "corrected", "answer_tokens": NEW},
        )
    )
    written = find_run(run).items / "answers.jsonl"
    until(lambda: written.exists() and written.stat().st_size, "the first answers are there")
    worker = children[run]
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    weights = models / "Qwen2.5-7B-Instruct" / "model-00003-of-00009.safetensors"
    weight_bytes = weights.read_bytes()
    weights.write_bytes(weight_bytes[:-1] + bytes([weight_bytes[-1] ^ 1]))
    with pytest.raises(InputError, match="started with other weights for its reader 'qwen "):
        resume(run)
    weights.write_bytes(weight_bytes)
    before = {row["key"] for row in rows(run, "answers")}
    assert status(run)["status"] == "crashed"
    assert 0 < len(before) < 48, "killed on the way"
    resume(run)
    wait(run)
    answers = rows(run, "answers")
    assert len(answers) == len({row["key"] for row in answers}) == 48, "12 questions, 4 arms"
    assert before < {row["key"] for row in answers}
    label = "qwen batch_tokens=1500 dtype=float32 group=5"
    assert {row["reader"] for row in answers} == {label}
    read = Qwen(PROTOCOL, dtype="float32", batch_tokens=1500)
    unique = {row["prompt"]: row for row in answers}
    asked = [Prompt(text, "", (), row["prompt_tokens"]) for text, row in unique.items()]
    local = dict(read.read_many(asked))
    assert {prompt.text: local[i].text for i, prompt in enumerate(asked)} == {
        r["prompt"]: r["answer"] for r in answers
    }
    assert all(row["read_tokens"] == row["prompt_tokens"] for row in answers)
    assert all(row["seconds"] > 0 and row["peak_mb"] is None for row in answers)
    assert sum(row["reused_tokens"] for row in answers) > 0
    overall = [r for r in report(run)["tables"]["accuracy"] if r["band"] == "overall"]
    assert {(r["reader"], r["n"]) for r in overall} == {(label, 12)}
    assert json.dumps(report(run))
