"""What an experiment declares of its results: measures, views and a conclusion, which pages,
documents, the command line and notebooks all read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Unit = Literal["%", "points", "", "count", "tokens", "days", "s", "USD"]
"""``%``: a share in [0, 1] shown in per cent; ``points``: a difference of shares in percentage
points; "": a number with three decimals; the others as they are."""
FigureKind = Literal["forest", "waterfall", "dumbbell", "line", "grid", "stack", "none"]
"""``waterfall``: a forest plot with a bar from each row to the next; ``dumbbell``: a row for each
value of ``rows``, with a mark for each of ``across``; ``stack``: a bar a row, divided by
``across``: columns where the rows are bands of the record, else from left to right."""


@dataclass(frozen=True, slots=True)
class Ends:
    """The columns of an interval's ends, and the method's name; 95 % unless the help names another
    level."""

    low: str
    high: str
    method: str


BY_PATIENT = Ends("patient_low", "patient_high", "by patient")
WILSON = Ends("wilson_low", "wilson_high", "Wilson, questions independent")
"""Where fewer than five patients give no interval by patient."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A quantity in a table.

    ``intervals``: of a row the first with two ends counts. ``n`` and ``clusters``: columns of the
    number of observations and of clusters (patients). ``chance``: the column of its level by
    chance; ``null``: columns of the ends of what chance alone would fill. ``p``: the column of its
    adjusted p value. ``better``: whether more of it is good.
    """

    column: str
    title: str
    unit: Unit = "%"
    help: str = ""
    intervals: tuple[Ends, ...] = ()
    n: str = "n"
    clusters: str = ""
    chance: str = ""
    null: tuple[str, str] | None = None
    p: str = ""
    better: Literal["more", "less", ""] = ""


@dataclass(frozen=True, slots=True)
class View:
    """A figure and its table: one question to one table of a report.

    ``name``: its address, lower case. ``title``: the question that it answers. ``rows``: columns
    that name a row of a forest plot or grid, or a line; ``across``: the column along the x axis of
    a line or grid. ``choose``: columns of which one value is shown at a time, chosen by the reader
    of the page; ``where``: columns with the values that are shown. ``more``: further columns of the
    table. ``ranked``: rows by value, the largest first; else in the order of the table.
    ``zero``: a difference, with a line at 0; ``diagonal``: of lines over shares, what y = x stands
    for, "chance" under ROC curves. ``about``: how to read it, in a sentence or two.
    ``opens``: columns by which a row opens the questions behind it; () where it opens none.
    ``concludes``: the run's conclusion is about this view; where none says so, about the first.
    """

    name: str
    title: str
    table: str
    measures: tuple[Measure, ...] = ()
    figure: FigureKind = "none"
    rows: tuple[str, ...] = ("label",)
    across: str = ""
    choose: tuple[str, ...] = ()
    where: Mapping[str, tuple[object, ...]] = field(default_factory=dict[str, tuple[object, ...]])
    more: tuple[str, ...] = ()
    ranked: bool = False
    zero: bool = False
    diagonal: str = ""
    about: str = ""
    opens: tuple[str, ...] = ()
    concludes: bool = False


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What a run shows: one sentence, and what it rests on; "" without a finished result."""

    headline: str = ""
    details: tuple[str, ...] = ()
