"""The examples of ``docs/architecture.md``, installed and used as a contributor would."""

from __future__ import annotations

import csv
import importlib
import json
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from midchart.core.results.report import report
from midchart.core.runs.directory import RunDirectory, make_run
from midchart.core.runs.experiment import EXPERIMENTS
from midchart.core.runs.job import Job
from midchart.core.runs.planner import plan
from midchart.core.runs.spec import read_spec
from midchart.core.runs.status import status
from tests.support.run_helpers import ROOT, allow, continue_run

DOCUMENT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
EXAMPLES: dict[str, str] = dict(re.findall(r"^```\w+ (\S+)\n(.*?)^```$", DOCUMENT, re.M | re.S))
DOSES = {"p1": 10, "p2": 40}
FILLER = "The patient slept well and had no complaints that day"


def write_ward_cohort(folder: Path, doses: Mapping[str, int] = DOSES) -> None:
    """Patients in the loader's format; each has one dose among notes of the same length."""
    folder.mkdir()
    with (folder / "notes.psv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="|")
        writer.writerow(["patient", "date", "text"])
        for patient, dose in doses.items():
            for day in range(1, 13):
                text = f"Dose of lisinopril is {dose} milligram" if day == 5 else FILLER
                writer.writerow([patient, f"2020-01-{day:02d}", f"{text}."])
        writer.writerow(["", "2020-01-01", "A note of nobody."])
        writer.writerow(["p2", "2020-02-01", FILLER])
    columns = ["instruction_id", "filename", "question", "evidence", "clinician_response"]
    with (folder / "questions.psv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="|")
        writer.writerow(columns)
        for patient, dose in doses.items():
            fact = f"Dose of lisinopril is {dose} milligram"
            question = "What dose of lisinopril is given?"
            writer.writerow([f"q-{patient}", patient, question, fact, f"{dose} milligram"])


def install(site: Path, without: str = "") -> None:
    """What ``pip install`` creates of the example package: its modules and its entry points.

    ``without``: an entry-point group that is left out.
    """
    package = site / "ward"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    for name, text in EXAMPLES.items():
        if name.startswith("ward/"):
            (site / name).write_text(text, encoding="utf-8")
    project = tomllib.loads(EXAMPLES["pyproject.toml"])["project"]
    info = site / f"{project['name']}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    groups = {k: v for k, v in project["entry-points"].items() if k != without}
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in points.items())
        for group, points in groups.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))


class Contributor:
    """A folder with the package, the cohort and the specs; ``tree``: a copy of the program."""

    def __init__(self, folder: Path, tree: Path | None = None, without: str = "") -> None:
        self.folder = folder
        install(folder / "site", without)
        write_ward_cohort(folder / "ward_cohort")
        for name, text in EXAMPLES.items():
            if name.endswith(".toml") and name != "pyproject.toml":
                (folder / name).write_text(text, encoding="utf-8")
        self.env = os.environ | {
            "PYTHONPATH": os.pathsep.join(
                [*([str(tree.parent)] if tree else []), str(folder / "site")]
            ),
            "MIDCHART_DATA": str(folder / "data"),
            "MIDCHART_CACHE": str(folder / "cache"),
        }

    def core(self, *arguments: str, status: int = 0) -> Any:
        """The JSON that ``python -m core ARGUMENTS --json`` prints."""
        done = subprocess.run(
            [sys.executable, "-m", "midchart.core", *arguments, "--json"],
            cwd=self.folder, env=self.env, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == status, done.stderr
        return json.loads(done.stdout) if status == 0 else done.stderr

    def report(self, spec: str) -> dict[str, Any]:
        """The report of a spec's run."""
        return self.core("report", self.core("run", spec)["run"])


@pytest.fixture(scope="module")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Contributor:
    return Contributor(tmp_path_factory.mktemp("ward"))


@pytest.fixture(scope="module")
def answers(ward: Contributor) -> dict[str, Any]:
    return ward.report("ward_answers.toml")


@pytest.mark.slow
def test_the_loader_reads_its_format_and_names_what_it_skips(ward: Contributor) -> None:
    checked = ward.core("check", "ward_cohort")
    assert (checked["records"], checked["events"], checked["instructions"]) == (2, 25, 2)
    (skipped,) = checked["skipped"]
    assert (skipped["file"], skipped["line"]) == ("notes.psv", 26)
    assert len(checked["positions"]) == 2


@pytest.mark.slow
def test_the_arm_selects_the_sentence_with_the_question_words(ward: Contributor) -> None:
    question = "What dose of lisinopril is given?"
    call = ("select", "ward_cohort", "--record=p2", f"--question={question}", "--arm=first_words")
    chosen = ward.core(*call, "--k=1")
    (selected,) = [s for s in chosen["sentences"] if s["kept_by"] == "arm"]
    assert selected["score"] == 4 and "40 milligram" in selected["text"]


@pytest.mark.slow
def test_arm_reader_and_judge_work_in_the_worker_of_a_run(answers: dict[str, Any]) -> None:
    assert answers["status"] == "done" and answers["items"]["failed"] == 0
    # 3 arm entries × 2 questions × (1 answer + 2 verdicts)
    assert answers["items"]["done"] == answers["items"]["planned"] == 18
    rows = [
        row
        for row in answers["tables"]["accuracy"]
        if row["band"] == "overall" and row["judge"] == "same_numbers"
    ]
    labels = [row["label"] for row in rows]
    assert labels == ["bm25", "first_words", "first_words k=1 first=3"]
    assert all(row["reader"] == "best_line" and row["n"] == 2 for row in rows)
    assert [row["correct"] for row in rows] == [2, 2, 2]


@pytest.mark.slow
def test_a_misspelt_option_of_the_arm_is_refused(ward: Contributor) -> None:
    text = EXAMPLES["ward_answers.toml"].replace("first = 3", "frist = 3")
    (ward.folder / "misspelt.toml").write_text(text, encoding="utf-8")
    assert "frist" in ward.core("run", "misspelt.toml", status=2)


def lengths(report: dict[str, Any]) -> list[tuple[str, str, int, bool]]:
    return [
        (row["instruction"], row["half"], row["tokens"], row["long"])
        for row in report["tables"]["lengths"]
    ]


# 11 notes of 10 words and a full stop, the fifth of 6 words; p2 has one more of 10 words.
LENGTHS = [
    ("q-p1", "first", 62, False), ("q-p1", "second", 66, True),
    ("q-p2", "first", 62, False), ("q-p2", "second", 76, True),
]  # fmt: skip


@pytest.fixture(scope="module")
def experiment(ward: Contributor) -> Iterator[Contributor]:
    """The experiment of the package, in this process as in a worker."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ward.folder / "site")
        for name in ("MIDCHART_DATA", "MIDCHART_CACHE"):
            patch.setenv(name, ward.env[name])
        importlib.import_module("ward.experiment")
        yield ward
        EXPERIMENTS._factories.pop("question_lengths", None)


def ran(ward: Contributor, go: bool = True, **fields: Any) -> RunDirectory:
    """A run of the experiment with some fields; ``go``: done in this process."""
    table = tomllib.loads(EXAMPLES["question_lengths.toml"]) | fields
    folder = make_run(plan(read_spec({**table, "data": str(ward.folder / table["data"])})))
    if go:
        continue_run(folder)
    return folder


def finished(folder: RunDirectory) -> dict[str, Any]:
    """A run's report, and that it has the rows of its plan."""
    document = report(folder.id)
    assert document["status"] == "done" and not document["warnings"]
    assert document["items"]["done"] == document["items"]["planned"]
    return document


@pytest.mark.parametrize(
    ("fields", "rows"), [({}, LENGTHS), ({"limit": 1}, LENGTHS[:2]), ({"limit": 5}, LENGTHS)]
)
def test_the_experiment_asks_the_questions_of_its_spec(
    experiment: Contributor, fields: dict[str, Any], rows: list[Any]
) -> None:
    assert lengths(finished(ran(experiment, **fields))) == rows


def test_the_experiment_asks_the_questions_of_a_part(experiment: Contributor) -> None:
    write_ward_cohort(experiment.folder / "many", {f"p{i}": 10 * i for i in range(1, 13)})
    allow(experiment.folder / "many", "training_allowed")
    asked = {
        part: {row[0] for row in lengths(finished(ran(experiment, data="many", part=part)))}
        for part in ("test", "train", "validation")
    }
    assert sum(map(len, asked.values())) == len(set().union(*asked.values())) == 12
    assert all(asked.values())


@pytest.mark.parametrize("stop", range(1, 4))
def test_stopped_within_a_question_it_goes_on_with_the_rest(
    experiment: Contributor, stop: int
) -> None:
    folder = ran(experiment, go=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Job, "append", stopped_after(stop))
        with pytest.raises(KeyboardInterrupt):
            continue_run(folder)
    assert status(folder.id)["done"] == stop
    continue_run(folder)
    assert lengths(finished(folder)) == LENGTHS


def stopped_after(rows: int) -> Callable[[Job, str, dict[str, Any]], None]:
    """A write of rows after which the process ends."""
    append, left = Job.append, iter(range(rows - 1))

    def write(job: Job, table: str, row: dict[str, Any]) -> None:
        append(job, table, row)
        if next(left, None) is None:
            raise KeyboardInterrupt

    return write


def test_a_run_with_other_rows_than_its_plan_says_so(experiment: Contributor) -> None:
    folder = ran(experiment, go=False)
    document = json.loads(folder.spec.read_text(encoding="utf-8"))
    folder.spec.write_text(json.dumps(document | {"planned": 6}), encoding="utf-8")
    continue_run(folder)
    assert "has 4 rows where its plan has 6" in report(folder.id)["warnings"][0]
    assert "has 4 rows where its plan has 6" in status(folder.id)["warnings"][0]


@pytest.mark.slow
@pytest.mark.parametrize("on", ["here", "cores"])
def test_the_experiment_runs_from_the_package(ward: Contributor, on: str) -> None:
    run = ward.core("run", "question_lengths.toml", f"--on={on}")["run"]
    document = ward.core("report", run)
    assert document["kind"] == "question_lengths" and document["items"]["done"] == 4
    assert lengths(document) == LENGTHS
    bad = EXAMPLES["question_lengths.toml"].replace("65", "-1")
    (ward.folder / "bad.toml").write_text(bad, encoding="utf-8")
    assert "longer_than" in ward.core("run", "bad.toml", status=2)


@pytest.mark.slow
def test_the_experiment_runs_from_a_file_of_the_tree(tmp_path: Path) -> None:
    tree = tmp_path / "midchart"
    tree.mkdir()
    shutil.copy(ROOT / "__init__.py", tree)
    shutil.copytree(ROOT / "core", tree / "core")
    shutil.copytree(ROOT / "docs", tree / "docs", ignore=shutil.ignore_patterns("*.png"))
    file = tree / "core" / "experiments" / "question_lengths.py"
    file.write_text(EXAMPLES["ward/experiment.py"], encoding="utf-8")
    contributor = Contributor(tmp_path / "own", tree, without="midchart.experiments")
    assert lengths(contributor.report("question_lengths.toml")) == LENGTHS


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in EXAMPLES if name.endswith(".py")])
def test_the_examples_pass_the_lint_as_written(name: str) -> None:
    file = f"--stdin-filename=core/experiments/{Path(name).name}"
    for command in (["check", "--quiet"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, file, "-"], cwd=ROOT, input=EXAMPLES[name],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_map_names_every_package() -> None:
    packages = {path.parent.name for path in (ROOT / "core").glob("*/__init__.py")}
    named = set(re.findall(r"`core/(\w+)/`", DOCUMENT.split("## Life of a run")[0]))
    assert named == packages


def test_every_name_in_the_document_exists() -> None:
    prose = re.sub(r"^```.*?^```$", "", DOCUMENT, flags=re.M | re.S)
    names = set(re.findall(r"`([A-Za-z_]+(?:\.[A-Za-z_]+)+)(?:\(\w+\))?`", prose))
    code = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "core").rglob("*.py"))
    checked = 0
    for name in names:
        last = name.rsplit(".", 1)[1]
        if name.startswith("midchart.core."):
            pkgutil.resolve_name(name)
        elif last in ("json", "py", "toml", "psv") or name.startswith("midchart."):
            continue
        else:
            assert re.search(rf"(def|class) {last}\b", code), name
        checked += 1
    assert checked > 20
