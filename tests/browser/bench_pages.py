"""Times of pages and clicks in a browser: ``make bench-pages`` (``--patients 1 --events 20000``
for a long record, ``--pages patient,curve``, ``--repeats 5``), then of some pages on a second
server with a cohort of 2,000 patients (``--large 0`` leaves it out; it takes minutes to make).

Each row is one page opened in a new tab of one browser, or one click on page Patient: seconds until
the last message of the server (median and 90th percentile; of a click from the browser's request:
the driver scrolls and waits before it clicks), seconds until the last change of the page (the
figures on the screen are then drawn), processor seconds of the server, messages, kilobytes, and
reruns that the browser asked for. A page is there when it can be read and used; the
arms that a thread runs after that have their own row, and of a large cohort the records that a
process counts after the first opening. On a busy machine compare the processor time.

``--weight`` prints instead what a page weighs for a browser that has nothing of it yet, beside a
Streamlit page with a title alone, in turns: seconds until the title and the first figure are there
and until nothing changes any more, all of these also as a multiple of the empty page's; megabytes
as transferred; and processor seconds of server and page.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import BrowserContext, Page, sync_playwright

from midchart.core import api
from tests.browser.conftest import DRAWN, IDLE, Server, launch, serve
from tests.support.run_helpers import workspace_at

PAGES = (
    *("home", "patient", "questions", "curve", "arms", "gate", "forecast", "inhibition"),
    *("replication", "review", "runs", "data"),
)
LARGE_PAGES = ("home", "patient", "curve", "data")
COUNTED = f"{IDLE} && !document.querySelector('[data-testid=stProgress]')"
"""Whether moreover the records of the cohort have been counted."""
QUIET_S = 0.4
"""Without a message for this long, and with nothing running, an action is over."""
WAIT_S = 5.0
"""A click that asks nothing of the server for this long costs nothing: its reruns are 0."""
LAST_CHANGE = """
new MutationObserver(() => { window.lastChange = Date.now() / 1000 }).observe(
  document, { subtree: true, childList: true })
"""
"""Script that notes when a page's elements last changed."""
HEAD = ("action", "p50 s", "p90 s", "drawn s", "cpu s", "messages", "kB", "reruns")


@dataclass
class Cost:
    """What one action cost."""

    seconds: float
    drawn: float
    processor: float
    messages: int
    size: int
    reruns: int


class Meter:
    """Counts what passes between a page and its server."""

    def __init__(self, page: Page, server: int) -> None:
        self.page, self.server = page, server
        self.arrived: list[tuple[float, int]] = []
        self.asked: list[float] = []
        page.on("websocket", self._watch)

    def _watch(self, socket) -> None:
        socket.on("framereceived", lambda text: self.arrived.append((time.time(), len(text))))
        socket.on("framesent", lambda _: self.asked.append(time.time()))

    def processor(self) -> float:
        """Processor seconds of the server so far."""
        fields = Path(f"/proc/{self.server}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def cost(self, act: Callable[[], object], until: str = IDLE, click: bool = False) -> Cost:
        """The cost of ``act``, until the page is quiet and the condition holds in it; that of a
        click from the request that it causes."""
        self.arrived.clear()
        self.asked.clear()
        used, begin = self.processor(), time.time()
        act()
        while True:
            self.page.wait_for_timeout(100)
            if click and not self.asked and time.time() - begin < WAIT_S:
                continue
            last = self.arrived[-1][0] if self.arrived else begin
            drawn = max(last, self.page.evaluate("window.lastChange"))
            if time.time() - drawn > QUIET_S and self.page.evaluate(until):
                break
        if click and self.asked:
            begin = min(self.asked[0], last)
        size = sum(length for _, length in self.arrived)
        used = self.processor() - used
        return Cost(last - begin, drawn - begin, used, len(self.arrived), size, len(self.asked))


def clicks(page: Page) -> dict[str, Callable[[int], object]]:
    """The actions on page Patient: each is given the number of its repetition."""

    def option(group: str) -> Callable[[int], object]:
        def act(number: int) -> None:
            buttons = page.locator(f".st-key-{group} button")
            buttons.nth(1 - number % 2).click()

        return act

    def pick(name: str) -> Callable[[int], object]:
        def act(_: int) -> None:
            box = page.locator(f".st-key-patient_{name} input")
            # A list closes when the page scrolls, as it does for a while after "around".
            page.get_by_test_id("stMain").evaluate("main => main.scrollTo(0, 0)")
            page.wait_for_timeout(1000)
            box.click()
            box.press("ArrowDown")
            box.press("ArrowDown")
            box.press("Enter")

        return act

    tabs = ("What did the reader get?", "Why was it kept?")
    return {
        "axis": option("axis"),
        "marks": option("patient_marks"),
        "around": lambda _: page.locator(".st-key-patient_around button").click(),
        "tab": lambda number: page.get_by_role("tab", name=tabs[number % 2]).click(),
        "question": pick("question"),
        "patient": pick("patient"),
    }


def row(name: str, costs: list[Cost]) -> str:
    """A line of the table."""
    seconds = sorted(cost.seconds for cost in costs)
    drawn, processor, messages, size, reruns = (
        statistics.median(getattr(cost, field) for cost in costs)
        for field in ("drawn", "processor", "messages", "size", "reruns")
    )
    p90 = seconds[min(len(seconds) - 1, round(0.9 * (len(seconds) - 1)))]
    times = (statistics.median(seconds), p90, drawn, processor)
    counts = (messages, size / 1000, reruns)
    numbers = [*(f"{time:.2f}" for time in times), *(f"{count:,.0f}" for count in counts)]
    return f"{name:<24}" + "".join(f"{number:>10}" for number in numbers)


def measure(url: str, server: int, pages: Sequence[str], repeats: int, of: str = "") -> None:
    """Print a row for each page, first opening and later ones, and each click.

    ``of``: the size of a large cohort, of which no clicks are measured.
    """
    with sync_playwright() as playwright:
        browser = launch(playwright.chromium)
        tabs = browser.new_context(viewport={"width": 1360, "height": 900})
        tabs.add_init_script(LAST_CHANGE)

        def opened(name: str) -> tuple[Meter, Cost]:
            page = tabs.new_page()
            page.set_default_timeout(300_000)
            meter = Meter(page, server)

            def go() -> None:
                page.goto(f"{url}/{name}")
                page.get_by_role("heading", level=1).wait_for()

            return meter, meter.cost(go, DRAWN)

        for name in pages:
            costs: list[Cost] = []
            threads: list[Cost] = []
            for _ in range(repeats + 1):
                meter, cost = opened(name)
                costs.append(cost)
                threads.append(meter.cost(lambda: None, COUNTED))
                if name == "patient" and len(costs) == repeats + 1 and not of:
                    acts = clicks(meter.page)
                    shown = {
                        act: [
                            meter.cost(partial(do, number), click=True) for number in range(repeats)
                        ]
                        for act, do in acts.items()
                    }
                meter.page.close()
            print(row(f"{name}{of}, first", costs[:1]))
            print(row(f"{name}{of}, warm", costs[1:]), flush=True)
            if of and threads[0].messages:
                print(row("  until counted", threads[:1]), flush=True)
            if name == "patient" and not of:
                print(row("  its slow arms", threads[:1]))
                for act, act_costs in shown.items():
                    print(row(f"  {act}", act_costs), flush=True)
        browser.close()


TITLE_AND_FIGURE = """
window.seen = {}
new MutationObserver(() => {
  const now = performance.now() / 1000
  window.seen.last = now
  for (const [name, mark] of [["title", "h1"], ["figure", ".main-svg"]]) {
    if (!window.seen[name] && document.querySelector(mark)) window.seen[name] = now
  }
}).observe(document, { subtree: true, childList: true })
"""
WEIGHT_HEAD = ("page", "title s", "figure s", "last s", "x empty", "MB", "server", "browser s")
EMPTY = "empty"


@dataclass
class Weight:
    """What one opening by a new browser took; ``figure``: 0 where none is on the screen."""

    title: float
    figure: float
    last: float
    megabytes: float
    server: float
    browser: float


def weight(context: BrowserContext, url: str, server: int) -> Weight:
    """The weight of the page at ``url`` for a browser without anything in its caches."""
    page = context.new_page()
    page.set_default_timeout(300_000)
    page.add_init_script(TITLE_AND_FIGURE)
    tools = context.new_cdp_session(page)
    tools.send("Network.enable")
    tools.send("Performance.enable")
    sizes: list[float] = []
    tools.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    page.on("websocket", lambda one: one.on("framereceived", lambda text: sizes.append(len(text))))
    meter = Meter(page, server)
    used = meter.processor()
    page.goto(url)
    page.get_by_role("heading", level=1).wait_for()
    page.wait_for_function(
        f"{DRAWN} && performance.now() / 1000 - window.seen.last > {2 * QUIET_S}"
    )
    seen = page.evaluate("window.seen")
    metrics = {one["name"]: one["value"] for one in tools.send("Performance.getMetrics")["metrics"]}
    return Weight(
        seen["title"],
        seen.get("figure", 0.0),
        seen["last"],
        sum(sizes) / 1e6,
        meter.processor() - used,
        metrics["TaskDuration"],
    )


@contextmanager
def empty_page(place: Path) -> Iterator[Server]:
    """A server of Streamlit's with a title alone."""
    script = place / "empty.py"
    script.write_text("import streamlit as st\n\nst.title('Empty')\n", encoding="utf-8")
    with serve(place, "--browser.gatherUsageStats", "false", script=script) as server:
        yield server


def weigh(server: Server, place: Path, pages: Sequence[str], repeats: int) -> None:
    """Print the weight of an empty page and of each page: medians, the first round left out."""
    weights: dict[str, list[Weight]] = {name: [] for name in (EMPTY, *pages)}
    with empty_page(place) as empty, sync_playwright() as playwright:
        browser = launch(playwright.chromium)
        for _ in range(repeats + 1):
            for name, several in weights.items():
                of = empty if name == EMPTY else server
                url = of.url if name == EMPTY else f"{of.url}/{name}"
                context = browser.new_context(viewport={"width": 1360, "height": 900})
                several.append(weight(context, url, of.process.pid))
                context.close()
        browser.close()
    print("".join(f"{title:>11}" for title in WEIGHT_HEAD))

    def median(name: str, field: str) -> float:
        return statistics.median(getattr(one, field) for one in weights[name][1:])

    for name in weights:
        last = median(name, "last")
        numbers = [median(name, "title"), median(name, "figure"), last]
        numbers += [last / median(EMPTY, "last"), median(name, "megabytes")]
        numbers += [median(name, "server"), median(name, "browser")]
        print(f"{name:>11}" + "".join(f"{number:>11.2f}" for number in numbers), flush=True)


def main() -> None:
    """Make the demo and open the included runs, or a larger cohort, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--patients", type=int, default=40)
    parser.add_argument("--events", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--pages", default=",".join(PAGES))
    parser.add_argument("--large", type=int, default=2000)
    parser.add_argument("--weight", action="store_true")
    choices = parser.parse_args()
    pages = choices.pages.split(",")
    if choices.weight:
        with TemporaryDirectory() as place, workspace_at(Path(place)) as home:
            api.prepare_demo(patients=choices.patients, events_per_patient=choices.events)
            api.open_examples()
            with serve(home) as server:
                weigh(server, home, pages, choices.repeats)
        return
    print(f"{HEAD[0]:<24}" + "".join(f"{title:>10}" for title in HEAD[1:]), flush=True)
    for patients, of in ((choices.patients, ""), (choices.large, f" of {choices.large:,}")):
        if not patients:
            continue
        with TemporaryDirectory() as place, workspace_at(Path(place)) as home:
            api.prepare_demo(patients=patients, events_per_patient=choices.events)
            api.open_examples()
            named = [name for name in pages if not of or name in LARGE_PAGES]
            with serve(home) as server:
                measure(server.url, server.process.pid, named, choices.repeats, of)


if __name__ == "__main__":
    main()
