"""Runs cases of the targets in worker processes under limits, and sums up the faults.

``python -m tests.fuzz.run [TARGET …] --inputs 10000`` (``make fuzz``). A case is named by its
target, seed and number, and is the same on every machine: ``--only NUMBER --keep`` repeats one and
leaves its files.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

MOST_S, MOST_BYTES = 5.0, 1_000_000_000
"""Seconds of processor time and bytes of memory (resident, all of the process) of a case."""
ENDED_S = 20
"""Seconds of processor time after which a case is ended."""
PATIENCE_S = 600.0
"""Seconds by the clock after which a case counts as hung."""
ADDRESS_SPACE = 12 << 30
LARGEST_FILE = 2 << 30


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))


def set_up(folder: Path) -> None:
    """An empty workspace, in force in this process."""
    for name, value in (
        ("MIDCHART_DATA", folder / "data"), ("MIDCHART_STATE", folder / "state"),
        ("MIDCHART_CACHE", folder / "cache"),
        ("MIDCHART_SECRETS", folder / "secrets.toml"), ("HOME", folder / "home"),
    ):  # fmt: skip
        os.environ[name] = str(value)
    os.environ.pop("ANTHROPIC_API_KEY", None)
    for name in ("data", "home", "work"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    os.chdir(folder / "work")


def _reset_peak() -> None:
    with contextlib.suppress(OSError):  # a kernel without it: the peak of the whole process counts
        Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def case(
    target: str, seed: int, number: int, folder: Path, keep: bool = False
) -> tuple[str, float, int]:
    """The promise that a call broke, or ""; seconds of processor time; peak memory in bytes."""
    from midchart.core import config as settings
    from tests.fuzz.call import Fault, where
    from tests.fuzz.targets import ON_A_RUN, TARGETS, seed_run

    if target in ON_A_RUN:
        seed_run(settings.data_folder())  # made once, not part of a case's time
    rng = np.random.default_rng([seed, number, *target.encode()])
    place = folder / "case"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    _reset_peak()
    begun, fault = time.process_time(), ""
    try:
        TARGETS[target](rng, place)
    except Fault as error:
        fault = str(error)
        if keep:
            traceback.print_exception(error.__cause__ or error)
    except Exception as error:  # noqa: BLE001 - a fault of the suite or of the program; both are named
        fault = f"outside a call: {where(error)}: {str(error)[:120]!r}"
        if keep:
            traceback.print_exc()
    seconds, peak = time.process_time() - begun, _peak()
    if not keep:
        shutil.rmtree(place, ignore_errors=True)
    return fault, seconds, peak


def work(target: str, seed: int, first: int, step: int, stop: int, pipe: Connection) -> None:
    """Cases ``first``, ``first + step``, … below ``stop``; reports each at its end."""
    _limit()
    sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 - of a process that only talks by its pipe
    sys.stderr = sys.stdout
    root = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(
        prefix="midchart-fuzz-", dir=root, ignore_cleanup_errors=True
    ) as folder:
        set_up(Path(folder))
        for number in range(first, stop, step):
            limit = int(time.process_time()) + ENDED_S
            resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
            fault, seconds, peak = case(target, seed, number, Path(folder))
            if not fault and seconds > MOST_S:
                fault = f"took {seconds:.0f} s"
            if not fault and peak > MOST_BYTES:
                fault = f"took {peak / 1e9:.1f} GB"
            pipe.send((number, fault, seconds, peak))
            if number // step % 200 == 0:
                shutil.rmtree(Path(folder) / "cache", ignore_errors=True)
        os.chdir("/")


Result = tuple[int, str, float, int]
"""Number of a case, the promise that it broke or "", seconds, bytes."""


def _results(target: str, seed: int, first: int, step: int, stop: int) -> list[Result]:
    """Results of cases ``first``, ``first + step``, …; a hung or killed process is replaced.

    A case that took too long or too much, or ended its process, is repeated once in a new process:
    one that does not do so again is named with both.
    """
    results: list[Result] = []
    begun = first
    while first < stop:
        for number, fault, seconds, peak in _in_process(target, seed, first, step, stop):
            if fault.startswith(_OF_THE_PROCESS):
                _, again, *_ = next(_in_process(target, seed, number, 1, number + 1))
                if again != fault:
                    fault = f"{fault}; in a new process: {again or 'no fault'}"
            if fault:
                print(f"{target} --only {number}: {fault}", file=sys.stderr, flush=True)
            results.append((number, fault, seconds, peak))
        first = begun + step * len(results)
    return results


_OF_THE_PROCESS = ("took ", "ran for ", "ended its process")
"""How faults begin that a process's age or the machine's other work may cause."""


def _in_process(target: str, seed: int, first: int, step: int, stop: int) -> Iterator[Result]:
    """Results of one process up to the case that ended it, included."""
    context, number = multiprocessing.get_context("spawn"), first
    receive, send = context.Pipe(duplex=False)
    arguments = (target, seed, first, step, stop, send)
    process = context.Process(target=work, args=arguments, daemon=True)
    process.start()
    send.close()
    seconds = 0.0
    with contextlib.suppress(EOFError):  # the process ended
        while receive.poll(PATIENCE_S):
            yield receive.recv()
            number += step
        seconds = PATIENCE_S
        process.kill()
    process.join()
    if number < stop:
        if process.exitcode == -signal.SIGXCPU:
            seconds = float(ENDED_S)
        late = f"ran for more than {seconds:.0f} s"
        yield number, late if seconds else f"ended its process ({process.exitcode})", seconds, 0


class Summary:
    """Counts of a target's cases and its faults, alike ones together."""

    def __init__(self) -> None:
        self.cases, self.slowest, self.largest = 0, 0.0, 0
        self.faults: dict[str, list[int]] = defaultdict(list)

    def add(self, number: int, fault: str, seconds: float, peak: int) -> None:
        """Enter a case."""
        self.cases += 1
        self.slowest, self.largest = max(self.slowest, seconds), max(self.largest, peak)
        if fault:
            self.faults[fault].append(number)

    def kinds(self) -> Counter[str]:
        """Faults by what is before their first colon."""
        kinds: Counter[str] = Counter()
        for fault, numbers in self.faults.items():
            kinds[fault.split(":")[0] + (":" + fault.split(":")[1] if " at " in fault else "")] += (
                len(numbers)
            )
        return kinds


def fuzz(target: str, seed: int, first: int, stop: int, jobs: int) -> Summary:
    """All cases of a target, in ``jobs`` processes at once."""
    summary = Summary()
    with ThreadPoolExecutor(jobs) as pool:
        begins = range(first, min(first + jobs, stop))
        for results in pool.map(lambda at: _results(target, seed, at, jobs, stop), begins):
            for result in results:
                summary.add(*result)
    return summary


def main() -> int:
    """Fuzz the named targets, or all; returns 1 where a promise was broken."""
    from tests.fuzz.targets import TARGETS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", help=f"of {', '.join(TARGETS)}; default: all")
    parser.add_argument("--inputs", type=int, default=10_000, help="cases of each target")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=max(1, len(os.sched_getaffinity(0))))
    parser.add_argument("--only", type=int, help="one case of one target, with its traceback")
    parser.add_argument("--keep", metavar="DIR", help="with --only: where its files stay")
    parser.add_argument("--json", metavar="FILE", help="also write the faults there")
    call = parser.parse_args()
    if call.only is not None:
        folder = Path(call.keep or tempfile.mkdtemp(prefix="midchart-fuzz-")).resolve()
        set_up(folder)
        print(folder, case(call.targets[0], call.seed, call.only, folder, keep=True))
        return 0
    broken, rows = 0, {}
    for target in call.targets or TARGETS:
        begun = time.monotonic()
        summary = fuzz(target, call.seed, call.first, call.first + call.inputs, call.jobs)
        faults = sum(map(len, summary.faults.values()))
        broken += faults
        rows[target] = {"cases": summary.cases, "faults": summary.faults}
        print(
            f"{target}: {summary.cases:,} inputs, {faults} faults; slowest "
            f"{summary.slowest:.1f} s, most memory {summary.largest / 1e6:.0f} MB "
            f"({time.monotonic() - begun:.0f} s)",
            flush=True,
        )
        for kind, count in summary.kinds().most_common(40):
            example = next((f, n) for f, n in summary.faults.items() if f.startswith(kind))
            print(f"  {count:5d}  {example[0][:220]}  (--only {example[1][0]})", flush=True)
        if call.json:
            Path(call.json).write_text(json.dumps(rows, indent=1))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
