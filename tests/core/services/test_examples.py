"""The finished runs that are included with the program."""

from __future__ import annotations

from pathlib import Path

import pytest

from midchart.core import api
from midchart.core.cli import _parser
from tests.support.run_helpers import set_workspace

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh installation with the demo cohorts of runs, and the included runs opened."""
    folder = tmp_path_factory.mktemp("examples")
    with pytest.MonkeyPatch.context() as patch:
        set_workspace(patch, folder)
        api.prepare_demo()
        api.prepare_demo(kind="ehrshot")
        assert api.open_examples()["already_here"] == 0
        yield folder


def test_every_kind_of_run_has_an_example_on_the_demo_as_it_is_made_now(installation: Path) -> None:
    runs = api.status(None)
    elsewhere = {run["run"] for run in api.shipped_runs() if run["folder"] == "cross_fitted"}
    of_logs = {"audit", "other_results"}  # these need another system's log
    assert {run["kind"] for run in runs} == {kind["name"] for kind in api.kinds()} - of_logs
    for run in runs:
        assert run["status"] == "done" and run["imported"] and not run["failed"]
        without = run["kind"] == "inhibition" or run["run"] in elsewhere  # real text is not here
        expected = "absent" if without else "same"
        assert run["cohort_here"] == expected, run["name"]
        if not run["group"]:
            assert any(api.report(run["run"])["tables"].values()), run["name"]


def test_the_replication_that_is_included_is_complete_and_starts_again(installation: Path) -> None:
    data = api.open_data("demo").path
    rows = api.replication(data, "extractive")
    assert all(row["imported"] for row in (*rows["steps"], *rows["alone"]))
    assert all(step["n"] == 36 for step in api.waterfall(rows["runs"], "bm25", "token_overlap"))
    queued: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("midchart.core.services.runs.enqueue", queued.append)
        api.replicate(data, "extractive")
    assert len(queued) == 33 == sum(run["folder"] == "replication" for run in api.shipped_runs())
    assert api.open_examples("replication") == {"opened": 0, "already_here": 33}


def test_every_example_names_the_command_that_made_it(installation: Path) -> None:
    for run in api.shipped_runs():
        call = _parser().parse_args(run["command"].removeprefix("midchart ").split())
        if run["folder"] == "replication":
            assert (call.command, call.data) == ("replicate", "demo")
        else:
            assert call.command == "run" and Path(call.spec).exists(), run
