"""A run's report as one HTML file that needs nothing else: no script, no font, no address.

Every text is escaped, and a content policy in the file forbids what is not in it. A table with an
estimate and its interval gets a plain drawing beside its figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import isfinite
from typing import Any

Row = Mapping[str, Any]
DRAWN = 60
"""Rows of a table that are drawn, at most; the table has them all."""
STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--line:#c9ced6;--mark:#12436D;
--soft:#59636e}
@media (prefers-color-scheme:dark){:root{--ink:#e6e8eb;--paper:#14181d;--line:#3b434d;
--mark:#7fb2e0;--soft:#a5adb7}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:70rem;
margin:0 auto;padding:1.5rem}
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .4rem}
.soft{color:var(--soft)}.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .6rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
td.n{text-align:right}svg{display:block;margin:.5rem 0;min-width:640px;max-width:100%;
height:auto}
svg text{fill:var(--ink);font:12px system-ui,sans-serif}svg line{stroke:var(--mark);stroke-width:2}
svg .axis{stroke:var(--line);stroke-width:1}svg circle{fill:var(--mark)}
@media print{:root{color-scheme:light;--ink:#000;--paper:#fff;--line:#999;
--mark:#12436D;--soft:#444}
body{padding:0;max-width:none}.wide{overflow:visible}
svg{min-width:0}table{font-size:9px}tr,svg{break-inside:avoid}}
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def report_html(report: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """One HTML document of a report (:func:`core.run.report.report`).

    ``facts``: names and values shown at the top (versions, digests, seed).
    """
    items = report["items"]
    title = f"{report['name']} ({report['run']})"
    parts = [
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f"<title>{_text(title)}</title><style>{STYLE}</style></head><body>",
        f"<h1>{_text(report['name'])}</h1>",
        f'<p class="soft">Midchart run {_text(report["run"])}, kind {_text(report["kind"])}, '
        f"{_text(report['status'])}: {items['done']:,} of {items['planned']:,} items done, "
        f"{items['failed']:,} failed.</p>",
    ]
    if report["warnings"]:
        listed = "".join(f"<li>{_text(line)}</li>" for line in report["warnings"])
        parts.append(f"<h2>Know before you read</h2><ul>{listed}</ul>")
    for name, rows in report["tables"].items():
        parts.append(_section(str(name), rows))
    parts.append("<h2>How it was made</h2>" + _pairs(facts))
    parts.append("<h2>Protocol</h2>" + _pairs(report["protocol"]))
    return "\n".join([*parts, "</body></html>\n"])


def _text(value: Any) -> str:
    """A value as text that no browser takes for markup; control characters are shown as blanks."""
    return escape("".join(c if c.isprintable() else " " for c in str(value)))


def _section(name: str, rows: Sequence[Row]) -> str:
    title = f"<h2>{_text(name.replace('_', ' '))}</h2>"
    if not rows:
        return f'{title}<p class="soft">No rows.</p>'
    columns = list(rows[0])
    head = "".join(f'<th scope="col">{_text(c)}</th>' for c in columns)
    body = "".join(f"<tr>{''.join(_cell(row.get(c)) for c in columns)}</tr>" for row in rows)
    table = f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return title + _forest(name, rows, columns) + table + "</div>"


def _cell(value: Any) -> str:
    if value is None:
        return "<td>–</td>"
    if isinstance(value, bool):
        return f"<td>{'yes' if value else 'no'}</td>"
    if isinstance(value, int):
        return f'<td class="n">{value:,}</td>'
    if isinstance(value, float):
        return f'<td class="n">{value:.3f}</td>'
    return f"<td>{_text(value)}</td>"


def _pairs(facts: Mapping[str, Any]) -> str:
    body = "".join(f'<tr><th scope="row">{_text(k)}</th>{_cell(v)}</tr>' for k, v in facts.items())
    return f'<div class="wide"><table><tbody>{body}</tbody></table></div>'


def _number(value: Any) -> float | None:
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if plain and isfinite(value) else None


def interval_columns(columns: Sequence[str]) -> tuple[str, str, str] | None:
    """Names of a table's first estimate and the ends of its interval; None where it has none.

    The estimate is the column before the interval's lower end, n and other intervals left aside.
    An interval by patient goes before others; bounds over unscored items are no interval.
    """
    found: list[tuple[str, str, str]] = []
    for at, low in enumerate(columns):
        high = low.removesuffix("low") + "high"
        before = [c for c in columns[:at] if c != "n" and not c.endswith(("low", "high"))]
        if low.endswith("low") and low != "bound_low" and high in columns and before:
            found.append((before[-1], low, high))
    return min(found, key=lambda names: names[1] != "patient_low", default=None)


def _naming(rows: Sequence[Row], columns: Sequence[str]) -> list[str]:
    """The columns that tell rows apart: those before the counts that differ among rows."""
    end = columns.index("n") if "n" in columns else len(columns)
    own = [c for c in columns[:end] if not (c in ("arm", "k", "budget") and "label" in columns)]
    return [c for c in own if len({str(row.get(c)) for row in rows}) > 1] or own[:1]


def _named(column: str, value: Any) -> str:
    """A value as a row's name holds it: a number with its column."""
    return value if isinstance(value, str) else f"{column.replace('_', ' ')} {value}"


def _forest(name: str, rows: Sequence[Row], columns: Sequence[str]) -> str:
    """The estimates with their intervals, a line a row; nothing where a table has none."""
    named = interval_columns(columns)
    if named is None:
        return ""
    points = [(row, tuple(_number(row.get(c)) for c in named)) for row in rows[:DRAWN]]
    known = [
        (row, e, low, high)
        for row, (e, low, high) in points
        if e is not None and low is not None and high is not None and low <= e <= high
    ]
    if not known:
        return ""
    left, right = min(p[2] for p in known), max(p[3] for p in known)
    if left >= 0 and right <= 1:
        left, right = 0.0, 1.0
    span = (right - left) or 1.0
    words = _naming([p[0] for p in known], columns[: columns.index(named[0])])
    drawn = [
        f'<svg viewBox="0 0 860 {len(known) * 22 + 30}" width="860" role="img" '
        f'aria-label="{_text(f"{named[0]} with {named[1]} to {named[2]}, table {name}")}">'
    ]

    def across(value: float) -> float:
        return round(420 + 320 * (value - left) / span, 1)

    for i, (row, estimate, low, high) in enumerate(known):
        y = 16 + 22 * i
        label = " · ".join(_named(c, row.get(c)) for c in words if row.get(c) not in (None, ""))
        n = f"n={row['n']:,}" if isinstance(row.get("n"), int) else ""
        drawn.append(
            f'<text x="0" y="{y + 4}">{_text(label[:62])}</text>'
            f'<line x1="{across(low)}" x2="{across(high)}" y1="{y}" y2="{y}"/>'
            f'<circle cx="{across(estimate)}" cy="{y}" r="4"/>'
            f'<text x="755" y="{y + 4}">{estimate:.3f} {n}</text>'
        )
    y = 22 * len(known) + 8
    if left < 0 < right:
        drawn.append(f'<line class="axis" x1="{across(0)}" x2="{across(0)}" y1="4" y2="{y}"/>')
    drawn.append(f'<line class="axis" x1="420" x2="740" y1="{y}" y2="{y}"/>')
    drawn.append(f'<text x="420" y="{y + 16}">{left:.2f}</text>')
    drawn.append(f'<text x="740" y="{y + 16}" text-anchor="end">{right:.2f}</text></svg>')
    told = f"Drawn: {named[0]} with its interval from {named[1]} to {named[2]}"
    told += f"; the first {DRAWN} of {len(rows):,} rows." if len(rows) > DRAWN else "."
    return f'<div class="wide">{"".join(drawn)}</div><p class="soft">{_text(told)}</p>'
