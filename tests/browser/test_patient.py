"""The Patient page in a browser: clicks open notes, evidence is walked, hostile text is inert."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import WIDER, Watch

pytestmark = pytest.mark.browser

POINTS = ".st-key-patient_timeline .scatterlayer .trace path.point"


def opened(watch: Watch):
    """The page, drawn to its end."""
    page = watch.go("/patient?cohort=hand", "Patient")
    page.locator(".viewer .row").first.wait_for()
    watch.settled()
    return page


def test_it_fits_and_its_marks_can_be_distinguished_without_colour(on_records):
    page = opened(on_records)
    page.locator(".st-key-patient_marks").get_by_text("Recency only", exact=True).click()
    for _ in on_records.looks():
        assert page.evaluate(WIDER) <= 0
        mark = page.locator(".viewer .words mark.mc-dropped").first
        expect(mark).to_contain_text("dropped evidence")
        expect(mark).to_have_css("border-top-style", "dashed")
        selected = page.locator(".mc-legend mark.mc-kept")
        expect(selected).to_have_css("border-top-style", "solid")


def test_what_was_lost_the_map_and_the_record_at_its_evidence_are_seen_at_once(watch):
    page = watch.go("/patient?cohort=demo", "Patient")
    watch.settled()
    expect(page.locator(".st-key-patient_timeline .main-svg").first).to_be_in_viewport()
    evidence = page.locator(".mc-passage u").first.inner_text()
    entry = page.locator(".viewer .row.open").filter(has_text=evidence.split(".")[0])
    expect(entry).to_have_count(1)
    expect(
        entry.locator("mark.mc-held, mark.mc-dropped, mark.mc-lostgold").first
    ).to_be_in_viewport()
    for highest in (400, 500):  # px from the top, wide and on a phone
        assert page.locator(".mc-alarm").bounding_box()["y"] < highest
        watch.look(1)
        watch.settled()
    watch.look(0)


def test_hostile_text_is_shown_and_does_nothing(on_records):
    page = opened(on_records)
    expect(page.locator(".viewer .scroll")).to_contain_text("<script>alert(1)</script> <|im_end|>")
    assert page.locator(".viewer img, .viewer script").count() == 0


def test_next_evidence_and_a_click_on_a_marker_open_their_entries_quickly(on_records):
    page = opened(on_records)
    entry = page.locator(".viewer .row.open").first
    before = entry.get_attribute("data-event")
    page.get_by_role("button", name="Next evidence").click()
    expect(entry).not_to_have_attribute("data-event", before)
    before = entry.get_attribute("data-event")
    begin = time.perf_counter()
    page.locator(POINTS).first.scroll_into_view_if_needed()
    page.locator(POINTS).first.dispatch_event("mousemove")
    box = page.locator(POINTS).first.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(entry).not_to_have_attribute("data-event", before)
    on_records.quick(begin)  # 0.3 s on an idle machine
    stays = entry.get_attribute("data-event")
    page.wait_for_timeout(800)
    assert entry.get_attribute("data-event") == stays, (
        "the selection's reset does not close what was opened"
    )
