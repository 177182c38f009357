"""Tables of selections: recall by band (PROTOCOL, Stage 1), by k, and what prompts cost and lost.

A selection is made once an arm entry and instruction, whatever reads it; with several readers it
stands in several rows and is counted once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from core.run.entries import ArmEntry
from core.run.plan import Plan
from core.run.tables.common import ALL_BANDS, WIDE_BANDS, Table, bands_of, entry_columns, intervals
from core.run.tables.stage1_facts import IN_PROMPT, LEXICAL, Criterion, Stage1Facts
from core.stats import wilson_interval
from core.store import RowStore


def recall(facts: Stage1Facts, plan: Plan) -> Table:
    """One row each arm entry × criterion × band.

    Lexical counts questions with a reference answer, evidence-id those whose evidence was
    located, semantic those that were scored; a selection that failed counts in none. ``hits`` are
    those of all that was kept, ``picked_hits`` those of the arm's own picks, without the recency
    buffer, with their share and its Wilson interval.

    Evidence "in prompt" is what the ``reader`` was given after all cuts (what the protocol's own
    limits leave, where nobody read); ``prompts_cut`` counts prompts that lost anything,
    ``kept_but_cut`` those of them that lost all evidence the arm had kept, ``cut_at`` is the
    longest of the cut prompts, in tokens.
    """
    counted: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    criteria = (*facts.prompts, *facts.criteria)
    for row in facts.rows:
        for criterion in criteria:
            hit = row[criterion.column]
            if hit is None:
                continue
            told = {
                "n": 1,
                "hits": int(hit),
                "picked": int(bool(row[f"{criterion.column}_picked"])),
                **(_cut(row, criterion.column) if criterion.name == IN_PROMPT else {}),
            }
            for band in bands_of(row):
                counted[row["label"], _name(criterion), band].update(told)
    longest: dict[tuple[str, str], int] = {}
    for row in facts.rows:
        for prompt in facts.prompts:
            if row[f"{prompt.column}_cut"]:
                key = (row["label"], prompt.column)
                longest[key] = max(longest.get(key, 0), row[f"{prompt.column}_tokens"])
    table: Table = []
    for entry in plan.arms:
        for criterion in criteria:
            prompted = criterion.name == IN_PROMPT
            for band in ALL_BANDS:
                count = counted[entry.label, _name(criterion), band]
                name = (entry.label, criterion.name, *filter(None, [criterion.reader]), band)
                found = intervals(count["hits"], count["n"], plan, "recall", *name)
                alone = wilson_interval(count["picked"], count["n"]) if count["n"] else None
                table.append(
                    {
                        **entry_columns(entry),
                        "criterion": criterion.name,
                        "reader": criterion.reader,
                        "band": band,
                        "n": count["n"],
                        "hits": count["hits"],
                        "recall": found.pop("share"),
                        **found,
                        "picked_hits": count["picked"],
                        "picked_recall": alone.estimate if alone else None,
                        "picked_low": alone.low if alone else None,
                        "picked_high": alone.high if alone else None,
                        "kept_but_cut": count["kept_but_cut"] if prompted else None,
                        "prompts_cut": count["cut"] if prompted else None,
                        "cut_at": longest.get((entry.label, criterion.column)),
                    }
                )
    return table


def _name(criterion: Criterion) -> str:
    """What tells a criterion apart: several share a column, or a name in several prompts."""
    return f"{criterion.name}\0{criterion.reader}"


def _cut(row: Mapping[str, Any], column: str) -> dict[str, int]:
    """Whether a prompt lost lines, and whether it lost what was kept of the evidence."""
    lost = bool(row["evidence"]) and not row[column]
    return {"cut": int(bool(row[f"{column}_cut"])), "kept_but_cut": int(lost)}


def overlap(facts: Stage1Facts, plan: Plan) -> Table:
    """How the lexical criterion and each other one agree, a row each arm entry × criterion × band
    (overall, middle, edge).

    ``both``, ``criterion_only`` (no word of the answer, yet a hit), ``lexical_only`` (a word of
    the answer, and no hit) and ``neither`` add up to ``n``, the questions for which both are
    known; the shares of the two that disagree have Wilson's interval.
    """
    counted: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    others = [criterion for criterion in facts.criteria if criterion is not LEXICAL]
    names = {(1, 1): "both", (1, 0): "criterion_only", (0, 1): "lexical_only", (0, 0): "neither"}
    for fact in facts.rows:
        for criterion in others:
            hit, word = fact[criterion.column], fact[LEXICAL.column]
            if hit is not None and word is not None:
                for band in bands_of(fact):
                    counted[fact["label"], criterion.name, band][names[int(hit), int(word)]] += 1
    table: Table = []
    for entry in plan.arms:
        for criterion in others:
            for band in WIDE_BANDS:
                count = counted[entry.label, criterion.name, band]
                n = count.total()
                row: dict[str, Any] = {
                    **entry_columns(entry),
                    "criterion": criterion.name,
                    "band": band,
                    "n": n,
                    **{name: count[name] for name in names.values()},
                }
                for name in ("criterion_only", "lexical_only"):
                    share = wilson_interval(count[name], n) if n else None
                    row |= {
                        f"{name}_share": share.estimate if share else None,
                        f"{name}_low": share.low if share else None,
                        f"{name}_high": share.high if share else None,
                    }
                table.append(row)
    return table


NO_LINES: Mapping[str, Any] = dict.fromkeys(("precision", "ci_low", "ci_high"))
"""The precision of a criterion that asks nothing of single lines."""


def recall_sweep(plan: Plan, recalled: Table, precise: Table, spent: Table) -> Table:
    """Recall, precision and tokens of the entries that differ in k alone, k ascending, overall.

    From the rows of ``recall``, ``precision`` (of the arm's own picks) and ``tokens``.
    """
    families: dict[str, list[ArmEntry]] = defaultdict(list)
    for entry in plan.arms:
        same = (entry.name, entry.recency, entry.tokens, sorted(entry.options.items()))
        families[repr(same)].append(entry)
    swept = [
        entry
        for family in families.values()
        if len({entry.k for entry in family}) > 1
        for entry in sorted(family, key=lambda entry: entry.k)
    ]
    whole = {
        (r["label"], r["criterion"], r["reader"]): r for r in recalled if r["band"] == "overall"
    }
    share = {
        (r["label"], r["criterion"]): r
        for r in precise
        if r["band"] == "overall" and r["of"] == "picked"
    }
    cost = {row["label"]: row["selection_tokens"] for row in spent}
    table: Table = []
    for entry in swept:
        for (label, criterion, _), row in whole.items():
            if label == entry.label:
                of_picks = share.get((label, criterion), NO_LINES)
                table.append(
                    {name: value for name, value in row.items() if name != "band"}
                    | {
                        "precision": of_picks["precision"],
                        "precision_low": of_picks["ci_low"],
                        "precision_high": of_picks["ci_high"],
                        "tokens": cost.get(label),
                    }
                )
    return table


def tokens(store: RowStore, plan: Plan) -> Table:
    """Means an arm entry (and reader): sentences, tokens, what packing cut, what survived.

    ``buffer_tokens``: those of the recency buffer that the arm did not choose itself;
    ``mostly_buffer`` counts the selections in which they are more than half.
    """
    own = (
        "count(*) AS n, avg(len(selection)) AS sentences, "
        "avg(selection_tokens) AS selection_tokens, avg(buffer_tokens) AS buffer_tokens, "
        "count(*) FILTER (2 * buffer_tokens > selection_tokens) AS mostly_buffer, "
        "avg(evidence_share) AS evidence_share, "
        "avg(selection_seconds) AS selection_seconds"
    )
    main = "selections" if "selections" in store.schemas else "answers"
    if main == "selections":
        columns, readers = f"label, {own}", [""]
    else:
        columns = (
            f"label, reader, {own}, avg(prompt_tokens) AS prompt_tokens, "
            "sum(len(cut)) / nullif(sum(len(selection)), 0) AS cut_share, "
            "avg(question_survived::INT) AS question_survived, "
            "avg(evidence_in_prompt::INT) AS evidence_in_prompt, avg(seconds) AS seconds"
        )
        readers = list(plan.readers)
    found: dict[tuple[str, str], dict[str, Any]] = {
        (row["label"], row.get("reader", "")): row
        for row in store.select(main, columns, f"status = 'ok' AND ({store.counted}) GROUP BY ALL")
    }
    table: Table = []
    for entry in plan.arms:
        for reader in readers:
            row = found.get((entry.label, reader))
            if row is not None:
                table.append(
                    {**entry_columns(entry), **{k: v for k, v in row.items() if k != "label"}}
                )
    return table
