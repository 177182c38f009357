"""The Gate page's views of a gate run, each with chart, text and table."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from pages.ui import state
from pages.ui.gate import charts, text
from pages.ui.gate.text import MEASURES, part_text
from pages.ui.runs import panel, presets
from pages.ui.shared import chart, empty, formats, results, tables, variants
from pages.ui.shared.chart import ForestRow
from pages.ui.shared.marks import plain
from pages.ui.shared.pickers import pick, pick_linked

KIND = "gate"
SPEC = "gate.toml"
NO_PAIRS = "A gate run stores counts and no single pairs, so these numbers open none."


def spec(cohort: str) -> dict[str, Any]:
    """The preset gate run on a cohort."""
    return presets.spec(SPEC, cohort, f"gate on {cohort}")


def no_run() -> None:
    """The empty state with the button that starts a run."""
    with empty.state(
        "No gate run yet",
        "A gate run trains the QCCS gate in 27 configurations, with and without the question, "
        "with two losses, and with each fault of the published run, all on one split of "
        "patients. Every gate is evaluated on held-out patients.",
    ):
        presets.included(KIND)
        start()


def start() -> None:
    """The cohort and the button that starts the preset gate run."""
    if cohort := state.pick_cohort("Cohort"):
        presets.button(spec(cohort), "Train and evaluate the gates", KIND, file=SPEC)


def _pick_variant(report: dict[str, Any], frame: pd.DataFrame) -> tuple[str, str]:
    """A variant's label and its name."""
    names = text.variant_names(results.frame_of(report, "ablation"))
    labels = results.choices(frame, "variant")
    variant = pick_linked(
        "variant", "Variant", labels, lambda label: names.get(label, label), key="variant",
        unlinked=labels[0], width=420,
    )  # fmt: skip
    return variant, names.get(variant, variant)


def _scores_of(variant: str, *_: Any) -> None:
    """Show the scores of a variant's pairs, which its numbers summarise."""
    st.session_state["variant"], st.session_state["view"] = variant, "Scores"


def ablation(run: dict[str, Any], report: dict[str, Any], frame: pd.DataFrame) -> None:
    """The n × dim × head variants in a panel a head, then the question and the loss."""
    measures = [name for name, measure in MEASURES.items() if measure.column in frame]
    name = pick("Measure", measures, "measure", abreast=True)
    rows = text.standard_grid(frame)
    if len(rows):
        _head_panels(report, rows, name)
    else:
        st.info("This run trained no gate that sees the question with the standard loss.")
    st.header("With and without the question, and the loss", anchor=False)
    others = text.question_and_loss(frame)
    if others.empty:
        st.info("This run trained no variant without the question and none with another loss.")
    else:
        names = [text.difference_name(row) for row in others.to_dict("records")]
        second = "Evidence" if "Evidence" in measures else "Recall"
        _forests(others.assign(name=names), "name", ("AUROC", second), "variants")
        st.write(plain(text.question_text(others)))
    st.header("Every variant", anchor=False)
    shown = frame.assign(variant=[text.variant_name(row) for row in frame.to_dict("records")])
    ids = list(frame["variant"])
    tables.table(
        _measure_table(shown, "variant"),
        f"{run['run']}-ablation",
        "Every variant: AUROC, recall, score gap, n and seconds of training",
        download=frame,
        opens=lambda row, _: _scores_of(ids[row]),
    )
    st.caption(
        "Click a number or a marker to see how its pairs' scores are distributed; a gate run "
        "stores counts and no single pairs."
    )
    published = results.frame_of(report, "published")
    if len(published):
        with st.expander("Paper's ablations and this run's"):
            tables.table(
                text.published_table(published),
                f"{run['run']}-published",
                "Recall in the paper and in this run, by factor and value",
                download=published,
            )
            st.caption(
                "Mean recall of all variants with a factor's value, range in brackets. The "
                "paper's figures use its own records and split."
            )
    panel.notes(report.get("warnings") or [])


def _head_panels(report: dict[str, Any], rows: pd.DataFrame, name: str) -> None:
    measure = MEASURES[name]
    value, low, high, scale = measure.column, measure.low, measure.high, measure.scale
    columns = [column for column in (value, low, high) if column in rows]
    ends = (scale * rows[columns].astype(float)).to_numpy().ravel()
    span = variants.padded(ends, 0.02 * scale)
    heads = [head for head in text.HEADS if head in set(rows["head"])]
    for place, head in zip(st.columns(len(heads), gap="small"), heads, strict=True):
        with place:
            of_head = rows[rows["head"] == head]
            title = text.HEADS[head]
            st.markdown(f"**{title}**")
            alt = f"{title}: {measure.title} of {len(of_head)} variants"
            if of_head[value].notna().any():
                best = of_head.loc[of_head[value].astype(float).idxmax()]
                alt += (
                    f"; highest {scale * best[value]:.3g} with {best['ngram']}-grams, "
                    f"{best['dim']} dimensions"
                )
            figure = charts.head_panel(of_head, value, low, high, scale, span, name)
            chart.show(figure, alt, f"ablation_{head}", opens=_scores_of)
    column = "evidence_n" if name == "Evidence" and "evidence_n" in rows else "n"
    n = f"n = {int(rows[column].min()):,} questions of test patients"
    interval = "bars: 95 % interval by patient" if low else "no interval is given for it"
    st.caption(
        f"{formats.sentence(measure.title)[:-1]}; "
        f"{n if measure.share else part_text(report, 'test')}; {interval}."
    )


def _measure_table(frame: pd.DataFrame, first: str) -> pd.DataFrame:
    """The rows in words: name (column ``first``), every measure with its interval, and n."""
    columns: dict[str, Any] = {first: frame[first]}
    for name, measure in MEASURES.items():
        if measure.column in frame:
            columns[name] = [measure.text(row) for row in frame.to_dict("records")]
    more = {"n": "n", "evidence_n": "n (evidence)", "seconds": "seconds"}
    columns |= {title: frame[name] for name, title in more.items() if name in frame}
    return pd.DataFrame(columns).round({"seconds": 1})


def forest_rows(frame: pd.DataFrame, name: str, measure: text.Measure) -> list[ForestRow]:
    """Rows of a forest plot, the first (the reference) as a square."""
    rows: list[ForestRow] = []
    for row in frame.to_dict("records"):
        ends = (
            measure.scale * formats.number(row.get(column))
            for column in (measure.column, measure.low, measure.high)
        )
        n = row["evidence_n" if measure is MEASURES["Evidence"] else "n"]
        label = f"{measure.text(row)} n {int(n):,}"
        rows.append(
            ForestRow(
                row[name], *ends, label, symbol="diamond" if rows else "square",
                label=row.get("variant", ""),
            )
        )  # fmt: skip
    return rows


def _forests(frame: pd.DataFrame, name: str, shown: tuple[str, ...], key: str) -> None:
    """One forest plot a measure, side by side; a dotted line at the reference."""
    for place, title in zip(st.columns(len(shown), gap="medium"), shown, strict=True):
        measure = MEASURES[title]
        with place:
            known = frame[frame[measure.column].notna()] if measure.column in frame else frame[:0]
            if known.empty:
                st.info(f"No {measure.title} in this run.")
                continue
            rows = forest_rows(known, name, measure)
            ends = [end for row in rows for end in (row.value, row.low, row.high)]
            axis = measure.title if measure.share else title
            span = variants.padded(ends, 0.02 * measure.scale)
            figure = chart.forest(rows, axis, span, " %" if measure.share else "")
            chart.dotted(figure, x=rows[0].value)
            opens = _scores_of if "variant" in frame else None
            chart.show(figure, chart.forest_alt(rows, axis), f"{key}_{title}", opens=opens)


def training(run: dict[str, Any], report: dict[str, Any], frame: pd.DataFrame) -> None:
    """Loss and validation AUROC by epoch."""
    variant, name = _pick_variant(report, frame)
    rows = frame[frame["variant"] == variant]
    last = rows.iloc[-1]
    left, right = st.columns(2, gap="medium")
    with left:
        chart.show(
            charts.losses(rows),
            f"Loss by epoch; at the end training {last['loss']:.3f}, validation "
            f"{last['validation_loss']:.3f}",
            "gate_losses",
        )
    with right:
        chart.show(
            charts.aurocs(frame, variant),
            f"Validation AUROC by epoch; at the end {last['validation_auroc']:.3f}",
            "gate_aurocs",
        )
    st.caption(
        f"{part_text(report, 'validation')}. Grey: the other {frame['variant'].nunique() - 1} "
        f"variants of this run; dotted: chance. Each curve is one training with one seed and has "
        f"no interval. {NO_PAIRS}"
    )
    names = {"loss": "training loss", "validation_loss": "validation loss",
             "validation_auroc": "validation AUROC"}  # fmt: skip
    tables.table(
        rows.drop(columns=["variant", "title"]).rename(columns=names),
        f"{run['run']}-training",
        f"Losses by epoch of {name}",
        download=frame,
        columns={n: st.column_config.NumberColumn(format="%.4f") for n in names.values()},
    )


def calibration(run: dict[str, Any], report: dict[str, Any], frame: pd.DataFrame) -> None:
    """The reliability curve before and after the temperature."""
    rows = frame[frame["variant"] == _pick_variant(report, frame)[0]]
    words = text.calibration_text(rows)
    looks = {"raw": chart.series_look(0), "scaled": chart.series_look(3)}
    titles = {"raw": "as trained", "scaled": "with temperature"}
    alt = f"Reliability curve. {words}"
    variants.calibration(rows, "stage", looks, titles, alt, f"{run['run']}-calibration", frame)
    st.write(words)
    st.caption(
        "Each marker is a bin of predicted probability; bars: 95 % interval of the share of "
        "positives, by patient (none for fewer than 5). Dotted line: perfect calibration. "
        + NO_PAIRS
    )


def scores(run: dict[str, Any], report: dict[str, Any], frame: pd.DataFrame) -> None:
    """Score distributions of positives and negatives, and the gap between their means."""
    variant, name = _pick_variant(report, frame)
    rows = frame[frame["variant"] == variant]
    gaps = results.where(results.frame_of(report, "ablation"), variant=variant)
    known = gaps["gap"].dropna() if len(gaps) else gaps
    gap = f"Score gap {known.iloc[0]:.3f}: " if len(known) else ""
    chart.show(
        charts.distributions(rows),
        f"Histogram of scores of positives and negatives of {name}. {gap}",
        "gate_scores",
    )
    st.caption(
        f"{gap}mean probability of the positives minus that of the negatives (dashed lines), on "
        f"{part_text(report, 'test')}. Positives point up, negatives down, in shares of their "
        f"own n. {NO_PAIRS}"
    )
    counts = rows.pivot(index=["bin_low", "bin_high"], columns="label", values="count")
    titles = {"bin_low": "probability from", "bin_high": "to"}
    titles |= {"positive": "positives", "negative": "negatives"}
    tables.table(
        counts.reset_index().rename(columns=titles),
        f"{run['run']}-scores",
        f"Counts by bin of {name}",
        download=frame,
    )


def faults(run: dict[str, Any], report: dict[str, Any], frame: pd.DataFrame) -> None:
    """Each fault of the published run by itself, with the corrected gate as reference."""
    shown = frame.rename(columns={"low": "recall_low", "high": "recall_high"})
    second = "Evidence" if "evidence_recall" in shown else "Recall"
    _forests(shown, "fault", ("AUROC", second), "faults")
    st.caption(
        f"All are evaluated on {part_text(report, 'test')}, by the corrected rules; only the "
        f"training (for the salted hash, the process) differs. Bars: 95 % interval; dotted and "
        f"square: the corrected gate. {NO_PAIRS}"
    )
    tables.table(
        _measure_table(shown, "fault"),
        f"{run['run']}-faults",
        "Each fault: AUROC and recall with intervals, and n",
        download=frame,
    )
    st.markdown("\n".join(text.fault_texts(list(frame["fault"]))))
