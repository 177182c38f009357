"""The Arms page in a real browser: every view wide and narrow, and the way down to one question."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
DRAWN = (
    "Overall",
    "By position",
    "Pairs",
    "Evidence",
    "Question types",
    "By k",
    "Judges",
    "Failures",
)
VIEWS = (*DRAWN, "Costs", "Questions")


def test_every_view_is_drawn_and_nothing_sticks_out(watch, run):
    for view in VIEWS:
        page = watch.go(f"/arms?run={run}&view={view}&differ=false", "Arms")
        expect(page.locator(".mc-headline")).to_be_visible()
        expect(page.get_by_test_id("stDataFrame").first).to_be_visible()
        if view in DRAWN:
            expect(page.locator(".js-plotly-plot").first).to_be_visible()
        watch.fits()


def test_from_the_headline_to_a_shared_question_in_two_clicks_and_back_step_by_step(
    watch, run, browser
):
    page = watch.go("/", "Home")
    page.goto(f"{watch.home}/arms?run={run}")
    watch.settled()
    expect(page.locator(".mc-headline")).to_be_visible()
    page.locator(".scatterlayer .point").first.click(force=True)
    page.wait_for_url("**view=Questions**")
    expect(page.get_by_text("Click a row to open it.")).to_be_visible()
    table = page.get_by_test_id("stDataFrame").first
    watch.settled()
    table.click(position={"x": 420, "y": 52})  # the first row, in a cell of an outcome
    page.wait_for_url("**asked=**")
    facts = page.locator(".mc-facts dd").first
    expect(facts).to_be_visible()
    expect(page.locator(".mc-card .mc-verdict").first).to_be_visible()
    assert page.locator(".mc-line.mc-held, .mc-line.mc-dropped").count() > 0
    question, address = facts.inner_text(), page.url
    for word in re.findall(r"[a-z]{5,}", question.lower()):
        assert word not in address.lower()
    shared = browser.new_context().new_page()
    shared.goto(address)
    expect(shared.locator(".mc-facts dd").first).to_have_text(question)
    shared.context.close()


def test_another_baseline_is_kept_in_the_address(watch, run):
    page = watch.go(f"/arms?run={run}&view=Pairs&baseline=bm25", "Arms")
    expect(page.locator(".mc-headline")).to_contain_text("BM25")
    expect(page.get_by_text("each further baseline adds its own")).to_be_visible()
