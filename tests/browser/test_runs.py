"""The Runs page in a real browser: composed, started, watched to its end, compared with another."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.test_pages import no_trouble

pytestmark = pytest.mark.browser


def test_a_run_is_composed_started_watched_to_its_end_and_compared(watch, server, run):
    page = watch.go("/runs?view=New+run", "Runs")
    page.get_by_text("Advanced").click()
    questions = page.get_by_role("spinbutton", name="Number of questions")
    questions.fill("1")
    questions.press("Enter")
    expect(page.get_by_text("1 question of 1 patient")).to_be_visible()
    page.get_by_role("button", name="Start run").click()
    expect(page.get_by_role("textbox", name="Search")).to_be_visible()
    expect(page.get_by_text(re.compile("on demo is done"))).to_be_visible()
    watch.settled()
    no_trouble(page)
    table = page.get_by_test_id("stDataFrame").first
    # The newest run is the first row; the boxes are at the left of the rows.
    fixture = sum(path.name >= run for path in (server.data / "runs").glob("2*"))
    table.click(position={"x": 17, "y": 33 * fixture + 17})
    page.wait_for_url(f"**run={run}**")
    watch.settled()
    table.click(position={"x": 17, "y": 33 + 17})
    page.get_by_role("link", name="Compare").click()
    expect(page.get_by_text("Questions that changed")).to_be_visible()
    new = max(path.name for path in (server.data / "runs").glob("2*"))
    assert f"runs={run}" in page.url and f"runs={new}" in page.url
    expect(page.get_by_test_id("stDataFrame")).to_have_count(2)
    assert "demo" not in page.url.removeprefix(watch.home), "names stay out of the address"
