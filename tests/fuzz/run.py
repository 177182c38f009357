"""Runs cases of the targets and names the faults: ``python -m tests.fuzz.run [TARGET …]``.

A case is named by its target, seed and number, and is the same on every machine: ``--first N
--inputs 1`` repeats one.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from tests.fuzz.targets import TARGETS, Fault

MOST_S = 5.0
"""Seconds of processor time of a case."""


def set_up(folder: Path) -> None:
    """An empty workspace, in force in this process."""
    for name in ("data", "state", "cache", "home"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        os.environ["HOME" if name == "home" else f"MIDCHART_{name.upper()}"] = str(folder / name)
    os.environ["MIDCHART_SECRETS"] = str(folder / "secrets.toml")


def case(target: str, seed: int, number: int, folder: Path) -> str:
    """The promise that a call broke, or ""."""
    rng = np.random.default_rng([seed, number, *target.encode()])
    place = folder / "case"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    begun = time.process_time()
    try:
        TARGETS[target](rng, place)
    except Fault as error:
        return str(error)
    seconds = time.process_time() - begun
    return f"took {seconds:.0f} s" if seconds > MOST_S else ""


def main() -> int:
    """Fuzz the named targets, or all; returns 1 where a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", help=f"of {', '.join(TARGETS)}; default: all")
    parser.add_argument("--inputs", type=int, default=10_000, help="cases of each target")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    call = parser.parse_args()
    broken = 0
    with tempfile.TemporaryDirectory(prefix="midchart-fuzz-") as folder:
        set_up(Path(folder))
        for target in call.targets or TARGETS:
            for number in range(call.first, call.first + call.inputs):
                if fault := case(target, call.seed, number, Path(folder)):
                    broken += 1
                    print(f"{target} --first {number} --inputs 1: {fault}", flush=True)
            print(f"{target}: {call.inputs:,} inputs", flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
