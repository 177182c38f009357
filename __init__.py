"""Midchart: what a language model misses in the middle of a patient's chart.

>>> import midchart
>>> midchart.demo()
>>> one = midchart.open("demo").instructions[0]            # a question of a patient
>>> midchart.select("demo", one.record_id, one.question)

``help(midchart)`` lists the functions; docs/notebook.md goes from a FHIR file to a figure.
"""

from typing import Any

from midchart.core import __version__

__all__ = [
    "__version__",
    "ask",
    "claims",
    "compare",
    "curve",
    "demo",
    "dropped",
    "export",
    "figure",
    "open",
    "report",
    "run",
    "select",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """The functions of :mod:`midchart.core.notebook`, imported on first use."""
    if name not in __all__:
        raise AttributeError(f"module 'midchart' has no attribute {name!r}")
    from midchart.core import notebook

    return getattr(notebook, name)


def __dir__() -> list[str]:
    return list(__all__)
