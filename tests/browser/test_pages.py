"""Ways between the pages in a real browser; test_accessible.py opens every one of them."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import WIDER, serve, watched

pytestmark = pytest.mark.browser

PLACES = {
    "/": "Home",
    "/home": "Home",
    "/patient": "Patient",
    "/questions": "Questions",
    "/curve": "Curve",
    "/arms": "Arms",
    "/gate": "Gate",
    "/forecast": "Forecast",
    "/inhibition": "Inhibition",
    "/replication": "Replication",
    "/review": "Review",
    "/runs": "Runs",
    "/data": "Data & models",
}


def no_trouble(page) -> None:
    """Nothing on the page is an error or a traceback."""
    expect(page.get_by_test_id("stException")).to_have_count(0)
    expect(page.get_by_test_id("stAlertContentError")).to_have_count(0)


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


def test_a_view_is_kept_in_the_address(watch):
    page = watch.go("/arms", "Arms")
    page.get_by_role("radio", name="Pairs").or_(page.get_by_role("button", name="Pairs")).click()
    watch.settled()
    expect(page.get_by_text("Questions judged for both arms")).to_be_visible()
    page.wait_for_url("**view=Pairs**")


def test_the_ways_in_lead_where_they_say(watch):
    watch.look(1)
    page = watch.go("/", "Home")
    check_page(page, "/")
    page.get_by_role("link", name="Compare these arms").click()
    page.get_by_role("heading", name="Arms", level=1).wait_for()
    watch.settled()
    no_trouble(page)


def test_a_download_brings_the_numbers(watch):
    page = watch.go("/arms", "Arms")
    with page.expect_download() as coming:
        page.get_by_test_id("stDownloadButton").get_by_text("CSV").first.click()
    text = coming.value.path().read_text()
    assert text.splitlines()[0].startswith("arm,k,label")
    assert "recency" in text


def test_a_run_is_started_watched_and_finished_from_home(watch):
    page = watch.go("/", "Home")
    page.get_by_role("button", name="Run the demo comparison").click()
    expect(page.get_by_text("Running: comparison on demo")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="comparison on demo (running)").click()
    # The click travels by the page's own socket, which a page that is left closes.
    expect(page.get_by_text("Running: comparison on demo")).to_have_count(0)
    resume = page.get_by_role("button", name="Resume")
    page.goto(watch.home + "/arms")
    expect(resume.or_(page.get_by_text("finished"))).to_be_visible()


def test_the_tour_of_the_demo_has_five_steps_and_can_be_left(watch):
    page = watch.go("/", "Home")
    page.get_by_role("button", name="Tour of the demo").click()
    bar = page.locator(".st-key-tour")
    steps = (
        ("Patient", "Evidence kept", page.get_by_role("heading", name="The record")),
        ("Patient", "Evidence dropped", page.get_by_text("BM25 dropped").first),
        ("Patient", "What the reader saw", page.get_by_label("Context from")),
        ("Curve", "Accuracy by position, and chance", bar),
        ("Home", "Start a run", page.get_by_role("button", name="Run the demo comparison")),
    )
    for number, (title, name, seen) in enumerate(steps, 1):
        expect(bar.get_by_text(f"{number} of 5 · {name}")).to_be_visible()
        page.get_by_role("heading", name=title, level=1).wait_for()
        watch.settled()
        expect(seen).to_be_visible()
        no_trouble(page)
        if number < len(steps):
            bar.get_by_role("button", name="Next").click()
    bar.get_by_role("button", name="End the tour").click()
    expect(bar).to_have_count(0)
