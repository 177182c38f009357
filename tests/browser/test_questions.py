"""A question set, from typing it to the source sentence of one of its answers."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Watch

pytestmark = pytest.mark.browser

QUESTION = "Which medication was started?"


def test_a_set_is_typed_asked_and_a_cell_leads_to_its_source(watch: Watch) -> None:
    page = watch.go("/questions", "Questions")
    page.get_by_label("Questions", exact=True).fill(f"{QUESTION}\nDoes the patient smoke?")
    page.get_by_label("Name of the set").fill("Ward round")
    page.get_by_label("Name of the set").press("Enter")
    page.get_by_role("button", name="Save the question set").click()
    page.get_by_role("button", name="Ask all 3 patients (6 answers)").click()
    expect(page.get_by_text("3 of 3 patients.")).to_be_visible()
    assert page.get_by_test_id("stDataFrame").first.bounding_box()["y"] < 400
    expect(page.get_by_text("This run is not finished")).to_be_hidden()
    watch.settled()
    table = page.get_by_test_id("stDataFrame").first
    table.scroll_into_view_if_needed()
    table.click(position={"x": 200, "y": 35 + 17})
    expect(page.get_by_role("heading", name="Patient", level=1)).to_be_visible()
    expect(page.get_by_role("textbox", name="Your question")).to_have_value(QUESTION)
    assert "medication" not in page.url
