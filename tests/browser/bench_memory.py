"""Memory of the server while ten browsers use page Patient:
``python -m tests.browser.bench_memory`` (``--browsers 10 --reruns 200``).

Each browser is a context of its own, so a session of its own. In turn each chooses
another question or another patient, which is a rerun. A line for every tenth of the
reruns: reruns so far, resident megabytes of the server, threads, open files.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright

from midchart.core import api
from tests.browser.bench_pages import clicks
from tests.browser.conftest import DRAWN, launch, serve
from tests.support.run_helpers import workspace_at

ACTIONS = ("question", "patient")
PATIENCE_MS = 300_000


def state_of(server: int) -> tuple[float, int, int]:
    """Resident MB, threads and open files of a process."""
    fields = dict(
        line.split(":", 1) for line in Path(f"/proc/{server}/status").read_text().splitlines()
    )
    resident = int(fields["VmRSS"].split()[0]) / 1024
    return resident, int(fields["Threads"]), len(list(Path(f"/proc/{server}/fd").iterdir()))


def measure(url: str, server: int, browsers: int, reruns: int) -> None:
    """Print the lines."""
    with sync_playwright() as playwright:
        browser = launch(playwright.chromium)
        pages = [browser.new_context().new_page() for _ in range(browsers)]
        for page in pages:
            page.set_default_timeout(PATIENCE_MS)
            page.goto(f"{url}/patient")
            page.wait_for_selector(".st-key-patient_patient input")
            page.wait_for_function(DRAWN)
        print(f"{'reruns':>8}{'MB':>8}{'threads':>9}{'files':>7}", flush=True)
        for number in range(reruns + 1):
            if number % max(1, reruns // 10) == 0:
                resident, threads, files = state_of(server)
                print(f"{number:>8}{resident:>8.0f}{threads:>9}{files:>7}", flush=True)
            page, turn = pages[number % browsers], number // browsers
            clicks(page)[ACTIONS[turn % len(ACTIONS)]](turn)
            page.wait_for_timeout(200)
            page.wait_for_function(DRAWN)
        browser.close()


def main() -> None:
    """Make a demo cohort, serve it and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--browsers", type=int, default=10)
    parser.add_argument("--reruns", type=int, default=200)
    parser.add_argument("--patients", type=int, default=20)
    call = parser.parse_args()
    with TemporaryDirectory() as place, workspace_at(Path(place)) as home:
        api.prepare_demo(patients=call.patients, events_per_patient=200)
        with serve(home) as server:
            measure(server.url, server.process.pid, call.browsers, call.reruns)


if __name__ == "__main__":
    main()
