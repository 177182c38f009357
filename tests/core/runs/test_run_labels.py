"""Names of runs; lists of runs with groups as one entry; their progress."""

from __future__ import annotations

import pytest

from midchart.core import api
from midchart.core.cli import main
from midchart.core.errors import InputError
from midchart.core.runs.directory import find_run, make_run
from midchart.core.runs.planner import plan
from midchart.core.runs.spec import read_spec
from tests.support.run_helpers import spec, write_cohort


@pytest.fixture
def run(workspace):
    cohort = write_cohort(workspace / "data" / "cohorts" / "tiny", records=1)
    document = plan(read_spec(spec(cohort, judges=["exact"], readers=["extractive"])))
    return make_run(document).id


def test_a_label_is_shown_in_lists_names_the_run_and_leaves_it_as_it_was(run, capsys):
    folder = find_run(run)
    before, files = folder.spec.read_bytes(), {*folder.path.iterdir()}
    spec_name = api.status(run)["name"]
    assert main(["label", run, "--name", " <b>new</b> "]) == 0
    assert api.status(run)["name"] == "<b>new</b>" and "<b>new</b>" in capsys.readouterr().out
    assert main(["label", "<b>new</b>", "--name", ""]) == 0
    assert api.status(run)["name"] == spec_name
    make_run(folder.plan().raw)
    assert main(["status", spec_name]) == 2 and "2 runs are named" in capsys.readouterr().err
    noted = [line["fields"] for line in api.audit_lines() if line["event"] == "labelled"]
    assert noted == [["name"], ["name"]]
    assert folder.spec.read_bytes() == before
    assert {*folder.path.iterdir()} - files == {folder.labels}


@pytest.mark.parametrize("wrong", ["x" * 201, "a\nb"])
def test_a_label_that_cannot_be_shown_is_refused_in_one_line(run, wrong):
    with pytest.raises(InputError, match=f"run {run}: name: printable") as error:
        api.label_run(run, wrong)
    assert "\n" not in str(error.value)
    assert not find_run(run).labels.exists()


def row(run: str, status: str, **changes):
    plain = {
        "run": run, "status": status, "group": "", "data": "d", "imported": False, "name": run,
        "planned": 10, "done": 4, "failed": 1, "seconds_left": None,
        "queue_number": None, "created": run,
    }  # fmt: skip
    return plain | changes


def test_the_runs_of_a_group_on_one_cohort_are_one_entry():
    of_group = {"group": "replication, small"}
    rows = [
        row("e", "done"),
        row("d", "queued", **of_group, queue_number=2, done=0, failed=0),
        row("c", "queued", **of_group, data="other", queue_number=3),
        row("b", "running", **of_group, seconds_left=10.0),
        row("a", "done", **of_group, done=10, failed=0),
    ]
    entries = api.listed(rows)
    assert [entry["runs"] for entry in entries] == [["e"], ["a", "b", "d"], ["c"]]
    group = entries[1]
    assert (group["run"], group["status"], group["name"]) == (
        "a", "running", "replication, small (3 runs)",
    )  # fmt: skip
    assert (group["planned"], group["done"], group["failed"]) == (30, 14, 1)
    assert group["seconds_left"] == 30.0 and group["queue_number"] is None
    assert entries[2]["queue_number"] == 3
    now = api.progress(rows)
    assert now["running"] == ["replication, small (3 runs)"] and now["queued"] == 2
    assert [entry["run"] for entry in now["active"]] == ["a", "c"]
    assert (now["planned"], now["done"], now["seconds_left"]) == (30, 14, 30.0)
    assert not api.progress(rows[:1])["active"]
