"""Ways between the pages in a real browser; test_accessible.py opens every one of them."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from midchart.core import api
from tests.browser.conftest import WIDER, serve, watched
from tests.support.run_helpers import workspace_at

pytestmark = pytest.mark.browser

PLACES = {
    "/": "Home",
    "/home": "Home",
    "/patient": "Patient",
    "/questions": "Questions",
    "/review": "Review",
    "/curve": "Curve",
    "/arms": "Arms",
    "/gate": "Gate",
    "/forecast": "Forecast",
    "/replication": "Paper",
    "/runs": "Runs",
    "/data": "Data",
}


def no_trouble(page) -> None:
    """Nothing on the page is an error or a traceback."""
    expect(page.get_by_test_id("stException")).to_have_count(0)
    expect(page.get_by_test_id("stAlertContentError")).to_have_count(0)


def preset(name: str) -> dict:
    """A spec of docs/."""
    text = next(one.text for one in api.presets() if one.name == name)
    return api.read_toml(text)


def menu(page) -> list[str]:
    """The names in the menu."""
    return page.get_by_test_id("stSidebarNavLink").all_inner_texts()


def check_page(page, path: str) -> None:
    """The page of that path, with what every page says, and nothing sticks out to the right."""
    no_trouble(page)
    expect(page.get_by_text("Research use only. Not for clinical decisions.")).to_be_visible()
    expect(page).to_have_title(f"{PLACES[path]} · Midchart")
    assert page.evaluate(WIDER) <= 0


def test_a_deep_link_on_a_cold_server_shows_the_page_with_its_menu(small, tab):
    with serve(small[0]) as server:
        for watch in watched(tab, server.url):
            page = watch.go("/runs", "Runs")
            check_page(page, "/runs")
            assert menu(page) == list(dict.fromkeys(PLACES.values()))
            assert page.url.removeprefix(server.url).split("?")[0] == "/runs"


def test_the_ways_in_lead_where_they_say(watch):
    watch.look(1)
    page = watch.go("/", "Home")
    check_page(page, "/")
    page.get_by_role("link", name="See the comparison").click()
    arrived(watch, "Arms")
    watch.look(0)
    page = watch.go("/", "Home")
    expect(page.locator(".mc-headline")).to_be_visible()
    page.locator(".st-key-home_funnel .barlayer .point path:visible").first.click(force=True)
    page.wait_for_url("**view=lost**")
    arrived(watch, "Arms")
    page = watch.go("/", "Home")
    page.get_by_role("button", name="Open a chart").click()
    arrived(watch, "Patient")
    page = watch.go("/", "Home")
    page.get_by_role("link", name="Import a cohort").first.click()
    arrived(watch, "Data")


def arrived(watch, title: str) -> None:
    """The page of that title is drawn to its end, without trouble."""
    watch.page.get_by_role("heading", name=title, level=1).wait_for()
    watch.settled()
    no_trouble(watch.page)


def test_a_run_is_watched_and_cancelled_from_any_page(watch, server):
    with workspace_at(server.data.parent):
        api.enqueue({**preset("demo"), "name": "long one"})
    page = watch.go("/", "Home")
    expect(page.get_by_text("Running: long one")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="long one (running)").click()
    # The click travels by the page's own socket, which a page that is left closes.
    expect(page.get_by_text("Running: long one")).to_have_count(0)
    with workspace_at(server.data.parent):
        stopped = next(run for run in api.status() if run["name"] == "long one")
        assert stopped["status"] == "cancelled"
        page = watch.go(f"/runs?run={stopped['run']}", "Runs")
    expect(page.get_by_text("is cancelled:")).to_be_visible()
    expect(page.get_by_role("button", name="Resume")).to_be_enabled()
