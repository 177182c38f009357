"""Every page with finished runs opens, fits and has no violation of WCAG 2.2 AA by axe-core, in
light and dark, wide and narrow; headings in order; the pages by keyboard."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import expect

from midchart.core import api
from tests.browser.conftest import Watch, serve, watched
from tests.browser.test_pages import PLACES, check_page
from tests.support.run_helpers import workspace_at

pytestmark = pytest.mark.browser

TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")
RULES = ("heading-order", "empty-heading", "skip-link", "region", "tabindex")
"""Rules of good practice that hold as well."""
STREAMLIT = {
    ("list", "stSidebarNavItems"): "the menu's list has group headings among its items",
    ("listitem", "stSidebarNav"): "the items of that list are inside a div",
}
"""Violations in Streamlit's own markup: (rule, test id of an element around it) → reason."""
AXE = """async ([tags, rules]) => (await axe.run(document, {
  runOnly: tags, rules: Object.fromEntries(rules.map((rule) => [rule, {enabled: true}])),
  resultTypes: ["violations"]
})).violations.flatMap((v) => v.nodes.map((node) => {
  const around = [];
  for (let e = document.querySelector(node.target.flat()[0]); e; e = e.parentElement)
    if (e.dataset.testid) around.push(e.dataset.testid);
  return [v.id, around, node.html.slice(0, 200), node.failureSummary.slice(0, 300)];
}))"""


@pytest.fixture(scope="module")
def with_examples(tmp_path_factory) -> Iterator[str]:
    """A server with a small demo and the finished runs that are part of Midchart."""
    with workspace_at(tmp_path_factory.mktemp("accessible")) as home:
        api.prepare_demo(patients=3, events_per_patient=80)
        api.open_examples()
    with serve(home) as server:
        yield server.url


@pytest.fixture(scope="module")
def page_of(with_examples, tab) -> Iterator[Watch]:
    """The page on that server."""
    yield from watched(tab, with_examples)


@pytest.mark.parametrize("path", [path for path in PLACES if path != "/"])
def test_a_page_opens_fits_and_has_no_violation_of_wcag_that_is_ours(page_of, path):
    page = page_of.go(path, PLACES[path])
    page.evaluate(AXE_SCRIPT)
    for look in page_of.looks():
        check_page(page, path)
        ours = [
            (rule, html, why)
            for rule, around, html, why in page.evaluate(AXE, [TAGS, RULES])
            if not any((rule, place) in STREAMLIT for place in around)
        ]
        assert ours == [], look


def test_focus_opens_no_cell_of_a_table_and_enter_does(page_of):
    page_of.look(0)
    page = page_of.go("/arms", "Arms")
    page.get_by_role("tab", name="Figure").press("ArrowRight")
    grid = page.get_by_test_id("data-grid-canvas").first
    expect(grid.locator("td").first).to_be_attached()
    address = page.url
    grid.focus()
    page.wait_for_timeout(500)  # what Streamlit waits before it reports a choice, three times
    assert page.url == address, "reaching a table opens nothing"
    arm = grid.locator("#glide-cell-0-1").inner_text()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".midchart-cell")).to_contain_text(arm)
    page.keyboard.press("Enter")
    page.wait_for_url("**view=questions**")
    page_of.settled()
    page.get_by_role("button", name="Filters: Arm").click()
    filters = page.get_by_test_id("stPopoverBody")
    expect(filters.get_by_role("combobox", name="Arm", exact=True)).to_have_value(arm)


def test_a_page_is_used_by_keyboard(page_of):
    page_of.look(0)
    page = page_of.go("/arms", "Arms")
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to main content")).to_be_focused()
    page.keyboard.press("?")
    keys = page.get_by_text("next control; Shift+Tab")
    expect(keys).to_be_visible()
    page.keyboard.press("Escape")
    expect(keys).to_be_hidden()
