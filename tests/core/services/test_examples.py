"""The finished runs that are included with the program."""

from __future__ import annotations

from pathlib import Path

import pytest

from midchart.core import api
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
