"""The Forecast page in a browser, on a small run that really trained."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from core import api
from tests.browser.conftest import serve, stop, watched
from tests.browser.test_pages import NARROW, WIDE, no_trouble
from tests.forecasts import write_cohort

pytestmark = pytest.mark.browser
CHARTS = {
    "Comparison": 3, "Curves": 3, "Training": 4, "Gate+health": 3, "Sparsity": 4,
    "Attention+map": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A server whose data hold a finished forecast run of three attentions and counts."""
    home = tmp_path_factory.mktemp("forecasts")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIDCHART_DATA", str(home / "data"))
        patch.setenv("MIDCHART_CACHE", str(home / "cache"))
        write_cohort(home / "data" / "cohorts" / "labs")
        spec = {
            "name": "small forecasts", "kind": "forecast", "data": "labs", "tasks": ["anemia"],
            "variants": ["softmax", "gated_differential", "sparsemax"],
            "baselines": ["logistic_counts"], "seeds": [1], "epochs": 2, "length": 16,
            "values": True, "device": "cpu",
            "protocol": {"preset": "corrected", "resamples": 100},
        }  # fmt: skip
        run = api.start(spec)
        api.wait(run)
        assert api.status(run)["failed"] == 0
    url, process = serve(home / "data", home / "cache")
    yield url
    stop(process)


@pytest.mark.parametrize("look", [{**WIDE, "scheme": "light"}, {**NARROW, "scheme": "dark"}])
def test_every_view_opens_by_its_address_and_fits(trained, browser, look):
    for watch in watched(browser, trained, **look):
        for view, charts in CHARTS.items():
            page = watch.go(f"/forecast?view={view}", "Forecast")
            no_trouble(page)
            expect(page.locator(".js-plotly-plot")).to_have_count(charts)
            expect(page.locator("[data-testid=stDataFrame]:visible").first).to_be_visible()
            wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
            assert wide <= 0, view


def test_another_sequence_is_kept_in_the_address_by_its_number(trained, browser):
    for watch in watched(browser, trained, **WIDE, scheme="light"):
        page = watch.go("/forecast?view=Attention+map&sequence=5", "Forecast")
        expect(page.get_by_text("Sequence 5 of 80 held-out ones")).to_be_visible()
        page.get_by_role("button", name="positive, ranked high").click()
        watch.settled()
        expect(page.get_by_text("Sequence 5 of 80")).to_have_count(0)
        assert "sequence=" in page.url and "sequence=5&" not in page.url + "&"
        no_trouble(page)
