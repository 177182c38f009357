"""The Curve page in a real browser: fits wide and narrow, a marker's click opens its questions."""

from __future__ import annotations

import re
import time

import pytest
from playwright.sync_api import expect

from tests.support.run_helpers import finished_run, workspace_at

pytestmark = pytest.mark.browser
MARKERS = ".st-key-curve_whole .scatterlayer .trace:nth-last-child(2) path.point"
"""The answers' own markers; n is written after them."""


@pytest.fixture(scope="module")
def needled(small):
    """A small finished needle run beside the run that all tests share."""
    with workspace_at(small[0]):
        spec = {
            "name": "small needles", "kind": "needles", "data": "demo",
            "arms": ["full", "recency"], "readers": ["extractive"], "judges": ["exact"],
            "lengths": [500], "depths": [0, 50, 100], "distractors": [0, 1], "needles": 1,
            "patients": 2, "protocol": {"preset": "corrected", "resamples": 100},
        }  # fmt: skip
        return finished_run(spec)


def test_the_curve_its_groups_and_numbers_fit(watch):
    page = watch.go("/curve", "Curve")
    expect(page.get_by_text("Simulated answers: generated")).to_be_visible()
    expect(page.locator(".js-plotly-plot")).to_have_count(1 + 6)
    badges = page.get_by_test_id("stMarkdownContainer").get_by_text("simulated answers")
    expect(badges).to_have_count(1 + 1 + 6)
    expect(page.locator(".mc-summary").first).to_contain_text("expected by chance")
    watch.fits()


def test_a_click_opens_a_points_questions_which_lead_to_the_record(watch):
    page = watch.go("/curve", "Curve")
    marker = page.locator(MARKERS).nth(3)
    marker.wait_for()
    marker.scroll_into_view_if_needed()
    marker.dispatch_event("mousemove")
    box = marker.bounding_box()
    begin = time.perf_counter()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    heading = page.get_by_text("question with evidence at")
    expect(heading).to_be_visible()
    watch.quick(begin)  # under 0.5 s on an idle machine
    page.wait_for_url("**at=*")
    watch.settled()
    stays = heading.inner_text()
    page.wait_for_timeout(800)
    assert heading.inner_text() == stays, "the selection's reset does not close what was opened"
    page.goto(page.url)
    expect(heading).to_have_text(stays)
    watch.settled()
    grid = page.get_by_test_id("stDataFrame").locator("visible=true").first
    grid.scroll_into_view_if_needed()
    box = grid.bounding_box()
    page.mouse.move(box["x"] + 190, box["y"] + 50)
    page.mouse.move(box["x"] + 200, box["y"] + 52)
    expect(grid.get_by_test_id("data-grid-canvas")).to_have_css("cursor", "pointer")
    with page.context.expect_page() as coming:
        page.mouse.click(box["x"] + 200, box["y"] + 52)
    record = coming.value
    record.get_by_role("heading", name="Patient", level=1).wait_for()
    # The demo is the default cohort, so its name may be left out of the address.
    assert re.search(r"/patient\?(cohort=demo&)?patient=\w+&question=\w+", record.url)
    record.close()


def test_the_address_keeps_every_choice_and_holds_no_name(watch):
    page = watch.go("/curve", "Curve")
    page.get_by_role("radio", name="Quintiles").or_(
        page.get_by_role("button", name="Quintiles")
    ).click()
    watch.settled()
    page.wait_for_url("**bins=Quintiles**")
    verdict = page.locator(".mc-headline")
    everyone = verdict.inner_text()
    page.get_by_role("combobox", name="Answers of").click()
    page.get_by_role("option").nth(2).click()
    page.wait_for_url("**of=**")
    expect(verdict).not_to_have_text(everyone)
    watch.settled()
    assert "sim-model" not in page.url
    text = verdict.inner_text()
    page.goto(page.url)
    expect(verdict).to_have_text(text)


def test_needles_fit_and_show_the_contrast_and_the_grid(needled, watch):
    page = watch.go(f"/curve?run={needled}", "Curve")
    expect(page.locator(".js-plotly-plot")).to_have_count(1)
    expect(page.locator(".mc-headline")).to_contain_text("Full record")
    watch.fits()
    page = watch.go(f"/curve?run={needled}&view=grid", "Curve")
    expect(page.locator(".js-plotly-plot")).to_have_count(1)
    watch.fits()
