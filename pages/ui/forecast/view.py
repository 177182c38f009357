"""The Forecast page's views of a forecast run, each with chart, text and table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from midchart.core import api
from midchart.core.errors import MidchartError
from midchart.pages.ui import state
from midchart.pages.ui.forecast import text
from midchart.pages.ui.forecast.text import AREAS, CONSTANT, REFERENCE, counts_text, task_name
from midchart.pages.ui.runs import presets
from midchart.pages.ui.shared import chart, conclusion, empty, formats, results, tables, variants
from midchart.pages.ui.shared.chart import ForestRow, Look
from midchart.pages.ui.shared.marks import plain, safe
from midchart.pages.ui.shared.pickers import pick, pick_linked, pick_several

KIND = "forecast"
SPEC = "forecast.toml"
MOST = 4
"""Variants in one chart of lines: as many as there are colours."""
FAINT = 0.5
WEIGHTS = {
    "zeros": "exactly zero, all entries",
    "negatives": "negative, all entries",
    "cls_zeros": "exactly zero, CLS row",
    "cls_negatives": "negative, CLS row",
}
MEASURES = {
    "tuning_auroc": "AUROC on tuning patients",
    "tuning_loss": "loss on tuning patients",
    "loss": "training loss",
    "tuning_auprc": "AUPRC on tuning patients",
}
GRADIENTS = {
    "gate_gradient": "gradient norm of the gate",
    "head_gradient": "gradient norm of the head",
}
STAGES = {"corrected": "positive weight removed", "raw": "as predicted"}


# Starting a run


def spec(cohort: str) -> dict[str, Any]:
    """The preset forecast run on a cohort: the preset's tasks on its own cohort, on another all."""
    preset = presets.spec(SPEC, cohort, f"forecasts on {cohort}")
    if presets.spec(SPEC)["data"] != cohort:
        preset.pop("tasks", None)
    return preset


def no_run() -> None:
    """The empty state with the button that starts a run."""
    with empty.state(
        "No forecast run yet",
        "A forecast run trains small sequence models that differ only in their attention, with "
        "several seeds, on the official split of patients. Each is evaluated on held-out "
        "patients and compared with two count-based models.",
    ):
        presets.included(KIND)
        start()


def start() -> None:
    """The cohort and the button; without a cohort of labels, how to make one."""
    with_questions = set(state.question_cohorts())
    cohorts = [n for n, _, problem in state.cohorts() if not problem and n not in with_questions]
    if not cohorts:
        st.info("No installed cohort has labels to forecast. Create the laboratory cohort, or "
            "place EHRSHOT or a MEDS folder among the cohorts:")  # fmt: skip
        st.code("midchart demo --laboratory ehrshot", language=None, wrap_lines=True)
        return
    cohort = st.selectbox("Cohort", cohorts, key="cohort", bind="query-params", width=420)
    if cohort:
        presets.button(spec(cohort), "Train and compare the attentions", KIND, file=SPEC)


# Tables of a report


def rows_of(report: dict[str, Any], table: str, task: str) -> pd.DataFrame:
    """The rows of a table of this task."""
    return results.where(results.frame_of(report, table), task=task)


def _name(run: dict[str, Any], table: str) -> str:
    return f"{run['run']}-{table}"


def _trained(report: dict[str, Any], task: str) -> list[str]:
    return text.attentions(rows_of(report, "forecast", task))


def pick_task(report: dict[str, Any]) -> str:
    """The task shown on all views."""
    tasks = results.choices(results.frame_of(report, "forecast"), "task")
    return pick_linked("task", "Task", tasks, task_name, key="task", unlinked=tasks[0], width=260)


def verdict(report: dict[str, Any], task: str) -> None:
    """The task's result in words, above any figure."""
    rows, summary = rows_of(report, "verdict", task), rows_of(report, "summary", task)
    if rows.empty or summary.empty:
        return
    first, _, rest = text.verdict(rows, summary, _trained(report, task), task).partition(". ")
    conclusion.of_run(
        report,
        f"{first.rstrip('.')}.",
        [
            rest,
            f"{counts_text(summary)}. Better or worse: Holm-adjusted p by patient below .05 and "
            "all seeds agree.",
        ],
    )


# Views


def _sequences_of(
    run: dict[str, Any], task: str, frame: pd.DataFrame
) -> Callable[[int, str], None] | None:
    """What a click on a row's numbers opens: the held-out sequences of its variant.

    An imported run has no trained models, so it stores no sequences, as a line says.
    """
    if run["imported"]:
        st.caption("This run stores no single sequences, so these numbers open none.")
        return None
    st.caption("Click a number to see the held-out sequences of its attention.")
    names = list(frame["variant"])
    return lambda row, _: _open_sequences(run, names, names[row], task)


def _fits(
    run: dict[str, Any],
    task: str,
    frame: pd.DataFrame,
    table: str,
    alt: str,
    download: pd.DataFrame | None = None,
) -> None:
    """A table with a row for each fit, whose numbers open the held-out sequences."""
    opens = _sequences_of(run, task, frame)
    tables.table(results.shown(frame), _name(run, table), alt, download=download, opens=opens)


def _open_sequences(run: dict[str, Any], trained: Sequence[str], variant: str, task: str) -> None:
    """Show the held-out sequences of a task by a variant, or where the run has no trained models
    the variant's curves."""
    st.session_state["task"] = task
    try:
        state.held_out(run, task, None)
    except MidchartError:
        st.session_state["view"], st.session_state["curve"] = "Curves", [variant]
        return
    st.session_state["view"], st.session_state["sequences"] = "Attention map", True
    if variant in trained:
        st.session_state["attended"] = [variant]


def comparison(
    run: dict[str, Any], report: dict[str, Any], task: str, summary: pd.DataFrame
) -> None:
    """Both areas of every variant and baseline with the paper's, then the paired differences."""
    trained = _trained(report, task)
    opens = partial(_open_sequences, run, trained, task=task)
    published = results.frame_of(report, "published")
    prevalence = float(summary["prevalence"].iloc[0])
    chances = {"auroc": (0.5, "chance"), "auprc": (prevalence, "prevalence")}
    for place, (area, chance) in zip(st.columns(2, gap="medium"), chances.items(), strict=True):
        with place:
            rows = text.area_rows(summary, area, trained)
            papers = text.paper_values(published, area, task)
            chart.show(
                forest(rows, papers, area.upper(), *chance, report["origin"]),
                chart.forest_alt(rows, f"{area.upper()} of {task_name(task)}"),
                f"forest_{area}",
                opens=opens,
            )
    counts = plain(counts_text(summary))
    st.caption(
        f"{counts}. Circles: attentions, mean over seeds; hollow squares: baselines. Bars: 95 % "
        "patient-level bootstrap interval. Hollow diamonds: the paper's values, on EHRSHOT with "
        f"its own split; all others are of {plain(report['origin'])} and not comparable in level."
    )
    # A constant is some forty points away and would compress all other rows.
    rows = text.difference_rows(summary[summary["variant"] != CONSTANT], trained)
    if rows:
        st.header(f"ΔAUROC vs {api.title('variant', REFERENCE)} (percentage points)", anchor=False)
        chart.show(
            variants.difference_forest(rows),
            chart.forest_alt(rows, f"differences from {api.title('variant', REFERENCE)} in points"),
            "forest_differences",
            opens=opens,
        )
        st.caption(
            f"{counts}. The same resampled patients for both, so differences are paired; p "
            f"accounts for clustering by patient and is Holm-adjusted. The constant baseline is "
            f"in the table only."
        )
    _all_tables(run, report, task)


def _mean_over_tasks(run: dict[str, Any], report: dict[str, Any]) -> None:
    """The mean difference of each variant over all tasks; nothing for a run of one task."""
    frame = results.frame_of(report, "mean_difference")
    if frame.empty or frame["of_tasks"].iloc[0] < 2:
        return
    reference = api.title("variant", REFERENCE)
    st.header(f"Mean ΔAUROC vs {reference} over tasks", anchor=False)
    shown = text.mean_table(frame)
    tables.table(
        shown, _name(run, "mean_difference"), "Mean differences over tasks", download=frame
    )
    st.caption(
        "Percentage points, each task with equal weight. 95 % interval: patients are resampled "
        "within each task, and the tasks are fixed, so it says nothing about other tasks."
    )


def _all_tables(run: dict[str, Any], report: dict[str, Any], task: str) -> None:
    _mean_over_tasks(run, report)
    st.header("Every task", anchor=False)
    st.caption(
        "Click a number or a marker to see the held-out sequences behind it; its curves where the "
        "run has no trained models."
    )
    summary = results.frame_of(report, "summary")
    of_row = summary[["variant", "task"]].to_dict("records")
    trained = _trained(report, task)
    tables.table(
        text.summary_table(summary),
        _name(run, "summary"),
        "Every task and variant: AUROC and AUPRC with intervals, difference, n and prevalence",
        columns={"seconds": st.column_config.NumberColumn("seconds per fit", format="%.1f")},
        download=summary,
        opens=lambda row, _: _open_sequences(run, trained, **of_row[row]),
    )
    with st.expander("As text"):
        names = results.choices(summary, "variant")
        verdicts = [
            results.with_titles("variant", names, line)
            for line in rows_of(report, "verdict", task).get("text", [])
        ]
        st.markdown("\n".join(f"- {plain(line)}" for line in verdicts) or "–")
        tables.downloads(results.frame_of(report, "verdict"), _name(run, "verdict"))
    for title, table, alt in (
        ("All fits by seed", "forecast", "Every fit with both kinds of interval"),
        ("Paper's figures and this run's", "published",
         "AUROC and AUPRC in the paper and AUROC in this run"),
        ("Labels of each split", "splits", "Labels, positives and patients by split"),
    ):  # fmt: skip
        frame = results.frame_of(report, table)
        if len(frame):
            with st.expander(title):
                published = table == "published"
                shown = text.published_table(frame) if published else results.shown(frame)
                of = frame.reindex(columns=["variant", "task"]).fillna("").to_dict("records")
                opens = None if table == "splits" else _opener(run, trained, of)
                tables.table(shown, _name(run, table), alt, download=frame, opens=opens)


def _marker_opener(
    run: dict[str, Any], report: dict[str, Any], task: str
) -> Callable[..., object] | None:
    """What a click on a variant's marker does; nothing on an imported run, which has no models."""
    if run["imported"]:
        return None
    return partial(_open_sequences, run, _trained(report, task), task=task)


def _opener(
    run: dict[str, Any], trained: Sequence[str], rows: Sequence[Mapping[str, Any]]
) -> Callable[[int, str], object]:
    """What a click on a row of ``rows`` (variant, task) does."""
    return lambda row, _: _open_sequences(run, trained, **rows[row])


def _pick_variants(
    frame: pd.DataFrame, trained: list[str], key: str
) -> tuple[dict[str, Look], int | None]:
    """Up to four variants, each with a look, and the seed that is drawn strong."""
    names = results.choices(frame, "variant")
    default = [name for name in names if name in trained][: MOST - 1]
    default += [name for name in names if name not in trained and name != CONSTANT][:1]
    seeds = [int(seed) for seed in frame["seed"].dropna().unique()]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = pick_several(
            key, "Shown", names, partial(api.title, "variant"), key=key, default=default,
            max_selections=MOST, width=620,
        )  # fmt: skip
        if len(seeds) > 1:
            seed = st.selectbox("Seed", seeds, key="seed", bind="query-params", width=120)
        else:
            seed = next(iter(seeds), None)
    return chart.distinct_looks([name for name in names if name in chosen]), seed


def curves(run: dict[str, Any], report: dict[str, Any], task: str, roc: pd.DataFrame) -> None:
    """ROC, precision against recall, and calibration."""
    frames = {"auroc": roc, "auprc": rows_of(report, "pr", task)}
    summary = rows_of(report, "summary", task)
    looks, seed = _pick_variants(roc, _trained(report, task), "curve")
    if not looks:
        st.info("Select a variant to see its curves.")
        return
    by_variant = {row["variant"]: row for row in summary.to_dict("records")}
    axes = {
        "auroc": ("roc", "false_positive_rate", "sensitivity", None),
        "auprc": ("pr", "recall", "precision", float(summary["prevalence"].iloc[0])),
    }
    for place, (area, frame) in zip(st.columns(2, gap="medium"), frames.items(), strict=True):
        key, x, y, chance = axes[area]
        titles = {
            name: f"{title}, {formats.estimate(*(by_variant[name][c] for c in AREAS[area]))}"
            for name, title in results.titles("variant", looks).items()
        }
        with place:
            chart.show(
                curve(frame, x, y, looks, titles, seed, chance),
                f"{area.upper()} curve: " + "; ".join(titles.values()),
                f"curve_{key}",
            )
            with st.expander("Table"):
                shown = frame[frame["variant"].isin(looks)]
                _fits(run, task, shown, key, f"Points of the {area.upper()} curves", frame)
    st.caption(
        f"{plain(counts_text(summary))}. Strong: selected seed; faint: other seeds. Legend: mean "
        f"over seeds with 95 % interval by patient. Dotted: chance."
    )
    _calibration(run, task, rows_of(report, "calibration", task), looks, seed)


def _calibration(
    run: dict[str, Any],
    task: str,
    frame: pd.DataFrame,
    looks: Mapping[str, Look],
    seed: int | None,
) -> None:
    if frame.empty:
        return
    st.header("Calibration", anchor=False)
    stage = pick("Probability", list(STAGES), "stage", STAGES)
    shown = frame["seed"].isna() | ((frame["seed"] == seed) & (frame["stage"] == stage))
    rows = frame[frame["variant"].isin(looks) & shown]
    alt = f"Calibration of {', '.join(results.titles('variant', looks).values())}, {STAGES[stage]}"
    titles, file = results.titles("variant", looks), _name(run, "calibration")
    opens = _sequences_of(run, task, rows)
    variants.calibration(rows, "variant", looks, titles, alt, file, frame, opens=opens)
    n = int(rows.groupby("variant")["n"].sum().max()) if len(rows) else 0
    st.caption(
        f"n = {n:,} held-out labels per variant. The loss has a positive weight, which raises "
        f"all probabilities; with it removed they can be compared with the observed event rate. "
        f"Baselines have no positive weight. Bars: 95 % interval by patient (none for fewer than "
        f"5)."
    )


def _epoch_charts(
    frame: pd.DataFrame,
    titles: Mapping[str, str],
    looks: Mapping[str, Look],
    seed: int | None,
    best: Mapping[tuple[str, Any], int],
    log: bool = False,
) -> None:
    """Measures by epoch, two side by side."""
    columns = st.columns(2, gap="medium")
    for i, (column, title) in enumerate(titles.items()):
        with columns[i % 2]:
            chart.show(
                by_epoch(frame, column, title, looks, seed, best, log),
                f"{title} by epoch of {', '.join(results.titles('variant', looks).values())}",
                f"epochs_{column}",
            )


def training(run: dict[str, Any], report: dict[str, Any], task: str, frame: pd.DataFrame) -> None:
    """Losses and tuning scores by epoch; the epoch that tuning chose is marked."""
    looks, seed = _pick_variants(frame, results.choices(frame, "variant"), "trained")
    fits = rows_of(report, "forecast", task).dropna(subset=["seed", "best_epoch"])
    best = {(row["variant"], row["seed"]): int(row["best_epoch"]) for _, row in fits.iterrows()}
    _epoch_charts(frame, MEASURES, looks, seed, best)
    tuning = results.where(rows_of(report, "splits", task), split="tuning")
    patients = "Tuning patients"
    for row in tuning.to_dict("records"):
        patients = (
            f"n = {int(row['n']):,} labels of {int(row['patients']):,} tuning patients, "
            f"{text.positives_text(row)}"
        )
    st.caption(
        f"{plain(patients)}. Marker: epoch with the best tuning score, whose weights are "
        f"evaluated. Faint: other seeds. A single training has no interval; the seeds show the "
        f"spread."
    )
    shown = frame[frame["variant"].isin(looks)].drop(columns="task")
    _fits(run, task, shown, "epochs", "Losses, tuning scores and gradient norms by epoch", frame)


def gate(run: dict[str, Any], report: dict[str, Any], task: str, frame: pd.DataFrame) -> None:
    """Mean ± SD of each gate, whether it collapsed, and the gradient norms by epoch."""
    st.write(plain(text.gate_text(frame)))
    rows = text.gate_rows(frame)
    figure = gates(rows, text.COLLAPSE)
    opens = _marker_opener(run, report, task)
    chart.show(figure, chart.forest_alt(rows, "gate values"), "gate_means", opens=opens)
    low, high = text.COLLAPSE
    st.caption(
        f"{plain(counts_text(frame))}. Bars: SD over events, no interval. Cross: collapsed, "
        f"a mean from {low} to {high} (grey) and an SD of at most {text.COLLAPSE_SD}."
    )
    _fits(run, task, frame, "gate", "Mean, SD and collapse of each gate")
    epochs = rows_of(report, "epochs", task)
    epochs = epochs[epochs["variant"].isin(frame["variant"])] if len(epochs) else epochs
    if epochs.empty:
        return
    st.header("Gradients by epoch", anchor=False)
    looks, seed = _pick_variants(epochs, results.choices(epochs, "variant"), "gated")
    _epoch_charts(epochs, GRADIENTS, looks, seed, {}, log=True)
    st.caption(
        "Logarithmic scale. A gate whose gradient is orders of magnitude below the head's hardly "
        "learns. Faint: other seeds."
    )
    columns = ["variant", "title", "seed", "epoch", *GRADIENTS, "gate_mean", "gate_sd"]
    _fits(run, task, epochs[columns], "gradients", "Gradient norms and gate by epoch")


def sparsity(run: dict[str, Any], report: dict[str, Any], task: str, frame: pd.DataFrame) -> None:
    """Shares of attention weights that are exactly zero or negative."""
    opens = _marker_opener(run, report, task)
    columns = st.columns(2, gap="medium")
    for i, (column, title) in enumerate(WEIGHTS.items()):
        with columns[i % 2]:
            rows = text.sparsity_rows(frame, column)
            chart.show(
                variants.forest(rows, title, chart.PERCENT, " %"),
                chart.forest_alt(rows, f"share of weights {title}"),
                f"sparsity_{column}",
                opens=opens,
            )
    sequences, entries = int(frame["sequences"].max()), int(frame["entries"].max())
    st.caption(
        f"Last layer's maps of {sequences:,} held-out sequences, n = {entries:,} entries between "
        f"non-padding positions (counts, not estimates). Bars: lowest to highest seed. The CLS "
        f"row is the one used for the forecast."
    )
    _fits(run, task, frame, "sparsity", "Shares of zero and negative weights by fit")


def forest(
    rows: Sequence[ForestRow],
    papers: Sequence[text.PaperValue],
    title: str,
    chance: float,
    chance_title: str,
    origin: str,
) -> go.Figure:
    """Variants and baselines with intervals, the paper's values as hollow diamonds under them.

    ``chance``: what scores without information reach, as a dotted line; ``origin``: whose records
    the other marks are of.
    """
    values = [end for row in rows for end in (row.value, row.low, row.high)]
    values += [chance, *(paper.value for paper in papers)]
    axis = f"{title}, {safe(origin)}"
    figure = variants.forest(rows, axis, variants.padded(values, 0.05, 0.05))
    height = {row.label: len(rows) - i for i, row in enumerate(rows)}
    papers = [paper for paper in papers if paper.name in height]
    colour = chart.series()[3]
    if papers:
        figure.add_scatter(
            x=[paper.value for paper in papers],
            y=[height[paper.name] - 0.3 for paper in papers],
            mode="markers",
            name="paper's value",
            cliponaxis=False,
            marker={"symbol": "diamond-open", "size": 9, "color": colour, "line": {"width": 2}},
            text=[
                f"{safe(api.title('variant', paper.name))}, paper: {safe(paper.text)}"
                for paper in papers
            ],
            hovertemplate="%{text}<extra></extra>",
            showlegend=False,
        )
        chart.caption(figure, "◇ paper, on EHRSHOT", right=True, colour=colour)
    chart.dotted(figure, x=chance)
    chart.caption(figure, f"dotted: {safe(chance_title)}", colour=chart.ink().faint)
    return figure


def _add_lines(
    figure: go.Figure,
    frame: pd.DataFrame,
    x: str,
    y: str,
    looks: Mapping[str, Look],
    titles: Mapping[str, str],
    seed: Any,
) -> None:
    """A line for each variant and seed; ``titles`` are the names in the legend."""
    for variant, look in looks.items():
        of_variant = frame[frame["variant"] == variant]
        for row_seed, part in of_variant.groupby("seed", sort=False, dropna=False):
            baseline = pd.isna(row_seed)
            strong = baseline or row_seed == seed
            hover = safe(api.title("variant", variant)) + (
                "" if baseline else f", seed {int(row_seed)}"
            )
            figure.add_scatter(
                x=part[x].to_numpy(),
                y=part[y].astype(float).to_numpy(),
                mode="lines",
                name=variants.legend_name(titles[variant]),
                line={"color": look.colour, "dash": look.dash, "width": 2.2 if strong else 1},
                opacity=1 if strong else FAINT,
                showlegend=strong,
                hovertemplate=f"{hover}: %{{y:.3f}} at %{{x:.3g}}<extra></extra>",
            )


def curve(
    frame: pd.DataFrame,
    x: str,
    y: str,
    looks: Mapping[str, Look],
    titles: Mapping[str, str],
    seed: Any,
    chance: float | None,
) -> go.Figure:
    """ROC, or precision against recall. ``chance``: a level line of chance, None: the diagonal."""
    figure = go.Figure()
    if chance is None:
        chart.diagonal(figure)
    else:
        chart.dotted(figure, y=chance)
    _add_lines(figure, frame, x, y, looks, titles, seed)
    variants.legend_below(figure, 400, len(looks))
    figure.update_xaxes(title=x.replace("_", " "), range=[-0.02, 1.02], zeroline=False)
    figure.update_yaxes(title=y.replace("_", " "), range=[-0.02, 1.04], zeroline=False)
    return figure


def by_epoch(
    frame: pd.DataFrame,
    column: str,
    title: str,
    looks: Mapping[str, Look],
    seed: Any,
    best: Mapping[tuple[str, Any], int],
    log: bool = False,
) -> go.Figure:
    """A measure by epoch, with a marker at the epoch that tuning chose (``best``)."""
    figure = go.Figure()
    known = frame[frame[column].notna()]
    _add_lines(figure, known, "epoch", column, looks, results.titles("variant", looks), seed)
    for variant, look in looks.items():
        rows = known[(known["variant"] == variant) & (known["seed"] == seed)]
        row = rows[rows["epoch"] == best.get((variant, seed))]
        name = safe(api.title("variant", variant))
        figure.add_scatter(
            x=row["epoch"], y=row[column].astype(float), mode="markers", showlegend=False,
            marker={"symbol": look.symbol, "size": 11, "color": look.colour},
            hovertemplate=f"{name}, chosen: epoch %{{x}}<extra></extra>",
        )  # fmt: skip
    variants.legend_below(figure, 330, len(looks))
    step = max(1, round(int(known["epoch"].max()) / 8)) if len(known) else 1
    figure.update_xaxes(title="epoch", zeroline=False, tick0=1, dtick=step)
    figure.update_yaxes(title=title, type="log" if log else "linear", zeroline=False)
    return figure


def gates(rows: Sequence[ForestRow], collapse: tuple[float, float]) -> go.Figure:
    """Mean ± SD of each gate; grey: the means of a collapsed gate."""
    figure = variants.forest(rows, "gate value, mean ± SD over events", (-0.03, 1.03))
    figure.add_vrect(x0=collapse[0], x1=collapse[1], fillcolor=chart.ink().faint, opacity=0.22,
                     line_width=0, layer="below")  # fmt: skip
    return figure
