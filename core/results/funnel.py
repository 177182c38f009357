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
from midchart.core.format import count, listed, percent
from midchart.core.results.report import counted_store
from midchart.core.results.titles import title
from midchart.core.runs.directory import find_run
from midchart.core.runs.experiment import Table
from midchart.core.runs.plan import Plan
from midchart.core.runs.schemas import ALL_IN_PROMPT, ALL_KEPT, COUNTS
from midchart.core.storage.rows import RowStore, query

MISSED = "never selected"
CUT = "cut from the prompt"
UNQUOTED = "there, not quoted"
MISREAD = "quoted, answer wrong"
UNUSED = "there, not used"
OTHERWISE = "right without it"
RIGHT = "answered right"
STEPS = (MISSED, CUT, UNQUOTED, MISREAD, UNUSED, OTHERWISE, RIGHT)
"""Where the evidence of a question ends, in the order of the chain; of readers that name no source
there is one step between prompt and answer. The last is the whole length of the chain, the one
before: judged right although the evidence was lost."""
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
        verdicts = f" JOIN {store.source('verdicts')} v ON v.answer_key = a.key"
        quoted, judged = "coalesce(a.evidence_quoted, false)", f"{judged} AND {COUNTS}"
        main = "answers"
    else:
        named, outcome, quoted, verdicts = "a.label, '' AS reader, '' AS judge, false AS named", *(
            "NULL::BOOLEAN", "false", "")  # fmt: skip
        main, judged = "selections", "a.selection IS NOT NULL"
    selected, prompted = (
        sql.replace("evidence", "a.evidence") for sql in (ALL_KEPT, ALL_IN_PROMPT)
    )
    rows = query(
        lambda: (
            f"SELECT {named}, least(9, floor(10 * a.{position}))::INT AS part, "
            f"coalesce({selected}, false) AS kept, "
            f"coalesce({prompted}, {selected}, false) AS prompted, "
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
        step = step_of(row, row["reader"] in readers)
        cells[row["label"], row["reader"], row["judge"]][PARTS[row["part"]]][step] += row["n"]
    columns = {entry.label: entry for entry in plan.arms}
    order = {entry.label: i for i, entry in enumerate(plan.arms)}
    table: Table = []
    for label, reader, judge in sorted(cells, key=lambda one: (order[one[0]], *one[1:])):
        parts = cells[label, reader, judge]
        wide = {band: sum((parts[p] for p in of), Counter[str]()) for band, of in WIDE.items()}
        known = _steps(reader in readers, main)
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
    rows = funnel(counted_store(folder, plan), plan)
    return [row for row in rows if row["judge"] in ("", plan.primary_judge)]


def _steps(names_sources: bool, main: str) -> Sequence[str]:
    if main == "selections":
        return MISSED, CUT, KEPT
    without = (UNUSED,) if names_sources else (UNQUOTED, MISREAD)
    return [step for step in STEPS if step not in without]


def step_of(row: Mapping[str, Any], names_sources: bool) -> str:
    """The step at which the evidence of a question ends. ``row``: whether all of it was ``kept``,
    was ``prompted`` (in the prompt) and ``quoted``, and whether the answer is ``correct`` (None:
    there is no answer)."""
    if row["correct"] is None:
        return MISSED if not row["kept"] else KEPT if row["prompted"] else CUT
    used = row["prompted"] and (row["quoted"] or not names_sources)
    if row["correct"]:
        return RIGHT if row["kept"] and used else OTHERWISE
    if not row["kept"]:
        return MISSED
    if not row["prompted"]:
        return CUT
    if not names_sources:
        return UNUSED
    return MISREAD if used else UNQUOTED


def arms_sentence(rows: Iterable[Mapping[str, Any]]) -> str:
    """Which arm brings the evidence to the model most often, and under which most is answered
    right, in plain words; ``rows``: those of one reader and judge, all arms, one band. "" where
    there is none; an arm that is given the evidence, and controls, are left out."""
    shares: dict[str, dict[str, float]] = defaultdict(dict)
    for row in rows:
        if row["share"] is not None and row["arm"] not in GIVEN:
            shares[row["label"]][row["step"]] = row["share"]
    if not shares:
        return ""
    there = {label: 1 - of.get(MISSED, 0.0) - of.get(CUT, 0.0) for label, of in shares.items()}
    best = max(there, key=there.__getitem__)
    often = "brings the evidence to the model most often"
    text = f"{title('arm', best)} {often} ({percent(there[best])})"
    right = {arm: of[RIGHT] + of.get(OTHERWISE, 0) for arm, of in shares.items() if RIGHT in of}
    if right:
        most = max(right, key=right.__getitem__)
        who = "" if most == best else f"{title('arm', most)} "
        text += f" and {who}has the most right answers ({percent(right[most])})"
    return f"{text}."


GIVEN = ("oracle",)
"""Arms that are given the evidence."""


def sentence(rows: Iterable[Mapping[str, Any]], band: str = "middle") -> str:
    """What became of the evidence in a band, in plain words; ``rows``: those of one arm, reader and
    judge. "" where there is none."""
    counts = {row["step"]: row["count"] for row in rows if row["band"] == band}
    n = sum(counts.values())
    if not n:
        return ""
    lost = counts.get(MISSED, 0) + counts.get(CUT, 0)
    unused = sum(counts.get(step, 0) for step in (UNQUOTED, MISREAD, UNUSED))
    where = {"middle": " in the middle of these charts", "edge": " near an end of these charts"}

    def were(number: int, what: str) -> str:
        return f"{number} {'was' if number == 1 else 'were'} {what}"

    parts = [f"{lost} never reached the model"]
    if KEPT not in counts:
        parts += [were(unused, "there and not used"), were(counts.get(RIGHT, 0), "answered right")]
        if counts.get(OTHERWISE):
            parts.append(were(counts[OTHERWISE], "answered right without it"))
    return f"Of {count(n, 'fact')}{where.get(band, ' in these charts')}, {listed(parts)}."
