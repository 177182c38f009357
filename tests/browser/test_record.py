"""The record on page Patient in a browser: scrolling, search, filters, and marking evidence.

The measurements of opening, scrolling, search and marking are printed with ``-s``; they are
wall-clock times and rise with the load of the machine, which is printed too.
"""

from __future__ import annotations

import os
import time
from statistics import median

import pytest
from playwright.sync_api import Page, expect

from midchart.core import api
from tests.browser.conftest import Server, Watch
from tests.support.patient_cohort import FIRST

pytestmark = pytest.mark.browser

SCROLL = """async () => {
  const all = [...document.querySelectorAll('*')];
  const root = all.find((e) => e.shadowRoot?.querySelector('.viewer')).shadowRoot;
  const scroll = root.querySelector('.scroll');
  const frames = [];
  let rows = 0;
  for (let i = 1; i <= 120; i++) {
    const begin = performance.now();
    scroll.scrollTop = (scroll.scrollHeight * i) / 120;
    await new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)));
    frames.push(performance.now() - begin);
    rows = Math.max(rows, root.querySelectorAll('.row').length);
  }
  frames.sort((a, b) => a - b);
  const last = scroll.lastChild.lastChild.ariaPosInSet;
  return { rows, frame: frames[60], slowest: frames[119], last };
}"""
"""Scrolls through the record in 120 jumps; times in ms."""


def open_record(watch: Watch, cohort: str) -> Page:
    """The Patient page of a cohort, its record drawn."""
    page = watch.go(f"/patient?cohort={cohort}&arms=bm25&arms=recency", "Patient")
    page.locator(".viewer .row").first.wait_for()
    watch.settled()
    return page


def keep_question(page: Page, question: str) -> None:
    """Type a question and keep it."""
    page.get_by_role("radiogroup", name="Question").get_by_text("Type a question…").click()
    typed = page.get_by_label("Your question", exact=True)
    typed.fill(question)
    typed.press("Enter")
    page.get_by_role("button", name="Keep this question").click()
    page.locator(".viewer .sentence[role=checkbox]").first.wait_for()
    expect(page.locator(".viewer .scroll")).to_have_count(1)  # until then the last one goes too


def marked(records: Server) -> list[str]:
    """The sentences marked for the last question that was kept in the cohort by hand."""
    annotations = api.own_questions(records.data / "cohorts" / "hand")[-1].annotations
    return [text for annotation in annotations.values() for text in annotation.texts]


def saved(page: Page, count: int) -> None:
    """Wait until the server has that many marks."""
    status = page.locator(".viewer .status[data-saved=yes]")
    expect(status).to_contain_text(f"{count} sentence{'' if count == 1 else 's'} marked")


def test_search_counts_all_hits_and_walks_over_them(on_records):
    page = open_record(on_records, "hand")
    count = page.locator(".viewer output")
    search = page.get_by_role("searchbox", name="Search in the record")
    search.fill('"lab 2"')
    expect(count).to_contain_text("12 hits in 12 entries")  # every fifth of 60 entries
    current = page.locator(".viewer .sentence.current")
    before = current.inner_text()
    search.press("Enter")
    expect(current).not_to_have_text(before)
    search.press("Shift+Enter")
    expect(current).to_have_text(before)
    search.fill('"tubular adenoma in"')
    expect(count).to_have_text("1 of 1 hit in 1 entry")
    assert FIRST in current.inner_text()
    search.fill("adenoma in tubular")
    expect(count).to_contain_text("1 hit in 1 entry")
    page.get_by_role("button", name="Show only the entries with hits").click()
    expect(page.locator(".viewer .row")).to_have_count(1)
    search.fill('"adenoma tubular"')
    expect(count).to_have_text("No sentence holds these words")


def test_evidence_is_marked_in_the_note_by_mouse_and_by_keyboard(on_records, records):
    page = open_record(on_records, "hand")
    keep_question(page, "What was seen?")
    search = page.get_by_role("searchbox", name="Search in the record")
    search.fill("tubular")
    sentence = page.locator(".viewer .sentence.current")
    expect(sentence).to_contain_text("tubular")
    sentence.click()
    expect(sentence).to_have_attribute("aria-checked", "true")
    saved(page, 1)
    assert marked(records) == [FIRST]
    page.keyboard.press("Shift+Tab")
    page.keyboard.press(" ")
    saved(page, 2)
    page.keyboard.press("Tab")
    expect(sentence).to_have_attribute("aria-checked", "true")
    page.keyboard.press(" ")
    saved(page, 1)
    assert marked(records) == ["Seen for follow-up."]
    page.reload()
    expect(page.locator(".viewer .sentence[aria-checked=true]")).to_contain_text("Seen for follow")


def test_a_record_of_20000_events_stays_fluid(on_records, records):
    page = open_record(on_records, "long")
    entries = page.locator(".viewer .row").first.get_attribute("aria-setsize")
    assert int(entries) > 18_000
    times: list[float] = []
    for _ in range(3):
        begin = time.perf_counter()
        page.goto(page.url)
        page.locator(".viewer .row").first.wait_for()
        times.append(time.perf_counter() - begin)
    scrolled = page.evaluate(SCROLL)
    assert scrolled["rows"] < 120, "only what is on the screen, and some above and below"
    assert scrolled["last"] == entries, "the last entry is reached"
    search = page.get_by_role("searchbox", name="Search in the record")
    begin = time.perf_counter()
    search.fill("blood pressure")
    expect(page.locator(".viewer output")).to_contain_text("hits in")
    searched = time.perf_counter() - begin
    search.fill("")
    keep_question(page, "Did the patient smoke?")
    page.locator(".viewer .scroll").focus()
    page.keyboard.press("Tab")
    marks: list[float] = []
    for count in (1, 0) * 5:
        begin = time.perf_counter()
        page.keyboard.press(" ")
        saved(page, count)
        marks.append(time.perf_counter() - begin)
    for _ in range(7):  # faster than they are saved
        page.keyboard.press(" ")
    saved(page, 1)
    [question] = api.own_questions(records.data / "cohorts" / "long")
    assert [len(a.texts) for a in question.annotations.values()] == [1]
    print(
        f"\n{entries} entries: page opened in {median(times):.2f} s; a jump drawn in "
        f"{scrolled['frame']:.0f} ms (slowest {scrolled['slowest']:.0f}), at most "
        f"{scrolled['rows']} rows in the document; search {searched:.2f} s; a mark saved in "
        f"{median(marks):.2f} s (slowest {max(marks):.2f}); "
        f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
