"""What installed packages add to a page: entry points of the group ``midchart.page_parts``.

An entry point has the name of its page: ``data`` draws something for a cohort; ``patient`` gives
what else had text of the chart for the question, with the attribute ``view``, drawn before the
arms, and the method ``section``;
``results`` opens what is behind a row; ``review`` deals cards of a run and a reviewer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points
from typing import Any


@cache
def parts(page: str) -> tuple[Callable[..., Any], ...]:
    """The functions that installed packages add to a page."""
    return tuple(
        point.load() for point in entry_points(group="midchart.page_parts") if point.name == page
    )
