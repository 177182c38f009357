"""What tables of a run are made of: its rows in memory, and columns, shares, intervals, failures.

Bootstrap draws are seeded by the protocol's seed and the row's name, so an interval depends on the
row's counts alone. Rows in memory are narrow and hold no text of records; names are an enumerated
type and answers, questions and patients are numbers: a million verdicts are grouped in a tenth of a
second.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from itertools import product
from typing import Any, NamedTuple, get_args

import numpy as np

from midchart.core import config as settings
from midchart.core.format import finite
from midchart.core.judges.rules import FAILURE_KINDS
from midchart.core.runs.experiment import Table
from midchart.core.runs.plan import ArmConfig, Plan
from midchart.core.runs.schemas import ALL_IN_PROMPT, ALL_KEPT, LOCATION
from midchart.core.stats.intervals import (
    ClusterSums,
    Interval,
    bootstrap_proportion,
    clustered_wilson,
    pooled_correlation,
    wilson_interval,
)
from midchart.core.stats.paired import reported_interval, widened
from midchart.core.storage.rows import Ask, RowStore, Schema, literal, snapshot
from midchart.core.types import BANDS, UNLOCATED, Outcome

ALL_BANDS = (*(name for name, _, _ in BANDS), "middle", "edge", "overall")
WIDE_BANDS = ("overall", "middle", "edge")


def bands_of(row: Mapping[str, Any]) -> list[str]:
    """The bands in which a row with ``band`` and ``middle`` counts."""
    if row["band"] == UNLOCATED:
        return ["overall"]
    return [row["band"], "middle" if row["middle"] else "edge", "overall"]


def generator(plan: Plan, *name: object) -> np.random.Generator:
    """A generator seeded by the protocol's seed and a row's name."""
    name_hash = blake2b("\0".join(map(str, name)).encode("utf-8", "surrogatepass"), digest_size=8)
    return np.random.default_rng([plan.protocol.seed, int.from_bytes(name_hash.digest(), "big")])


def intervals(hits: int, n: int, plan: Plan, *name: object) -> dict[str, Any]:
    """Share with bootstrap and Wilson bounds; all null where n is 0. ``ci`` is the percentile
    bootstrap of rows; under ``protocol.intervals = "widened"`` it also holds Wilson's interval."""
    if n == 0:
        return dict.fromkeys(("share", "ci_low", "ci_high", "wilson_low", "wilson_high"))
    drawn = bootstrap_proportion(hits, n, plan.protocol.resamples, generator(plan, *name))
    wilson = wilson_interval(hits, n)
    both = drawn.low, drawn.high
    if plan.protocol.intervals == "widened":
        both = widened(*both, wilson)
    return {"share": drawn.estimate, **ends("ci_", both), **ends("wilson_", wilson)}


def entry_columns(entry: ArmConfig) -> dict[str, Any]:
    """Columns that identify an arm; ``label`` is unique in a run."""
    return {
        "arm": entry.name,
        "k": entry.shown_k,
        "label": entry.label,
        "budget": entry.shown_budget,
    }


def cells(plan: Plan) -> Iterator[tuple[dict[str, Any], tuple[str, str, str]]]:
    """Every arm entry × reader × judge of a run in the order of its spec: the columns that name it,
    and its label, reader and judge."""
    for entry, reader, judge in product(plan.arms, plan.readers, plan.judges):
        columns = {**entry_columns(entry), "reader": reader, "judge": judge}
        yield columns, (entry.label, reader, judge)


def swept_by_k(plan: Plan) -> list[str]:
    """Labels of the arm entries that differ from another in k alone, k ascending."""
    families: dict[str, list[ArmConfig]] = defaultdict(list)
    for entry in plan.arms:
        same = (entry.name, entry.recency, entry.tokens, sorted(entry.options.items()))
        families[repr(same)].append(entry)
    return [
        entry.label
        for family in families.values()
        if len({entry.k for entry in family}) > 1
        for entry in sorted(family, key=lambda entry: entry.k)
    ]


def ends(
    prefix: str, of: Interval | tuple[float | None, float | None] | None
) -> dict[str, float | None]:
    """Columns ``low`` and ``high`` of an interval after a prefix; null without one, or for NaN."""
    low, high = (of.low, of.high) if isinstance(of, Interval) else of or (None, None)
    return {
        f"{prefix}{name}": None if end is None else finite(end)
        for name, end in (("low", low), ("high", high))
    }


def pick(row: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The named columns of a row."""
    return {name: row[name] for name in names}


def nested(rows: Iterable[Mapping[str, Any]], column: str, names: Iterable[str]) -> Table:
    """A row each entry of a nested column (a list of structs or one), after columns of its row."""
    return [
        pick(row, names) | one
        for row in rows
        if row[column] is not None
        for one in ([row[column]] if isinstance(row[column], Mapping) else row[column])
    ]


def read_published(name: str) -> list[dict[str, str]]:
    """The lines of a CSV file of the paper's figures (``data/published``), as printed."""
    path = settings.published_folder() / name
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# Selections in memory (Stage 1): one row per arm and instruction.


THRESHOLDS = (0.3, 0.4, 0.5, 0.6)
"""Probabilities above which a line is a semantic hit (docs/methods.md, Stage 1)."""
MAIN = 0.5
"""The paper's own threshold; the criterion "semantic" alone means this one."""
OF = ("kept", "picked")
"""All lines of a context, or the arm's own picks."""
CHANCES = ("chance", "picked_chance")
"""Suffixes of chance columns: of the whole context, of the picks."""


@dataclass(frozen=True, slots=True)
class Criterion:
    """A definition of a hit, by columns: ``column``, whether the selection is one; its suffixes
    ``_kept`` and ``_picked``, how many lines are (``by_line``), ``_chance`` and ``_picked_chance``,
    the probability for random sentences of as many tokens. ``any_piece``: column of any piece,
    where the hit is all. ``reader``: in whose prompt, of which ``selected`` is the hit before any
    limit."""

    name: str
    column: str
    reader: str = ""
    share: str = "evidence_share"
    any_piece: str = ""
    by_line: bool = True
    selected: str = ""


def semantic_name(threshold: float) -> str:
    """The criterion of a threshold, "semantic@0.3"."""
    return f"semantic@{threshold:g}"


def _column(threshold: float) -> str:
    return f"semantic_{round(100 * threshold)}"


LEXICAL = Criterion("lexical", "lexical")
ALL_PIECES = Criterion("all pieces", "evidence_all", any_piece="evidence", by_line=False)
ANY_PIECE = Criterion("any piece", "evidence")
"""Of the evidence, by the ids of its sentences: each was kept, or at least one was."""
ALL_IN_PROMPT_NAME, ANY_IN_PROMPT_NAME = "all pieces in prompt", "any piece in prompt"
"""The same of the prompt after all cuts."""
SEMANTIC_HITS = (
    Criterion("semantic", _column(MAIN)),
    *(Criterion(semantic_name(t), _column(t)) for t in THRESHOLDS),
)


@dataclass(frozen=True, slots=True)
class Stage1Facts:
    """Rows of selections with the columns of ``criteria`` (semantic ones have no chance) and of
    ``prompts``, the pieces in each reader's prompt: ``COLUMN_picked``, ``COLUMN_cut`` and
    ``COLUMN_tokens`` say what of the hit the arm chose, whether the prompt lost anything, its
    tokens."""

    rows: Sequence[Mapping[str, Any]]
    criteria: tuple[Criterion, ...]
    prompts: tuple[Criterion, ...] = ()


def stage1_facts(store: RowStore, plan: Plan) -> Stage1Facts:
    """The selections of a run as it is now, those that failed left out."""
    main = "selections" if "selections" in store.schemas else "answers"
    scored = bool(plan.options.get("semantic"))
    counts = [f"{c.column}_{of}" for c in (LEXICAL, ANY_PIECE) for of in OF]
    chances = [f"{c.column}_{of}" for c in (LEXICAL, ANY_PIECE, ALL_PIECES) for of in CHANCES]
    alike = [
        "band",
        "middle",
        "kept",
        "picked",
        "unmatched",
        "lexical",
        "evidence",
        "evidence_share",
    ]
    columns = ["record", *alike, *counts, *chances]
    firsts = ", ".join(f"first({name}) AS {name}" for name in columns)
    # All pieces that were kept are as many sentences as were kept of the evidence.
    firsts += (
        f", first({ALL_KEPT}) AS evidence_all"
        f", first({ALL_KEPT} AND evidence_picked = evidence_kept) AS evidence_all_picked"
    )
    readers = [""] if main == "selections" else list(plan.readers)
    prompts: list[Criterion] = []
    for i, name in enumerate(readers):
        whose = f" FILTER (reader = {literal(name)})" if name else ""
        share, column = f"prompt_{i}_share", f"prompt_{i}"
        every = Criterion(
            ALL_IN_PROMPT_NAME, f"{column}_all", name, share, column, False, "evidence_all"
        )
        prompts += [every, Criterion(ANY_IN_PROMPT_NAME, column, name, share, selected="evidence")]
        all_picked = f"{ALL_IN_PROMPT} AND evidence_in_prompt_picked = evidence_kept"
        firsts += (
            f", bool_or(evidence_in_prompt){whose} AS {column}"
            f", bool_or({ALL_IN_PROMPT}){whose} AS {every.column}"
            f", max(evidence_in_prompt_picked){whose} AS {column}_picked"
            f", bool_or({all_picked}){whose} AS {every.column}_picked"
            f", max(evidence_share_in_prompt){whose} AS {share}"
        )
        for one, columns_of in ((column, "evidence"), (every.column, "evidence_all")):
            firsts += (
                f", bool_or(prompt_cut){whose} AS {one}_cut"
                f", max(prompt_tokens){whose} AS {one}_tokens"
            )
            for of in CHANCES:
                firsts += f", max({columns_of}_in_prompt_{of}){whose} AS {one}_{of}"
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
    criteria = (LEXICAL, ALL_PIECES, ANY_PIECE, *(SEMANTIC_HITS if scored else ()))
    return Stage1Facts(selected, criteria, tuple(known))


# Answers and verdicts in memory (Stage 2).


MOST_PATIENTS = 500
"""Clusters when patients are resampled. More patients are pooled into so many independent groups,
so that a table costs the same for a thousand patients and a million."""

ANSWER_COLUMNS = (
    "key", "status", "label", "reader", "lexical", "evidence", "evidence_in_prompt",
    "question_survived", "failure_kind", "prompt_tokens", "read_tokens", "reused_tokens",
    "output_tokens", "seconds", "ended", "cost_usd", "evidence_quoted",
)  # fmt: skip
VERDICT_COLUMNS = (
    "status", "label", "reader", "judge", "record", "instruction", "answer_key", "band", "middle",
    "task_type", "domain", "outcome", "refusal", "nan_evidence", "prompt_hash", "repeat",
    "read_tokens", "reused_tokens", "output_tokens", "cost_usd", "seconds",
)  # fmt: skip
OF_THE_ANSWER = (
    "lexical", "evidence", "evidence_all", "evidence_in_prompt", "evidence_all_in_prompt",
    "question_survived", "failure_kind", "ended", "evidence_quoted",
)  # fmt: skip
SITE_COLUMNS = (
    "needle", "fact", "length", "depth", "distractors", "reached", "haystack_tokens",
    "order_position", "time_position", "token_position",
)  # fmt: skip
"""Of the verdicts of needle runs."""


def _columns(names: Iterable[str], schema: Schema, before: str = "") -> str:
    return ", ".join(before + name for name in names if name in schema)


def _named(column: str, values: Iterable[str]) -> str:
    listed = ", ".join(map(literal, dict.fromkeys(values)))
    return f"s.{column}::ENUM({listed}) AS {column}" if listed else f"s.{column} AS {column}"


def _human_verdicts(reviews: Sequence[Mapping[str, Any]]) -> str:
    """SQL of a relation ``h`` of verdicts of people: answer_key, judge, outcome, refusal.

    There is at least one."""
    values = ", ".join(
        f"({literal(r['answer_key'])}, {literal(r['judge'])}, {literal(r['outcome'])}, "
        f"{'true' if r['refusal'] else 'false'})"
        for r in reviews
    )
    return f"(VALUES {values}) h(answer_key, judge, outcome, refusal)"


def _reviews(rows: str, reviews: Sequence[Mapping[str, Any]], site: Sequence[str]) -> list[str]:
    """SQL that adds verdicts of people to ``verdict_rows``; ``rows`` is the SQL of the answers."""
    if not reviews:
        return []
    return [
        "INSERT INTO verdict_rows BY NAME SELECT "
        "'ok' AS status, a.label, a.reader, h.judge, a.record, "
        "a.instruction, a.key AS answer_key, a.band, a.middle, a.task_type, a.domain, h.outcome, "
        f"h.refusal, false AS nan_evidence, 0 AS repeat{''.join(f', a.{name}' for name in site)} "
        f"FROM {rows} a JOIN {_human_verdicts(reviews)} ON a.key = h.answer_key"
    ]


@contextmanager
def facts(store: RowStore, plan: Plan, reviews: Sequence[Mapping[str, Any]] = ()) -> Generator[Ask]:
    """Query a run of kind answers in its present state, by temporary tables without text:
    ``answered``, a row an answer; ``verdict_rows``, a row a verdict; ``judged``, the verdicts of
    repeat 0 with columns of their answers; ``patients``; ``cards``, an answer's number among
    distinct ones.

    ``reviews``: human verdicts, added to the run's; ``plan`` then names these judges too.
    """
    answers, verdicts = store.schemas["answers"], store.schemas["verdicts"]
    site = SITE_COLUMNS if "needle" in verdicts else ()
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
            f"SELECT row_number() OVER () AS answer, {_columns(ANSWER_COLUMNS, answers)}, "
            f"{ALL_KEPT} AS evidence_all, {ALL_IN_PROMPT} AS evidence_all_in_prompt "
            f"FROM {store.source('answers')}",
            "CREATE OR REPLACE TEMP TABLE verdict_rows AS "
            f"SELECT {_columns((*VERDICT_COLUMNS, *site), verdicts)} "
            f"FROM {store.source('verdicts')}",
            *_reviews(store.source("answers"), reviews, site),
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
            f"{_columns(OF_THE_ANSWER, answers, 'a.')}{semantic}"
            f"{''.join(f', s.{name}' for name in site)} "
            f"FROM (SELECT * FROM verdict_rows WHERE {store.counted}) s "
            "JOIN patients p USING (record) JOIN questions q USING (instruction) "
            "JOIN cards c USING (answer_key) "
            f"LEFT JOIN answered a ON a.key = s.answer_key{joined} "
            "WHERE coalesce(s.repeat, 0) = 0",
        ]

    with snapshot(statements) as ask:
        yield ask


# Verdicts counted by stratum.


Counts = Mapping[str, Any]
Cell = tuple[str, str, str, str]
"""Label, reader, judge, stratum."""

_OUTCOMES = """
    count(*) FILTER (correct) AS correct, count(correct) AS n,
    count(*) FILTER (refusal) AS refusals,
    count(*) FILTER (outcome = 'unparsed') AS unparsed,
    count(*) FILTER (ended IN ('length', 'empty')) AS cut_off,
    count(*) FILTER (outcome = 'failed') AS failed, count(*) FILTER (unjudgeable) AS unjudgeable
"""
SUMS = ("patients", "squares", "cross", "sizes")
SUMMED = ("n", "correct", "refusals", "unparsed", "cut_off", "failed", "unjudgeable")
NOTHING: Counts = dict.fromkeys((*SUMMED, *SUMS, "correlation"), 0)


def counted(ask: Ask, stratum: str, where: str = "true") -> dict[Cell, Counts]:
    """Counts of ``judged`` by cell and the SQL expression ``stratum`` (null is left out), with what
    a clustered interval needs: ``patients``, and ``squares``, ``cross``, ``sizes``, the sums over
    them of c², c·n and n², of c right and n judged; ``correlation`` of a patient's answers, pooled
    over the arms and strata of a reader and judge (:mod:`midchart.core.stats.intervals`)."""
    return _clustered(ask, _OUTCOMES, SUMMED, where, stratum)


class CellShare(NamedTuple):
    """``number`` of ``n`` judged answers, their share, and its interval by patient: null for fewer
    than 5 patients, and all of no answer."""

    number: int = 0
    n: int = 0
    share: float | None = None
    ends: tuple[float, float] | None = None


def shares(ask: Ask, of: str, where: str, stratum: str = "''") -> dict[Cell, CellShare]:
    """By cell, the share of ``judged`` that is ``of``, among those ``where``; all three are SQL."""
    counts = f"count(*) FILTER ({of}) AS correct, count(*) AS n"
    return {
        cell: CellShare(int(c["correct"]), int(c["n"]), c["correct"] / c["n"], by_patient(c))
        for cell, c in _clustered(ask, counts, ("n", "correct"), where, stratum).items()
    }


def _clustered(
    ask: Ask, counts: str, names: Sequence[str], where: str, stratum: str
) -> dict[Cell, Counts]:
    """Sums over patients of ``counts`` (SQL, of columns ``names``) by cell."""
    cells = _by_cell(
        ask(
            f"""
            WITH patient_cells AS (
                SELECT label, reader, judge, {stratum} AS stratum, patient, {counts}
                FROM judged WHERE {where} GROUP BY ALL
            )
            SELECT label, reader, judge, stratum, count(*) FILTER (n > 0) AS patients,
                sum(correct * correct)::DOUBLE AS squares, sum(correct * n)::DOUBLE AS cross,
                sum(n * n)::DOUBLE AS sizes,
                {", ".join(f"sum({name})::BIGINT AS {name}" for name in names)}
            FROM patient_cells GROUP BY ALL
            """
        )
    )
    families: dict[tuple[str, str], list[ClusterSums]] = defaultdict(list)
    for (_, reader, judge, _), count in cells.items():
        if count["n"]:
            share = count["correct"] / count["n"]
            families[reader, judge].append(ClusterSums(*_sums(count), variance=share * (1 - share)))
    pooled = {family: pooled_correlation(samples) for family, samples in families.items()}
    return {
        cell: {**count, "correlation": pooled.get(cell[1:3], 1.0)} for cell, count in cells.items()
    }


def _sums(count: Counts) -> tuple[Any, ...]:
    return tuple(count[name] for name in ("correct", "n", *SUMS))


def by_patient(count: Counts) -> tuple[float, float] | None:
    """The interval by patient of a share, null for fewer than 5 patients."""
    interval = clustered_wilson(*_sums(count), correlation=count["correlation"])
    return reported_interval(None, count["patients"], interval)


def _by_cell(rows: Iterable[Counts]) -> dict[Cell, Counts]:
    return {
        (row["label"], row["reader"], row["judge"], row["stratum"]): row
        for row in rows
        if row["stratum"] is not None
    }


def share(count: Counts) -> dict[str, Any]:
    """n, number right, accuracy, and two intervals (``wilson`` of questions, ``patient`` null for
    fewer than 5); ``bound_low`` and ``bound_high``: were all unparsed and failed ones wrong, or all
    right."""
    n, correct, patients = int(count["n"]), int(count["correct"]), int(count["patients"])
    row: dict[str, Any] = {"n": n, "correct": correct, "patients": patients}
    unscored = int(count["unparsed"]) + int(count["failed"]) - int(count["unjudgeable"])
    total = n + unscored
    row["bound_low"] = correct / total if total else None
    row["bound_high"] = (correct + unscored) / total if total else None
    if n == 0:
        return row | {"accuracy": None} | ends("wilson_", None) | ends("patient_", None)
    plain = wilson_interval(correct, n)
    intervals = ends("wilson_", plain) | ends("patient_", by_patient(count))
    return row | {"accuracy": plain.estimate} | intervals


# Failures and their reasons; kinds of wrong answers with examples by key.


EXAMPLES = 3
"""Answer keys listed per kind."""


def failures(store: RowStore, plan: Plan) -> Table:
    """How often each reason made an item fail."""
    rows: Table = []
    for table in store.schemas:
        judged = "reader, judge" if table == "verdicts" else "NULL AS judge"
        columns = f"'{table}' AS stage, arm, k, label, {judged}, reason, count(*) AS count"
        rows += store.select(table, columns, "status = 'failed' GROUP BY ALL")
    order = {entry.label: i for i, entry in enumerate(plan.arms)}
    return sorted(
        rows,
        key=lambda row: (row["stage"], order[row["label"]], -row["count"], row["reason"] or ""),
    )


def failure_kinds(ask: Ask, plan: Plan) -> Table:
    """Answers judged wrong by kind (rules: :mod:`core.judges.rules`), of the ``n`` whose kind is
    known; kinds that do not occur have no row."""
    where = "correct = false AND failure_kind IS NOT NULL"
    examples = {
        (row["label"], row["reader"], row["judge"], row["failure_kind"]): row["examples"]
        for row in ask(
            "SELECT label, reader, judge, failure_kind, "
            f"arg_min(answer_key, answer_key, {EXAMPLES}) AS examples "
            f"FROM judged WHERE {where} GROUP BY ALL"
        )
    }
    of_kind = {
        kind: shares(ask, f"failure_kind = {literal(kind)}", where)
        for kind in FAILURE_KINDS
        if any(cell[3] == kind for cell in examples)
    }
    rows: Table = []
    for (columns, cell), kind in product(cells(plan), of_kind):
        if (*cell, kind) in examples:
            of = of_kind[kind][(*cell, "")]
            rows.append(
                {
                    **columns,
                    "kind": kind,
                    "count": of.number,
                    "n": of.n,
                    "share": of.share,
                    **ends("patient_", of.ends),
                    **ends("wilson_", wilson_interval(of.number, of.n)),
                    "examples": " ".join(examples[*cell, kind]),
                }
            )
    return rows


# How evidence was located, and how often locating it by its text is wrong.


WRONG = {
    "text_event": "located by text: on another event",
    "text_decile": "located by text: in another decile",
    "text_zone": "located by text: middle taken for edge, or edge for middle",
}


def location_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Counts over questions with evidence, each as columns (:data:`core.runs.schemas.LOCATION`), a
    row a measure with its Wilson interval; errors are there where the source gives exact spans."""
    known = [row for row in rows if row["text_located"] is not None]
    placed = [row for row in known if row["text_located"]]
    scored = [row for row in rows if row["location_score"] is not None]
    measures = [
        (
            "pieces of evidence not in the record",
            sum(row["evidence_unlocated"] for row in rows),
            sum(row["evidence_pieces"] for row in rows),
        ),
        (
            "questions located at several places alike",
            sum(row["location_candidates"] > 1 for row in scored),
            len(scored),
        ),
        ("questions whose source gives exact spans", len(known), len(rows)),
        ("located by text: not found", len(known) - len(placed), len(known)),
        *(
            (words, sum(not row[name] for row in placed), len(placed))
            for name, words in WRONG.items()
        ),
    ]
    return [_row(measure, count, n) for measure, count, n in measures if n]


def _row(measure: str, count: int, n: int) -> dict[str, Any]:
    share = wilson_interval(count, n)
    columns = {"measure": measure, "count": count, "n": n, "share": share.estimate}
    return columns | ends("wilson_", share)


def run_locations(store: RowStore, plan: Plan, table: str) -> Table:
    """The table of a run, by the position that it goes by; ``table``: its main rows."""
    first = ", ".join(f"any_value({name}) AS {name}" for name in LOCATION)
    rows = store.select(
        table,
        f"instruction, {first}",
        f"({store.counted}) AND evidence_pieces > 0 GROUP BY instruction",
    )
    return [{"position": plan.protocol.position, **row} for row in location_table(rows)]
