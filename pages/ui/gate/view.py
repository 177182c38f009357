"""The Gate page: views of a gate run, each with chart, text and table; the checkpoints in use."""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from midchart.core import api
from midchart.pages.ui import state
from midchart.pages.ui.gate import text
from midchart.pages.ui.gate.text import MEASURES, part_text
from midchart.pages.ui.runs import panel, presets
from midchart.pages.ui.shared import chart, empty, formats, results, tables, variants
from midchart.pages.ui.shared.chart import ForestRow, Look
from midchart.pages.ui.shared.marks import plain
from midchart.pages.ui.shared.pickers import pick, pick_linked

KIND = "gate"
SPEC = "gate.toml"
APART = 0.14
"""Distance of the lines of neighbouring n-gram lengths, in dimensions."""
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
    ablation = results.frame_of(report, "ablation").to_dict("records")
    names = {row["variant"]: text.variant_name(row) for row in ablation}
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
    measures = text.known_measures(frame)
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
        second = text.evidence_measure(frame)
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
            figure = head_panel(of_head, value, low, high, scale, span, name)
            chart.show(figure, alt, f"ablation_{head}", opens=_scores_of)
    counts = [measure.questions(row) for row in rows.to_dict("records")]
    n = f"n = {min(counts):,} questions of test patients"
    interval = "bars: 95 % interval by patient" if low else "no interval is given for it"
    st.caption(
        f"{formats.sentence(measure.title)[:-1]}; "
        f"{n if measure.share else part_text(report, 'test')}; {interval}."
    )


def _measure_table(frame: pd.DataFrame, first: str) -> pd.DataFrame:
    """The rows in words: name (column ``first``), every measure with its interval, and n."""
    columns: dict[str, Any] = {first: frame[first]}
    for name in text.known_measures(frame):
        measure = MEASURES[name]
        columns[name] = [measure.text(row) for row in frame.to_dict("records")]
        if measure.share and measure.chance in frame and frame[measure.chance].notna().any():
            columns[f"{name} by chance"] = frame[measure.chance].map(formats.percent)
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
        label = f"{measure.text(row)} n {measure.questions(row):,}"
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
            losses(rows),
            f"Loss by epoch; at the end training {last['loss']:.3f}, validation "
            f"{last['validation_loss']:.3f}",
            "gate_losses",
        )
    with right:
        chart.show(
            aurocs(frame, variant),
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
        distributions(rows),
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
    shown = frame.rename(
        columns={"low": "recall_low", "high": "recall_high", "chance": "recall_chance"}
    )
    second = text.evidence_measure(shown)
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


def head_panel(
    rows: pd.DataFrame,
    value: str,
    low: str,
    high: str,
    scale: float,
    span: tuple[float, float],
    title: str = "",
) -> go.Figure:
    """One head: the measure by dimension, a line for each n-gram length, with intervals.

    ``span``: the y axis, the same for every head, with its ``title``; ``scale``: 100 for per cent.
    """
    figure = go.Figure()
    dims, lengths = sorted(set(rows["dim"])), sorted(set(rows["ngram"]))
    looks = {f"{n}-grams": chart.series_look(i) for i, n in enumerate(lengths)}
    shifts = chart.shifts(len(lengths), APART)
    for n, (name, look), shift in zip(lengths, looks.items(), shifts, strict=True):
        points = rows[rows["ngram"] == n].set_index("dim").reindex(dims)
        figure.add_trace(
            chart.line(
                [i + shift for i in range(len(dims))],
                points[value],
                look,
                name,
                bars=(points[low], points[high]) if low in points else None,
                scale=scale,
                customdata=list(zip(points["variant"], dims, points["n"], strict=True)),
                hovertemplate=f"{name}, %{{customdata[1]}} dimensions: %{{y:.3g}}"
                "<br>%{customdata[2]} questions<extra></extra>",
            )
        )
    chart.key(figure, looks)
    figure.update_layout(height=320)
    figure.update_xaxes(
        title="dimensions of the embedding", **chart.category_axis([str(dim) for dim in dims])
    )
    figure.update_yaxes(title=title, range=list(span), ticksuffix=" %" if scale == 100 else "")
    return figure


def losses(rows: pd.DataFrame) -> go.Figure:
    """Training and validation loss of one variant by epoch."""
    series = {
        "training": (rows["loss"], chart.series_look(0)),
        "validation": (rows["validation_loss"], chart.series_look(3)),
    }
    figure = go.Figure([_by_epoch(rows, y, look, name) for name, (y, look) in series.items()])
    chart.key(figure, {name: look for name, (_, look) in series.items()})
    figure.update_yaxes(title="loss", rangemode="tozero")
    return _epochs(figure)


def aurocs(training: pd.DataFrame, variant: str) -> go.Figure:
    """Validation AUROC of one variant by epoch, all others faint behind it."""
    figure = go.Figure()
    for name, rows in training.groupby("variant", sort=False):
        if name != variant:
            figure.add_scatter(
                x=rows["epoch"], y=rows["validation_auroc"], mode="lines", hoverinfo="skip",
                line={"color": chart.ink().faint, "width": 1}, opacity=0.45, showlegend=False,
            )  # fmt: skip
    rows = training[training["variant"] == variant]
    figure.add_trace(_by_epoch(rows, rows["validation_auroc"], chart.series_look(0), variant))
    chart.dotted(figure, y=0.5)
    figure.update_yaxes(title="AUROC on validation patients")
    return _epochs(figure)


def _by_epoch(rows: pd.DataFrame, y: pd.Series, look: Look, name: str) -> go.Scatter:
    hover = f"{name}, epoch %{{x}}: %{{y:.4g}}<extra></extra>"
    return chart.line(rows["epoch"], y, look, name, hovertemplate=hover)


def _epochs(figure: go.Figure) -> go.Figure:
    figure.update_layout(height=320)
    figure.update_xaxes(title="epoch", zeroline=False)
    return figure


def distributions(rows: pd.DataFrame) -> go.Figure:
    """Probabilities of positives (up) and negatives (down), each as shares of its n."""
    figure = go.Figure()
    ink = chart.ink()
    for label, sign, colour, pattern in (
        ("positive", 1, chart.series()[0], ""),
        ("negative", -1, chart.series()[3], "/"),
    ):
        bins = rows[rows["label"] == label]
        total = int(bins["count"].sum())
        if not total:
            continue
        centre = (bins["bin_low"] + bins["bin_high"]) / 2
        share = 100 * bins["count"] / total
        figure.add_bar(
            x=centre,
            y=sign * share,
            width=(bins["bin_high"] - bins["bin_low"]) * 0.92,
            name=f"{label}s",
            customdata=list(zip(bins["count"], share, strict=True)),
            marker={
                "color": colour, "line": {"width": 0},
                "pattern": {"shape": pattern, "size": 6, "solidity": 0.4},
            },
            hovertemplate=f"%{{customdata[0]:,}} {label}s (%{{customdata[1]:.1f}} %), "
            "probability %{x:.3f}<extra></extra>",
            showlegend=False,
        )  # fmt: skip
        figure.add_annotation(
            x=0.5, y=1 if sign > 0 else 0, yref="paper", yanchor="top" if sign > 0 else "bottom",
            text=f"{label}s, n = {total:,}", showarrow=False, font={"color": colour, "size": 12},
        )  # fmt: skip
        mean = float((bins["count"] * centre).sum() / total)
        figure.add_shape(
            type="line", x0=mean, x1=mean, y0=0, y1=sign * float(share.max()),
            line={"color": ink.text, "width": 1.4, "dash": "dash"},
        )  # fmt: skip
    figure.add_hline(y=0, line={"color": ink.faint, "width": 1})
    figure.update_layout(height=380, barmode="overlay", bargap=0)
    figure.update_xaxes(title="probability given by the gate", range=[-0.02, 1.02], zeroline=False)
    ticks = [-100, -75, -50, -25, 0, 25, 50, 75, 100]
    figure.update_yaxes(
        title="share of class", tickvals=ticks, ticktext=[f"{abs(t)} %" for t in ticks],
        zeroline=False,
    )  # fmt: skip
    return figure


CROSS_FITTED = "cross_fitted"
"""Folder of the included runs of gates that were trained on real questions."""
REFERENCES = ("random", "bm25", "hybrid")
"""Arms that a trained gate is compared with."""


def real_text() -> None:
    """Gates that runs name, such as those trained on real questions, next to arms that were not
    trained, at equal tokens."""
    st.write(
        "The gate trained on real questions, each patient or article scored by a gate that was not "
        "trained on it, and arms without training at the same number of tokens."
    )
    presets.included(folder=CROSS_FITTED)
    for run in state.runs(("selection",)):
        report = state.report(run) if run["status"] == "done" else {}
        frame = results.frame_of(report, "recall")
        if frame.empty or not frame["label"].map(_is_trained).any():
            continue
        st.header(plain(run["name"]), anchor=False)
        rows = results.where(frame, criterion="all pieces", band="overall")
        rows = rows[rows["budget"].str.contains("tokens") & ~rows["budget"].str.contains("k=")]
        shown = pd.DataFrame(
            {
                "budget": rows["budget"],
                "arm": rows["title"],
                "all pieces kept": formats.shares(rows, "recall", "patient_low", "patient_high"),
                "by chance": rows["chance"].map(formats.percent),
                "any piece": rows["any_piece"].map(formats.percent),
                "n": rows["n"],
            }
        )
        alt = "Evidence kept by budget and arm, by trained gates and by arms without training"
        tables.table(shown, f"{run['run']}-trained", alt, download=rows)
        pairs = results.where(results.frame_of(report, "differences"), criterion="all pieces")
        pairs = pairs[pairs["second"].map(_is_trained) & pairs["first"].map(_is_reference)]
        if len(pairs):
            _trained_differences(run["run"], pairs)


def _is_trained(label: str) -> bool:
    return "gate=" in label


def _is_reference(label: str) -> bool:
    return label.partition(" ")[0] in REFERENCES and not _is_trained(label)


def _trained_differences(run: str, pairs: pd.DataFrame) -> None:
    ends = pairs.assign(
        difference=-pairs["difference"], low=-pairs["high"], high=-pairs["low"]
    )  # the trained gate minus the reference
    shown = pd.DataFrame(
        {
            "budget": ends["budget"],
            "trained gate": [api.title("arm", label) for label in ends["second"]],
            "minus": [api.title("arm", label) for label in ends["first"]],
            "all pieces": formats.differences(ends, "difference", "low", "high"),
            "n": ends["n"],
        }
    )
    alt = "Differences of trained gates from arms without training, by budget"
    tables.table(shown, f"{run}-trained-differences", alt, download=pairs)


def checkpoints() -> None:
    """A gate checkpoint, chosen among those in the cache, with its provenance."""
    cards = state.gate_cards()
    if not cards:
        st.info(
            "No gate has been trained yet. The arm trains one on the demo cohort at first use, "
            "in under a minute. To train one on another cohort:"
        )
        st.code("midchart train-gate DATA", language=None, wrap_lines=True)
        return
    by_name = {_name(card): card for card in cards}
    name = st.selectbox(
        "Checkpoint", list(by_name), key="checkpoint", persist_state="page", width=420
    )
    card = by_name[name]
    if card["problem"]:
        st.error(plain(card["problem"]), title="This gate cannot be used")
    else:
        _show(card)


def _name(card: dict[str, Any]) -> str:
    folder = card["folder"].replace("\\", "/").rsplit("/", 1)[-1]
    return f"{card['made']} · {card.get('digest', folder)[:12]}"


def _show(card: dict[str, Any]) -> None:
    facts, patients = card["facts"], card["patients"]
    recipe, cohort = facts.get("recipe", {}), facts.get("cohort", {})
    pairs = facts.get("pairs", {})
    auroc = facts.get("test_auroc")
    metrics = {
        "AUROC on test patients": "–" if auroc is None else f"{auroc:.3f}",
        "Parameters": f"{card['parameters']:,}",
        "Temperature": f"{card['temperature']:.2f}",
        "Trained on": f"{patients['train']:,} patients",
    }
    for place, (title, value) in zip(st.columns(4), metrics.items(), strict=True):
        place.metric(title, value)
    st.caption(
        f"AUROC on n = {pairs.get('test', {}).get('n', 0):,} pairs of {patients['test']:,} test "
        f"patients, without an interval; a gate run gives one."
    )
    provenance = {
        "SHA of the weights": card["digest"][:16],
        "Hash of n-grams": card["hash"],
        "n-gram length": card["n"],
        "Rows of the table": f"{card['buckets']:,}",
        "Dimensions": card["dim"],
        "Head": card["head"],
        "Uses the question": "yes" if card["query"] else "no",
        "Loss": recipe.get("loss", "–"),
        "Epochs": recipe.get("epochs", "–"),
        "Seed": recipe.get("seed", "–"),
        "Cohort": cohort.get("name", "–"),
        "Records excluded, unreadable": facts.get("unread_records", "–"),
        "Digest of the cohort": str(cohort.get("digest", "–"))[:16],
        "Made": card["made"],
        "Folder": card["folder"],
    }
    left, right = st.columns([3, 2], gap="medium")
    with left:
        values = [str(value) for value in provenance.values()]
        frame = pd.DataFrame({"fact": list(provenance), "value": values})
        tables.table(frame, "gate-provenance", "Provenance of this checkpoint")
    with right:
        parts = [
            {
                "part": part,
                "patients": count,
                "pairs": pairs.get(part, {}).get("n"),
                "positives": pairs.get(part, {}).get("positives"),
            }
            for part, count in patients.items()
        ]
        tables.table(pd.DataFrame(parts), "gate-split", "Patients, pairs and positives by split")
        st.caption(
            "One split of patients, saved with the weights and used for training, temperature "
            "and all figures on this page. No patient is in two parts."
        )
        settings = {
            name.replace("_", " "): value
            for name, value in facts.get("protocol", {}).items()
            if name.startswith(("hash", "gate_"))
        }
        st.caption(" · ".join(plain(f"{name}: {value}") for name, value in settings.items()))
