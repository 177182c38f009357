"""Runs of kind ``selection``: every arm's selection for every question, without a reader.

Its tables (docs/methods.md, Stage 1) are those of runs of kind ``answers`` too: recall by band and
k, precision, agreement of criteria, and what prompts cost and lost.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import chain, combinations, product
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field

from midchart.core.arms.hits import Question, buffer_claims, question_of
from midchart.core.embedding.pairs import require
from midchart.core.errors import reason_of
from midchart.core.experiments.answers import conclusion
from midchart.core.experiments.answers.views import SELECTION_VIEWS
from midchart.core.format import finite
from midchart.core.options import Count, Known, Options, Several, different
from midchart.core.provenance import digest, now
from midchart.core.results.funnel import funnel
from midchart.core.results.tables import (
    ALL_BANDS,
    ALL_PIECES,
    ANY_PIECE,
    CHANCES,
    LEXICAL,
    OF,
    WIDE_BANDS,
    Stage1Facts,
    bands_of,
    ends,
    entry_columns,
    failures,
    generator,
    intervals,
    run_locations,
    stage1_facts,
    swept_by_k,
)
from midchart.core.runs.answering import select
from midchart.core.runs.declared import Conclusion
from midchart.core.runs.experiment import EXPERIMENTS, Experiment, Table, need_instructions
from midchart.core.runs.job import Job, Row
from midchart.core.runs.plan import ArmConfig, Plan, Spec
from midchart.core.runs.schemas import (
    ALL_IN_PROMPT,
    ALL_KEPT,
    SELECTIONS,
    SEMANTIC,
    entry_text,
    item_of,
)
from midchart.core.runs.semantic import ABOUT, score_semantic
from midchart.core.stats.intervals import cluster_totals, clustered_intervals, ratio
from midchart.core.stats.paired import (
    correlation_of,
    paired_floor,
    reported_interval,
    share_floor,
    share_interval,
)
from midchart.core.storage.rows import RowStore, Schema
from midchart.core.text.prompt import limited, limits
from midchart.core.types import Cohort, Instruction, Selection

SCHEMAS: Mapping[str, Schema] = {"semantic": SEMANTIC}
"""The table of semantic hits, in addition to those of a kind."""


class SelectionOptions(Options):
    """The fields of kinds ``selection`` and ``answers``."""

    semantic: Annotated[
        bool | Annotated[str, Known("value of 'semantic' (or true, false)", lambda: ABOUT)],
        Field(union_mode="left_to_right"),
    ] = False
    """Kept sentences are compared with the reference "answer" (or true) or the "evidence" too."""
    token_matched: Annotated[
        Several[Count],
        AfterValidator(different),
        BeforeValidator(
            lambda value: [value] if isinstance(value, int) else value,
            json_schema_input_type=Count | list[Count],
        ),
    ] = ()
    """Every arm once more with each of these budgets in tokens, instead of its k."""

    def plan(self) -> dict[str, Any]:
        """``semantic`` is "answer", "evidence" or ""; raises MissingModel where its model is not
        installed."""
        if self.semantic:
            require()
        about = self.semantic if isinstance(self.semantic, str) else ABOUT[0] * self.semantic
        return super().plan() | {"semantic": about}


def recall(facts: Stage1Facts, plan: Plan) -> Table:
    """One row each arm entry × criterion × band; columns as docs/guide.md, Stage 1, has them.

    A question counts where the criterion is known of it; a selection that failed counts in none.
    ``hits`` are those of all that was kept, ``picked_hits`` those of the arm's own picks; intervals
    by patient, null for fewer than 5. ``chance`` is null for semantic hits and, of all pieces, in
    runs of earlier versions; so is ``unmatched`` (units that the arm kept without a reason) for an
    arm that scores no units. Prompts that lost anything: ``prompts_cut`` of ``cut_at_least`` to
    ``cut_at_most`` tokens, ``kept_but_cut`` where the hit was lost by that.
    """
    # Rows by arm, criterion and band; how alike a patient's questions are, pooled over arms.
    criteria = (*facts.prompts, *facts.criteria)
    groups: dict[tuple[str, int, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in facts.rows:
        for c, criterion in enumerate(criteria):
            if row[criterion.column] is not None:
                for band in bands_of(row):
                    groups[row["label"], c, band].append(row)

    alike = {
        column: correlation_of(
            ([bool(row[column]) for row in rows], [row["record"] for row in rows])
            for rows in (groups[entry.label, c, "overall"] for entry in plan.arms)
        )
        for c, criterion in enumerate(criteria)
        for column in (criterion.column, f"{criterion.column}_picked")
    }
    table: Table = []
    for entry, (c, criterion), band in product(plan.arms, enumerate(criteria), ALL_BANDS):
        rows = groups[entry.label, c, band]
        column, n = criterion.column, len(rows)
        # Hits, their intervals, and what a prompt's limits cut.
        hits, picked = ([bool(row[of]) for row in rows] for of in (column, f"{column}_picked"))
        records = [row["record"] for row in rows]
        name = (entry.label, criterion.name, *filter(None, [criterion.reader]), band)
        drawn = intervals(sum(hits), n, plan, "recall", *name)
        prompted = bool(criterion.selected)
        cut = [row[f"{column}_tokens"] for row in rows if prompted and row[f"{column}_cut"]]
        lost = sum(bool(row[criterion.selected]) and not row[column] for row in rows if prompted)
        kept_ends, picked_ends = (
            share_interval(of, records, correlation=alike[name])
            for of, name in ((hits, column), (picked, f"{column}_picked"))
        )
        # Semantic hits have no chance.
        chance, picked_chance = (_mean(row.get(f"{column}_{of}") for row in rows) for of in CHANCES)
        any_piece = criterion.any_piece
        table.append(
            {
                **entry_columns(entry),
                "criterion": criterion.name,
                "reader": criterion.reader,
                "band": band,
                "n": n,
                "hits": sum(hits),
                "recall": drawn.pop("share"),
                "patients": len(set(records)),
                **ends("patient_", kept_ends),
                **drawn,
                "chance": chance,
                "any_piece": _mean(row[any_piece] for row in rows) if any_piece else None,
                "any_piece_chance": _mean(row[f"{any_piece}_chance"] for row in rows)
                if any_piece
                else None,
                "evidence_share": _mean(
                    row[criterion.share] for row in rows if row[criterion.share] is not None
                ),
                "picked_hits": sum(picked),
                "picked_recall": sum(picked) / n if n else None,
                **ends("picked_", picked_ends),
                "picked_chance": picked_chance,
                "unmatched": _mean(row["unmatched"] for row in rows),
                "kept_but_cut": lost if prompted else None,
                "prompts_cut": len(cut) if prompted else None,
                "cut_at_least": min(cut, default=None),
                "cut_at_most": max(cut, default=None),
            }
        )
    return table


def _mean(values: Iterable[float | None]) -> float | None:
    """The mean; None where there is no value or one is not known."""
    listed = list(values)
    known = [value for value in listed if value is not None]
    return sum(known) / len(known) if known and len(known) == len(listed) else None


def differences(facts: Stage1Facts, plan: Plan) -> Table:
    """How much more often one arm keeps all (or any) pieces of the evidence than another with the
    same budget, on the same questions: a row each pair of arm entries × criterion, over all bands.

    The interval is a bootstrap over patients widened to hold Newcombe's
    (:func:`midchart.core.stats.paired.paired_floor`), null for fewer than 5 patients.
    """
    table: Table = []
    pairs = [(a, b) for a, b in combinations(plan.arms, 2) if a.budget == b.budget]
    for criterion in (ALL_PIECES, ANY_PIECE):
        known = [row for row in facts.rows if row[criterion.column] is not None]
        if not known or not pairs:
            continue
        # Outcomes of each arm by question.
        patients = {name: i for i, name in enumerate(sorted({row["record"] for row in known}))}
        questions = {
            name: i for i, name in enumerate(sorted({row["instruction"] for row in known}))
        }
        outcomes = {entry.label: np.full(len(questions), np.nan) for entry in plan.arms}
        patient = np.zeros(len(questions), np.int64)
        for row in known:
            outcomes[row["label"]][questions[row["instruction"]]] = bool(row[criterion.column])
            patient[questions[row["instruction"]]] = patients[row["record"]]
        # Of each patient and pair: questions that both, one or neither arm hit.
        cells = np.zeros((len(patients), len(pairs), 4))
        for i, (first, second) in enumerate(pairs):
            outcome = 3 - 2 * outcomes[first.label] - outcomes[second.label]
            both = ~np.isnan(outcome)
            np.add.at(cells[:, i], (patient[both], outcome[both].astype(np.int64)), 1.0)
        rng = generator(plan, "differences", criterion.name)
        flat = cells.reshape(len(patients), -1)
        drawn = cluster_totals(flat, plan.protocol.resamples, rng).reshape(-1, len(pairs), 4)
        shares = ratio(drawn[:, :, 1] - drawn[:, :, 2], drawn.sum(axis=2))
        # A row a pair, with its interval by patient.
        for i, (first, second) in enumerate(pairs):
            _, only_first, only_second, _ = (int(count) for count in cells[:, i].sum(axis=0))
            n, clusters = int(cells[:, i].sum()), int((cells[:, i].sum(axis=1) > 0).sum())
            interval = None
            if n:
                floor = paired_floor(cells[:, i])
                interval = reported_interval(shares[:, i], clusters, floor)
            table.append(
                {
                    "criterion": criterion.name,
                    "budget": first.shown_budget,
                    "first": first.label,
                    "second": second.label,
                    "n": n,
                    "patients": clusters,
                    "only_first": only_first,
                    "only_second": only_second,
                    "difference": (only_first - only_second) / n if n else None,
                    **ends("ci_", interval),
                }
            )
    return table


def overlap(facts: Stage1Facts, plan: Plan) -> Table:
    """How the lexical criterion and each other one agree on the questions for which both are known,
    a row each arm entry × criterion × band (overall, middle, edge)."""
    others = [criterion for criterion in facts.criteria if criterion is not LEXICAL]
    names = {(1, 1): "both", (1, 0): "criterion_only", (0, 1): "lexical_only", (0, 0): "neither"}
    groups: dict[tuple[str, str, str], list[tuple[str, str]]] = defaultdict(list)
    for row in facts.rows:
        for criterion in others:
            hit, word = row[criterion.column], row[LEXICAL.column]
            if hit is not None and word is not None:
                for band in bands_of(row):
                    group = groups[row["label"], criterion.name, band]
                    group.append((names[int(hit), int(word)], row["record"]))
    table: Table = []
    for entry, criterion, band in product(plan.arms, others, WIDE_BANDS):
        group = groups[entry.label, criterion.name, band]
        count, n = Counter(name for name, _ in group), len(group)
        columns: dict[str, Any] = {
            **entry_columns(entry),
            "criterion": criterion.name,
            "band": band,
            "n": n,
            **{name: count[name] for name in names.values()},
        }
        for name in ("criterion_only", "lexical_only"):
            hits = [one == name for one, _ in group]
            columns[f"{name}_share"] = count[name] / n if n else None
            columns |= ends(f"{name}_", share_interval(hits, [record for _, record in group]))
        table.append(columns)
    return table


def recall_sweep(plan: Plan, recalled: Table, precise: Table, tokens: Table) -> Table:
    """Recall, precision and tokens of the entries that differ in k alone, k ascending, overall.

    From the rows of ``recall``, ``precision`` (of the arm's own picks) and ``tokens``.
    """
    by_label: dict[str, Table] = defaultdict(list)
    for row in recalled:
        if row["band"] == "overall":
            by_label[row["label"]].append({k: v for k, v in row.items() if k != "band"})
    share = {
        (row["label"], row["criterion"]): row
        for row in precise
        if row["band"] == "overall" and row["of"] == "picked"
    }
    cost = {row["label"]: row["selection_tokens"] for row in tokens}
    # A criterion of prompts has no precision: it asks nothing of single lines.
    columns = {"precision": "precision", "precision_low": "ci_low", "precision_high": "ci_high"}
    return [
        row
        | {
            name: share.get((label, row["criterion"]), {}).get(column)
            for name, column in columns.items()
        }
        | {"tokens": cost.get(label)}
        for label in swept_by_k(plan)
        for row in by_label[label]
    ]


def tokens(store: RowStore, plan: Plan) -> Table:
    """Means an arm entry (and reader): sentences, tokens, what packing cut, what survived.

    Without a reader the prompt is the selection within the protocol's own limits. ``mostly_buffer``
    counts the selections of which the recency buffer is more than half.
    """
    main = "selections" if "selections" in store.schemas else "answers"
    readers, named, of_prompts = [""], "label", ""
    if main == "answers":
        readers, named = list(plan.readers), "label, reader"
        of_prompts = (
            "avg(prompt_tokens) AS prompt_tokens, avg(question_survived::INT) AS question_survived,"
            " sum(len(cut)) / nullif(sum(len(selection)), 0) AS cut_share, avg(seconds) AS seconds,"
        )
    in_prompt = "avg(CASE WHEN prompt_tokens IS NULL THEN {} ELSE {} END{}) AS {}, "
    columns = (
        f"{named}, count(*) AS n, avg(len(selection)) AS sentences, {of_prompts} "
        "avg(selection_tokens) AS selection_tokens, avg(buffer_tokens) AS buffer_tokens, "
        "avg(filler_tokens) AS filler_tokens, avg(selection_seconds) AS selection_seconds, "
        "count(*) FILTER (2 * buffer_tokens > selection_tokens) AS mostly_buffer, "
        + in_prompt.format(ALL_KEPT, ALL_IN_PROMPT, "::INT", "evidence_all_in_prompt")
        + in_prompt.format("evidence", "evidence_in_prompt", "::INT", "evidence_in_prompt")
        + in_prompt.format("evidence_share", "evidence_share_in_prompt", "", "evidence_share")
        + f"count(*) FILTER ({ALL_KEPT} AND NOT {ALL_IN_PROMPT}) AS kept_but_cut, "
        "count(*) FILTER (prompt_cut) AS prompts_cut, "
        "min(prompt_tokens) FILTER (prompt_cut) AS cut_at_least, "
        "max(prompt_tokens) FILTER (prompt_cut) AS cut_at_most"
    )
    # Means by arm and reader.
    means = {
        (row.pop("label"), row.get("reader", "")): row
        for row in store.select(main, columns, f"status = 'ok' AND ({store.counted}) GROUP BY ALL")
    }
    return [
        {**entry_columns(entry), **means[entry.label, reader]}
        for entry, reader in product(plan.arms, readers)
        if (entry.label, reader) in means
    ]


def precision(facts: Stage1Facts, plan: Plan) -> Table:
    """One row each arm entry × criterion × kept or picked × band (overall, middle, edge): the share
    of the ``n`` lines of ``questions`` selections that are hits; null where there is no line."""
    criteria = [criterion for criterion in facts.criteria if criterion.by_line]
    cells = list(product(plan.arms, criteria, OF))
    index = {(entry.label, c.name, of): i for i, (entry, c, of) in enumerate(cells)}
    rows_by_cell: list[Table] = [[] for _ in cells]
    for band in WIDE_BANDS:
        rows = [row for row in facts.rows if band in bands_of(row)]
        number = {name: i for i, name in enumerate(sorted({row["instruction"] for row in rows}))}
        # Hits and lines of each question, by cell.
        hits = np.zeros((len(number), len(cells)))
        lines = np.zeros((len(number), len(cells)))
        questions = [0] * len(cells)
        for row, c, of in product(rows, criteria, OF):
            hit = row[f"{c.column}_{of}"]
            if hit is not None and row[of] is not None:
                cell = index[row["label"], c.name, of]
                at = number[row["instruction"]], cell
                hits[at], lines[at] = hit, row[of]
                questions[cell] += 1
        # Intervals by question.
        shown: list[tuple[float, float] | None] = [None] * len(cells)
        if number:
            rng = generator(plan, "precision", band)
            drawn = cluster_totals(np.hstack([hits, lines]), plan.protocol.resamples, rng)
            drawn_hits, drawn_lines = drawn[:, : len(cells)], drawn[:, len(cells) :]
            shares = ratio(drawn_hits, drawn_lines)
            if plan.protocol.intervals == "percentile":
                low, high = clustered_intervals(shares)
                shown = list(zip(low.tolist(), high.tolist(), strict=True))
            else:
                for i in np.flatnonzero(lines.sum(axis=0)):
                    floor = share_floor(hits[:, i], lines[:, i])
                    shown[i] = reported_interval(shares[:, i], int((lines[:, i] > 0).sum()), floor)
        for i, (entry, c, of) in enumerate(cells):
            n, all_hits = int(lines[:, i].sum()), int(hits[:, i].sum())
            low, high = shown[i] or (np.nan, np.nan)
            rows_by_cell[i].append(
                {
                    **entry_columns(entry),
                    "criterion": c.name,
                    "of": of,
                    "band": band,
                    "questions": questions[i],
                    "n": n,
                    "hits": all_hits,
                    "precision": all_hits / n if n else None,
                    "ci_low": finite(low),
                    "ci_high": finite(high),
                }
            )
    return list(chain.from_iterable(rows_by_cell))


def stages(options: Mapping[str, Any]) -> int:
    """Number of items per selection after its own row: 1 where semantic hits are scored."""
    return int(bool(options.get("semantic")))


def stage1_tables(store: RowStore, plan: Plan) -> dict[str, Table]:
    """The tables of Stage 1, by name (docs/methods.md, Stage 1)."""
    facts = stage1_facts(store, plan)
    recalled = recall(facts, plan)
    precise = precision(facts, plan)
    spent = tokens(store, plan)
    return {
        "recall": recalled,
        "precision": precise,
        "recall_sweep": recall_sweep(plan, recalled, precise, spent),
        "overlap": overlap(facts, plan),
        "tokens": spent,
        "location": run_locations(store, plan, EXPERIMENTS.build(plan.kind).main),
    }


def stage1_warnings(plan: Plan) -> list[str]:
    """What to know before reading these tables."""
    about = plan.options.get("semantic", "")
    if not about:
        return ["semantic hits were not scored; a spec asks for them with: semantic = true"]
    return [f"semantic hits compare kept sentences with the reference {about}"]


# The experiment.


def _limited(job: Job, entry: ArmConfig, question: Question, selection: Selection) -> Row:
    """Columns of a selection cut to the protocol's own limits; failed with its reason where they
    leave no room for the question."""
    try:
        prompt = limited(question.instruction.question, selection, job.protocol)
    except Exception as error:  # noqa: BLE001 - becomes the row's reason
        return {"status": "failed", "reason": reason_of(error), "selection": None}
    return question.prompted(prompt, selection, buffer_claims(job.protocol, entry.shown_k))


@EXPERIMENTS.register("selection")
class SelectionRun(Experiment):
    """Arms × instructions (docs/methods.md, Stage 1)."""

    name, title = "selection", "What each arm keeps"
    views = SELECTION_VIEWS
    lists: ClassVar[Mapping[str, bool]] = {"arms": True, "readers": False, "judges": False}
    options_model = SelectionOptions
    schemas: ClassVar[Mapping[str, Schema]] = {"selections": SELECTIONS, **SCHEMAS}
    main, shard = "selections", "record"
    compares = True

    def planned(self, spec: Spec, cohort: Cohort, instructions: tuple[Instruction, ...]) -> int:
        need_instructions(spec, cohort, instructions)
        return len(instructions) * len(spec.arms) * (1 + stages(spec.options))

    def execute(self, job: Job) -> None:
        has_limits = limits(job.protocol) or any(e.options.get("window") for e in job.plan.arms)
        for instruction in job.questions():
            entries = {item_of(entry, instruction.id): entry for entry in job.plan.arms}
            todo = job.todo("selections", entries, by="item")
            if not todo:
                continue
            question = question_of(job.cohort, instruction, job.protocol)
            for item in todo:
                entry = entries[item]
                selection, row = select(job, entry, question)
                if selection is not None and has_limits:
                    row |= _limited(job, entry, question, selection)
                lines = (selection.lines if selection else None) or ()
                shown = [entry.sentence.id for entry in selection.kept] if selection else []
                text = ",".join([*shown, *(line.text for line in lines)])
                key = digest(entry_text(entry), instruction.id, text, repr(job.protocol))
                row |= {"key": key, "item": item, "time": now()}
                job.append("selections", row)
        score_semantic(job, "selections")

    def conclusion(self, report: Mapping[str, Any], **chosen: str) -> Conclusion:
        return conclusion.conclusion(report)

    def tables(self, store: RowStore, plan: Plan) -> dict[str, Table]:
        return {
            **stage1_tables(store, plan),
            "differences": differences(stage1_facts(store, plan), plan),
            "funnel": funnel(store, plan),
            "failures": failures(store, plan),
        }

    def warnings(self, plan: Plan) -> list[str]:
        warnings = stage1_warnings(plan)
        if plan.readers or plan.judges:
            warnings.append("a run of kind selection calls no reader and no judge")
        return warnings
