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
from typing import Any, ClassVar, TypeVar

from core.experiments.forecast.tables import PUBLISHED as ATTENTIONS
from core.runs.directory import find_run
from core.runs.report import report
from core.runs.status import status
from core.runs.tables import read_published
from core.synthetic.reference import STRICT, read_yaml

Row = dict[str, Any]
Cells = Mapping[str, str]
T = TypeVar("T")
STATED = "restated.csv"


def read_data(kind: type[T], name: str) -> T:
    """The content of a YAML file of this folder as ``kind``."""
    return read_yaml(kind, Path(__file__).parent / name)


@dataclass(frozen=True, slots=True)
class PaperFigure:
    """A figure in each line of a table; ``tables.yaml`` describes the fields of these classes."""

    __pydantic_config__: ClassVar = STRICT
    what: str
    value: str
    label: str = "{arm}"
    low: str = ""
    high: str = ""
    spread: str = ""
    unit: str = "pct"
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


@dataclass(frozen=True, slots=True)
class Source:
    """Where the report of a run has the figures of a table of the paper."""

    __pydantic_config__: ClassVar = STRICT
    table: str
    stratum: str
    share: str = "accuracy"
    judge: str = ""
    criterion: str = "lexical"


@dataclass(frozen=True, slots=True)
class Lines:
    """A CSV and the figures of its lines."""

    __pydantic_config__: ClassVar = STRICT
    file: str
    figures: tuple[PaperFigure, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperTable(Lines):
    """A table of the paper."""

    title: str
    source: str
    ours: str = "runs"
    report: Source | None = None
    join: str = ""
    words: tuple[str, ...] = ()
    more: Lines | None = None

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
    """What a re-analysis of the paper's released outcomes derived.

    A row each: ``finding``, its ``figure`` as text, ``means``, and its sources: ``published``
    (cells of the paper's tables), ``stated`` (documents) and ``paper`` (where the paper prints or
    claims it). At least one of ``published`` and ``stated`` is not empty.
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
                "figure": finding.figure.format(**values),
                "means": finding.means.format(**values),
                "published": "; ".join(cells),
                "stated": "; ".join(dict.fromkeys(documents)),
                "paper": finding.paper,
            }
        )
    return rows


@dataclass(frozen=True, slots=True)
class Finding:
    """An entry of ``findings.yaml``, which describes its fields."""

    __pydantic_config__: ClassVar = STRICT
    figure: str
    means: str
    paper: str
    values: dict[str, str | dict[str, str]]


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


DERIVED: Mapping[str, Callable[[str, Mapping[str, float]], Row]] = {
    "qccs_correct": _correct,
    "prevalence": _swapped,
}
"""Part of a finding's name → the values that follow from those it reads."""


# This installation's figures of the paper's tables.


Figure = tuple[Any, Any, Any, Any]
"""Value, the ends of its interval, n; null where not known."""
Figures = dict[tuple[str, str, str], Figure]
"""(table of the paper, label, what) → figure, as :func:`paper_rows` names them."""
Rows = Sequence[Mapping[str, Any]]
Tables = Mapping[str, Rows]
KINDS = {"Curve": "curve", "Gate": "gate", "Forecast": "forecast"}
"""Page → the kind of run behind it."""
LARGER = "14B"
"""Part of the label of a reader whose figures belong to the paper's table of the 14B reader."""


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

    :func:`core.experiments.replication.paper.paper_rows` with ``published`` and ``corrected``,
    each with ``_low``, ``_high`` (by patient) and ``_n``; null where the run has no such arm, or
    is None. ``others``: runs of a curve, gate or forecast, for the tables of these; each counts
    for the protocol that it ran under.
    """
    columns = {"published": _answers(published, judge), "corrected": _answers(corrected, judge)}
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


def figures(run: str) -> Figures:
    """The figures of a run of one of the kinds of :data:`KINDS`."""
    kind, tables = find_run(run).plan().kind, report(run)["tables"]
    return {"curve": _curve, "gate": _gate, "forecast": _forecast}[kind](tables)


def _answers(run: str | None, judge: str) -> Figures:
    """The figures of a finished run of answers."""
    if run is None:
        return {}
    tables: Tables = report(run)["tables"]
    larger = any(LARGER in reader for reader in find_run(run).plan().readers)
    by_cell: Figures = {}
    for name, table in TABLES.items():
        source = table.report
        if source is None or (name == "reader_14b" and not larger):
            continue
        wanted = source.judge or judge
        for row in tables.get(source.table, ()):
            criterion = row.get("criterion", source.criterion)
            if (row.get("judge", wanted), criterion) == (wanted, source.criterion):
                by_cell[name, row["label"], row[source.stratum]] = _by_patient(row, source.share)
    return by_cell | _entailed(tables) | _agreeing(tables, judge)


def _by_patient(row: Mapping[str, Any], share: str) -> Figure:
    return row[share], row["patient_low"], row["patient_high"], row["n"]


def _entailed(tables: Tables) -> Figures:
    """The counterparts of the paper's tables of semantic hits."""
    by_cell: Figures = {}
    for row in tables.get("recall", ()):
        name, _, threshold = row["criterion"].partition("@")
        if row["band"] != "overall":
            continue
        if threshold:
            key = "nli_threshold", row["label"], f"semantic hit, p > {threshold}"
            by_cell[key] = _by_patient(row, "recall")
        elif name in ("semantic", "lexical"):
            by_cell["nli_recall", row["label"], name] = _by_patient(row, "recall")
    for row in tables.get("overlap", ()):
        if (row["criterion"], row["band"]) == ("semantic", "overall"):
            for what, column in (
                ("semantic only", "criterion_only"),
                ("lexical only", "lexical_only"),
            ):
                share, low, high = (row[f"{column}_{end}"] for end in ("share", "low", "high"))
                by_cell["nli_recall", row["label"], what] = (share, low, high, row["n"])
    return by_cell


def _agreeing(tables: Tables, judge: str) -> Figures:
    """The counterparts of the paper's tables of two judges: the chosen one with another.

    The other is blind in the table of the blind judge, and sees the evidence in that of two
    judges; with several, the first of the spec.
    """
    by_cell: Figures = {}
    for row in tables.get("judges", ()):
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


SUMMARY: Mapping[tuple[str, str], tuple[int, tuple[str, ...]]] = {
    ("the paper's curve", "peak accuracy"): (1, ("peak",)),
    ("the paper's curve", "trough accuracy"): (1, ("trough",)),
    ("the paper's curve", "peak to trough gap"): (100, ("gap",)),
    ("the paper's curve", "middle band accuracy"): (1, ("middle",)),
    ("the paper's curve", "edge band accuracy"): (1, ("edge",)),
    ("the paper's curve", "middle vs edge gap"): (
        -100,  # of edge less middle
        ("difference", "difference_high", "difference_low"),
    ),
    ("the paper's curve", "answers between p10 and p90"): (1, ("share_10_90",)),
    ("the paper's curve", "observations"): (1, ("n",)),
    ("the paper's curve", "unique pairs"): (1, ("clusters",)),
    ("re-analysis", "gap expected without position effect"): (100, ("null_gap",)),
    ("re-analysis", "gap observed"): (100, ("gap",)),
    ("re-analysis", "p of gap"): (1, ("gap_p",)),
    ("re-analysis", "quadratic term"): (1, ("quadratic", "quadratic_low", "quadratic_high")),
}
"""(label, what) of the paper's summary of the curve → a factor, and the columns of a curve's."""


def _curve(tables: Tables) -> Figures:
    """Of the first curve of all responses in ten bins."""
    named = ("stratum", "value", "score", "position", "bins")
    every = [row for row in tables["summary"] if row["stratum"] == "all" and row["bins"] == 10]
    if not every:
        return {}
    first = every[0]
    by_cell: Figures = {}
    for row in tables["curve"]:
        if all(row[name] == first[name] for name in named):
            decile = f"{100 * row['low']:.0f}-{100 * row['high']:.0f} %"
            figure = (row["accuracy"], row["ci_low"], row["ci_high"], row["n"])
            by_cell["clitm_curve", "six models", decile] = figure
            by_cell["clitm_curve", "six models, n", decile] = (row["n"], None, None, row["n"])
    for (label, what), (factor, columns) in SUMMARY.items():
        values = [None if first[name] is None else factor * first[name] for name in columns]
        value, low, high = (*values, None, None)[:3]
        by_cell["clitm_summary", label, what] = (value, low, high, first["n"])
    return by_cell


def _gate(tables: Tables) -> Figures:
    by_cell: Figures = {}
    for row in tables["published"]:
        if row["table"] == "gate_ablation":
            key = f"{row['factor']} {row['value']}", "mean recall (lowest to highest)"
        else:
            key = row["factor"].replace("_", " "), row["value"]
        by_cell[row["table"], *key] = (row["recall"], row["low"], row["high"], row["n"])
    return by_cell


SPARSE = ("softmax", "entmax15", "sparsemax")
FOCAL = {
    "differential": "differential",
    "gated_differential": "qccs plain",
    "gated_differential loss=focal": "qccs focal",
}
"""Label of a variant → the paper's label in the table of the gate's loss."""


def _forecast(tables: Tables) -> Figures:
    """Means over seeds; intervals by patients."""
    by_cell: Figures = {}
    tuned = _means(tables["forecast"], "tuning_auroc")
    zeros = _means(tables["sparsity"], "zeros")
    labels = {variant: label.replace("_", " ") for label, variant in ATTENTIONS.items()}

    for row in tables["summary"]:
        task, variant, n = row["task"].removeprefix("lab_"), row["variant"], row["n"]
        auroc = (row["auroc_mean"], row["ci_low"], row["ci_high"], n)
        auprc = (row["auprc_mean"], row["auprc_low"], row["auprc_high"], n)
        if variant in labels:
            of = "ehrshot_attention", labels[variant]
            by_cell[*of, f"{task}, AUROC"] = auroc
            by_cell[*of, f"{task}, AUPRC"] = auprc
            validation = tuned.get((row["task"], variant))
            by_cell[*of, f"{task}, AUROC in validation"] = (validation, None, None, None)
        if variant in FOCAL:
            by_cell["ehrshot_focal", FOCAL[variant], f"{task}, AUROC"] = auroc
            share = (row["prevalence"], None, None, n)
            by_cell["ehrshot_focal", "positive labels", f"{task}, prevalence as printed"] = share
            if FOCAL[variant] == "qccs focal":
                for label, column in (("gate mean", "gate_mean"), ("gate sd", "gate_sd")):
                    by_cell["ehrshot_focal", label, f"{task}, gate"] = (row[column], None, None, n)
        if variant in SPARSE:
            of = "ehrshot_sparse", variant
            by_cell[*of, f"{task}, auroc"] = auroc
            by_cell[*of, f"{task}, auprc"] = auprc
            by_cell[*of, f"{task}, mean sparsity"] = (
                zeros.get((row["task"], variant)),
                None,
                None,
                n,
            )
    return by_cell


def _means(rows: Rows, column: str) -> dict[tuple[str, str], float]:
    """(task, variant) → the mean of a column over seeds, where it is known."""
    groups: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        if row[column] is not None:
            groups[row["task"], row["variant"]].append(row[column])
    return {key: fmean(values) for key, values in groups.items()}
