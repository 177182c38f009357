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
from midchart.pages.ui.results import kit
from midchart.pages.ui.runs import picker
from midchart.pages.ui.shared import tables
from midchart.pages.ui.shared.marks import for_screen
from midchart.pages.ui.shared.pickers import known_in_url, pick_linked, token

MORE = (
    "measure", "baseline_share", "run_share", "verdict", "unscored", "bound_low", "bound_high",
)  # fmt: skip
"""Further columns of the table, those of which a row has a value."""
DIFFERENCES = api.View(
    "results",
    "How do the runs differ from the baseline?",
    "results",
    (
        api.Measure(
            "difference",
            "points against the baseline",
            "points",
            "This run minus the baseline, on the questions that both scored; McNemar's exact test, "
            "Holm-adjusted over one run's comparisons. Unscored answers are excluded; a difference "
            "that they could reverse, or whose interval includes 0, is not claimed.",
            (api.Ends("patient_low", "patient_high", "by patient"),),
            clusters="patients",
            p="p_holm",
        ),
    ),
    "forest",
    ranked=True,
    zero=True,
    opens=("pair",),
)
Row = Mapping[str, Any]
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


PAIR_OF = ("run", "arm", "reader", "judge")
PAIR, CLICKED = "compare_pair", "compare_clicked"
"""Keys of the comparison whose changed questions are listed, and of that clicked last."""


def _open_pair(key: str) -> None:
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
    diff = state.result(
        tuple(state.run_key(known[run]) for run in ordered), api.compare_runs, tuple(ordered)
    )
    for note in diff["notes"]:
        st.warning(for_screen(note))
    titles = picker.names(diff["runs"])
    if diff["results"]:
        _differences(diff["results"], titles)
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
    baseline, *others = runs
    by_pair: dict[tuple[str, ...], list[Row]] = {}
    for run in others:
        for row in state.result(
            (state.run_key(baseline), state.run_key(run)),
            *(api.changed_questions, baseline["run"], run["run"]),
        ):
            by_pair.setdefault(tuple(row[name] for name in PAIR_OF), []).append(row)
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
    words = RIGHT[rows[0]["measure"]]
    frame = pd.DataFrame(
        {
            "instruction": [row["instruction"] for row in rows],
            "change": ["gained" if row["this"] else "lost" for row in rows],
            "baseline": [words[row["baseline"]] for row in rows],
            "this run": [words[row["this"]] for row in rows],
        }
    )
    chosen = questions.choose_question(
        key, cohort, frame, "changed_question",
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


def _differences(rows: Sequence[Row], titles: Mapping[str, str]) -> None:
    """A sentence for each run, then the differences as a forest plot and a table."""
    baseline = next(iter(titles.values()))
    for run in dict.fromkeys(row["run"] for row in rows if row["difference"] is not None):
        of_run = [row for row in rows if row["run"] == run and row["difference"] is not None]
        st.markdown(sentence(of_run, titles[run], baseline))
    named = [
        {**row, "pair": " ".join(row[name] or "" for name in PAIR_OF), "run": titles[row["run"]]}
        for row in rows
    ]
    several = [name for name in ("run", "reader", "judge") if len({row[name] for row in rows}) > 1]
    known = [name for name in MORE if any(row.get(name) for row in rows)]
    view = replace(DIFFERENCES, rows=("arm", *several), more=tuple(known))
    kit.draw_rows("run-difference", view, named, opens=lambda _, __, key: _open_pair(key["pair"]))


def sentence(rows: Sequence[Row], run: str, baseline: str) -> str:
    """In how many comparisons a run has which verdict by the primary judge."""
    judge = rows[0]["judge"]
    counts = Counter(row["verdict"] or "not judged" for row in rows if row["judge"] == judge)
    words = ", ".join(f"{for_screen(verdict)} in {n}" for verdict, n in counts.items())
    by = f", judge: {for_screen(api.title('judge', judge))}" if judge else ""
    return (
        f"**{for_screen(run)}** against **{for_screen(baseline)}**, {rows[0]['measure']}, in "
        f"{api.counted(counts.total(), 'comparison')}: {words} (at Holm-adjusted p below .05{by})."
    )
