"""Needle runs: a synthetic fact, or the note with the evidence, at every depth of the same record,
so only its position changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from midchart.core import api
from midchart.core.errors import MidchartError
from midchart.pages.ui import state
from midchart.pages.ui.arms import questions
from midchart.pages.ui.curve import charts, text
from midchart.pages.ui.curve.observed import no_questions
from midchart.pages.ui.runs import panel, picker, presets
from midchart.pages.ui.shared import chart, conclusion, empty, formats, results, tables
from midchart.pages.ui.shared.formats import (
    intervals,
    missing,
    p_value,
    percent,
    shares,
    signed_intervals,
)
from midchart.pages.ui.shared.marks import plain
from midchart.pages.ui.shared.pickers import new_in_url, pick, segments, token, write_url

KIND = "needles"
SPECS = {"fact": "needles.toml", "note": "real_position.toml"}
MOVED = {"fact": "A synthetic fact", "note": "The note with the evidence"}
PLANNED = "depth"
DEPTHS = {PLANNED: "Depth as planned", **text.POSITIONS}
DEPTH_HELP = {
    PLANNED: "Depth: planned share of the cut record's tokens before the fact; 0 % is the start "
    "of the record.",
    "token": "Depth: share of the tokens of the record before the fact, distractors included, in "
    "tenths; 0 % stands for 0–10.",
    "order": "Depth: position of the fact's note among the events of the record, in tenths; 0 % "
    "stands for 0–10. Not informative in records of few long notes.",
    "time": "Depth: share of the record's time span before the fact's note, in tenths; 0 % "
    "stands for 0–10. Facts in records without dates are excluded.",
}
AXES = (
    ("depths", "depth", "depth of the fact in the record, %"),
    ("lengths", "length", "length of the record, tokens"),
)
Report = dict[str, Any]


def needles() -> None:
    """The needle runs of this installation: pick one, see the effect of depth."""
    if not state.runs((KIND,)):
        with empty.state(
            "No needle run yet",
            "In an observed curve, questions about one part of a record may be harder for other "
            "reasons. A needle run places the same synthetic fact (a dose, a laboratory value, a "
            "date, a negation) at every depth of the same record, cut to several lengths, and "
            "asks for it. Only the position changes.",
        ):
            presets.included(KIND)
            _start()
        return
    run, report = picker.opened((KIND,), "curve")
    frame = results.frame_of(report, "heatmap")
    if frame.empty or not frame["n"].sum():
        empty.no_results("needle of this run has been judged")
    else:
        _results(run, report, frame)
    if report["items"]["failed"]:
        panel.failures(report)
    with st.expander("Run needles again"):
        _start()


def spec(cohort: str, moved: str = "fact") -> dict[str, Any]:
    """The preset needle run on a cohort, with the installed arms; ``moved``: a key of MOVED."""
    return presets.spec(SPECS[moved], cohort, f"needles on {cohort}")


def of_notes(report: Report) -> bool:
    """Whether a run moved notes with evidence, not synthetic facts."""
    return "detectable" in report["tables"]


def worded(report: Report, text: str) -> str:
    """A text on a fact, for what the run moved."""
    return text.replace("fact's note", "fact").replace("fact", "note") if of_notes(report) else text


def _start() -> None:
    """The picker of a cohort with questions, and the start button."""
    if not state.question_cohorts():
        no_questions()
        return
    cohort = state.pick_cohort("Cohort")
    moved = st.segmented_control(
        "At every depth", list(MOVED), default="fact", required=True, key="needle_moved",
        format_func=MOVED.__getitem__,
        help="A synthetic fact inserted into a record, or the real note that holds the evidence of "
        "one of its questions, among other notes of the record; the dates of notes stay.",
    )  # fmt: skip
    needle_spec = spec(cohort, moved)
    facts = "facts in" if moved == "fact" else "questions on"
    about = (
        "{needles} {facts} each of {patients} records, {depths} depths, {lengths} lengths, "
        "{arms} arms, read by {readers}, judged by {judges}."
    ).format(
        facts=facts,
        needles=needle_spec["needles"],
        patients=needle_spec["patients"],
        **{name: len(needle_spec[name]) for name in ("depths", "lengths", "arms")},
        **{name: " and ".join(needle_spec[name]) for name in ("readers", "judges")},
    )
    presets.button(needle_spec, "Run needles", "needles", about, file=SPECS[moved])


def _results(run: dict[str, Any], report: Report, frame: pd.DataFrame) -> None:
    """Verdict, heatmaps by distractors, depths and lengths as lines, contrast, fact types."""
    top = st.container()
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        by = {
            column: pick(
                family.capitalize(), names, f"needle_{column}", results.titles(family, names)
            )
            for column, family in (("label", "arm"), ("reader", "reader"), ("judge", "judge"))
            for names in [results.choices(frame, column)]
        }
        depth = segments(
            "Depth by", DEPTHS, "needle_depth",
            help=worded(report, "Depth of the fact: as planned, or as measured in the record by "
                "tokens, events or time."),
        )  # fmt: skip
    if depth != PLANNED:
        frame = results.where(results.frame_of(report, "heatmap_positions"), position=depth)
    arm, reader, judge = map(api.title, ("arm", "reader", "judge"), by.values())
    who = f"{arm}, read by {reader}, judged by {judge}"
    verdicts = results.where(results.frame_of(report, "verdict"), **by)
    # The engine's sentence begins with the labels of arm, reader and judge.
    sentences = " ".join(one.partition(": ")[2] for one in verdicts.get("text", ()))
    claim, _, numbers = sentences.partition(": ")
    if claim:
        claim = f"{arm}: {claim}{'.' if numbers else ''}"
        by_whom = f"Read by {reader}, judged by {judge}."
        conclusion.of_run(report, claim, [numbers[:1].upper() + numbers[1:], by_whom], top)
    _heatmaps(report, frame, results.where(frame, **by), who, depth)
    _items(run, by)
    _margins(report, by, depth)
    _contrast(report, by)
    _fact_types(report, by)


def _heatmaps(
    report: Report, frame: pd.DataFrame, rows: pd.DataFrame, who: str, depth: str
) -> None:
    """A heatmap of ``rows`` for each number of distractors, and their table; ``frame`` has the
    rows of all arms, readers and judges."""
    st.header(worded(report, "The same fact by depth and length"), anchor=False)
    if rows.empty:
        st.info(worded(report, f"No fact of this run has a position by {DEPTHS[depth].lower()}."))
        return
    groups = list(rows.groupby("distractors"))
    abreast = min(len(groups), 3)
    for number, (count, cells) in enumerate(groups):
        if number % abreast == 0:
            columns = st.columns(abreast, gap="medium")
        with columns[number % abreast]:
            title = charts.distractors(count)
            least, most = cells["n"].min(), cells["n"].max()
            each = f"{least}" if least == most else f"{least}–{most}"
            st.markdown(f"**{title}** n = {cells['n'].sum():,}, {each} a cell")
            chart.show(
                charts.heatmap(cells),
                charts.heatmap_alt(cells, f"{who}, {title}"),
                f"needle_heatmap_{count}",
                opens=partial(_open_cell, depth, distractors=count),
            )
    st.caption(
        f"{plain(who)}. Each cell: % correct; its n and 95 % interval "
        "by patient (none for fewer than 5 patients) on hover and in the table. "
        f"{worded(report, DEPTH_HELP[depth])}"
    )
    table = pd.DataFrame(
        {
            "length": rows["length"],
            "depth, %": rows["depth"],
            "distractors": rows["distractors"],
            "n": rows["n"],
            "correct": rows["correct"],
            "% [95 %, by patient]": shares(rows, "accuracy", "patient_low", "patient_high"),
            "unscored as incorrect–correct": intervals(rows, "bound_low", "bound_high"),
            "in prompt": rows["in_prompt"].map(percent),
            "declined": rows["refusals"],
            "unparsed": rows["unparsed"],
            "failed": rows["failed"],
        }
    )
    table = table.sort_values(["distractors", "length", "depth, %"])
    cells = table[["length", "depth, %", "distractors"]].to_numpy().tolist()
    with st.expander("The heatmap as a table"):
        tables.table(
            table,
            f"{report['run']}-heatmap",
            "Each cell: depth, length, distractors, n, correct, share with interval, kept in "
            "prompt",
            download=frame,
            height=460,
            opens=lambda row, _: _open_cell(depth, *cells[row]),
        )


def _open_cell(
    by: str, length: int | None = None, depth: int | None = None, distractors: int | None = None
) -> None:
    """Show the items of a cell; of a measured depth those of its length and distractors, as items
    are known by their planned depth."""
    show_items(length=length, distractors=distractors, depth=depth if by == PLANNED else None)


def _margins(report: Report, by: dict[str, str], depth: str) -> None:
    """Depth alone and length alone, one line per number of distractors."""
    for column, (name, axis, title) in zip(st.columns(2, gap="medium"), AXES, strict=True):
        frame = results.frame_of(report, name)
        if axis == "depth" and depth != PLANNED:
            frame = results.where(results.frame_of(report, "depths_positions"), position=depth)
        rows = results.where(frame, **by)
        if rows.empty:
            continue
        points = "; ".join(
            f"{row['distractors']} at {row[axis]:,}: {percent(row['accuracy'])}, n {row['n']:,}"
            for row in rows.to_dict("records")
        )
        table = pd.DataFrame(
            {
                axis: rows[axis],
                "distractors": rows["distractors"],
                "n": rows["n"],
                "patients": rows["patients"],
                "% [95 %, by patient]": shares(rows, "accuracy", "ci_low", "ci_high"),
                "Wilson, items independent": intervals(rows, "wilson_low", "wilson_high"),
                "in prompt": rows["in_prompt"].map(percent),
            }
        )
        with column:
            st.markdown(f"**By {axis}** n = {rows['n'].sum():,}")

            def opens(value: int, _: int, count: int, axis: str = axis) -> None:
                _open_cell(depth, **{axis: value}, distractors=count)

            of_row = rows[[axis, "n", "distractors"]].to_numpy().tolist()
            chart.show(
                charts.marginal(rows, axis, worded(report, title)),
                f"Lines: share correct by {axis}, one line per number of distractors. {points}",
                f"needle_{name}",
                opens=opens,
            )
            with st.expander("As a table"):
                tables.table(
                    table, f"{report['run']}-{name}",
                    f"Share correct by {axis}, with interval and n", download=frame,
                    opens=lambda row, _, of_row=of_row, opens=opens: opens(*of_row[row]),
                )  # fmt: skip
    st.caption(
        "Bars: 95 % interval by patient; for fewer than 5 patients Wilson's, which treats items as "
        "independent and is too narrow. Points of a single item are not joined. A distractor is "
        + (
            "another note of the record."
            if of_notes(report)
            else "a note on the same item with another date and value."
        )
    )


def _contrast(report: Report, by: dict[str, str]) -> None:
    """Middle minus edge of every arm, paired by fact or question: a forest plot and its table."""
    frame = results.frame_of(report, "contrast")
    rows = results.where(frame, reader=by["reader"], judge=by["judge"])
    if rows.empty:
        return
    pair = "question" if of_notes(report) else "fact"
    st.header(f"Middle vs edge, paired by {pair}", anchor=False)
    known = rows[rows["difference"].notna()].rename(columns={"series": "n"})
    if len(known):
        forest = chart.difference_rows(known, "ci_low", "ci_high")
        span = chart.symmetric_span(forest, 9)
        chart.show_forest(
            forest, "middle − edge, points", "needle_contrast",
            lambda label: show_items(label=label), span=span, suffix="", zero=True,
        )  # fmt: skip
    table = pd.DataFrame(
        {
            "arm": rows["title"],
            "middle": rows["middle"].map(percent),
            "edge": rows["edge"].map(percent),
            "points [95 %]": formats.differences(rows, "difference", "ci_low", "ci_high"),
            "p (Holm)": rows["p_holm"].map(p_value),
            "n": rows["series"],
            "patients": rows["patients"],
            "in prompt: middle": rows["in_prompt_middle"].map(percent),
            "at the edge": rows["in_prompt_edge"].map(percent),
            "left out": rows["left_out"],
            "unscored": rows["unscored"],
            "unscored against–for, points": signed_intervals(rows, "bound_low", "bound_high"),
        }
    )
    if of_notes(report):
        null = results.frame_of(report, "detectable")
        null = null[null["reader"] == by["reader"]].set_index(["label", "judge"])
        null = null.reindex(zip(rows["label"], rows["judge"], strict=True))
        table.insert(5, "no effect, points", signed_intervals(null, "null_low", "null_high"))
        table.insert(6, "detectable", [formats.points(one) for one in null["among_all"]])
    alt = "Each arm: % correct at middle depths and at the edges, difference, p, n"
    name, labels = f"{report['run']}-contrast", list(rows["label"])
    tables.table(
        table, name, alt, download=frame, opens=lambda row, _: show_items(label=labels[row])
    )
    st.caption(
        f"n: {pair}s of a record at one length, each tested at middle depths (30–70 %) and at the "
        "others. p by permutation within patients, Holm over the arms and readers of a judge. A "
        "difference that unscored (failed or unparsed) answers could reverse is not claimed."
        + (
            " No effect: 95 % interval of the permutations. Detectable: the smallest difference "
            "shown with power .8 at the first step of Holm."
            if of_notes(report)
            else ""
        )
    )


def _fact_types(report: Report, by: dict[str, str]) -> None:
    """Types of fact, and how records were cut: tables."""
    frame = results.frame_of(report, "facts")
    rows = results.where(frame, **by)
    by_type = f"By type of {'question' if of_notes(report) else 'fact'}, and record lengths"
    with st.expander(by_type):
        if len(rows):
            table = pd.DataFrame(
                {
                    "fact": rows["fact"],
                    "distractors": rows["distractors"],
                    "n": rows["n"],
                    "% [95 %, by patient]": shares(rows, "accuracy", "patient_low", "patient_high"),
                }
            )
            alt = "Share correct by type of fact"
            of_row = rows[["fact", "distractors"]].to_dict("records")
            tables.table(
                table, f"{report['run']}-facts", alt, download=frame,
                opens=lambda row, _: show_items(**of_row[row]),
            )  # fmt: skip
        domains = results.where(results.frame_of(report, "domains"), **by)
        if len(domains):
            tables.table(
                pd.DataFrame(
                    {
                        "domain": domains["domain"],
                        "distractors": domains["distractors"],
                        "depths": domains["band"],
                        "n": domains["n"],
                        "% [95 %, by patient]": shares(
                            domains, "accuracy", "patient_low", "patient_high"
                        ),
                    }
                ),
                f"{report['run']}-domains",
                "Share correct by clinical domain, in the middle (30–70 %) and at the edges",
                download=domains,
            )
        cuts = results.frame_of(report, "cuts")
        if len(cuts):
            cuts = cuts.assign(record=[token(report["run"], str(one)) for one in cuts["record"]])
            cuts = cuts.drop(columns=["begins", "ends"], errors="ignore")
            alt = "Each record at each length: events, tokens"
            lengths = list(cuts["length"])
            tables.table(
                cuts, f"{report['run']}-cuts", alt,
                opens=lambda row, _: show_items(length=lengths[row]),
            )  # fmt: skip
    panel.notes(report["warnings"])


CELL, ITEM = "needle_cell", "needle_item"
NUMBERS = ("length", "depth", "distractors")
WORDS = {"length": "{:,} tokens", "depth": "depth {} %", "distractors": "{} distractors"}


def show_items(**cell: Any) -> None:
    """Show the items of a cell, from the next drawing of the page on."""
    st.session_state[CELL] = {
        name: int(value) if name in NUMBERS else value
        for name, value in cell.items()
        if not missing(value)
    }
    st.session_state[ITEM] = questions.LIST


def _items(run: dict[str, Any], by: Mapping[str, str]) -> None:
    """The items of the chosen cell of this arm, reader and judge; nothing before one is chosen."""
    _restore_cell(run)
    cell = st.session_state.get(CELL)
    if not cell:
        st.caption("Click a number or a marker to read the items behind it.")
        return
    wanted = {**by, **cell}
    st.header("Items behind this number", anchor=False)
    words = [WORDS[name].format(cell[name]) for name in NUMBERS if name in cell]
    words += [f"fact: {cell['fact']}"] if "fact" in cell else []
    where = ", ".join([api.title("arm", wanted["label"]), *words])
    st.write(plain(where))
    st.button("Close", key="needle_close", icon=":material/close:", on_click=show_items)
    rows = pd.DataFrame(api.needle_items(run["run"], **wanted))
    if rows.empty:
        st.info("No item of this run is in this cell.")
        return
    try:
        cohort = state.cohort_of(run)
    except MidchartError as error:
        st.error(plain(str(error)), title="The items cannot be read")
        return
    instructions = list(rows["instruction"])
    frame = pd.DataFrame(
        {
            "question": questions.question_texts(cohort, instructions),
            "fact": rows["fact"],
            **{name: rows[name] for name in NUMBERS},
            "outcome": [questions.OUTCOMES.get(one, one) for one in rows["outcome"]],
            "all evidence in the prompt": rows["evidence_all_in_prompt"].map(
                {True: "yes", False: "no"}
            ),
        }
    )
    chosen = questions.choose_question(
        run["run"], frame, instructions, ("needle_items", ITEM), f"Items: {where}",
        f"{len(frame):,} items. Click a row to open it.", width="large",
    )  # fmt: skip
    if chosen is not None:
        questions.one(
            run,
            cohort,
            chosen,
            by["reader"],
            (wanted["label"],),
            state.report(run)["primary_judge"],
        )


def _restore_cell(run: dict[str, Any]) -> None:
    """Take the cell over that the address names, or write the present one into it."""
    wanted = new_in_url(CELL)
    if wanted is not None:
        heatmap = results.frame_of(state.report(run), "heatmap")
        facts = results.frame_of(state.report(run), "facts")
        known = {
            f"{name}:{value}": (name, value)
            for name in (*NUMBERS, "label")
            for value in heatmap[name].unique().tolist()
        } | {f"fact:{fact}": ("fact", fact) for fact in facts.get("fact", ())}
        st.session_state[CELL] = dict(known[one] for one in wanted if one in known)
    cell = st.session_state.get(CELL) or {}
    write_url(CELL, [f"{name}:{value}" for name, value in cell.items()])
