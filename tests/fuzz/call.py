"""Calls of the program as a user makes them, and what every call promises.

A call ends with status 0, 1 or 2; it prints one line on standard error where it fails, and JSON on
standard output where it does not; an exception other than ``midchart.core.errors.MidchartError`` is
a fault.
"""

from __future__ import annotations

import io
import json
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

from midchart.core.cli import main
from midchart.core.errors import MidchartError
from tests.fuzz.mutate import CANARY

LONGEST_MESSAGE = 2_000
"""Characters of one message: a line on a screen, not a page."""


class Fault(Exception):
    """The program broke a promise; the text says which."""


def check_message(message: str) -> None:
    """Raise Fault unless a message is one short line without record text that can be printed."""
    if any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or c in "\u2028\u2029" for c in message):
        raise Fault(f"message of several lines or with control characters: {message[:300]!r}")
    if len(message) > LONGEST_MESSAGE:
        raise Fault(f"message of {len(message)} characters: {message[:200]!r}")
    if CANARY in message:
        raise Fault(f"message with record text: {message[:300]!r}")
    try:
        message.encode()
    except UnicodeEncodeError:
        raise Fault(f"message that cannot be printed: {message[:300]!r}") from None


def where(error: BaseException) -> str:
    """Type and the innermost line of the program's own code of an error: what makes a fault one."""
    steps = traceback.extract_tb(error.__traceback__)
    inside = [s for s in steps if "/core/" in s.filename and "site-packages" not in s.filename]
    step = (inside or steps)[-1]
    return f"{type(error).__name__} at {step.filename.rpartition('/core/')[2]}:{step.lineno}"


def safely(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """The result of a call, or the MidchartError it raises; raises Fault for any other error."""
    try:
        return function(*arguments, **options)
    except MidchartError as error:
        check_message(str(error))
        return error
    except Fault:
        raise
    except Exception as error:
        raise Fault(f"{where(error)}: {str(error)[:120]!r}") from error


def command(*arguments: str) -> tuple[int, str]:
    """Status and standard output of ``midchart …``; raises Fault."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", newline="")
    errors = io.StringIO()
    sys.stdin = io.StringIO()
    with redirect_stdout(out), redirect_stderr(errors):
        try:
            status = main(arguments)
            out.flush()
        except SystemExit as stop:  # argparse's --help
            status = stop.code if isinstance(stop.code, int) else 1
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | MemoryError):
                raise
            raise Fault(f"{where(error)}: {str(error)[:120]!r}") from error
    printed = out.buffer.getvalue().decode()  # pyright: ignore
    if status not in (0, 1, 2):
        raise Fault(f"exit status {status}")
    messages = [line for line in errors.getvalue().split("\n") if line.startswith("midchart: ")]
    if status and len(messages) != 1:
        raise Fault(
            f"status {status} with {len(messages)} lines of error: {errors.getvalue()[:300]!r}"
        )
    if not status and "Traceback" in errors.getvalue():
        raise Fault(f"a traceback on standard error: {errors.getvalue()[-300:]!r}")
    for message in messages:
        check_message(message)
    return status, printed


def check_report(text: str) -> dict[str, Any]:
    """The report of ``check --json``, its messages checked."""
    report = json.loads(text, parse_constant=_refuse)
    for skip in report["skipped"]:
        check_message(f"{skip['file']}:{skip['line']}: {skip['reason']}")
    for warning in report["warnings"]:
        check_message(warning)
    return report


def _refuse(constant: str) -> Sequence[Any]:
    raise Fault(f"JSON with {constant}")
