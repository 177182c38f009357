"""Scores on the Patient page in a browser: a marker's click opens its sentence, and quickly."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import WIDER

pytestmark = pytest.mark.browser
MARKERS = ".st-key-patient_heat .scatterlayer .trace:nth-child(3) path.point"
"""What the first arm kept by score; the traces before it: just missed, kept as recent."""


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
        expect(page.get_by_text("n = 5,")).to_be_visible()
        assert page.locator(".st-key-patient_heat .heatmaplayer image").count() == 1


def test_a_click_on_a_marker_opens_its_sentence_and_walking_goes_on(on_records):
    page = opened(on_records)
    head = page.locator(".mc-lead").last
    before = head.inner_text()
    marker = page.locator(MARKERS).first
    marker.scroll_into_view_if_needed()
    marker.dispatch_event("mousemove")
    box = marker.bounding_box()
    begin = time.perf_counter()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(head).not_to_have_text(before)
    on_records.quick(begin)  # 0.4 s on an idle machine
    on_records.settled()
    stays = head.inner_text()
    page.wait_for_timeout(800)
    assert head.inner_text() == stays, "the selection's reset does not close what was opened"
    page.get_by_role("radio", name="Record", exact=True).or_(
        page.get_by_role("button", name="Record", exact=True)
    ).click()
    on_records.settled()
    page.get_by_role("button", name="Next", exact=True).click()
    expect(head).not_to_have_text(stays)


def test_a_kept_sentence_shows_its_terms_by_line_not_by_colour_alone(on_records):
    page = opened(on_records)
    page.get_by_text("Kept", exact=True).last.click()
    on_records.settled()
    page.get_by_role("button", name="Next", exact=True).click()
    mark = page.locator(".mc-sentence mark.mc-w").first
    expect(mark).to_be_visible()
    expect(mark).to_have_css("border-bottom-style", "solid")
