"""Scores on the Patient page in a browser: a marker's click explains its sentence, and quickly."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import WIDER

pytestmark = pytest.mark.browser
MARKERS = ".st-key-patient_timeline .scatterlayer .trace path.point"


def opened(watch):
    page = watch.go("/patient?cohort=scored", "Patient")
    page.locator(".mc-sentence").wait_for()
    page.locator(MARKERS).first.wait_for()
    watch.settled()
    return page


def test_the_strips_of_a_long_record_fit(on_records):
    page = opened(on_records)
    for _ in on_records.looks():
        assert page.evaluate(WIDER) <= 0
        expect(page.get_by_text("of 5,").first).to_be_visible()
        strips = page.locator(".st-key-patient_timeline .heatmaplayer image")
        assert strips.count() == 2, "events by kind, and the arms' scores"


def test_a_click_on_a_marker_explains_its_sentence_and_opens_its_entry(on_records):
    page = opened(on_records)
    head = page.locator(".mc-lead").last
    before = head.inner_text()
    entry = page.locator(".viewer .row.open").first
    event = entry.get_attribute("data-event")
    marker = page.locator(MARKERS).last
    marker.scroll_into_view_if_needed()
    marker.dispatch_event("mousemove")
    box = marker.bounding_box()
    begin = time.perf_counter()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(head).not_to_have_text(before)
    on_records.quick(begin)
    expect(entry).not_to_have_attribute("data-event", event)
    on_records.settled()
    stays = head.inner_text()
    page.wait_for_timeout(800)
    assert head.inner_text() == stays, "the selection's reset does not close what was opened"
