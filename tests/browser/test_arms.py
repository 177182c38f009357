"""The Arms page in a real browser: every view wide and narrow, and the way down to one question."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
TITLES = {
    "funnel": "Where is evidence lost?",
    "lost": "Where in the chart is evidence lost?",
    "overall": "Which arm answers best?",
    "position": "Does the evidence's position matter?",
    "pairs": "Which differences hold?",
    "evidence": "Which arm keeps the evidence?",
    "found": "Does having the evidence help?",
    "types": "Which types of question go wrong?",
    "k": "How many sentences are enough?",
    "judges": "Do the judges agree?",
    "failures": "How do answers go wrong?",
    "costs": "What does an answer cost?",
    "questions": "Which questions, one by one?",
}
"""Views by their address → their titles in the picker."""


def test_every_view_is_drawn_and_nothing_sticks_out(watch, run):
    for view, title in TITLES.items():
        page = watch.go(f"/arms?run={run}&view={view}&differ=false", "Arms")
        expect(page.locator(".mc-headline")).to_be_visible()
        expect(page.get_by_role("combobox", name="Question", exact=True)).to_have_value(title)
        if view != "questions":
            expect(page.locator(".js-plotly-plot .main-svg").first).to_be_visible()
            watch.fits()
            page.get_by_role("tab", name="Table").click()
        expect(page.get_by_test_id("stDataFrame").first).to_be_visible()
        watch.fits()


def test_from_the_headline_to_a_shared_question_in_two_clicks_and_back_step_by_step(
    watch, run, browser
):
    page = watch.go("/", "Home")
    page.goto(f"{watch.home}/arms?run={run}")
    watch.settled()
    expect(page.locator(".mc-headline")).to_be_visible()
    page.locator(".barlayer .point path:visible").first.click(force=True)
    page.wait_for_url("**view=questions**")
    watch.settled()
    expect(page.get_by_text("Click a row to open it.")).to_be_visible()
    table = page.get_by_test_id("stDataFrame").first
    watch.settled()
    table.click(position={"x": 420, "y": 52})  # the grid takes the focus from the figure
    page.wait_for_timeout(1000)
    if "asked=" not in page.url:
        table.click(position={"x": 420, "y": 52})
    page.wait_for_url("**asked=**")
    facts = page.locator("p.mc-headline").last
    expect(facts).to_be_visible()
    expect(page.locator(".mc-by-arm .mc-verdict").first).to_be_visible()
    assert page.locator(".mc-by-arm mark.mc-held, .mc-by-arm mark.mc-dropped").count() > 0
    question, address = facts.inner_text(), page.url
    for word in re.findall(r"[a-z]{5,}", question.lower()):
        assert word not in address.lower()
    shared = browser.new_context().new_page()
    shared.goto(address)
    expect(shared.locator("p.mc-headline").last).to_have_text(question)
    shared.context.close()
