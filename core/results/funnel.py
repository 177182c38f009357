"""The funnel of evidence: in the chart, selected, in the prompt, quoted, judged right, by position.

A question with located evidence is counted at the step at which its evidence was lost. All of its
pieces count together (:mod:`midchart.core.arms.hits`). Whether an answer quotes the evidence is
known of readers that name their source; of others the step is left out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from midchart.core.access import RunRef, needs
from midchart.core.format import listed
from midchart.core.results.primary import verdict_source, with_primary
from midchart.core.results.report import counted_store
from midchart.core.runs.directory import find_run
from midchart.core.runs.experiment import Table
from midchart.core.runs.plan import Plan
from midchart.core.runs.schemas import ALL_IN_PROMPT, ALL_KEPT, COUNTS
from midchart.core.storage.rows import RowStore, query

MISSED, CUT, UNQUOTED, WRONG, OTHERWISE, RIGHT = STEPS = (
    "never selected", "cut from the prompt", "in the prompt, not quoted", "there, answer wrong",
    "right without it", "right",
)  # fmt: skip
"""Where the evidence of a question ends, in the order of the chain; the last is its whole length,
the one before: judged right although the evidence was lost."""
KEPT = "kept"
"""The end of the chain of a run without a reader."""
PARTS = tuple(f"{10 * part}-{10 * part + 10}" for part in range(10))
WIDE = {"middle": PARTS[3:7], "edge": PARTS[:3] + PARTS[7:], "overall": PARTS}
"""Bands made of tenths of the record; the middle is 30 to 70 %."""


def funnel(store: RowStore, plan: Plan, position: str = "") -> Table:
    """A row each arm entry × reader × judge × band × step (:data:`STEPS`): ``count`` of the ``n``
    judged questions with evidence there, and their ``share``.

    Bands are the tenths of the record, "middle", "edge" and "overall". ``position``: SQL of the
    position in [0, 1] (default: the protocol's). Of a run of kind selection the steps are those of
    the selection and of the protocol's own limits.
    """
    position = position or f"{plan.protocol.position}_position"
    if "verdicts" in store.schemas:
        outcome, judged = "v.outcome = 'correct'", "v.outcome IN ('correct', 'incorrect')"
        named = "a.label, a.reader, v.judge, a.evidence_quoted IS NOT NULL AS named"
        verdicts = f" JOIN {verdict_source(store, plan.judges)} v ON v.answer_key = a.key"
        quoted, judged = "coalesce(a.evidence_quoted, false)", f"{judged} AND {COUNTS}"
        main = "answers"
    else:
        named, outcome, quoted, verdicts = "a.label, '' AS reader, '' AS judge, false AS named", *(
            "NULL::BOOLEAN", "false", "")  # fmt: skip
        main, judged = "selections", "a.selection IS NOT NULL"
    kept, prompted = (sql.replace("evidence", "a.evidence") for sql in (ALL_KEPT, ALL_IN_PROMPT))
    rows = query(
        lambda: (
            f"SELECT {named}, least(9, floor(10 * a.{position}))::INT AS part, "
            f"coalesce({kept}, false) AS kept, coalesce({prompted}, {kept}, false) AS prompted, "
            f"{quoted} AS quoted, {outcome} AS correct, count(*) AS n "
            f"FROM (SELECT * FROM {store.source(main)} WHERE {store.counted}) a{verdicts} "
            f"WHERE a.evidence IS NOT NULL AND a.{position} IS NOT NULL AND {judged} GROUP BY ALL"
        )
    )
    readers = {row["reader"] for row in rows if row["named"]}
    cells: dict[tuple[str, str, str], dict[str, Counter[str]]] = defaultdict(
        lambda: defaultdict(Counter)
    )
    for row in rows:
        step = _step(row, row["reader"] in readers)
        cells[row["label"], row["reader"], row["judge"]][PARTS[row["part"]]][step] += row["n"]
    columns = {entry.label: entry for entry in plan.arms}
    order = {entry.label: i for i, entry in enumerate(plan.arms)}
    table: Table = []
    for (label, reader, judge), parts in sorted(cells.items(), key=lambda one: order[one[0][0]]):
        wide = {band: sum((parts[p] for p in of), Counter[str]()) for band, of in WIDE.items()}
        seen = [step for step in (*STEPS, KEPT) if wide["overall"][step]]
        known = [s for s in (*STEPS, KEPT) if s in _steps(reader in readers, main)] or seen
        for band, counts in {**{part: parts[part] for part in PARTS}, **wide}.items():
            n = counts.total()
            table += [
                {"arm": columns[label].name, "label": label, "reader": reader, "judge": judge,
                 "band": band, "step": step, "count": counts[step], "n": n,
                 "share": counts[step] / n if n else None}
                for step in known
            ]  # fmt: skip
    return table


@needs("viewer")
def evidence_funnel(run: RunRef) -> Table:
    """The funnel of a run of kind answers or selection by its primary judge, at once; raises
    UnknownName."""
    folder = find_run(run)
    plan = folder.plan()
    store = counted_store(folder, plan)
    judged = with_primary(plan, store) if plan.judges else plan
    rows = funnel(store, judged)
    return [row for row in rows if row["judge"] in ("", judged.primary_judge)]


def _steps(names_sources: bool, main: str) -> Sequence[str]:
    if main == "selections":
        return MISSED, CUT, KEPT
    return STEPS if names_sources else [step for step in STEPS if step != UNQUOTED]


def _step(row: Mapping[str, Any], names_sources: bool) -> str:
    """The step at which the evidence of rows that are alike ends."""
    if row["correct"] is None:
        return MISSED if not row["kept"] else KEPT if row["prompted"] else CUT
    used = row["prompted"] and (row["quoted"] or not names_sources)
    if row["correct"]:
        return RIGHT if row["kept"] and used else OTHERWISE
    if not row["kept"]:
        return MISSED
    if not row["prompted"]:
        return CUT
    return WRONG if used else UNQUOTED


def sentence(rows: Iterable[Mapping[str, Any]], band: str = "middle") -> str:
    """What became of the evidence in a band, in plain words; ``rows``: those of one arm, reader and
    judge. "" where there is none."""
    counts = {row["step"]: row["count"] for row in rows if row["band"] == band}
    n = sum(counts.values())
    if not n:
        return ""
    lost = counts.get(MISSED, 0) + counts.get(CUT, 0)
    unused = counts.get(UNQUOTED, 0) + counts.get(WRONG, 0)
    where = {"middle": " in the middle of these charts", "edge": " near an end of these charts"}
    parts = [f"{lost} never reached the model"]
    if KEPT not in counts:
        parts += [
            f"{unused} were there and not used",
            f"{counts.get(RIGHT, 0)} were answered right",
        ]
        if counts.get(OTHERWISE):
            parts.append(f"{counts[OTHERWISE]} were answered right without it")
    return f"Of {n} facts{where.get(band, ' in these charts')}, {listed(parts)}."
