"""A run's selections, answers and verdicts as narrow tables in memory, without text of records.

Temporary tables of Stage 2: ``answered``, a row an answer; ``verdict_rows``, a row a verdict;
``judged``, the verdicts of repeat 0 with columns of their answers (``semantic`` where entailment
was scored); ``patients``, a record's number; ``cards``, an answer's number among distinct answers.
Names are an enumerated type and answers, questions and patients are numbers: a million verdicts are
grouped in a tenth of a second. Human verdicts (:mod:`core.results.reviews`) are added to the run's.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, get_args

from core.runs.plan import Plan
from core.runs.schemas import UNLOCATED
from core.storage.query import Schema, literal
from core.storage.rows import Ask, RowStore, snapshot
from core.types import BANDS, Outcome

# Stage 1: one row per arm and instruction.


THRESHOLDS = (0.3, 0.4, 0.5, 0.6)
"""Probabilities above which a line is a semantic hit (PROTOCOL, Stage 1)."""
MAIN = 0.5
"""The paper's own threshold; the criterion "semantic" alone means this one."""
OF = ("kept", "picked")
"""All lines of a context, or the arm's own picks."""
CHANCES = ("chance", "picked_chance")
"""Suffixes of chance columns: of the whole context, of the picks."""


@dataclass(frozen=True, slots=True)
class Criterion:
    """A definition of a hit.

    ``column``: whether the selection is one; ``column_kept``, ``column_picked``: how many of its
    lines; ``column_chance``, ``column_picked_chance``: the probability for random sentences of as
    many tokens. ``share``: column of the share of the evidence's characters. ``reader``: in whose
    prompt, where that matters.
    """

    name: str
    column: str
    reader: str = ""
    share: str = "evidence_share"


def semantic_name(threshold: float) -> str:
    """The criterion of a threshold, "semantic@0.3"."""
    return f"semantic@{threshold:g}"


def _column(threshold: float) -> str:
    return f"semantic_{round(100 * threshold)}"


LEXICAL = Criterion("lexical", "lexical")
EVIDENCE = Criterion("evidence-id", "evidence")
IN_PROMPT = "in prompt"
"""Evidence is in the prompt after all cuts."""
SEMANTIC_HITS = (
    Criterion("semantic", _column(MAIN)),
    *(Criterion(semantic_name(t), _column(t)) for t in THRESHOLDS),
)


@dataclass(frozen=True, slots=True)
class Stage1Facts:
    """Rows with ``label``, ``instruction``, ``record``, ``band``, ``middle``, ``kept``, ``picked``
    and the columns of ``criteria``: lexical and evidence-id, and semantic ones where they were
    scored (these have no chance: it would take scoring every sentence of the record).

    ``prompts``: the criterion :data:`IN_PROMPT`, one a reader (one without a reader where nobody
    read and the protocol limits prompts); ``COLUMN_picked``, ``COLUMN_cut`` and ``COLUMN_tokens``
    hold lines of evidence that the arm chose, whether the prompt lost anything, and its tokens.
    """

    rows: Sequence[Mapping[str, Any]]
    criteria: tuple[Criterion, ...]
    prompts: tuple[Criterion, ...] = ()


def stage1_facts(store: RowStore, plan: Plan) -> Stage1Facts:
    """The selections of a run as it is now, those that failed left out."""
    main = "selections" if "selections" in store.schemas else "answers"
    scored = bool(plan.options.get("semantic"))
    counts = [f"{c.column}_{of}" for c in (LEXICAL, EVIDENCE) for of in OF]
    chances = [f"{c.column}_{of}" for c in (LEXICAL, EVIDENCE) for of in CHANCES]
    alike = ["band", "middle", "kept", "picked", "lexical", "evidence", "evidence_share"]
    columns = ["record", *alike, *counts, *chances]
    firsts = ", ".join(f"first({name}) AS {name}" for name in columns)
    readers = [""] if main == "selections" else list(plan.readers)
    prompts = [
        Criterion(IN_PROMPT, f"prompt_{i}", name, f"prompt_{i}_share")
        for i, name in enumerate(readers)
    ]
    for prompt in prompts:
        whose = f" FILTER (reader = {literal(prompt.reader)})" if prompt.reader else ""
        firsts += (
            f", bool_or(evidence_in_prompt){whose} AS {prompt.column}"
            f", max(evidence_in_prompt_picked){whose} AS {prompt.column}_picked"
            f", bool_or(prompt_cut){whose} AS {prompt.column}_cut"
            f", max(prompt_tokens){whose} AS {prompt.column}_tokens"
            f", max(evidence_share_in_prompt){whose} AS {prompt.share}"
        )
        for of in CHANCES:
            firsts += f", max(evidence_in_prompt_{of}){whose} AS {prompt.column}_{of}"
    above: list[str] = []
    for t in THRESHOLDS if scored else ():
        name = _column(t)
        above += [
            f"best > {t} AS {name}",
            f"len(list_filter(entailment, lambda x: x.probability > {t})) AS {name}_kept",
            f"len(list_filter(entailment, lambda x: x.picked AND x.probability > {t})) "
            f"AS {name}_picked",
        ]

    def statements() -> list[str]:
        rows = store.source(main)
        tables = [
            f"CREATE OR REPLACE TEMP TABLE chosen AS SELECT label, instruction, {firsts} "
            f"FROM {rows} WHERE selection IS NOT NULL AND ({store.counted}) "
            "GROUP BY label, instruction"
        ]
        if scored:
            rows = store.source("semantic")
            tables.append(
                f"CREATE OR REPLACE TEMP TABLE entailed AS SELECT label, instruction, "
                f"{', '.join(above)} FROM {rows} WHERE best IS NOT NULL"
            )
        return tables

    joined = " LEFT JOIN entailed USING (label, instruction)" if scored else ""
    with snapshot(statements) as ask:
        selected = ask(f"SELECT * FROM chosen{joined} ORDER BY label, instruction")
    known = [p for p in prompts if any(row[p.column] is not None for row in selected)]
    return Stage1Facts(
        selected, (LEXICAL, EVIDENCE, *(SEMANTIC_HITS if scored else ())), tuple(known)
    )


MOST_PATIENTS = 500
"""Clusters when patients are resampled. More patients are pooled into so many independent groups,
so that a table costs the same for a thousand patients and a million."""

ANSWER_COLUMNS = (
    "key", "status", "label", "reader", "lexical", "evidence", "evidence_in_prompt",
    "question_survived", "failure_kind", "prompt_tokens", "read_tokens", "reused_tokens",
    "output_tokens", "seconds",
)  # fmt: skip
VERDICT_COLUMNS = (
    "status", "label", "reader", "judge", "record", "instruction", "answer_key", "band", "middle",
    "task_type", "domain", "outcome", "refusal", "nan_evidence", "prompt_hash", "repeat",
    "read_tokens", "reused_tokens", "output_tokens", "cost_usd", "seconds",
)  # fmt: skip
OF_THE_ANSWER = (
    "lexical", "evidence", "evidence_in_prompt", "question_survived", "failure_kind",
)  # fmt: skip


def _columns(names: Iterable[str], schema: Schema, before: str = "") -> str:
    return ", ".join(before + name for name in names if name in schema)


def _named(column: str, values: Iterable[str]) -> str:
    listed = ", ".join(map(literal, dict.fromkeys(values)))
    return f"s.{column}::ENUM({listed}) AS {column}" if listed else f"s.{column} AS {column}"


def human_verdicts(reviews: Sequence[Mapping[str, Any]]) -> str:
    """SQL of a relation ``h`` of verdicts of people: answer_key, judge, outcome, refusal.

    There is at least one."""
    values = ", ".join(
        f"({literal(r['answer_key'])}, {literal(r['judge'])}, {literal(r['outcome'])}, "
        f"{'true' if r['refusal'] else 'false'})"
        for r in reviews
    )
    return f"(VALUES {values}) h(answer_key, judge, outcome, refusal)"


def _reviews(rows: str, reviews: Sequence[Mapping[str, Any]]) -> list[str]:
    """SQL that adds verdicts of people to ``verdict_rows``; ``rows`` is the SQL of the answers."""
    if not reviews:
        return []
    return [
        "INSERT INTO verdict_rows BY NAME SELECT "
        "'ok' AS status, a.label, a.reader, h.judge, a.record, "
        "a.instruction, a.key AS answer_key, a.band, a.middle, a.task_type, a.domain, h.outcome, "
        "h.refusal, false AS nan_evidence, 0 AS repeat "
        f"FROM {rows} a JOIN {human_verdicts(reviews)} ON a.key = h.answer_key"
    ]


@contextmanager
def facts(store: RowStore, plan: Plan, reviews: Sequence[Mapping[str, Any]] = ()) -> Generator[Ask]:
    """Query a run of kind answers in its present state.

    ``reviews``: human verdicts with ``answer_key``, ``judge``, ``outcome`` and ``refusal``;
    ``plan`` then names these judges too.
    """
    answers, verdicts = store.schemas["answers"], store.schemas["verdicts"]
    names = (
        _named("label", (entry.label for entry in plan.arms)),
        _named("reader", plan.readers),
        _named("judge", plan.judges),
        _named("band", (*(name for name, _, _ in BANDS), UNLOCATED)),
        _named("outcome", get_args(Outcome)),
    )

    entailed = bool(plan.options.get("semantic"))
    semantic, joined = "", ""
    if entailed:
        semantic = ", e.semantic"
        joined = " LEFT JOIN entailed e ON e.label = s.label AND e.instruction = s.instruction"

    def statements() -> list[str]:
        scored: list[str] = []
        if entailed:
            rows = store.source("semantic")
            scored.append(
                "CREATE OR REPLACE TEMP TABLE entailed AS "
                f"SELECT label, instruction, best > {MAIN} AS semantic FROM {rows} "
                "WHERE best IS NOT NULL"
            )
        return [
            *scored,
            "CREATE OR REPLACE TEMP TABLE answered AS "
            f"SELECT row_number() OVER () AS answer, {_columns(ANSWER_COLUMNS, answers)} "
            f"FROM {store.source('answers')}",
            "CREATE OR REPLACE TEMP TABLE verdict_rows AS "
            f"SELECT {_columns(VERDICT_COLUMNS, verdicts)} "
            f"FROM {store.source('verdicts')}",
            *_reviews(store.source("answers"), reviews),
            "CREATE OR REPLACE TEMP TABLE patients AS SELECT record, "
            f"((row_number() OVER (ORDER BY record) - 1) % {MOST_PATIENTS})::SMALLINT AS patient "
            "FROM (SELECT DISTINCT record FROM verdict_rows)",
            "CREATE OR REPLACE TEMP TABLE cards AS SELECT answer_key, "
            "dense_rank() OVER (ORDER BY instruction, reader, judged_text) AS card FROM ("
            "SELECT answer_key, any_value(instruction) AS instruction, "
            "any_value(reader) AS reader, coalesce(max(prompt_hash), answer_key) AS judged_text "
            "FROM verdict_rows GROUP BY answer_key)",
            "CREATE OR REPLACE TEMP TABLE questions AS "
            "SELECT instruction, record, row_number() OVER (ORDER BY instruction) AS question "
            "FROM (SELECT instruction, any_value(record) AS record FROM verdict_rows "
            "GROUP BY instruction)",
            f"CREATE OR REPLACE TEMP TABLE judged AS SELECT {', '.join(names)}, "
            "p.patient, q.question, c.card, a.answer, s.answer_key, s.middle, s.task_type, "
            "s.domain, s.refusal, s.nan_evidence, "
            # The question has no reference: not a failure of an arm.
            "(s.outcome = 'failed' AND s.prompt_hash IS NULL AND coalesce(a.status = 'ok', false)) "
            "AS unjudgeable, "
            "CASE s.outcome WHEN 'correct' THEN true WHEN 'incorrect' THEN false END AS correct, "
            f"{_columns(OF_THE_ANSWER, answers, 'a.')}{semantic} "
            f"FROM (SELECT * FROM verdict_rows WHERE {store.counted}) s "
            "JOIN patients p USING (record) JOIN questions q USING (instruction) "
            "JOIN cards c USING (answer_key) "
            f"LEFT JOIN answered a ON a.key = s.answer_key{joined} "
            "WHERE coalesce(s.repeat, 0) = 0",
        ]

    with snapshot(statements) as ask:
        yield ask
