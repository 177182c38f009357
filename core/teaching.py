"""The command that trains the small reader anew, and examines it: ``train-reader``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from core.printing import cell, json_line, table

Command = Callable[[str, Callable[[argparse.Namespace], None], str], argparse.ArgumentParser]
"""Adds a command: its name, what does it, its help."""


def train_reader(call: argparse.Namespace) -> None:
    """Train the small reader, or examine the one that is here."""
    from core import api

    if call.examine:
        chosen = {} if call.seed is None else {"seed": call.seed}
        marks = api.examine_reader(call.patients, **chosen)
        if call.json:
            json_line(marks)
        else:
            table(marks, ("part", "what", "n", "right", "share", "low", "high"))
        return
    made = api.train_reader(call.out, call.steps, call.seed, call.resume, call.threads, _told)
    if call.json:
        json_line(made)
    else:
        print("\n".join(f"{name}: {cell(value)}" for name, value in made.items()))


def _told(step: Any, steps: int, seconds_left: float) -> None:
    print(
        f"train-reader: {step.step}/{steps}, {step.right:.0%} right of questions on up to "
        f"{step.lines} lines, {seconds_left / 60:.0f} min left",
        file=sys.stderr,
    )


def add(command: Command) -> None:
    """Add the command to the command line."""
    made = command("train-reader", train_reader, "train the small reader anew, from nothing")
    made.add_argument("--out", metavar="DIR", help="default: its place in the models folder")
    made.add_argument("--steps", type=int, help="default: the recipe's")
    made.add_argument(
        "--seed", type=int, help="default: the recipe's; of an examination, its patients'"
    )
    made.add_argument("--threads", type=int, default=2, help="of the processor (default: 2)")
    made.add_argument("--resume", action="store_true", help="go on with a training cut off here")
    made.add_argument(
        "--examine",
        action="store_true",
        help="train nothing: mark the reader that is here on lessons and patients it never had",
    )
    made.add_argument("--patients", type=int, default=20, help="of the examination (default: 20)")
