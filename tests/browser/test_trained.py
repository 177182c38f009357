"""The Gate and Forecast pages in a browser, on small trained runs."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from midchart.core import api
from tests.browser.conftest import serve, watched
from tests.browser.test_pages import no_trouble
from tests.support.forecasts import write_cohort
from tests.support.run_helpers import finished_run, workspace_at

pytestmark = pytest.mark.browser
CHARTS = {
    "Gate": {"shapes": 1, "training": 1, "calibration": 1, "scores": 1, "split": 0},
    "Forecast": {
        "areas": 1, "differences": 1, "roc": 1, "precision": 1, "calibration": 1, "training": 1,
        "gates": 1, "sparsity": 1, "split": 0, "map": 1,
    },
}  # fmt: skip
"""Each page's views and how many charts one shows."""
PROTOCOL = {"preset": "corrected", "resamples": 100}
SPECS = (
    {
        "name": "small gates", "kind": "gate", "data": "demo", "epochs": 2,
        "variants": ["query", "loss"], "protocol": PROTOCOL,
    },
    {
        "name": "small forecasts", "kind": "forecast", "data": "labs", "tasks": ["anemia"],
        "variants": ["softmax", "gated_differential", "sparsemax"],
        "baselines": ["logistic_counts"], "seeds": [1], "epochs": 2, "length": 16,
        "values": True, "device": "cpu", "protocol": PROTOCOL,
    },
)  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A server whose data hold a gate run of three variants and a forecast run of three attentions
    and counts, both finished."""
    with workspace_at(tmp_path_factory.mktemp("trained")) as home:
        api.prepare_demo(patients=8, events_per_patient=60)
        write_cohort(home / "data" / "cohorts" / "labs")
        for run in map(finished_run, SPECS):
            assert api.status(run)["failed"] == 0
    with serve(home) as server:
        yield server.url


@pytest.fixture
def on(trained, tab):
    """The page on that server."""
    yield from watched(tab, trained)


@pytest.mark.parametrize("title", CHARTS)
def test_every_view_opens_by_its_address_and_fits(on, title):
    for view, charts in CHARTS[title].items():
        page = on.go(f"/{title.lower()}?view={view}", title)
        expect(page.locator(".js-plotly-plot")).to_have_count(charts)
        expect(page.locator("[data-testid=stDataFrame]:visible").first).to_be_visible()
        on.fits()


def test_a_variant_is_kept_in_the_address(on):
    page = on.go("/gate?view=calibration", "Gate")
    page.get_by_role("combobox", name="Variant").click()
    page.get_by_role("option").nth(1).click()
    on.settled()
    page.wait_for_url("**of_variant=**")
    no_trouble(page)


def test_another_sequence_is_kept_in_the_address_by_its_number(on):
    page = on.go("/forecast?view=map&sequence=5", "Forecast")
    expect(page.get_by_text("Sequence 5 of 80 held-out ones")).to_be_visible()
    page.get_by_role("button", name="positive, ranked high").click()
    on.settled()
    expect(page.get_by_text("Sequence 5 of 80")).to_have_count(0)
    assert "sequence=" in page.url and "sequence=5&" not in page.url + "&"
    no_trouble(page)
