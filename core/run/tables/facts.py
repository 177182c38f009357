"""What a run's verdicts and answers say, narrow and in memory, for the tables of Stage 2.

Temporary tables: ``answered``, a row an answer; ``said``, a row a verdict; ``judged``, the verdicts
that count, each with what is known of its answer; ``patients``, a record's number among patients;
``cards``, an answer's number among distinct answers: copies of the same words to the same question
were judged by the same text, whose hash their verdicts hold.
In ``judged`` names are of an enumerated type and answers, questions and patients are numbers, so
that a million verdicts are grouped in a tenth of a second. No text of a record is in any of them.
``judged`` has a column ``semantic`` where the run scored entailment.

Verdicts of people (:mod:`core.run.review.verdicts`) are given in addition to the run's: they lie
outside its folder.

A judge may be asked several times about one answer; the verdict of repeat 0 is the one that
counts, the others tell how far the judge agrees with itself (:mod:`core.run.tables.agreement`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, get_args

from core.run.evidence import UNLOCATED
from core.run.plan import Plan
from core.run.tables.common import literal
from core.run.tables.stage1_facts import MAIN
from core.store import Ask, RowStore, Schema, snapshot, source
from core.types import BANDS, Outcome

MOST_PATIENTS = 500
"""Patients told apart when patients are resampled. With more, patients are thrown together into
so many groups, each still independent of the others; resampling groups then stands for
resampling patients, and a table costs the same for a thousand patients and a million."""

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


def said_by_people(reviews: Sequence[Mapping[str, Any]]) -> str:
    """SQL of a relation ``h`` of verdicts of people: answer_key, judge, outcome, refusal.

    There is at least one."""
    values = ", ".join(
        f"({literal(r['answer_key'])}, {literal(r['judge'])}, {literal(r['outcome'])}, "
        f"{'true' if r['refusal'] else 'false'})"
        for r in reviews
    )
    return f"(VALUES {values}) h(answer_key, judge, outcome, refusal)"


def _reviews(rows: str, reviews: Sequence[Mapping[str, Any]]) -> list[str]:
    """SQL that adds verdicts of people to ``said``; ``rows`` is the SQL of the answers."""
    if not reviews:
        return []
    return [
        "INSERT INTO said BY NAME SELECT 'ok' AS status, a.label, a.reader, h.judge, a.record, "
        "a.instruction, a.key AS answer_key, a.band, a.middle, a.task_type, a.domain, h.outcome, "
        "h.refusal, false AS nan_evidence, 0 AS repeat "
        f"FROM {rows} a JOIN {said_by_people(reviews)} ON a.key = h.answer_key"
    ]


@contextmanager
def facts(store: RowStore, plan: Plan, reviews: Sequence[Mapping[str, Any]] = ()) -> Generator[Ask]:
    """Ask about a run of kind answers as it is now.

    ``reviews``: verdicts of people, a row each with ``answer_key``, ``judge``, ``outcome`` and
    ``refusal``; ``plan`` then names these judges too.
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
            rows = source(store.folder, "semantic", store.schemas["semantic"])
            scored.append(
                "CREATE OR REPLACE TEMP TABLE entailed AS "
                f"SELECT label, instruction, best > {MAIN} AS semantic FROM {rows} "
                "WHERE best IS NOT NULL"
            )
        return [
            *scored,
            "CREATE OR REPLACE TEMP TABLE answered AS "
            f"SELECT row_number() OVER () AS answer, {_columns(ANSWER_COLUMNS, answers)} "
            f"FROM {source(store.folder, 'answers', answers)}",
            f"CREATE OR REPLACE TEMP TABLE said AS SELECT {_columns(VERDICT_COLUMNS, verdicts)} "
            f"FROM {source(store.folder, 'verdicts', verdicts)}",
            *_reviews(source(store.folder, "answers", answers), reviews),
            "CREATE OR REPLACE TEMP TABLE patients AS SELECT record, "
            f"((row_number() OVER (ORDER BY record) - 1) % {MOST_PATIENTS})::SMALLINT AS patient "
            "FROM (SELECT DISTINCT record FROM said)",
            "CREATE OR REPLACE TEMP TABLE cards AS SELECT answer_key, "
            "dense_rank() OVER (ORDER BY instruction, reader, judged_text) AS card FROM ("
            "SELECT answer_key, any_value(instruction) AS instruction, "
            "any_value(reader) AS reader, coalesce(max(prompt_hash), answer_key) AS judged_text "
            "FROM said GROUP BY answer_key)",
            "CREATE OR REPLACE TEMP TABLE questions AS "
            "SELECT instruction, row_number() OVER (ORDER BY instruction) AS question "
            "FROM (SELECT DISTINCT instruction FROM said)",
            f"CREATE OR REPLACE TEMP TABLE judged AS SELECT {', '.join(names)}, "
            "p.patient, q.question, c.card, a.answer, s.answer_key, s.middle, s.task_type, "
            "s.domain, s.refusal, s.nan_evidence, "
            # No answer could be judged: the question has no reference. It is no arm's failure.
            "(s.outcome = 'failed' AND s.prompt_hash IS NULL AND coalesce(a.status = 'ok', false)) "
            "AS unjudgeable, "
            "CASE s.outcome WHEN 'correct' THEN true WHEN 'incorrect' THEN false END AS correct, "
            f"{_columns(OF_THE_ANSWER, answers, 'a.')}{semantic} "
            f"FROM (SELECT * FROM said WHERE {store.counted}) s "
            "JOIN patients p USING (record) JOIN questions q USING (instruction) "
            "JOIN cards c USING (answer_key) "
            f"LEFT JOIN answered a ON a.key = s.answer_key{joined} "
            "WHERE coalesce(s.repeat, 0) = 0",
        ]

    with snapshot(statements) as ask:
        yield ask
