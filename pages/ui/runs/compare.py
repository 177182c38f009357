"""Comparison of runs with a baseline run: differences in results, arm by arm, and in specs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import streamlit as st

from midchart.core import api
from midchart.pages.ui import navigation, state
from midchart.pages.ui.arms import questions
from midchart.pages.ui.runs import picker
from midchart.pages.ui.shared import chart, formats, results, tables
from midchart.pages.ui.shared.formats import percent, signed_intervals
from midchart.pages.ui.shared.marks import for_screen
from midchart.pages.ui.shared.pickers import known_in_url, pick_linked, token

AXIS = "points against the baseline"
"""Short, for a narrow screen; the sentence above names the runs."""
Row = Mapping[str, Any]
Pair = tuple[str, str, str, str]
"""Run, arm, reader, judge."""
ANSWERED = {True: "✓ correct", False: "✗ incorrect"}
RIGHT = {
    "accuracy": ANSWERED,
    "all pieces of the evidence in the prompt": {
        True: "all in the prompt",
        False: "not all in the prompt",
    },
    "all pieces of the evidence kept, before any prompt limit": {
        True: "all kept",
        False: "not all kept",
    },
}
"""Measure → what is right and what is not."""


PAIR, CLICKED = "compare_pair", "compare_clicked"
"""Keys of the comparison whose changed questions are listed, and of that clicked last."""


def _pair_key(row: Row) -> str:
    return " ".join(row[name] or "" for name in ("run", "arm", "reader", "judge"))


def _open_pair(key: str) -> None:
    """List the changed questions of a comparison."""
    st.session_state[PAIR] = st.session_state[CLICKED] = key
    st.session_state["changed_question"] = questions.LIST


def compare(chosen: Sequence[str]) -> None:
    """The runs of an address compared: the baseline, results, changed questions, specs."""
    known = {run["run"]: run for run in state.runs() if run["status"] != "queued"}
    known_in_url("runs", known, "run named", picker.LISTED)
    chosen = list(dict.fromkeys(chosen))
    back = {"label": "All runs", "icon": ":material/arrow_back:"}
    if len(chosen) < 2 or len({known[run]["kind"] for run in chosen}) > 1:
        st.info("A comparison requires two runs of one kind; select them in the list.")
        navigation.link("runs", **back)
        return
    name = picker.titles(known[run] for run in chosen).__getitem__
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        baseline = pick_linked(
            "baseline", "Baseline", chosen, name, key="compare_baseline", width=picker.WIDTH,
            help="The others are compared with it on the questions that both scored.",
        )  # fmt: skip
        navigation.link("runs", **back)
    ordered = [baseline, *(run for run in chosen if run != baseline)]
    diff = state.compare_runs([known[run] for run in ordered])
    for note in diff["notes"]:
        st.warning(for_screen(note))
    names = [row["name"] for row in diff["runs"]]
    titles = {
        row["run"]: row["name"]
        if names.count(row["name"]) == 1
        else f"{row['name']} · {row['run']}"
        for row in diff["runs"]
    }
    if diff["results"]:
        _forests(diff["results"], titles)
        _result_table(diff["results"], titles)
        _changed([known[run] for run in ordered], titles)
    else:
        st.caption("These runs share no results of single questions.")
    st.header("Differences in specs", anchor=False)
    if not diff["spec"]:
        st.caption("None: same spec, protocol, data, code and packages.")
        return
    heads = {**titles, baseline: f"{titles[baseline]} (baseline)"}
    tables.table(
        pd.DataFrame(diff["spec"]),
        "spec-difference",
        "Spec fields that differ, one column per run, baseline first",
        columns={
            "field": st.column_config.TextColumn(pinned=True),
            **{run: st.column_config.TextColumn(head) for run, head in heads.items()},
        },
    )


def _changed(runs: Sequence[dict[str, Any]], titles: Mapping[str, str]) -> None:
    """The questions on which a run and the baseline differ; one of them side by side."""
    baseline, *others = runs
    by_pair: dict[Pair, list[Row]] = {}
    for run in others:
        for row in state.changed_questions(baseline, run):
            pair = (row["run"], row["arm"], row["reader"], row["judge"])
            by_pair.setdefault(pair, []).append(row)
    st.header("Questions that changed", anchor=False)
    if not by_pair:
        st.caption("None: every question has the same outcome in the runs.")
        return
    pairs = {" ".join(pair): pair for pair in by_pair}
    names = list(zip(*by_pair, strict=True))
    several = [name for name, i in (("reader", 2), ("judge", 3)) if len({*names[i]}) > 1]

    def title(key: str) -> str:
        run, arm, *others = pairs[key]
        families = zip(("reader", "judge"), others, strict=True)
        named = [api.title(*one) for one in families if one[0] in several]
        rows = by_pair[pairs[key]]
        gained = sum(row["this"] for row in rows)
        counts = f"+{gained} −{len(rows) - gained}"
        parts = [titles[run]] * (len(titles) > 2) + [api.title("arm", arm), *named, counts]
        return " · ".join(parts)

    if st.session_state.pop(CLICKED, next(iter(pairs))) not in pairs:
        st.info("No question of the comparison that was clicked changed; another one is listed.")
    key = pick_linked(
        "pair", "Comparison (questions gained and lost)", list(pairs), title, key=PAIR,
        token=lambda key: token(baseline["run"], key), width=picker.WIDTH,
    )  # fmt: skip
    rows = by_pair[pairs[key]]
    cohort = api.run_cohort(baseline["run"])
    instructions = [row["instruction"] for row in rows]
    words = RIGHT[rows[0]["measure"]]
    frame = pd.DataFrame(
        {
            "question": questions.question_texts(cohort, instructions),
            "change": ["gained" if row["this"] else "lost" for row in rows],
            "baseline": [words[row["baseline"]] for row in rows],
            "this run": [words[row["this"]] for row in rows],
        }
    )
    chosen = questions.choose_question(
        key, frame, instructions, ("changed", "changed_question"),
        "Questions whose outcome differs from the baseline's",
        f"{len(rows):,} questions with another outcome than the baseline's. Click a row to read "
        "both.",
        width=280, pinned=True,
    )  # fmt: skip
    if chosen is None:
        return
    row = next(row for row in rows if row["instruction"] == chosen)
    run = next(run for run in others if run["run"] == row["run"])
    questions.side_by_side(
        cohort,
        chosen,
        [
            (f"{titles[baseline['run']]} (baseline)", baseline, row["baseline_cell"]),
            (titles[run["run"]], run, row["run_cell"]),
        ],
    )


def _forests(rows: Sequence[Row], titles: Mapping[str, str]) -> None:
    """A sentence for each run, then a forest plot for each, all on one axis."""
    known = [row for row in rows if row["difference"] is not None]
    if not known:
        return
    baseline = next(iter(titles.values()))
    by_run: dict[str, list[Row]] = {}
    for row in known:
        by_run.setdefault(row["run"], []).append(row)
    for run, of_run in by_run.items():
        st.markdown(sentence(of_run, titles[run], baseline))
    several = [name for name in ("reader", "judge") if len({row[name] for row in known}) > 1]
    forests: dict[str, list[chart.ForestRow]] = {}
    for run, of_run in by_run.items():
        names = [[api.title(name, row[name]) for name in ("arm", *several)] for row in of_run]
        frame = pd.DataFrame(of_run).assign(title=list(map(" · ".join, names)))
        frame["label"] = frame["arm"]
        forest = chart.difference_rows(frame, "patient_low", "patient_high")
        keys = dict(zip(frame["title"], map(_pair_key, of_run), strict=True))
        forests[run] = [replace(row, label=keys[row.name]) for row in forest]
    span = chart.symmetric_span([row for forest in forests.values() for row in forest])
    for run, forest in forests.items():
        if len(forests) > 1:
            st.markdown(f"**{for_screen(titles[run])}**")
        about = f"differences of {titles[run]} from {baseline}"
        chart.show_forest(
            forest, AXIS, f"run_differences_{run}", _open_pair, about=about, span=span, suffix="",
            zero=True,
        )  # fmt: skip


def sentence(rows: Sequence[Row], run: str, baseline: str) -> str:
    """In how many comparisons a run is better, worse, not claimed or not different, by the primary
    judge; and whether all judges say the same of each arm."""
    primary, every = rows[0]["judge"], rows
    rows = [row for row in every if row["judge"] == primary]
    judge = f" (judge: {for_screen(api.title('judge', primary))})" if primary else ""
    verdicts = [row["verdict"] or "" for row in rows]
    better, worse = verdicts.count("better"), verdicts.count("worse")
    unclaimed = Counter(verdict for verdict in verdicts if verdict.startswith("not claimed"))
    more, less = {
        "accuracy": ("more accurate", "less accurate"),
        "all pieces of the evidence in the prompt": (
            "showing its reader all pieces of the evidence more often",
            "less often",
        ),
    }.get(rows[0]["measure"], ("keeping all pieces of the evidence more often", "less often"))
    name, other = for_screen(run), for_screen(baseline)
    count = f"{len(rows)} comparison" + ("s" if len(rows) != 1 else "")
    doubt = "".join(f" In {n}, the difference is {verdict}." for verdict, n in unclaimed.items())
    by_pair = {(row["arm"], row["reader"]): row["verdict"] for row in rows}
    others = {
        (row["arm"], row["reader"])
        for row in every
        if row["verdict"] != by_pair.get((row["arm"], row["reader"]))
    }
    if others:
        doubt += f" In {len(others)}, another judge has another verdict."
    if not better and not worse:
        return (
            f"**{name}** is not shown to differ from **{other}** in any of {count} "
            f"(at Holm-adjusted p below .05){judge}.{doubt}"
        )
    return (
        f"Of {count}, **{name}** is {more} than **{other}** in {better}, {less} in {worse}, and "
        f"not significantly different in {len(rows) - better - worse - unclaimed.total()} "
        f"(Holm-adjusted p below .05){judge}.{doubt}"
    )


def _result_table(rows: Sequence[Row], titles: Mapping[str, str]) -> None:
    frame = pd.DataFrame(rows)
    shown = pd.DataFrame(
        {
            "run": frame["run"].map(titles),
            "arm": [api.title("arm", label) for label in frame["arm"]],
            "reader": [api.title("reader", label) for label in frame["reader"]],
            "judge": [api.title("judge", label) for label in frame["judge"]],
            "measure": frame["measure"],
            "n": frame["n"],
            "patients": frame["patients"],
            "verdict": frame["verdict"],
            "baseline": frame["baseline_share"].map(percent),
            "this run": frame["run_share"].map(percent),
            "difference [by patient]": formats.differences(
                frame, "difference", "patient_low", "patient_high"
            ),
            "p (Holm)": frame["p_holm"].map(formats.p_number),
            "unscored": frame["unscored"],
            "unscored against–for": signed_intervals(frame, "bound_low", "bound_high"),
        }
    )
    if not frame["unscored"].any():
        shown = shown.drop(columns=["unscored", "unscored against–for"])
    if "run_any_piece" in frame:
        shown["any piece: baseline"] = frame["baseline_any_piece"].map(percent)
        shown["any piece: this run"] = frame["run_any_piece"].map(percent)
    for whose, title in (("baseline", "baseline prompts cut"), ("run", "this run's prompts cut")):
        if f"{whose}_cut_at_most" in frame and frame[f"{whose}_cut_at_most"].notna().any():
            shown[title] = [_cut(row, whose) for row in rows]
    # Columns with one value go into the caption: a narrow screen has room for the numbers.
    same = [c for c in ("run", "reader", "judge", "measure") if shown[c].nunique() == 1]
    constants = [f"{c} {for_screen(shown[c].iloc[0])}" for c in same if shown[c].iloc[0]]
    tables.table(
        shown.drop(columns=same),
        "run-difference",
        "Differences of each run and the baseline by arm, reader and judge, with intervals",
        download=frame,
        opens=lambda row, _: _open_pair(_pair_key(rows[row])),
    )
    st.caption(
        (f"In every row: {', '.join(constants)}. " if constants else "")
        + "Differences are percentage points, this run minus the baseline, on the n instructions "
        "that both scored. The 95 % interval resamples patients (none for fewer than 5); p: "
        "McNemar's exact test, Holm-adjusted over one run's comparisons. Unscored answers (failed "
        "or unparsed in either run) are excluded; a difference that they could reverse, or whose "
        "interval by patient includes 0, is not claimed. Click a row or a marker to list its "
        "changed questions."
    )


def _cut(row: Row, whose: str) -> str:
    """At how many tokens a run's prompts were cut, and the evidence that was kept but cut."""
    most = row.get(f"{whose}_cut_at_most")
    if most is None:
        return ""
    lost = row[f"{whose}_kept_but_cut"]
    text = results.cut_at(row[f"{whose}_cut_at_least"], most)
    return text + (f"; evidence kept but cut in {lost}" if lost else "")
