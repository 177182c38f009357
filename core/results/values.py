"""Values of a view, in one shape: from the rows of a report's tables, for figures and documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

from midchart.core.format import p_value, with_interval
from midchart.core.results.titles import title
from midchart.core.runs.declared import Measure, View

FAMILIES = {"label": "arm", "arm": "arm", "reader": "reader", "judge": "judge",
            "variant": "variant", "reference": "variant", "baseline": "arm", "first": "arm",
            "second": "arm"}  # fmt: skip
"""Columns of labels → the family of their titles; others are shown as they are."""
SHAPES = {"ngram": "{}-grams", "dim": "{} dimensions", "head": "{} head"}
"""Columns of a gate's shape → their values in words."""
BAND_ORDER = ("0-10", "10-30", "30-50", "50-70", "70-90", "90-100", "middle", "edge", "overall")


@dataclass(frozen=True, slots=True)
class Value:
    """An estimate with its interval in the measure's unit, NaN where there is none. ``key``: the
    columns that identify it; ``opens``: those that open the questions behind it; ``row``: its row
    or line, in words; ``x``: its place along the x axis; ``chance``: its level by chance; ``null``:
    the ends of what chance alone fills; ``p``: adjusted."""

    key: Mapping[str, Any]
    row: str
    x: Any
    value: float
    low: float
    high: float
    method: str
    n: int
    clusters: int | None
    chance: float
    null: tuple[float, float] | None
    p: float
    unit: str
    opens: Mapping[str, Any]

    @property
    def text(self) -> str:
        """The value with its interval, as a table shows it."""
        text = with_interval(self.value, self.low, self.high, self.unit)
        return text if isnan(self.p) else f"{text}, {p_value(self.p)}"


def in_words(column: str, value: Any) -> str:
    """A value of a column in words: the title of a label, a number without needless decimals."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return "" if isnan(value) else f"{value:g}"
    if column in SHAPES:
        return SHAPES[column].format(value)
    if column == "task":
        return str(value).removeprefix("lab_").replace("_", " ")
    if isinstance(value, str) and (family := FAMILIES.get(column)):
        known = title(family, value)
        return title("judge", value) if known == value else known
    return str(value)


def number(value: Any) -> float:
    """A float; NaN for a missing value."""
    return float("nan") if value is None else float(value)


def rows_of(
    tables: Mapping[str, Sequence[Mapping[str, Any]]], view: View, chosen: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    """The rows of a view's table that it shows, of the ``chosen`` values of columns; a row with ""
    in such a column (what an arm kept, whoever reads it) is of all values."""
    fixed = {column: value for column, value in chosen.items() if value is not None}
    return [
        row
        for row in tables.get(view.table) or ()
        if all(row.get(column) in allowed for column, allowed in view.where.items())
        and all(row[column] in (value, "") for column, value in fixed.items() if column in row)
    ]


def options(
    tables: Mapping[str, Sequence[Mapping[str, Any]]], view: View, chosen: Mapping[str, Any]
) -> dict[str, list[Any]]:
    """What there is to choose from, by the view's ``choose``, in the order of the table; a column
    counts the rows that earlier choices leave."""
    known: dict[str, list[Any]] = {}
    fixed: dict[str, Any] = {}
    for column in view.choose:
        rows = rows_of(tables, view, fixed)
        values = list(dict.fromkeys(row.get(column) for row in rows))
        known[column] = [value for value in values if value not in (None, "")]
        wanted = chosen.get(column)
        if known[column]:
            fixed[column] = wanted if wanted in known[column] else known[column][0]
    return known


def known_measures(rows: Sequence[Mapping[str, Any]], view: View) -> list[Measure]:
    """The measures of a view of which a row has a value."""
    return [
        measure
        for measure in view.measures
        if any(row.get(measure.column) is not None for row in rows)
    ]


def values(rows: Sequence[Mapping[str, Any]], view: View, measure: Measure) -> list[Value]:
    """The values of a measure, a row each, in the order of the view."""
    estimates = [_value(row, view, measure) for row in rows if row.get(measure.column) is not None]
    if view.ranked:
        estimates.sort(key=lambda one: -one.value if not isnan(one.value) else float("inf"))
    return estimates


def _value(row: Mapping[str, Any], view: View, measure: Measure) -> Value:
    low = high = float("nan")
    method = ""
    for interval in measure.intervals:
        ends = row.get(interval.low), row.get(interval.high)
        if None not in ends:
            low, high, method = number(ends[0]), number(ends[1]), interval.method
            break
    clusters = row.get(measure.clusters) if measure.clusters else None
    null = None
    if measure.null and row.get(measure.null[0]) is not None:
        null = (number(row[measure.null[0]]), number(row[measure.null[1]]))
    named = [in_words(column, row.get(column)) for column in view.rows]
    return Value(
        {column: row.get(column) for column in (*view.rows, view.across, *view.choose) if column},
        ", ".join(filter(None, named)) or measure.title,
        row.get(view.across) if view.across else None,
        number(row[measure.column]),
        low,
        high,
        method,
        int(row.get(measure.n) or 0),
        None if clusters is None else int(clusters),
        number(row.get(measure.chance)) if measure.chance else float("nan"),
        null,
        number(row.get(measure.p)) if measure.p else float("nan"),
        measure.unit,
        {column: row.get(column) for column in view.opens},
    )


def in_order(places: Sequence[Any]) -> list[Any]:
    """Values of a column in their natural order: bands by position, numbers by size, others as
    they come."""
    distinct = list(dict.fromkeys(places))
    if set(distinct) <= set(BAND_ORDER):
        return sorted(distinct, key=BAND_ORDER.index)
    if all(isinstance(one, int | float) for one in distinct):
        return sorted(distinct)
    return distinct


def view_table(
    report: Mapping[str, Any], view: View
) -> tuple[list[dict[str, str]], tuple[str, ...]]:
    """A view as a table of texts, and what was chosen of it: of each choice the first there is,
    of judges the primary one."""
    wanted = {"judge": report.get("primary_judge")}
    known = options(report["tables"], view, wanted)
    chosen = {
        column: wanted[column] if wanted.get(column) in there else there[0]
        for column, there in known.items()
        if there
    }
    rows = rows_of(report["tables"], view, chosen)
    words = tuple(in_words(column, value) for column, value in chosen.items())
    if not view.measures:
        return [{name: in_words(name, row[name]) for name in row} for row in rows], words
    head = " and ".join(view.rows).replace("label", "arm")
    cells: dict[str, dict[str, str]] = {}
    for measure in known_measures(rows, view)[: 1 if view.across else None]:
        for one in values(rows, view, measure):
            cell = cells.setdefault(one.row, {head: one.row})
            cell[in_words(view.across, one.x) if view.across else measure.title] = one.text
            if not view.across:
                cell |= {"n": f"{one.n:,}"} if one.n else {}
                cell |= {"patients": f"{one.clusters:,}"} if one.clusters is not None else {}
    places = list(dict.fromkeys(name for cell in cells.values() for name in cell))
    return [{name: cell.get(name, "") for name in places} for cell in cells.values()], words
