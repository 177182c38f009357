"""The pace of a planned run, measured on its first items in a folder that is removed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from math import ceil
from pathlib import Path
from typing import Any

from midchart.core import config as settings
from midchart.core.errors import InputError
from midchart.core.format import count
from midchart.core.parsing import read_json
from midchart.core.runs.directory import RunDirectory, make_run, take_lock
from midchart.core.runs.estimate import Pace, estimate, remember
from midchart.core.runs.planner import find_data, plan
from midchart.core.runs.spec import read_spec, read_spec_file, read_toml
from midchart.core.runs.worker import do_run
from midchart.core.storage.files import writing
from midchart.core.storage.jsonl import read_lines
from midchart.core.storage.staging import incoming

SECONDS, PATIENCE_S = 2.0, 60.0
"""How long items are measured at least; and at most, as long as the first item may take."""
POLL_S = 0.1


def probe(source: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    """Do the items of a spec's first patient, for two seconds at least; estimate the time of all.

    A patient's first item embeds the record for all the others, so part of a patient says little.

    ``source``: TOML text, a TOML file's path (a ``Path``), or a mapping. Gives ``seconds`` (null:
    no item ended within :data:`PATIENCE_S`) and the ``basis`` in words, and remembers them for
    :func:`midchart.core.runs.estimate.estimate` on this machine. A separate process works in
    a hidden folder of the data folder, which is removed. Raises as starting the run does, and
    InputError for a run that calls a service: a probe sends nothing.
    """
    base = source.resolve().parent if isinstance(source, Path) else ""
    if isinstance(source, Path):
        table = read_spec_file(source)
    else:
        table = read_toml(source) if isinstance(source, str) else dict(source)
    spec = read_spec(table)
    path = find_data(spec.data, str(base))
    if "data" in table:
        table["data"] = str(path)
    facts = estimate(table)
    if hosts := sorted({one["host"] for one in facts["hosts"]}):
        raise InputError(
            f"a probe sends nothing, and this run calls {', '.join(hosts)}: its time is known once "
            "one like it has finished"
        )
    data = settings.data_folder()
    with ExitStack() as stack:
        with writing(data):
            data.mkdir(parents=True, exist_ok=True)
            folder = stack.enter_context(incoming(data, settings.imports_lock()))
        one_patient = ceil(facts["items"] / max(facts["records"], 1))
        pace, items, seconds = _measured(table, folder, one_patient)
    if pace is None:
        return {"seconds": None, "basis": f"no item ended within {PATIENCE_S:.0f} s"}
    basis = f"{count(items, 'item')} of it, measured in {seconds:.1f} s on this machine"
    if items < one_patient - 1:
        basis += ", fewer than one patient's: rough, and rather too long"
    remember(spec, path, pace, basis)
    return {"seconds": pace.before + facts["items"] * pace.per_item, "basis": basis}


def _measured(spec: Mapping[str, Any], folder: Path, enough: int) -> tuple[Pace | None, int, float]:
    """The pace of a spec's first items (``enough``: how many at least, if there is time), how many
    they are, and the seconds that they took."""
    child = subprocess.Popen(
        [sys.executable, "-m", "midchart.core.runs.probe"],
        cwd=settings.ROOT,
        env={**settings.worker_environment(None), "MIDCHART_DATA": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        assert child.stdin is not None
        child.stdin.write(json.dumps(spec).encode())
        child.stdin.close()
        begun, deadline = False, time.monotonic() + PATIENCE_S
        while True:
            ended = child.poll() is not None or time.monotonic() > deadline
            progress = _progress(folder)
            if progress and not begun:
                begun, deadline = True, time.monotonic() + PATIENCE_S
            first, last = (progress[0], progress[-1]) if progress else ((0.0, 0), (0.0, 0))
            seconds, items = last[0] - first[0], last[1] - first[1]
            if items and (ended or (seconds >= SECONDS and last[1] >= enough)):
                return Pace(first[0], seconds / items), items, seconds
            if ended:
                return None, 0, 0.0
            time.sleep(POLL_S)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _progress(folder: Path) -> list[tuple[float, int]]:
    """Seconds and items of each report of progress."""
    return [
        (event["seconds"], event["done"] + event["failed"])
        for path in (folder / "runs").glob("[0-9]*")
        for event in read_lines(RunDirectory(path).events)
        if event["event"] == "progress"
    ]


def main() -> None:
    """Do the run of the spec on standard input, until it is done or killed."""
    signal.alarm(round(3 * PATIENCE_S))  # whoever started it may be gone by then
    folder = make_run(plan(read_spec(read_json(sys.stdin.buffer.read(), "the spec"))))
    lock = take_lock(folder)
    do_run(folder)
    lock.release()


if __name__ == "__main__":
    main()
