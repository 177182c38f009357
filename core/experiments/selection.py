"""Runs of kind ``selection``: every arm's selection for every question, without a reader.

Its tables (docs/methods.md, Stage 1) are those of runs of kind ``answers`` too: recall by band and
k, precision, agreement of criteria, and what prompts cost and lost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import chain, combinations, product
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field

from midchart.core.arms.hits import Question, buffer_claims, question_of
from midchart.core.embedding.pairs import require
from midchart.core.errors import reason_of
from midchart.core.experiments.answers import conclusion
from midchart.core.experiments.answers.views import SELECTION_VIEWS
from midchart.core.options import Count, Known, Options, Several, different
from midchart.core.provenance import digest, now
from midchart.core.results.funnel import funnel
from midchart.core.results.tables import (
    ALL_BANDS,
    ALL_PIECES,
    ANY_PIECE,
    NOTHING,
    PROMPTED,
    WIDE_BANDS,
    by_patient,
    correlations,
    counted,
    criteria_of,
    ends,
    entry_columns,
    failures,
    generator,
    hits,
    intervals,
    pick,
    run_locations,
    share_of,
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
from midchart.core.runs.semantic import ABOUT, SemanticPass
from midchart.core.stats.intervals import cluster_totals, clustered_intervals, ratio
from midchart.core.stats.paired import paired_floor, reported_interval, share_floor
from midchart.core.storage.rows import Ask, RowStore, Schema
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


_KNOWN = "CASE WHEN count({0}) = count(*) THEN avg({0}::DOUBLE ORDER BY {0}) END AS {0}"
_PROMPTED = f"first(criterion) IN {PROMPTED}"
_OF_RECALL = {
    **{
        name: _KNOWN.format(name)
        for name in ("chance", "any_piece", "any_piece_chance", "picked_chance", "unmatched")
    },
    "evidence_share": "avg(evidence_share ORDER BY evidence_share) AS evidence_share",
    "kept_but_cut": f"CASE WHEN {_PROMPTED} THEN count(*) FILTER (lost) END AS kept_but_cut",
    "prompts_cut": f"CASE WHEN {_PROMPTED} THEN count(cut_tokens) END AS prompts_cut",
    "cut_at_least": "min(cut_tokens) AS cut_at_least",
    "cut_at_most": "max(cut_tokens) AS cut_at_most",
}
"""Further columns of recall → their SQL: means are null where one of the values is not known."""
_OF_PROMPTS = ("kept_but_cut", "prompts_cut")


def recall(ask: Ask, plan: Plan) -> Table:
    """One row each arm entry × criterion × band; columns as docs/guide.md, Stage 1, has them.

    A question counts where the criterion is known of it; a selection that failed counts in none.
    ``hits`` are those of all that was kept, ``picked_hits`` those of the arm's own picks; intervals
    by patient, null for fewer than 5. ``chance`` is null for semantic hits and, of all pieces, in
    runs of earlier versions; so is ``unmatched`` (units that the arm kept without a reason) for an
    arm that scores no units. Prompts that lost anything: ``prompts_cut`` of ``cut_at_least`` to
    ``cut_at_most`` tokens, ``kept_but_cut`` where the hit was lost by that.
    """
    by, rows = (
        ("label", "criterion", "reader", "band"),
        "(SELECT *, unnest(bands) AS band FROM hits)",
    )
    columns = ", ".join(_OF_RECALL.values())
    every, picks = (
        # How alike a patient's questions are is pooled over arms.
        counted(ask, by, right, "hit IS NOT NULL", rows, columns, correlations(overall))
        for right in ("hit", "coalesce(own_hit, false)")
        for overall in [counted(ask, by[:3], right, "hit IS NOT NULL", "hits", "count(*)")]
    )
    nothing = NOTHING | dict.fromkeys(_OF_RECALL)
    table: Table = []
    for entry, (criterion, reader), band in product(plan.arms, criteria_of(ask, plan), ALL_BANDS):
        key = (entry.label, criterion, reader, band)
        none = nothing | (dict.fromkeys(_OF_PROMPTS, 0) if criterion in PROMPTED else {})
        of, picked = every.get(key, none), picks.get(key, none)
        drawn = intervals(of["correct"], of["n"], plan, "recall", *filter(None, key))
        row = {"criterion": criterion, "reader": reader, "band": band, "n": of["n"]}
        row |= {"hits": of["correct"], "recall": drawn.pop("share"), "patients": of["patients"]}
        table.append(
            {
                **entry_columns(entry),
                **row,
                **ends("patient_", by_patient(of)),
                **drawn,
                **pick(of, ("chance", "any_piece", "any_piece_chance", "evidence_share")),
                "picked_hits": picked["correct"],
                "picked_recall": share_of(picked),
                **ends("picked_", by_patient(picked)),
                **pick(of, _OF_RECALL),
            }
        )
    return table


def differences(ask: Ask, plan: Plan) -> Table:
    """How much more often one arm keeps all (or any) pieces of the evidence than another with the
    same budget, on the same questions: a row each pair of arm entries × criterion, over all bands.

    The interval is a bootstrap over patients widened to hold Newcombe's
    (:func:`midchart.core.stats.paired.paired_floor`), null for fewer than 5 patients.
    """
    pairs = [(a, b) for a, b in combinations(plan.arms, 2) if a.budget == b.budget]
    table: Table = []
    for criterion in (ALL_PIECES, ANY_PIECE) if pairs else ():
        known = f"(FROM hits WHERE criterion = '{criterion}' AND hit IS NOT NULL)"
        listed = ask(f"SELECT DISTINCT patient FROM {known} ORDER BY patient")
        if not listed:
            continue
        # Of each patient and pair: questions that both, one or neither arm hit.
        patients = {row["patient"]: i for i, row in enumerate(listed)}
        number = {(first.label, second.label): i for i, (first, second) in enumerate(pairs)}
        cells = np.zeros((len(patients), len(pairs), 4))
        for row in ask(
            "SELECT a.label AS first, b.label AS second, a.patient, count(*) AS n, "
            f"3 - 2 * a.hit::INT - b.hit::INT AS outcome FROM {known} a JOIN {known} b "
            "USING (instruction) WHERE a.label <> b.label GROUP BY ALL"
        ):
            if (row["first"], row["second"]) in number:
                pair = number[row["first"], row["second"]]
                cells[patients[row["patient"]], pair, row["outcome"]] = row["n"]
        rng = generator(plan, "differences", criterion)
        flat = cells.reshape(len(patients), -1)
        drawn = cluster_totals(flat, plan.protocol.resamples, rng).reshape(-1, len(pairs), 4)
        shares = ratio(drawn[:, :, 1] - drawn[:, :, 2], drawn.sum(axis=2))
        # A row a pair, with its interval by patient.
        for i, (first, second) in enumerate(pairs):
            _, only_first, only_second, _ = (int(count) for count in cells[:, i].sum(axis=0))
            n, clusters = int(cells[:, i].sum()), int((cells[:, i].sum(axis=1) > 0).sum())
            interval = None
            if n:
                interval = reported_interval(shares[:, i], clusters, paired_floor(cells[:, i]))
            table.append(
                {
                    "criterion": criterion,
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


def overlap(ask: Ask, plan: Plan) -> Table:
    """How the lexical criterion and each other one agree on the questions for which both are known,
    a row each arm entry × criterion × band (overall, middle, edge)."""
    rows = (
        "(SELECT h.label, h.criterion, h.patient, h.hit, l.hit AS word, unnest(h.bands) AS band "
        "FROM hits h JOIN hits l USING (label, instruction) "
        "WHERE l.criterion = 'lexical' AND h.hit IS NOT NULL AND l.hit IS NOT NULL)"
    )
    only = {"criterion_only": "hit AND NOT word", "lexical_only": "word AND NOT hit"}
    names = {"both": "hit AND word", **only, "neither": "NOT hit AND NOT word"}
    columns = ", ".join(f"count(*) FILTER ({sql}) AS {name}" for name, sql in names.items())
    by = ("label", "criterion", "band")
    counts = {name: counted(ask, by, of, "true", rows, columns, {}) for name, of in only.items()}
    others = [c for c, _ in criteria_of(ask, plan) if c not in ("lexical", *PROMPTED)]
    nothing = NOTHING | dict.fromkeys(names, 0)
    table: Table = []
    for entry, criterion, band in product(plan.arms, others, WIDE_BANDS):
        of = {name: c.get((entry.label, criterion, band), nothing) for name, c in counts.items()}
        row = {**entry_columns(entry), "criterion": criterion, "band": band}
        row |= pick(of["lexical_only"], ("n", *names))
        for name, count in of.items():
            row |= {f"{name}_share": share_of(count), **ends(f"{name}_", by_patient(count))}
        table.append(row)
    return table


def recall_sweep(plan: Plan, recalled: Table, precise: Table, tokens: Table) -> Table:
    """Recall, precision and tokens of the entries that differ in k alone, k ascending, overall.
    From the rows of ``recall``, ``precision`` (of the arm's own picks) and ``tokens``."""
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
    """Means an arm entry (and reader): sentences, tokens, what packing cut, what survived. Without
    a reader the prompt is the selection within the protocol's own limits. ``mostly_buffer`` counts
    the selections of which the recency buffer is more than half."""
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


def precision(ask: Ask, plan: Plan) -> Table:
    """One row each arm entry × criterion × kept or picked × band (overall, middle, edge): the share
    of the ``n`` lines of ``questions`` selections that are hits; null where there is no line."""
    criteria = [c for c, _ in criteria_of(ask, plan) if c not in (ALL_PIECES, *PROMPTED)]
    cells = list(product(plan.arms, criteria, ("kept", "picked")))
    index = {(entry.label, criterion, of): i for i, (entry, criterion, of) in enumerate(cells)}
    columns = "label, criterion, instruction, bands, kept, picked, kept_hits, picked_hits"
    by_line = "kept_hits IS NOT NULL OR criterion = 'lexical'"  # one of all questions
    every = ask(f"SELECT {columns} FROM hits WHERE {by_line} ORDER BY instruction")
    rows_by_cell: list[Table] = [[] for _ in cells]
    for band in WIDE_BANDS:
        rows = [row for row in every if band in row["bands"]]
        number = {name: i for i, name in enumerate(dict.fromkeys(r["instruction"] for r in rows))}
        # Hits and lines of each question, by cell; nan where they are not known.
        hits, lines = np.full((2, len(number), len(cells)), np.nan)
        for row, of in product(rows, ("kept", "picked")):
            if row[f"{of}_hits"] is not None and row[of] is not None:
                at = number[row["instruction"]], index[row["label"], row["criterion"], of]
                hits[at], lines[at] = row[f"{of}_hits"], row[of]
        questions = (~np.isnan(lines)).sum(axis=0)
        hits, lines = np.nan_to_num(hits), np.nan_to_num(lines)
        # Intervals by question.
        shown: list[tuple[float, float] | None] = [None] * len(cells)
        if number:
            rng = generator(plan, "precision", band)
            drawn = cluster_totals(np.hstack([hits, lines]), plan.protocol.resamples, rng)
            shares = ratio(drawn[:, : len(cells)], drawn[:, len(cells) :])
            if plan.protocol.intervals == "percentile":
                low, high = clustered_intervals(shares)
                shown = list(zip(low.tolist(), high.tolist(), strict=True))
            else:
                for i in np.flatnonzero(lines.sum(axis=0)):
                    floor = share_floor(hits[:, i], lines[:, i])
                    shown[i] = reported_interval(shares[:, i], int((lines[:, i] > 0).sum()), floor)
        for i, (entry, criterion, of) in enumerate(cells):
            n, all_hits = int(lines[:, i].sum()), int(hits[:, i].sum())
            rows_by_cell[i].append(
                {
                    **entry_columns(entry),
                    "criterion": criterion,
                    "of": of,
                    "band": band,
                    "questions": int(questions[i]),
                    "n": n,
                    "hits": all_hits,
                    "precision": all_hits / n if n else None,
                    **ends("ci_", shown[i]),
                }
            )
    return list(chain.from_iterable(rows_by_cell))


def stages(options: Mapping[str, Any]) -> int:
    """Number of items per selection after its own row: 1 where semantic hits are scored."""
    return int(bool(options.get("semantic")))


def stage1_tables(store: RowStore, plan: Plan) -> dict[str, Table]:
    """The tables of Stage 1, by name (docs/methods.md, Stage 1)."""
    with hits(store, plan) as ask:
        tables = {"recall": recall(ask, plan), "precision": precision(ask, plan)}
        more = {"overlap": overlap(ask, plan), "tokens": tokens(store, plan)}
        compared = {} if "answers" in store.schemas else {"differences": differences(ask, plan)}
    return {
        **tables,
        "recall_sweep": recall_sweep(plan, tables["recall"], tables["precision"], more["tokens"]),
        **more,
        **compared,
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
        SemanticPass(job, "selections").run()

    def conclusion(self, report: Mapping[str, Any], **chosen: str) -> Conclusion:
        return conclusion.conclusion(report)

    def tables(self, store: RowStore, plan: Plan) -> dict[str, Table]:
        return {
            **stage1_tables(store, plan),
            "funnel": funnel(store, plan),
            "failures": failures(store, plan),
        }

    def warnings(self, plan: Plan) -> list[str]:
        warnings = stage1_warnings(plan)
        if plan.readers or plan.judges:
            warnings.append("a run of kind selection calls no reader and no judge")
        return warnings
