"""What a needle run's verdicts say, narrow, for its tables and for the items behind a cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from core.run.plan import Plan
from core.run.tables.common import cells, entry_columns
from core.run.tables.facts import said_by_people
from core.store import RowStore, snapshot, source

Row = dict[str, Any]
FROM_VERDICTS = (
    "label", "reader", "judge", "record", "instruction", "needle", "fact", "length", "depth",
    "distractors", "reached", "haystack_tokens", "order_position", "time_position",
    "token_position", "outcome", "answer_key",
)  # fmt: skip
OF_PEOPLE = ("judge", "outcome", "answer_key")
FROM_ANSWERS = ("evidence", "evidence_in_prompt", "question_survived", "prompt_tokens")


def needle_rows(
    store: RowStore, reviews: Sequence[Mapping[str, Any]] = (), where: str = "true"
) -> list[Row]:
    """A row a verdict that counts, with what is known of its answer; no text.

    ``reviews``: verdicts of people, as in :func:`core.run.tables.facts.facts`. ``correct`` is null
    where nothing was judged (unparsed or failed).
    """
    answers = source(store.folder, "answers", store.schemas["answers"])
    said = source(store.folder, "verdicts", store.schemas["verdicts"])
    columns = ", ".join(f"v.{name}" for name in FROM_VERDICTS)
    more = ", ".join(f"a.{name}" for name in FROM_ANSWERS)
    correct = "CASE {} WHEN 'correct' THEN true WHEN 'incorrect' THEN false END AS correct"
    made = [
        f"CREATE OR REPLACE TEMP TABLE needle_said AS SELECT {columns}, {more}, "
        f"{correct.format('v.outcome')} "
        f"FROM {said} v LEFT JOIN {answers} a ON a.key = v.answer_key "
        "WHERE coalesce(v.repeat, 0) = 0"
    ]
    if reviews:
        place = ", ".join(f"a.{name}" for name in FROM_VERDICTS if name not in OF_PEOPLE)
        made.append(
            f"INSERT INTO needle_said BY NAME SELECT {place}, h.judge, h.outcome, h.answer_key, "
            f"{more}, {correct.format('h.outcome')} "
            f"FROM {answers} a JOIN {said_by_people(reviews)} ON a.key = h.answer_key"
        )
    with snapshot(lambda: made) as ask:
        return ask(
            f"SELECT * FROM needle_said WHERE {where} ORDER BY label, reader, judge, record, "
            "needle::BIGINT, length, distractors, depth"
        )


def of_cells(said: Sequence[Row], plan: Plan) -> Iterator[tuple[Row, list[Row]]]:
    """Every arm entry × reader × judge of the spec: the columns that name it, and its rows."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in said:
        groups.setdefault((row["label"], row["reader"], row["judge"]), []).append(row)
    for entry, reader, judge in cells(plan):
        own = groups.get((entry.label, reader, judge), [])
        yield {**entry_columns(entry), "reader": reader, "judge": judge}, own
