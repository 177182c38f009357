"""The pictures of README and docs, taken anew: ``make screenshots``.

The demo cohort is made in a temporary folder, the app is served from it, and each page is opened
in Chromium at 1360 px, light.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright

from midchart.core import api
from tests.browser.conftest import IDLE, ROOT, launch, serve
from tests.support.run_helpers import workspace_at

PAGES = {
    "patient": ("/patient?cohort=demo", 1250),
    "curve": ("/curve?cohort=demo", 1340),
    "arms": ("/arms", 1250),
    "needles": ("/curve?curve=needles", 1250),
}
"""Picture → the page's address and the height of the picture in pixels."""


def main() -> None:
    """Write ``docs/NAME.png`` for each of :data:`PAGES`."""
    with TemporaryDirectory() as place, workspace_at(Path(place)) as home:
        api.prepare_demo()
        api.open_examples()
        with serve(home) as server, sync_playwright() as playwright:
            browser = launch(playwright.chromium)
            for name, (address, height) in PAGES.items():
                page = browser.new_page(viewport={"width": 1360, "height": height})
                page.goto(server.url + address)
                page.get_by_role("heading", level=1).wait_for()
                page.wait_for_timeout(1000)
                page.wait_for_function(IDLE, timeout=120_000)
                page.wait_for_timeout(1000)
                page.screenshot(path=str(ROOT / "docs" / f"{name}.png"))
            browser.close()


if __name__ == "__main__":
    main()
