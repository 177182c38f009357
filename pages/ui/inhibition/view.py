"""The Inhibition page's views of an inhibition run, each with charts, text and table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from midchart.core import api
from midchart.pages.ui.runs import presets
from midchart.pages.ui.shared import chart, conclusion, empty, results, tables, variants
from midchart.pages.ui.shared.chart import ForestRow, Look
from midchart.pages.ui.shared.formats import difference, intervals, number, percent
from midchart.pages.ui.shared.marks import plain, safe

REFERENCE = "softmax"
PLACEMENTS = {
    "uniform": "Trained with evidence anywhere",
    "edges": "Trained with evidence near the edges",
}
PARTS = {
    "evidence": "the evidence",
    "distractors": "distractors",
    "first": "first token",
    "rest": "everything else",
}
QUANTITIES = {
    "accuracy_inside": "accuracy, trained lengths",
    "accuracy_past": "accuracy, longer records",
    "middle_inside": "middle − edges, trained lengths",
    "middle_past": "middle − edges, longer records",
    "distractors": "effect of distractors",
}


def condition(length: int, distractors: int, past: bool = False) -> str:
    """The records of a condition: length and distractors."""
    more = "1 distractor" if distractors == 1 else f"{distractors} distractors"
    return f"{length} lines, {more}" + (" (longer than trained)" if past else "")


def split_headline(headline: str) -> tuple[str, str]:
    """A headline's main claim (on all comparisons), and its other sentences."""
    parts = [part if part.endswith(".") else f"{part}." for part in headline.split(". ")]
    at = next((i for i, part in enumerate(parts) if part.startswith("Of ")), 0)
    return parts[at], " ".join(parts[:at] + parts[at + 1 :])


def counts_text(rows: pd.DataFrame) -> str:
    """Number of answers behind a point."""
    if rows.empty:
        return "n = 0"
    n, seeds, records = (int(rows[name].max()) for name in ("n", "seeds", "records"))
    decoders = "1 decoder" if seeds == 1 else f"{seeds} decoders of different seeds"
    return f"n = {n:,} answers a point ({decoders} × {records:,} records)"


def difference_rows(rows: pd.DataFrame) -> list[ForestRow]:
    """Differences from softmax or a control, a row for each quantity, variant and reference."""
    result: list[ForestRow] = []
    for row in rows[rows["difference"].notna()].to_dict("records"):
        ends = (row["difference"], row["difference_low"], row["difference_high"])
        minus = (
            ""
            if row["reference"] == REFERENCE
            else f" minus {api.title('variant', row['reference'])}"
        )
        seeds = f"{int(row['seeds_agree'])}/{int(row['seeds_paired'])}"
        text = f"{row['title']}{minus} {difference(*ends)}, seeds {seeds}"
        name = QUANTITIES.get(row["quantity"], row["quantity"])
        result.append(ForestRow(name, *(100 * number(end) for end in ends), text))
    return result


def curves_alt(rows: pd.DataFrame, x: str, what: str) -> str:
    """Curves in a sentence: each variant's first, lowest and last point."""
    parts: list[str] = []
    for title in results.choices(rows, "title"):
        accuracy = rows[rows["title"] == title].sort_values(x)["accuracy"]
        ends = (accuracy.iloc[0], accuracy.min(), accuracy.iloc[-1])
        first, low, last = (percent(value) for value in ends)
        parts.append(f"{title} starts at {first}, minimum {low}, ends at {last}")
    return f"Line chart of {what}: {'; '.join(parts)}." if parts else f"{what}: nothing yet."


def attention_alt(rows: pd.DataFrame, what: str) -> str:
    """Shares of attention in a sentence."""
    parts = [
        f"{row['title']} {PARTS[row['part']]} {percent(row['share'])}"
        for row in rows[rows["part"].isin(PARTS)].to_dict("records")
    ]
    return f"Shares of attention, {what}: {'; '.join(parts)}."


def size_text(rows: Sequence[dict[str, Any]]) -> str:
    """Number of parameters of the decoders."""
    sizes = sorted({int(row["parameters"]) for row in rows})
    added = dict.fromkeys((row["variant"], int(row["added_parameters"])) for row in rows)
    more = ", ".join(f"{api.title('variant', name)} {count:,}" for name, count in added if count)
    text = f"Each decoder has {' or '.join(f'{size:,}' for size in sizes)} parameters"
    return text + (f"; in addition: {more}." if more else ".")


KIND = "inhibition"
SPECS = {
    "Quick": "inhibition_quick.toml",
    "Controls": "inhibition_controls.toml",
    "Full comparison": "inhibition.toml",
}
ABOUT = {
    "Quick": "One seed and fewer steps: a demonstration without conclusions.",
    "Controls": "Twelve decoders: separates the effect of subtraction from that of supervision. "
    "Ten minutes on one core.",
    "Full comparison": "Thirty decoders: almost an hour on one core.",
}
BANDS = "Bands: 95 % bootstrap over seeds and records."
SHARES = ("accuracy", "ci_low", "ci_high", "share", "training_accuracy", "depth")
TITLES = {
    "words": "what",
    "ci_low": "95 % low", "ci_high": "95 % high", "value_low": "95 % low",
    "value_high": "95 % high", "difference_low": "difference, 95 % low",
    "difference_high": "difference, 95 % high", "all_low": "low, simultaneous",
    "all_high": "high, simultaneous",
}  # fmt: skip
MOST = len(chart.SYMBOLS)
"""Variants in one chart: as many as there are markers."""


# Starting a run


def spec(size: str) -> dict[str, Any]:
    """A preset inhibition run."""
    return presets.spec(SPECS[size])


def no_run() -> None:
    """The empty state: the included run, and the button that starts one."""
    with empty.state(
        "No inhibition run yet",
        "Does subtractive attention read the middle of a record as well as its ends? An "
        "inhibition run trains small decoders from scratch that differ only in their attention, "
        "and asks each for the same fact at every depth of the same synthetic record. It needs "
        "no cohort and no model.",
    ):
        presets.included(KIND)
        start()


def start() -> None:
    """The size and the button."""
    size = st.segmented_control("Size", list(SPECS), default="Quick", required=True, key="size")
    presets.button(
        spec(size), "Train and compare the decoders", KIND, ABOUT[size], file=SPECS[size]
    )


# Views


def verdict(report: dict[str, Any]) -> None:
    """The run's result in words, above any figure."""
    rows = results.frame_of(report, "verdict")
    if rows.empty:
        return
    variants_of = results.choices(results.frame_of(report, "inhibition"), "variant")
    headline = results.with_titles("variant", variants_of, str(rows["text"].iloc[0]))
    claim, more = split_headline(headline)
    conclusion.of_run(
        report,
        claim,
        [
            more,
            "A difference requires that the simultaneous interval excludes 0 and all seeds "
            "agree; for a gated variant, against both of its controls as well. All decoders are "
            "tested on the same records; with the same seed they share initial weights and "
            "training records. " + size_text(report["tables"]["inhibition"]),
        ],
    )


def looks_of(report: dict[str, Any]) -> dict[str, Look]:
    """A look for each variant: no two share a marker, nor both colour and dash."""
    names = results.choices(results.frame_of(report, "length"), "variant")
    colours, dashes = chart.series(), chart.DASHES
    return {
        name: Look(
            colours[i % len(colours)],
            chart.SYMBOLS[i],
            dashes[(i + i // len(colours)) % len(dashes)],
        )
        for i, name in enumerate(names[:MOST])
    }


def _by_placement(
    frame: pd.DataFrame, draw: Callable[[pd.DataFrame], tuple[go.Figure, str]], key: str
) -> None:
    """One figure for each placement of the evidence in training, side by side."""
    placements = results.choices(frame, "placement")
    for place, name in zip(st.columns(max(len(placements), 1), gap="medium"), placements,
                           strict=False):  # fmt: skip
        with place:
            title = PLACEMENTS.get(name, name)
            st.markdown(f"**{plain(title)}**")
            figure, alt = draw(frame[frame["placement"] == name])
            chart.show(figure, f"{title}. {alt}", f"{key}_{name}")


def _curves(report: dict[str, Any], rows: pd.DataFrame, x: str, axis: str, what: str,
            key: str, **options: Any) -> None:  # fmt: skip
    looks = looks_of(report)
    _by_placement(
        rows,
        lambda part: (
            curves_figure(part, x, axis, looks, **options),
            curves_alt(part, x, what),
        ),
        key,
    )


def _pick_condition(frame: pd.DataFrame, key: str) -> pd.DataFrame:
    """The rows of one condition, kept in the URL by its words."""
    columns = [name for name in ("length", "distractors", "past") if name in frame]
    rows = frame[columns].drop_duplicates().sort_values(columns).to_dict("records")
    conditions = {
        condition(row["length"], row["distractors"], bool(row.get("past"))): row for row in rows
    }
    # The default is the longest records of training: the hardest that were learned.
    usual = frame["distractors"].mode().iloc[0]
    inside = [name for name, row in conditions.items() if not row.get("past")] or list(conditions)
    default = [name for name in inside if conditions[name]["distractors"] == usual] or inside
    names = list(conditions)
    chosen = conditions[
        st.selectbox("Records of", names, index=names.index(default[-1]), key=key,
                     bind="query-params", width=360)
    ]  # fmt: skip
    return results.where(frame, length=chosen["length"], distractors=chosen["distractors"])


def depth(run: dict[str, Any], report: dict[str, Any]) -> None:
    """Accuracy by depth of the needle."""
    every = results.frame_of(report, "depth")
    rows = _pick_condition(every, "records")
    _curves(report, rows.assign(place=100 * rows["depth"]), "place", "needle depth, % of the "
            "record", "accuracy by depth", "depth", middle=True)  # fmt: skip
    st.caption(
        f"{plain(counts_text(rows))}. {BANDS} Grey: the middle. Same needle and same record "
        f"at every depth."
    )
    _table(run, "depth", rows, every, "Accuracy by depth")


def length(run: dict[str, Any], report: dict[str, Any]) -> None:
    """Accuracy by length of the record, within and beyond the trained lengths."""
    rows = results.frame_of(report, "length")
    past = rows["past"].astype(bool) if len(rows) else pd.Series(dtype=bool)
    longest = float(rows.loc[~past, "length"].max()) if past.any() and not past.all() else None
    _curves(report, rows, "length", "lines of the record", "accuracy by length", "length",
            trained=longest, ticks=sorted(set(rows["length"].astype(float))))  # fmt: skip
    st.caption(
        f"{plain(counts_text(rows))}, each asked at every depth. {BANDS} Dotted: longest "
        f"records in training."
    )
    _table(run, "length", rows, rows, "Accuracy by length of the record")


def distractors(run: dict[str, Any], report: dict[str, Any]) -> None:
    """Accuracy by number of lines on the needle's entity at another date."""
    rows = results.frame_of(report, "distractors")
    what = "accuracy by number of distractors"
    _curves(report, rows, "distractors", "distractors in the record", what, "distractors",
            ticks=sorted(set(rows["distractors"].astype(float))))  # fmt: skip
    lines = int(rows["length"].max()) if len(rows) else 0
    st.caption(
        f"{plain(counts_text(rows))}, each asked at every depth; records of {lines} lines. "
        f"{BANDS} A distractor is the same drug or test at another date, with another value."
    )
    _table(run, "distractors", rows, rows, "Accuracy by number of distractors")


def attention(run: dict[str, Any], report: dict[str, Any]) -> None:
    """Attention of the answering token by part of the record."""
    every = results.frame_of(report, "attention")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        rows = _pick_condition(every, "attended")
        layers = sorted(int(layer) for layer in set(rows["layer"]))
        layer = st.selectbox("Layer", layers, index=len(layers) - 1, key="layer",
                             bind="query-params", width=110)  # fmt: skip
    rows = rows[rows["layer"] == layer]
    looks = looks_of(report)
    _by_placement(
        rows,
        lambda part: (
            attention_figure(part, PARTS, looks),
            attention_alt(part, f"layer {layer}"),
        ),
        "attention",
    )
    n = int(rows["n"].max()) if len(rows) else 0
    st.caption(
        f"n = {n:,} records × seeds a marker, mean over heads and depths. Bars: 95 % over seeds "
        "and records. Attention that subtracts can be negative; a share is of all attention, "
        "whatever its sign (the table has the sums as they are: mass)."
    )
    _table(run, "attention", rows, every, "Attention by layer and part")
    strength = results.frame_of(report, "strength")
    if len(strength):
        with st.expander("Learned λ of each layer"):
            alt = "λ by variant, placement, seed and layer"
            tables.table(results.shown(strength), f"{run['run']}-strength", alt)


def comparison(run: dict[str, Any], report: dict[str, Any]) -> None:
    """Each variant against softmax, and a gated one against its controls."""
    frame = results.frame_of(report, "contrasts")
    rows = frame[frame["difference"].notna()]
    if rows.empty:
        st.info("No variant can be compared with softmax yet.")
    else:

        def draw(part: pd.DataFrame) -> tuple[go.Figure, str]:
            forest = difference_rows(part)
            return (
                variants.difference_forest(forest),
                chart.forest_alt(forest, "differences from softmax"),
            )

        _by_placement(rows, draw, "contrasts")
        st.caption(
            f"n = {int(rows['n'].max()):,} pairs of answers a row (same seed, same record), over "
            f"depths. Bars: 95 %; the table has the simultaneous interval for all "
            f"{int(rows['comparisons'].max())}. “Middle − edges” above 0: flatter than softmax, "
            f"where softmax has a dip. The gated variant is trained on the evidence line, so it "
            f"is also compared with its controls: gated softmax has the same supervision and no "
            f"subtraction; shuffled labels give its gate no information."
        )
    shown = frame.drop(columns=["quantity", "comparisons"])
    _table(run, "contrasts", shown, frame, "Every comparison with softmax")
    with st.expander("As text"):
        verdicts = results.frame_of(report, "verdict")
        names = results.choices(frame, "variant")
        texts = list(verdicts.get("text", ()))[1:]
        lines = (results.with_titles("variant", names, one) for one in texts)
        st.markdown("\n".join(f"- {plain(line)}" for line in lines) or "–")
        tables.downloads(verdicts, f"{run['run']}-verdict")


def training(run: dict[str, Any], report: dict[str, Any]) -> None:
    """Accuracy by training step."""
    frame = results.frame_of(report, "training")
    rows = (
        frame.groupby(["placement", "variant", "title", "step"], sort=False)["accuracy"]
        .agg(accuracy="mean", ci_low="min", ci_high="max", n="count")
        .reset_index()
    )
    _curves(report, rows, "step", "training steps", "accuracy in training", "training")
    st.caption(
        f"n = {int(rows['n'].max()):,} seeds. Line: mean over seeds; band: lowest to highest "
        f"seed, no interval. Record length increases during the first half of training, so a "
        f"curve may fall."
    )
    _table(run, "inhibition", results.frame_of(report, "inhibition"), frame, "Every decoder")
    gate = results.frame_of(report, "gate")
    if len(gate):
        st.header("The gate", anchor=False)
        st.caption("Gate AUROC for the evidence line on held-out records.")
        tables.table(results.shown(gate), f"{run['run']}-gate", "AUROC, mean and SD of each gate")


def _table(
    run: dict[str, Any], name: str, shown: pd.DataFrame, download: pd.DataFrame, alt: str
) -> None:
    number = st.column_config.NumberColumn
    columns: dict[str, Any] = {}
    if "variant" in shown:
        shown = shown.assign(variant=shown["title"]).drop(columns="title")
    if "reference" in shown:
        shown = shown.assign(reference=[api.title("variant", one) for one in shown["reference"]])
    for column in shown.columns:
        title = TITLES.get(column, column.replace("_", " "))
        if column == "past":
            columns[column] = st.column_config.CheckboxColumn("longer than trained")
        elif column in SHARES:
            shown = shown.assign(**{column: 100 * shown[column]})
            columns[column] = number(f"{title} (%)", format="%.1f")
        elif column.startswith(("value", "difference", "all_")) or column == "loss":
            columns[column] = number(title, format="%.3f")
        else:
            columns[column] = title
    tables.table(shown, f"{run['run']}-{name}", alt, columns=columns, download=download)
    st.caption("An inhibition run stores counts and no single answers: these numbers open none.")


def curves_figure(
    rows: pd.DataFrame,
    x: str,
    axis: str,
    looks: Mapping[str, Look],
    trained: float | None = None,
    ticks: Sequence[float] = (),
    middle: bool = False,
) -> go.Figure:
    """Accuracy in per cent over ``x``, a line with a band for each variant.

    ``rows`` has ``variant``, ``accuracy``, ``ci_low``, ``ci_high``, ``n`` and ``x``. ``trained``:
    a dotted line at the longest record in training; ``middle`` shades the middle of the record.
    """
    figure = go.Figure()
    if middle:
        chart.shade_middle(figure)
    if trained is not None:
        chart.dotted(figure, x=trained)
        figure.add_annotation(x=trained, y=1, yref="paper", yanchor="bottom", showarrow=False,
                              text="longest in training", xanchor="center",
                              font={"size": 11, "color": chart.ink().faint})  # fmt: skip
    for variant, look in looks.items():
        points = rows[rows["variant"] == variant].sort_values(x)
        if points.empty:
            continue
        title = api.title("variant", variant)
        known = points.dropna(subset=["ci_low", "ci_high"])
        low, high = 100 * known["ci_low"], 100 * known["ci_high"]
        figure.add_trace(chart.band(known[x], low, high, look.colour))
        figure.add_trace(
            chart.line(
                points[x],
                points["accuracy"],
                look,
                scale=100,
                showlegend=True,
                cliponaxis=False,
                customdata=list(
                    zip(intervals(points, "ci_low", "ci_high"), points["n"], strict=True)
                ),
                hovertemplate=f"{safe(title)}: %{{y:.1f}} % %{{customdata[0]}} at %{{x:.0f}}"
                "<br>n = %{customdata[1]:,}<extra></extra>",
            ).update(name=variants.legend_name(title))
        )
    variants.legend_below(figure, 340, len(looks))
    figure.update_xaxes(title=axis, zeroline=False)
    if ticks:
        figure.update_xaxes(tickvals=list(ticks))
    figure.update_yaxes(title="% correct", range=[-4, 104], zeroline=False)
    return figure


def attention_figure(
    rows: pd.DataFrame, parts: Mapping[str, str], looks: Mapping[str, Look]
) -> go.Figure:
    """Share of attention by part (name → title), a marker with its interval for each variant."""
    figure = go.Figure()
    heights = {part: len(parts) - i for i, part in enumerate(parts)}
    shifts = chart.shifts(len(looks), -0.62 / max(len(looks), 1))
    for shift, (variant, look) in zip(shifts, looks.items(), strict=True):
        of_variant = rows[(rows["variant"] == variant) & rows["part"].isin(parts)]
        columns = of_variant[["share", "ci_low", "ci_high"]].astype(float)
        share, low, high = (100 * columns[name] for name in columns)
        title = api.title("variant", variant)
        titles = [parts[part] for part in of_variant["part"]]
        figure.add_trace(
            chart.estimates(
                share,
                [heights[part] + shift for part in of_variant["part"]],
                low,
                high,
                look,
                showlegend=True,
                customdata=list(zip(titles, intervals(columns, "ci_low", "ci_high"), strict=True)),
                hovertemplate=f"{safe(title)}, %{{customdata[0]}}: %{{x:.1f}} % "
                "%{customdata[1]}<extra></extra>",
            ).update(name=variants.legend_name(title))
        )
    chart.dotted(figure, x=0)
    chart.row_axis(figure, list(parts.values()))
    variants.legend_below(figure, 150 + 56 * len(parts), len(looks))
    figure.update_xaxes(title="share of all attention, %", zeroline=False)
    return figure
