"""A foreign name that resolves to this machine (DNS rebinding) reads nothing of any page."""

import pytest

from tests.browser.conftest import FOREIGN

pytestmark = pytest.mark.browser


def test_a_page_under_a_foreign_name_gets_no_data(server, browser):
    port = server.url.rsplit(":", 1)[1]
    frames: list[int] = []
    page = browser.new_page()
    page.on("websocket", lambda socket: socket.on("framereceived", lambda _: frames.append(1)))
    with page.expect_websocket() as opening:
        page.goto(f"http://{FOREIGN}:{port}/patient", wait_until="load")
    opening.value.wait_for_event("socketerror")
    assert frames == []
    assert "Research use only" not in page.inner_text("body")
    page.goto(f"{server.url}/patient", wait_until="load")  # the same browser, the own name
    page.get_by_text("Research use only").first.wait_for(timeout=60_000)
    assert frames != []
    page.close()


def test_another_page_cannot_frame_the_app(server, browser):
    page = browser.new_page()
    refused = "chrome-error://chromewebdata/"
    with page.expect_event("framenavigated", lambda frame: frame.url == refused):
        page.set_content(f'<iframe src="{server.url}/patient"></iframe>')
    assert len(page.frames) == 2
    assert "Research use only" not in page.frames[1].content()
    page.close()
