"""What a run's verdicts and answers say, narrow and in memory, for the tables of Stage 2.

Temporary tables: ``answered``, a row an answer; ``said``, a row a verdict; ``judged``, the verdicts
that count, each with what is known of its answer; ``patients``, a record's number among patients.
No text of a record is in them.

A judge may be asked several times about one answer; the verdict of repeat 0 is the one that
counts, the others tell how far the judge agrees with itself (:mod:`core.run.tables_agreement`).
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from core.store import Ask, RowStore, Schema, snapshot, source

MOST_PATIENTS = 2000
"""Patients told apart when patients are resampled. With more, patients are thrown together into
so many groups, each still independent of the others; resampling groups then stands for
resampling patients, and a table costs the same for a thousand patients and a million."""

ANSWER_COLUMNS = (
    "key", "status", "label", "arm", "k", "reader", "record", "instruction", "lexical", "semantic",
    "evidence", "evidence_in_prompt", "question_survived", "failure_kind", "prompt_tokens",
    "read_tokens", "reused_tokens", "output_tokens", "seconds",
)  # fmt: skip
VERDICT_COLUMNS = (
    "key", "status", "label", "arm", "k", "reader", "judge", "record", "instruction", "answer_key",
    "band", "middle", "task_type", "domain", "specialty", "outcome", "refusal", "nan_evidence",
    "repeat", "read_tokens", "reused_tokens", "output_tokens", "cost_usd", "seconds",
)  # fmt: skip
OF_THE_ANSWER = (
    "lexical", "semantic", "evidence", "evidence_in_prompt", "question_survived", "failure_kind",
)  # fmt: skip


def _columns(names: tuple[str, ...], schema: Schema) -> str:
    return ", ".join(name for name in names if name in schema)


@contextmanager
def facts(store: RowStore) -> Generator[Ask]:
    """Ask about a run of kind answers as it is now."""
    answers, verdicts = store.schemas["answers"], store.schemas["verdicts"]
    of_the_answer = ", ".join(f"a.{name}" for name in OF_THE_ANSWER if name in answers)

    def statements() -> list[str]:
        return [
            "CREATE OR REPLACE TEMP TABLE answered AS "
            f"SELECT {_columns(ANSWER_COLUMNS, answers)} "
            f"FROM {source(store.folder, 'answers', answers)}",
            "CREATE OR REPLACE TEMP TABLE said AS "
            f"SELECT {_columns(VERDICT_COLUMNS, verdicts)} "
            f"FROM {source(store.folder, 'verdicts', verdicts)}",
            "CREATE OR REPLACE TEMP TABLE patients AS SELECT record, "
            f"(row_number() OVER (ORDER BY record) - 1) % {MOST_PATIENTS} AS patient "
            "FROM (SELECT DISTINCT record FROM said)",
            "CREATE OR REPLACE TEMP TABLE judged AS "
            "SELECT s.*, p.patient, "
            "CASE s.outcome WHEN 'correct' THEN true WHEN 'incorrect' THEN false END AS correct, "
            f"{of_the_answer} FROM said s JOIN patients p USING (record) "
            "LEFT JOIN answered a ON a.key = s.answer_key WHERE coalesce(s.repeat, 0) = 0",
        ]

    with snapshot(statements) as ask:
        yield ask
