"""Only finished runs lead: a page of results opens the newest finished one, others by choice."""

from __future__ import annotations

import pytest

from midchart.core import api
from midchart.core.runs.directory import find_run
from midchart.pages.ui import state
from tests.support.app_data import make_cohort, make_run
from tests.support.pages import open_page, page_text, shared_workspace

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A finished run and, made after it, one that was cancelled half-way: (finished, cancelled)."""
    folder = tmp_path_factory.mktemp("leading")
    with shared_workspace(folder):
        cohort = make_cohort(folder / "data")
        finished, other = make_run(cohort, "first"), make_run(cohort, "second")
        stopped = find_run(other)
        stopped.done.unlink()
        stopped.cancelled.touch()
        yield finished, other


def row(run: str, status: str = "done", group: str = "") -> dict[str, str]:
    return {"run": run, "status": status, "group": group}


def test_finished_runs_come_first_and_steps_of_a_group_after_the_others():
    newest_first = [
        row("running", "running"), row("cancelled", "cancelled"), row("step", group="replication"),
        row("newer"), row("crashed", "crashed"), row("older"),
    ]  # fmt: skip
    assert [run["run"] for run in state.leading(newest_first)] == [
        "newer", "older", "step", "running", "cancelled", "crashed",
    ]  # fmt: skip


def test_a_page_opens_the_finished_run_though_a_cancelled_one_is_newer(runs):
    finished, cancelled = runs
    assert api.status(cancelled)["status"] == "cancelled"
    assert next(run["run"] for run in api.status()) == cancelled, "the newest"
    app = open_page("arms")
    assert app.selectbox(key="run").value == finished
    assert 'class="mc-headline"' in page_text(app)
    assert "run “first”" in page_text(open_page("home"))
