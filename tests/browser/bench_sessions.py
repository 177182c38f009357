"""Memory of a server that several browsers use: ``python -m tests.browser.bench_sessions``
(``--browsers 10 --rounds 200``; that takes an hour).

Each browser is a session of its own on a server with the demo cohort and the included runs. In each
round all of them act, until each has asked for a rerun, by a seeded choice among what a person
finds: another page of the menu, another option, question or patient, a switch, a tab, the evidence
in its place. The table has the reruns that the browsers asked for, the server's resident memory,
its processor seconds for a rerun, and the machine's load; then what memory grew by for a rerun in
the second half, and what is resident after all browsers have closed and Streamlit has forgotten
their sessions. The status is 1 where a page, a browser's console or an answer showed an error.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import BrowserContext, Error, sync_playwright

from midchart.core import api
from tests.browser.bench_pages import Meter
from tests.browser.conftest import IDLE, Server, Watch, launch, serve, watched
from tests.support.run_helpers import workspace_at

MENU = "[data-testid=stSidebarNavLink]"
WIDGETS = (
    "[data-testid=stMain] [data-testid=stBaseButton-segmented_control]",
    "[data-testid=stMain] [data-testid=stBaseButton-pills]",
    "[data-testid=stMain] [data-testid=stSelectbox] input:not([disabled])",
    "[data-testid=stMain] [data-testid=stCheckbox] label",
    "[data-testid=stMain] [role=tab][aria-selected=false]",
    ".st-key-patient_around button",
)
"""What browsers act on: nothing that starts, saves or removes anything."""
OTHER_PAGE = 0.2
"""Share of the acts that open another page."""
PATIENCE_MS = 120_000
FORGOTTEN_S = 130
"""Streamlit forgets a session without a browser after two minutes, when another one comes."""
HEAD = ("round", "reruns", "MB", "cpu s/rerun", "load", "errors")


@dataclass
class Person:
    """A browser's page, its seeded choices, and what it saw go wrong."""

    watch: Watch
    meter: Meter
    draw: random.Random
    before: int = 0

    def act(self) -> None:
        """Act once; what moved away before the click is left alone."""
        page, self.before = self.watch.page, len(self.meter.asked)
        seen = [one for one in page.locator(", ".join(WIDGETS)).all() if one.is_visible()]
        try:
            if not seen or self.draw.random() < OTHER_PAGE:
                self.draw.choice(page.locator(MENU).all()).click(timeout=5000)
                return
            widget = self.draw.choice(seen)
            widget.click(timeout=5000)
            if widget.evaluate("one => one.tagName") == "INPUT":
                way = self.draw.choice(("ArrowDown", "ArrowUp"))
                for _ in range(self.draw.randint(1, 3)):
                    widget.press(way, timeout=5000)
                widget.press("Enter", timeout=5000)
        except Error:
            page.keyboard.press("Escape")

    def idle(self) -> bool:
        """Whether the last act asked nothing of the server, as the choice of what was chosen."""
        self.watch.page.wait_for_timeout(50)
        return len(self.meter.asked) == self.before

    def settle(self) -> None:
        """Wait until the page is drawn; notes the errors that it shows."""
        page = self.watch.page
        try:
            page.wait_for_function(IDLE, timeout=PATIENCE_MS)
        except Error:
            self.watch.faults.append(f"not drawn after {PATIENCE_MS / 1000:.0f} s: {page.url}")
        for kind in ("stException", "stAlertContentError"):
            shown = page.get_by_test_id(kind).all_inner_texts()
            self.watch.faults += [f"{page.url}: {text[:300]}" for text in shown]


def resident(process: int) -> float:
    """Resident memory of a process in MB."""
    status = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmRSS")).split()[1]) / 1024


def arrive(context: BrowserContext, server: Server, number: int, seed: int) -> Person:
    """A browser on page Home."""
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    meter = Meter(page, server.process.pid)
    watch = contextmanager(watched)(page, server.url)
    return Person(watch.__enter__(), meter, random.Random(f"{seed} {number}"))


def measure(server: Server, browsers: int, rounds: int, seed: int, every: int) -> list[str]:
    """Print the table; gives what went wrong."""
    process = server.process.pid
    print("".join(f"{title:>13}" for title in HEAD), flush=True)
    grown: list[tuple[int, float]] = []
    with sync_playwright() as playwright, ExitStack() as closing:
        browser = launch(playwright.chromium)
        closing.callback(browser.close)
        people = [arrive(browser.new_context(), server, i, seed) for i in range(browsers)]
        for person in people:
            person.watch.go("/", "Home")
        used, asked, before = people[0].meter.processor(), 0, 0
        for done in range(rounds + 1):
            if done:
                waiting = people
                while waiting:
                    for person in waiting:
                        person.act()
                    waiting = [person for person in waiting if person.idle()]
                for person in people:
                    person.settle()
            if done % every:
                continue
            asked = sum(len(person.meter.asked) for person in people)
            now = people[0].meter.processor()
            grown.append((asked, resident(process)))
            share = (now - used) / max(1, asked - before)
            used, before = now, asked
            faults = sum(len(person.watch.faults) for person in people)
            numbers = (done, asked, f"{grown[-1][1]:.0f}", f"{share:.2f}")
            row = (*numbers, f"{os.getloadavg()[0]:.1f}", faults)
            print("".join(f"{one:>13}" for one in row), flush=True)
        pages = sorted({person.watch.page.url.split("?")[0] for person in people})
        print(f"last pages: {', '.join(pages)}")
        first, last = grown[len(grown) // 2], grown[-1]
        if last[0] > first[0]:
            share = 1024 * (last[1] - first[1]) / (last[0] - first[0])
            print(f"second half: {share:+.1f} kB for a rerun")
        for context in browser.contexts:
            context.close()
        print(f"browsers closed: {resident(process):.0f} MB", flush=True)
        time.sleep(FORGOTTEN_S)
        arrive(browser.new_context(), server, browsers, seed).watch.go("/", "Home")
        print(f"forgotten, one new session: {resident(process):.0f} MB", flush=True)
        return [fault for person in people for fault in person.watch.faults]


def main() -> int:
    """Make the demo, open the included runs, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--browsers", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=int, default=10, help="rounds between two rows")
    call = parser.parse_args()
    with TemporaryDirectory() as place, workspace_at(Path(place)) as home:
        api.prepare_demo()
        api.open_examples()
        with serve(home) as server:
            faults = measure(server, call.browsers, call.rounds, call.seed, call.every)
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
