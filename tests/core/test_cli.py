"""The command line: output, streams and exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from midchart.core.cli import main
from midchart.core.loaders.open import open_cohort
from midchart.extras.lab.synthetic.cohort import make_clinical
from tests.support.run_helpers import shared_vectors

ROOT = Path(__file__).parents[2]

SPEC = """
name = "tiny"
kind = "answers"
data = "{data}"
arms = ["full", "bm25", {{ name = "bm25", k = 1 }}, "recency", "random", "shortest", "oracle"]
readers = ["extractive"]
judges = ["token_overlap", "exact"]
seed = 7
limit = 3
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli")
    make_clinical(folder / "data" / "cohorts" / "demo", 4, 120, 3)
    return folder


def call(place: Path, *arguments: str, seed: str = "0") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "core", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        env={
            **os.environ,
            "MIDCHART_DATA": str(place / "data"),
            "MIDCHART_CACHE": str(shared_vectors(place / "cache")),
            "PYTHONHASHSEED": seed,
        },
    )


def call_json(place: Path, *arguments: str, seed: str = "0"):
    done = call(place, *arguments, "--json", seed=seed)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def inside(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """What a call does, made in this process: exit status, standard output, standard error."""
    monkeypatch.setenv("MIDCHART_DATA", str(place / "data"))
    monkeypatch.setenv("MIDCHART_CACHE", str(place / "cache"))

    def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
        code, streams = main(arguments), capsys.readouterr()
        return subprocess.CompletedProcess(arguments, code, streams.out, streams.err)

    return run_command


@pytest.fixture
def printed(inside):
    """The JSON that a call prints, made in this process."""

    def document(*arguments: str):
        done = inside(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return document


@pytest.fixture(scope="module")
def question(place: Path):
    cohort = open_cohort(str(place / "data" / "cohorts" / "demo"))
    return cohort.instructions[0]


def test_check_counts_and_positions(place: Path, printed):
    checked = printed("check", str(place / "data" / "cohorts" / "demo"))
    assert checked["records"] == 4
    assert checked["instructions"] == checked["gold"] == len(checked["positions"]) > 0
    assert checked["responses"] == 6 * checked["instructions"]
    assert checked["skipped"] == []
    assert all(0 <= p["order"] <= 1 and 0 <= p["time"] <= 1 for p in checked["positions"])


def test_select_shows_what_a_prompt_shows_under_the_protocol(place: Path, question, printed):
    ask = ("select", str(place / "data" / "cohorts" / "demo"), f"--record={question.record_id}",
           "--question", question.question, "--arm", "full")  # fmt: skip
    uncut, cut = printed(*ask), printed(*ask, "--protocol", "published")
    assert not uncut["limited"] and uncut["cut_tokens"] == 0
    assert uncut["tokens"] == uncut["kept_tokens"] and len(uncut["sentences"]) > 100
    assert cut["limited"] and cut["tokens"] <= 16384
    assert sum(len(s["text"]) for s in cut["sentences"]) <= 32_000
    assert cut["tokens"] + cut["cut_tokens"] == cut["kept_tokens"]
    assert cut["kept_sentences"] == len(cut["sentences"]) + cut["cut_sentences"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--arm", "bm52"], "Did you mean bm25"),
        (["--arm", "bm25", "--protocol", "correct"], "Valid: corrected, published"),
        (["--arm", "bm25", "--record", "nobody"], "unknown record 'nobody'"),
        (["--arm", "bm25", "--k", "-1"], "below 0"),
        (["--arm", "bm25", "--question", " "], "question is empty"),
        ([], "--arm"),
    ],
)
def test_a_wrong_call_is_reported_in_three_lines_on_standard_error(
    place: Path, question, inside, arguments: list[str], says: str
):
    defaults = ["--record", question.record_id, "--question", "Why?"]
    data = str(place / "data" / "cohorts" / "demo")
    done = inside("select", data, *defaults, *arguments, "--json")
    assert done.returncode == 2
    assert done.stdout == ""
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 3
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_run_from_spec_to_report(place: Path, tmp_path: Path, inside, printed):
    spec = tmp_path / "spec.toml"
    spec.write_text(SPEC.format(data=place / "data" / "cohorts" / "demo"), encoding="utf-8")
    ran = call_json(place, "run", str(spec))
    assert ran["status"] == "done"
    assert Path(ran["folder"]).is_dir()
    state = printed("status", ran["run"])
    assert state["planned"] == state["done"] > 0
    assert state["failed"] == 0
    assert ran["run"] in [r["run"] for r in printed("status")]

    report = printed("report", ran["run"])
    assert report["items"] == {"planned": state["planned"], "done": state["done"], "failed": 0}
    accuracy = report["tables"]["accuracy"]
    overall = [r for r in accuracy if r["band"] == "overall"]
    judges = ["token_overlap", "exact"]
    assert [r["judge"] for r in overall[:2]] == judges and len(overall) == 7 * 1 * 2
    assert all(r["n"] == 3 for r in overall if r["unparsed"] == 0)
    bands = {"0-10", "10-30", "30-50", "50-70", "70-90", "90-100", "middle", "edge", "overall"}
    assert {r["band"] for r in accuracy} == bands
    recall = {
        (r["arm"], r["k"], r["criterion"]): r
        for r in report["tables"]["recall"]
        if r["band"] == "overall"
    }
    assert recall["oracle", 20, "any piece"]["recall"] == 1.0
    assert ("bm25", 1, "lexical") in recall
    assert ("bm25", 20, "lexical") in recall

    lines = inside("report", ran["run"]).stdout.splitlines()
    assert len(lines) <= 40 and max(map(len, lines)) <= 100
    assert "Which arm answers best?" in "\n".join(lines)
    assert "--table with funnel" in " ".join(lines)
    pairs = inside("report", ran["run"], "--table", "pairs").stdout
    assert "Which differences hold?" in pairs
    assert printed("report", ran["run"], "--table", "pairs") == report["tables"]["paired"]
    assert "criterion_only_share" in inside("report", ran["run"], "--all").stdout
    unknown = inside("report", ran["run"], "--table", "nix")
    assert (unknown.returncode, "unknown table 'nix'" in unknown.stderr) == (2, True)
    done = inside("report", ran["run"], "--csv", str(tmp_path / "csv"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "csv" / "accuracy.csv").is_file()
