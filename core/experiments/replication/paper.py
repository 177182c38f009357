"""The paper's figures as rows (``tables.yaml``), and findings on its outcomes (``findings.yaml``).

The CSV files of ``data/published`` hold the paper's tables by value, and ``restated.csv`` figures
of its released outcomes, which are not shipped, with the document that states each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

from midchart.core.reference_tables import read_yaml, table_row
from midchart.core.results.report import report
from midchart.core.results.tables import read_published
from midchart.core.runs.directory import find_run
from midchart.core.runs.status import status
from midchart.core.stats.intervals import wilson_of_share

Row = dict[str, Any]
Cells = Mapping[str, str]
T = TypeVar("T")
Figure = tuple[Any, Any, Any, Any]
"""Value, the ends of its interval, n; null where not known."""
Figures = dict[tuple[str, str, str], Figure]
"""(table of the paper, label, what) → figure, as :func:`paper_rows` names them."""
Rows = Sequence[Mapping[str, Any]]
STATED = "restated.csv"


def read_data(kind: type[T], name: str) -> T:
    """The content of a YAML file of this folder as ``kind``."""
    return read_yaml(kind, Path(__file__).parent / name)


@table_row
class PaperFigure:
    """A figure in each line of a table; ``tables.yaml`` describes the fields of these classes."""

    what: str
    value: str
    label: str = "{arm}"
    low: str = ""
    high: str = ""
    spread: str = ""
    unit: str = "pct"
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


@table_row
class ReportSource:
    """Figures of a table of the paper in the report of a run."""

    table: str
    what: str
    value: str
    label: str = "{label}"
    ends: str | None = None
    n: str = "n"
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    words: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    times: float = 1
    mean: bool = False
    reader: str = ""

    def figures(self, rows: Rows, judge: str) -> dict[tuple[str, str], Figure]:
        """(label, what) → figure; ``rows`` of the table, ``judge`` the chosen one."""
        named = {**self.where, **self.words}
        groups: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
        for row in rows:
            valid = {"judge": (judge,), **named} if "judge" in row else named
            if all(str(row[name]) in of for name, of in valid.items()):
                cells = {**row, "task": row.get("task", "").removeprefix("lab_")}
                cells |= {name: words[str(row[name])] for name, words in self.words.items()}
                groups[self.label.format(**cells), self.what.format(**cells)].append(row)
        return {name: self._figure(group) for name, group in groups.items()}

    def _figure(self, rows: Rows) -> Figure:
        first, names = rows[0], [self.value]
        if self.ends is not None:
            names += [f"{self.ends}low", f"{self.ends}high"]
        values = [
            first[name] if first[name] is None else self.times * first[name] for name in names
        ]
        if self.mean:
            known = [row[self.value] for row in rows if row[self.value] is not None]
            values[0] = fmean(known) if known else None
        low, high = sorted(values[1:]) if None not in values[1:] and values[1:] else (None, None)
        return values[0], low, high, first[self.n] if self.n else None


@table_row
class PaperLines:
    """A CSV and the figures of its lines."""

    file: str
    figures: tuple[PaperFigure, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperTable(PaperLines):
    """A table of the paper."""

    title: str
    source: str
    counts: str = ""
    ours: str = "runs"
    report: tuple[ReportSource, ...] = ()
    join: str = ""
    words: tuple[str, ...] = ()
    more: PaperLines | None = None

    def rows(self, table: str) -> Iterator[Row]:
        """All figures, as :func:`paper_rows` describes them; ``table`` is the key in TABLES."""
        joined = {next(iter(line.values())): line for line in self._cells(self.join)}
        for part in (self, self.more) if self.more else (self,):
            for line in self._cells(part.file):
                line |= joined.get(next(iter(line.values())), {})
                yield from (_row(table, line, one) for one in part.figures if _applies(line, one))

    def _cells(self, file: str) -> list[dict[str, str]]:
        return [
            {k: v.replace("_", " ") if k in self.words else v for k, v in line.items()}
            for line in (read_published(file) if file else ())
        ]


TABLES = read_data(dict[str, PaperTable], "tables.yaml")
"""All tables of the paper with figures, in the order in which pages offer them."""
UNITS = {"pct": "share", "fraction": "share", "pp": "points", "p": "number", "logit": "number"}


def paper_rows() -> list[Row]:
    """Every figure of every table, in the order of TABLES.

    ``table`` (a key of TABLES), ``label`` (the arm as our tables label it, or what the paper calls
    the line), ``what`` (a band, a task type, hit or miss, a quantity), ``value`` with ``low`` and
    ``high`` where the paper gives them, and ``unit``: "share" (0 to 1), "number", "n" or "points".
    """
    return [row for name, table in TABLES.items() for row in table.rows(name)]


def _applies(line: Cells, figure: PaperFigure) -> bool:
    return bool(line[figure.value]) and all(line[k] in valid for k, valid in figure.where.items())


def _row(table: str, line: Cells, figure: PaperFigure) -> Row:
    unit = figure.unit.format(**line)
    value, low, high, spread = (
        line.get(column, "") for column in (figure.value, figure.low, figure.high, figure.spread)
    )
    if spread:
        low, high = (f"{float(value) + sign * float(spread):g}" for sign in (-1, 1))
    return {
        "table": table,
        "label": figure.label.format(**line),
        "what": figure.what.format(**line),
        "unit": UNITS.get(unit, unit),
        "value": _number(value, unit),
        "low": _number(low, unit),
        "high": _number(high, unit),
    }


def _number(text: str, unit: str) -> float | None:
    if not text:
        return None
    if unit == "fraction":  # to one decimal of a per cent, as other shares are printed
        return float(f"{100 * float(text):.1f}") / 100
    return float(text) / 100 if unit == "pct" else float(text)


def findings() -> list[Row]:
    """What contradicts the paper: its released outcomes, re-analysed, and its own figures.

    A row each: ``finding``, ``in_paper`` (the paper's figures alone show it), its ``figure`` as
    text, ``means``, and its sources: ``published`` (cells of the paper's tables), ``stated``
    (documents) and ``paper`` (where the paper prints or claims it). At least one of
    ``published`` and ``stated`` is not empty.
    """
    rows: list[Row] = []
    for name, finding in read_data(dict[str, Finding], "findings.yaml").items():
        values: dict[str, Any] = {}
        cells: list[str] = []
        documents: list[str] = []
        for key, source in finding.values.items():
            if isinstance(source, str):
                (line,) = [one for one in read_published(STATED) if one["quantity"] == source]
                values[key] = float(line["value"])
                documents.append(f"{line['document']} ({line['passage']}): {line['value']}")
            else:
                values[key], cell = _cell(**source)
                cells.append(cell)
        for part, derive in DERIVED.items():
            if part in name:
                values |= derive(name, values)
        rows.append(
            {
                "finding": name,
                "in_paper": finding.in_paper,
                "figure": finding.figure.format(**values),
                "means": finding.means.format(**values),
                "published": "; ".join(cells),
                "stated": "; ".join(dict.fromkeys(documents)),
                "paper": finding.paper,
            }
        )
    return rows


@table_row
class Finding:
    """An entry of ``findings.yaml``, which describes its fields."""

    figure: str
    means: str
    paper: str
    values: dict[str, str | dict[str, str]]
    in_paper: bool = False


def _cell(file: str, column: str, **row: str) -> tuple[float, str]:
    """The figure in a file's one row with these values, and the name of its cell.

    Raises ValueError for another number of rows.
    """
    (line,) = [r for r in read_published(file) if all(r[k] == v for k, v in row.items())]
    named = f"{file}, row {'/'.join(row.values())}, column {column}: {line[column]}"
    return float(line[column]), named


def _correct(name: str, values: Mapping[str, float]) -> Row:
    """QCCS answers judged correct, and per cent correct where the judge had evidence."""
    derived: Row = {"correct": round(values["qccs"] / 100 * values["n"])}
    if "judged" in values:
        derived["with_evidence"] = 100 * values["right"] / values["judged"]
        derived["printed"] = 100 * derived["correct"] / values["n"]
    return derived


def _swapped(name: str, values: Mapping[str, float]) -> Row:
    """The task whose true prevalence is nearest to the printed one."""
    true = {
        row["quantity"].removeprefix("prevalence_").removesuffix("_pct"): float(row["value"])
        for row in read_published(STATED)
        if row["quantity"].startswith("prevalence_")
    }
    nearest = min(true, key=lambda task: abs(true[task] - values["printed"]))
    task = name.removeprefix("prevalence_")
    return {"task": task, "nearest": nearest, "nearest_true": true[nearest]}


def _possible(name: str, values: Mapping[str, float]) -> Row:
    """The shares of n next to one that no number of n gives."""
    n = int(values["n"])
    number = int(values["share"] / 100 * n)
    arm = {"dos_rag": "DOS-RAG", "mmr": "MMR"}[name.removeprefix("impossible_share_")]
    return {"arm": arm, "below": 100 * number / n, "above": 100 * (number + 1) / n}


def _both_parts(name: str, values: Mapping[str, float]) -> Row:
    """Patients of both parts of a split."""
    return {"both": values["training"] + values["test"]}


def _wilson(name: str, values: Mapping[str, float]) -> Row:
    """The upper end of Wilson's interval, per cent."""
    n = values["n"]
    return {"wilson": 100 * wilson_of_share(values["share"] / 100, n).high}


DERIVED: Mapping[str, Callable[[str, Mapping[str, float]], Row]] = {
    "qccs_correct": _correct,
    "prevalence": _swapped,
    "impossible_share": _possible,
    "split_of_patients": _both_parts,
    "interval_of_none": _wilson,
}
"""Part of a finding's name → the values that follow from those it reads."""


# This installation's figures of the paper's tables.


KINDS = {"Curve": "curve", "Gate": "gate", "Forecast": "forecast"}
"""Page → the kind of run behind it."""


def other_runs(data: str | Path) -> dict[str, dict[str, Any] | None]:
    """Page of :data:`KINDS` → the status of its newest finished run, None where there is none.

    A run on the cohort ``data`` goes before one on another.
    """
    done = [run for run in status() if run["status"] == "done"]
    done.sort(key=lambda run: Path(run["data"]) != Path(data))
    return {
        page: next((run for run in done if run["kind"] == kind), None)
        for page, kind in KINDS.items()
    }


def paper_comparison(
    published: str | None, corrected: str | None, judge: str, others: Sequence[str] = ()
) -> list[Row]:
    """The paper's rows, each with this installation's figures under either protocol.

    :func:`midchart.core.experiments.replication.paper.paper_rows` with ``published`` and
    ``corrected``, each with ``_low``, ``_high`` (by patient) and ``_n``; null where the run has no
    such arm, or is None. ``others``: runs of a curve, gate or forecast, for the tables of these;
    each counts for the protocol that it ran under.
    """
    columns = {"published": figures(published, judge), "corrected": figures(corrected, judge)}
    for run in others:
        preset = find_run(run).plan().protocol.preset
        columns["published" if preset == "published" else "corrected"] |= figures(run)
    rows = paper_rows()
    for row in rows:
        for name, known in columns.items():
            figure = known.get((row["table"], row["label"], row["what"]), (None,) * 4)
            names = (name, f"{name}_low", f"{name}_high", f"{name}_n")
            row |= dict(zip(names, figure, strict=True))
    return rows


def figures(run: str | None, judge: str = "") -> Figures:
    """The figures of a finished run of answers, or of one of the kinds of :data:`KINDS`."""
    if run is None:
        return {}
    plan, tables = find_run(run).plan(), report(run)["tables"]
    by_cell: Figures = {}
    for name, table in TABLES.items():
        if KINDS.get(table.ours, "answers") != plan.kind:
            continue
        for source in table.report:
            if not source.reader or any(source.reader in reader for reader in plan.readers):
                rows = tables.get(source.table, ())
                if source.reader:
                    rows = [row for row in rows if source.reader in row["reader"]]
                known = source.figures(rows, judge)
                by_cell |= {(name, *cell): figure for cell, figure in known.items()}
    return by_cell | _agreeing(tables.get("judges", ()), judge)


def _agreeing(pairs: Rows, judge: str) -> Figures:
    """The counterparts of the paper's tables of two judges: the chosen one with another.

    The other is blind in the table of the blind judge, and sees the evidence in that of two
    judges; with several, the first of the spec.
    """
    by_cell: Figures = {}
    for row in pairs:
        pair, n = [row["first"], row["second"]], row["n"]
        if judge not in pair or not n or judge.startswith("blind"):
            continue
        yes = [(row["both_yes"] + row[f"only_{which}"]) / n for which in ("first", "second")]
        if pair[0] != judge:
            pair.reverse()
            yes.reverse()
        blind = pair[1].startswith("blind")
        table = "blind_judge" if blind else "judge_agreement"
        names = ("sees the evidence", "blind") if blind else ("first judge", "second judge")
        measure, what = ("raw", "agreement") if blind else ("kappa", "Cohen's kappa")
        agreement = (row[measure], row[f"{measure}_low"], row[f"{measure}_high"], n)
        by_cell.setdefault((table, row["label"], names[0]), (yes[0], None, None, n))
        by_cell.setdefault((table, row["label"], names[1]), (yes[1], None, None, n))
        by_cell.setdefault((table, row["label"], what), agreement)
    return by_cell
