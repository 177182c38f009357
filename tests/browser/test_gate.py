"""The Gate page in a browser, on a small gate run that really trained."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from core import api
from tests.browser.conftest import serve, stop, watched
from tests.browser.test_pages import no_trouble

pytestmark = pytest.mark.browser
WIDE = {"width": 1360, "height": 900}
NARROW = {"width": 390, "height": 844}
CHARTS = {"Ablation": 3, "Training": 2, "Calibration": 1, "Scores": 1}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A server whose data hold a finished gate run of three variants."""
    home = tmp_path_factory.mktemp("gates")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIDCHART_DATA", str(home / "data"))
        patch.setenv("MIDCHART_CACHE", str(home / "cache"))
        api.prepare_demo(patients=8, events_per_patient=60)
        spec = {
            "name": "small gates", "kind": "gate", "data": "demo", "epochs": 2,
            "variants": ["query", "loss"], "protocol": {"preset": "corrected", "resamples": 100},
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
            page = watch.go(f"/gate?view={view}", "Gate")
            no_trouble(page)
            expect(page.locator(".js-plotly-plot")).to_have_count(charts)
            expect(page.get_by_test_id("stDataFrame").first).to_be_visible()
            wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
            assert wide <= 0, view


def test_a_variant_is_kept_in_the_address(trained, browser):
    for watch in watched(browser, trained, **WIDE, scheme="light"):
        page = watch.go("/gate?view=Training", "Gate")
        page.get_by_role("combobox", name="Variant").click()
        page.get_by_role("option").nth(1).click()
        watch.settled()
        page.wait_for_url("**variant=**")
        no_trouble(page)
