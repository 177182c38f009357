"""Charts converted once: what a cohort's files hold, and what is computed of it, as arrays."""

from collections.abc import Callable
from contextvars import ContextVar

reading: ContextVar[Callable[[str, int, int], object]] = ContextVar(
    "reading", default=lambda what, done, planned: None
)
"""Called once a second or more often while a cohort is converted, from its second second on:
"files" or "records", how many are read, and of how many (0: not known yet). What it raises cancels
the conversion."""
