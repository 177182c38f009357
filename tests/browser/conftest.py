"""A real server on a free port with a small cohort and a finished run, and a real browser on it.

Every page that a test opens is watched: an error in the console, an answer of 400 or more, or a
request to any other host fails the test.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserType, Page, expect, sync_playwright

from midchart.core import api
from tests.support import app_data, patient_cohort
from tests.support.run_helpers import until, workspace_at

ROOT = Path(__file__).parent.parent.parent
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
FOREIGN = "evil.example"
"""A name of another host that the tests' browser takes to this machine."""
PATIENCE_S = 120
expect.set_options(timeout=1000 * PATIENCE_S)  # five seconds are not enough on a busy machine
DRAWN = (
    "document.querySelector('[data-testid=stApp][data-test-script-state=notRunning]') && "
    "!document.querySelector('[data-testid=stStatusWidget],[data-testid=stSkeleton],"
    "[data-stale=true]')"
)
"""Whether the page's script has ended and nothing is a placeholder."""
IDLE = f"{DRAWN} && !document.querySelector('.st-key-patient_at_work')"
"""Whether moreover no arm of page Patient is still at work in a thread."""
LOOKS = ((1360, "light"), (390, "dark"))
"""Widths in px and colours that every page is looked at in."""
WIDER = "document.documentElement.scrollWidth - window.innerWidth"
# Streamlit looks for its own service under the page's path first, then at the root.
OWN_PROBES = re.compile(r"/_stcore/(health|host-config)$")


@dataclass
class Server:
    """A running app: its address, its data folder and its process."""

    url: str
    data: Path
    process: subprocess.Popen[bytes]


def _free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


@contextmanager
def serve(home: Path, *options: str, script: Path = ROOT / "app.py") -> Iterator[Server]:
    """The app, or another script, on a free port with Streamlit's ``options``, on the data and
    cache of a folder."""
    port = _free_port()
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "streamlit",
            "run",
            str(script),
            "--server.port",
            str(port),
            *options,
        ],
        cwd=ROOT,
        env={
            **os.environ,
            "MIDCHART_DATA": str(home / "data"),
            "MIDCHART_CACHE": str(home / "cache"),
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        until(partial(_answers, url), "the app answers", PATIENCE_S)
        yield Server(url, home / "data", process)
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE_S)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/_stcore/health", timeout=2):
            return True
    except OSError:
        return False


@pytest.fixture(scope="session")
def small(tmp_path_factory) -> tuple[Path, str]:
    """A workspace with a small cohort and a finished run; and the run's id."""
    with workspace_at(tmp_path_factory.mktemp("browser")) as home:
        api.prepare_demo(patients=3, events_per_patient=80)
        return home, app_data.make_run(home / "data" / "cohorts" / "demo")


@pytest.fixture(scope="session")
def run(small) -> str:
    """The id of that run."""
    return small[1]


@pytest.fixture(scope="session")
def server(small) -> Iterator[Server]:
    """A server that all tests share."""
    with serve(small[0]) as started:
        yield started


@pytest.fixture(scope="session")
def records(tmp_path_factory) -> Iterator[Server]:
    """A server whose cohorts are ``hand``, with hostile text, ``long``, a patient of about 20,000
    events, and ``scored``, a patient of over five thousand sentences."""
    home = tmp_path_factory.mktemp("records")
    patient_cohort.make(home / "data" / "cohorts" / "hand")
    with workspace_at(home):
        for name, events in (("long", 20_000), ("scored", 2500)):
            api.prepare_demo(home / "data" / "cohorts" / name, 1, events)
    with serve(home) as started:
        yield started


def launch(kind: BrowserType) -> Browser:
    """Chromium of this machine, or Playwright's own; it emulates no GPU, which costs more than it
    saves."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    flags = ["--no-sandbox", "--disable-gpu", f"--host-resolver-rules=MAP {FOREIGN} 127.0.0.1"]
    return kind.launch(executable_path=path, args=flags)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A browser that all tests share."""
    with sync_playwright() as playwright:
        opened = launch(playwright.chromium)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def tab(browser) -> Page:
    """A page that all tests share: it compiles the scripts of Streamlit and Plotly once."""
    context = browser.new_context()
    context.set_default_timeout(1000 * PATIENCE_S)
    return context.new_page()


@dataclass
class Watch:
    """A browser page, what went wrong on it, how long its last opening took, and its look."""

    page: Page
    home: str
    faults: list[str] = field(default_factory=list)
    opening_s: float = 0.0
    looked: int = 0

    def go(self, path: str, title: str) -> Page:
        """Open a path and wait until the page of that title is drawn to its end."""
        begin = time.perf_counter()
        self.page.goto(self.home + path)
        self.page.get_by_role("heading", name=title, level=1).wait_for()
        self.settled()
        self.opening_s = time.perf_counter() - begin
        return self.page

    def quick(self, begin: float) -> None:
        """What began then took less than 5 s or, where the machine is busy, than the opening."""
        took = time.perf_counter() - begin
        assert took < max(5.0, self.opening_s), f"{took:.1f} s, opening {self.opening_s:.1f} s"

    def settled(self) -> None:
        """Wait until the page is drawn to its end, with all arms of page Patient, and shows no
        error of the program."""
        self.page.wait_for_function(IDLE)
        assert self.page.get_by_test_id("stException").all_text_contents() == []

    def look(self, number: int) -> None:
        """Change the page's width and colours."""
        self.looked, (width, scheme) = number, LOOKS[number]
        self.page.set_viewport_size({"width": width, "height": 900})
        self.page.emulate_media(color_scheme=scheme)

    def looks(self) -> Iterator[str]:
        """The look that the page has, then the other, the page drawn in it; it stays so."""
        yield str(LOOKS[self.looked])
        self.look(1 - self.looked)
        self.page.wait_for_timeout(300)  # the page asks the server for figures in other colours
        self.settled()
        yield str(LOOKS[self.looked])

    def fits(self) -> None:
        """Nothing is an error or sticks out to the right, in each of :data:`LOOKS`."""
        for look in self.looks():
            expect(self.page.get_by_test_id("stAlertContentError")).to_have_count(0)
            assert self.page.evaluate(WIDER) <= 0, look


@pytest.fixture
def watch(server, tab) -> Iterator[Watch]:
    """The page on the server that all tests share."""
    yield from watched(tab, server.url)


@pytest.fixture
def on_records(records, tab) -> Iterator[Watch]:
    """The page on the server of those records."""
    yield from watched(tab, records.url)


def watched(tab: Page, url: str) -> Iterator[Watch]:
    """The page, wide and light, its faults collected, and asserted to be none at the end."""
    seen = Watch(tab, url)
    seen.look(0)

    def asked(request) -> None:
        if not request.url.startswith((url, "data:", "blob:", url.replace("http", "ws"))):
            seen.faults.append(f"request to {request.url}")

    def answered(response) -> None:
        if response.status >= 400 and not OWN_PROBES.search(response.url):
            seen.faults.append(f"{response.status} for {response.url}")

    def logged(message) -> None:
        if message.type == "error" and "Failed to load resource" not in message.text:
            seen.faults.append(message.text)

    listeners = {
        "request": asked,
        "response": answered,
        "console": logged,
        "pageerror": lambda error: seen.faults.append(str(error)),
    }
    for event, listener in listeners.items():
        tab.on(event, listener)
    yield seen
    for event, listener in listeners.items():
        tab.remove_listener(event, listener)
    tab.evaluate("localStorage.clear(), sessionStorage.clear()")
    tab.goto("about:blank")
    assert seen.faults == []
