"""The commands that hand a finished run on: ``export`` here, ``import`` on the other side."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from core.printing import json_line

Command = Callable[[str, Callable[[argparse.Namespace], None], str], argparse.ArgumentParser]
"""Adds a command: its name, what does it, its help."""


def export(call: argparse.Namespace) -> None:
    """Write a run's export, its HTML report, or both."""
    from core import api

    told: dict[str, Any] = {"run": call.run}
    if call.html:
        told["html"] = str(api.export_html(call.run, call.html))
    if call.out or not call.html:
        told |= api.export_run(call.run, call.out, call.with_text)
    if call.json:
        json_line(told)
        return
    for name in ("html", "file"):
        if name in told:
            print(told[name])
    if told.get("dropped"):
        print("left out (text of records): " + ", ".join(
            f"{table}.{column}" for table, columns in told["dropped"].items() for column in columns
        ))  # fmt: skip


def open_(call: argparse.Namespace) -> None:
    """Open an export as a run that is only read."""
    from core import api

    told = api.import_run(call.file)
    json_line(told) if call.json else print("\n".join(f"{k}: {v}" for k, v in told.items()))


def add(command: Command) -> None:
    """Add both commands to the command line."""
    exported = command("export", export, "a finished run as one zip or folder, or its report")
    exported.add_argument("run", metavar="RUN")
    exported.add_argument("--out", metavar="FILE.zip|DIR", help="default: RUN.zip here")
    exported.add_argument("--html", metavar="FILE", help="write the report as one HTML file")
    text = exported.add_mutually_exclusive_group()
    text.add_argument(
        "--with-text",
        action="store_true",
        default=None,
        help="take text of records along; refused where the cohort's data-use tag forbids it",
    )
    text.add_argument(
        "--without-text",
        action="store_false",
        dest="with_text",
        help="leave text of records out even where it may go along",
    )
    command("import", open_, "open another installation's export, to be read only").add_argument(
        "file", metavar="FILE.zip|DIR"
    )
