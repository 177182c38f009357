"""Tables of runs of kind ``audit``: the loss ledger, the comparison with arms, what prompts hold.

Shares count questions whose evidence is located. A step that the log does not tell is left out, so
each row has its own ``n``. Intervals are by patient, and Wilson's for fewer than five
(docs/methods.md, Audit).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from midchart.core.results.tables import ALL_BANDS, ends, generator, grouped
from midchart.core.runs.experiment import Table
from midchart.core.runs.plan import Plan
from midchart.core.stats.intervals import clustered_intervals, wilson_interval
from midchart.core.stats.paired import paired_floor, reported_interval, share_interval
from midchart.core.stats.positions import assemble, cells, permutation_totals
from midchart.core.storage.rows import RowStore
from midchart.core.types import BANDS, UNLOCATED, Span
from midchart.extras.audit.joining import REVIEWER

LOCATED_STEPS = ("retrieved", "reranked", "prompt")
"""Steps after which the evidence is looked for; columns of the rows."""
STEPS = ("chart", *LOCATED_STEPS, "read")
"""The ledger's steps in order: in the chart, after retrieval, after reranking, in the prompt, and
read: the answer is correct."""
STEP_TITLES = {
    "chart": "in the chart",
    "retrieved": "retrieved",
    "reranked": "kept after reranking",
    "prompt": "in the prompt",
    "read": "answered correctly",
}
ANY, ALL = "any piece", "all pieces"
CRITERIA = {ALL: "_all", ANY: ""}
"""Every sentence with evidence, or at least one → the end of the column's name."""
TOKENS = (
    *("context_tokens", "record_tokens", "changed_tokens", "other_patient_tokens"),
    *("foreign_tokens", "frame_tokens"),
)
MOST_WORST = 200

Row = dict[str, Any]


def _bands_of(row: Mapping[str, Any]) -> list[str]:
    """The bands in which a row with ``band`` and ``middle`` counts."""
    if row["band"] == UNLOCATED:
        return ["overall"]
    return [row["band"], "middle" if row["middle"] else "edge", "overall"]


def tables(store: RowStore, plan: Plan) -> dict[str, Table]:
    """The tables of a run's report, by name."""
    names = (
        "source, role, record, chart, instruction, own_question, place, question, task_type, band, "
        "middle, order_position, time_position, token_position, evidence_from, evidence_pieces, "
        "judged, prompt_band, in_order, coalesce(altered_passages, len(altered)) AS altered, "
        f"{', '.join(TOKENS)}, "
        "prompt_chance, "
        "prompt_all_chance, "
        + ", ".join(f"{step}{of}" for step in LOCATED_STEPS for of in CRITERIA.values())
    )
    rows = store.select("audited", names, "status = 'ok'")
    order = {entry.label: place for place, entry in enumerate(plan.arms)}
    rows.sort(key=lambda row: (order.get(row["source"], -1), row["source"], row["instruction"]))
    systems = [row for row in rows if row["role"] == "system"]
    failed = store.select("audited", "source, instruction, place, reason", "status = 'failed'")
    return {
        "ledger": ledger(rows, plan),
        "against_arms": differences(rows),
        "prompt_positions": prompt_positions(systems),
        "types": types(systems),
        "prompts": prompts(systems),
        "worst": worst(systems),
        "log": log_table(plan, systems),
        "failures": failed,
    }


def span_of(row: Mapping[str, int]) -> Span:
    """Characters of an event that a row names (``kept``)."""
    return Span(row["event"], row["first"], row["last"])


def reached(row: Mapping[str, Any], step: str, criterion: str) -> bool | None:
    """Whether a question's evidence is there after a step; None where that is not known."""
    if not row["evidence_pieces"]:
        return None
    if step == "chart":
        return True
    if step == "read":
        return None if row["judged"] in (None, "failed", "unparsed") else row["judged"] == "correct"
    return row[f"{step}{CRITERIA[criterion]}"]


def ledger(rows: Iterable[Mapping[str, Any]], plan: Plan) -> Table:
    """One row each source × criterion × step × band: of ``n`` questions, ``hits`` whose evidence is
    there.

    ``lost``: of those that had it after the step ``before``, how many lost it here; ``regained``:
    the reverse (an answer that is correct without the evidence). ``chance``: random sentences with
    as many tokens as the prompt. ``null_low`` and ``null_high``: what 95 % of permutations of the
    questions' positions give a band, so a share within them is no effect of position.
    ``from_reviewer``: questions whose evidence people marked, on cards of an earlier audit or of
    their own accord; the others' is the cohort's or the log's.
    """
    groups = grouped(rows, lambda row: (row["source"], row["role"]))
    table: Table = []
    for (source, role), those in groups.items():
        for criterion in CRITERIA:
            before = ""
            for step in STEPS if role == "system" else ("prompt",):
                known = [row for row in those if reached(row, step, criterion) is not None]
                if not known:
                    continue
                null = _null(known, step, criterion, plan, source) if step != "chart" else {}
                # All of the evidence is in the chart, in every band.
                for band in ALL_BANDS if step != "chart" else ("overall",):
                    named = {
                        "source": source, "role": role, "criterion": criterion, "step": step,
                        "after_step": STEP_TITLES[step], "band": band, "before": before or None,
                    }  # fmt: skip
                    inside = [row for row in known if band in _bands_of(row)]
                    table.append(
                        {
                            **named,
                            **_counted(inside, step, criterion, before),
                            **ends("null_", null.get(band)),
                            "from_reviewer": sum(
                                row["evidence_from"] == REVIEWER for row in inside
                            ),
                        }
                    )
                before = step
    return table


def _counted(
    rows: Sequence[Mapping[str, Any]], step: str, criterion: str, before: str
) -> dict[str, Any]:
    """Hits, share with its intervals, what was lost since the step before, and chance."""
    hits = [bool(reached(row, step, criterion)) for row in rows]
    n, records = len(rows), [row["record"] for row in rows]
    earlier = [reached(row, before, criterion) for row in rows] if before else []
    pairs = Counter(zip(earlier, hits, strict=True)) if before else Counter()
    column = f"prompt{CRITERIA[criterion]}_chance"
    chances = [row[column] for row in rows if row[column] is not None]
    return {
        "n": n,
        "patients": len(set(records)),
        "hits": sum(hits),
        "share": sum(hits) / n if n else None,
        **ends("patient_", share_interval(hits, records) if n else None),
        **ends("wilson_", wilson_interval(sum(hits), n) if n else None),
        "lost": pairs[True, False] if before else None,
        "regained": pairs[False, True] if before else None,
        "chance": sum(chances) / n if step == "prompt" and n and len(chances) == n else None,
    }


def _null(
    rows: Sequence[Mapping[str, Any]], step: str, criterion: str, plan: Plan, source: str
) -> dict[str, tuple[float, float]]:
    """Band → ends of the shares that permuted positions give; bands without a question are left
    out, and all where no two patients can be exchanged."""
    column = f"{plan.protocol.position}_position"
    placed = sorted(
        (row for row in rows if row[column] is not None and row["band"] != UNLOCATED),
        key=lambda row: row["record"],
    )
    if not placed:
        return {}
    number = {record: i for i, record in enumerate(sorted({row["record"] for row in placed}))}
    positions = np.array([row[column] for row in placed])
    right = np.array([float(bool(reached(row, step, criterion))) for row in placed])
    ones = np.ones(len(placed))
    responses = assemble(
        [number[row["record"]] for row in placed], right, ones, positions, ones.astype(np.uint64)
    )
    cut = cells(positions, 10)
    rng = generator(plan, "audit", source, step, criterion)
    totals = permutation_totals(responses, cut, plan.protocol.resamples, rng)
    if totals is None:
        return {}
    # Deciles of the record belong to bands; the middle and the edge are zones.
    deciles = np.array([[low <= d / 10 < high for d in range(10)] for _, low, high in BANDS])
    names = [*(name for name, _, _ in BANDS), "middle", "edge"]
    member = np.hstack([cut.bins @ deciles.T.astype(np.float64), cut.zones])
    n = np.bincount(cut.index, minlength=cut.count) @ member
    used = np.flatnonzero(n)
    low, high = clustered_intervals((totals @ member)[:, used] / n[used])
    return {
        names[i]: (float(a), float(b)) for i, a, b in zip(used.tolist(), low, high, strict=True)
    }


def differences(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The system minus each arm at the same tokens: a row each system × arm × criterion, on the
    questions of which both are known; the interval is Newcombe's paired one by patient
    (:func:`midchart.core.stats.paired.paired_floor`), null for fewer than five patients."""
    by_source: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = defaultdict(dict)
    for row in rows:
        by_source[row["role"], row["source"]][row["instruction"]] = row
    systems = [key for key in by_source if key[0] == "system"]
    arms = [key for key in by_source if key[0] == "arm"]
    table: Table = []
    for system, arm, criterion in product(systems, arms, CRITERIA):
        patients: dict[str, int] = {}
        counts: list[list[float]] = []
        for id, row in by_source[system].items():
            other = by_source[arm].get(id)
            pair = reached(row, "prompt", criterion), other and reached(other, "prompt", criterion)
            if None in pair:
                continue
            at = patients.setdefault(row["record"], len(patients))
            if at == len(counts):
                counts.append([0.0] * 4)
            counts[at][3 - 2 * bool(pair[0]) - bool(pair[1])] += 1
        if not counts:
            continue
        both, only_system, only_arm, neither = np.sum(counts, axis=0).astype(int).tolist()
        n = both + only_system + only_arm + neither
        interval = reported_interval(None, len(patients), paired_floor(counts))
        table.append(
            {
                "source": system[1],
                "label": arm[1],
                "criterion": criterion,
                "n": n,
                "patients": len(patients),
                "system_share": (both + only_system) / n,
                "arm_share": (both + only_arm) / n,
                "only_system": only_system,
                "only_arm": only_arm,
                "difference": (only_system - only_arm) / n,
                **ends("patient_", interval),
            }
        )
    return table


def prompt_positions(rows: Iterable[Mapping[str, Any]]) -> Table:
    """Answers that are correct, by the part of the prompt in which the evidence begins, of the
    questions with evidence in the prompt; a row each source × part."""
    known = (row for row in rows if reached(row, "read", ANY) is not None)
    placed = (row for row in known if row["prompt"] and row["prompt_band"])
    groups = grouped(placed, lambda row: (row["source"], row["prompt_band"]))
    order = [name for name, _, _ in BANDS]
    return [
        {"source": source, "prompt_band": band, **_counted(those, "read", ANY, "")}
        for (source, band), those in sorted(
            groups.items(), key=lambda item: (item[0][0], order.index(item[0][1]))
        )
    ]


def types(rows: Iterable[Mapping[str, Any]]) -> Table:
    """All pieces in the prompt by the question's type; a row each source × type."""
    known = (row for row in rows if reached(row, "prompt", ALL) is not None)
    groups = grouped(known, lambda row: (row["source"], row["task_type"] or "not stated"))
    return [
        {"source": source, "task_type": kind, **_counted(those, "prompt", ALL, "chart")}
        for (source, kind), those in sorted(groups.items())
    ]


def prompts(rows: Iterable[Mapping[str, Any]]) -> Table:
    """What prompts are made of; a row each source: mean tokens, and shares of all but the frame.

    ``altered``: prompts with words that differ from the record between equal text;
    ``with_other_patient``: prompts with text of another patient's record.
    """
    counted = (row for row in rows if row["context_tokens"] is not None)
    groups = grouped(counted, lambda row: row["source"])
    table: Table = []
    for source, those in groups.items():
        sums = {name: sum(row[name] for row in those) for name in TOKENS}
        context = max(1, sums["context_tokens"])
        ordered = [row["in_order"] for row in those if row["in_order"] is not None]
        table.append(
            {
                "source": source,
                "n": len(those),
                "context_tokens": sums["context_tokens"] / len(those),
                **{name.replace("_tokens", "_share"): sums[name] / context for name in TOKENS[1:5]},
                "altered": sum(bool(row["altered"]) for row in those),
                "with_other_patient": sum(row["other_patient_tokens"] > 0 for row in those),
                "in_order": sum(ordered) / len(ordered) if ordered else None,
            }
        )
    return table


def lost_at(row: Mapping[str, Any], criterion: str = ALL) -> str:
    """The first step after which evidence is gone, or "read" for a wrong answer with all of it;
    "" where nothing was lost or it is not known."""
    return next((s for s in STEPS if reached(row, s, criterion) is False), "")


def worst(rows: Iterable[Mapping[str, Any]]) -> Table:
    """The questions to look at first: evidence lost and answered wrongly, then text of another
    patient, then evidence lost, then the most foreign text; :data:`MOST_WORST` a source at most."""

    def weight(row: Mapping[str, Any]) -> tuple[Any, ...]:
        wrong = reached(row, "read", ALL) is False
        gone = lost_at(row) not in ("", "read")
        return wrong and gone, bool(row["other_patient_tokens"]), gone, wrong, row[TOKENS[4]] or 0

    listed: Counter[str] = Counter()
    chosen: list[Mapping[str, Any]] = []
    for row in sorted((row for row in rows if any(weight(row))), key=weight, reverse=True):
        listed[row["source"]] += 1
        if listed[row["source"]] <= MOST_WORST:
            chosen.append(row)
    return [
        {
            "source": row["source"],
            "question": row["question"],
            "lost_at": STEP_TITLES.get(lost_at(row), ""),
            "judged": row["judged"],
            "band": row["band"],
            "evidence_pieces": row["evidence_pieces"],
            "record": row["chart"],
            "place": row["place"],
            "instruction": row["instruction"],
            "own_question": row["own_question"],
            **{name: row[name] for name in (*TOKENS, "altered")},
        }
        for row in chosen
    ]


def log_table(plan: Plan, systems: Sequence[Mapping[str, Any]]) -> Table:
    """What became of the log's samples, a row each count."""
    facts = plan.raw["found"]
    counts = {
        "samples joined to a record": facts["samples"],
        "joined by content, as the log names no record": facts["by_content"],
        "left out: in no record, or not readable": facts["unread_count"],
        "with known evidence": sum(row["evidence_from"] is not None for row in systems),
        "with evidence that people marked": sum(
            row["evidence_from"] == REVIEWER for row in systems
        ),
        "with evidence located in the record": sum(bool(row["evidence_pieces"]) for row in systems),
        "with an answer that a reference judges": sum(
            row["judged"] in ("correct", "incorrect") for row in systems
        ),
    }
    return [{"measure": name, "count": count} for name, count in counts.items()]


def warnings(plan: Plan) -> list[str]:
    """What to know before reading the tables."""
    facts = plan.raw["found"]
    lines = list(facts["unread"])
    if (more := facts["unread_count"] - len(lines)) > 0:
        lines.append(f"{more:,} more samples were left out")
    if marked := facts.get("by_reviewers"):
        lines.append(
            f"people marked the evidence of {marked:,} question{'s' * (marked != 1)} of the "
            "ledger; cards of an earlier audit are harder than others, as they were drawn for "
            "being uncertain, and a comparison with an earlier audit leaves them out"
        )
    lines.append(
        "text is located exactly or, where it is reworded, by the search whose errors the check of "
        "the cohort measures; text that a record has several times counts at all of its places"
    )
    if not plan.judge_entries:
        lines.append("the run has no judge, so whether answers are correct is not known")
    return lines
