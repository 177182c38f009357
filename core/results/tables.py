"""What tables of a run are made of: its rows in memory, and columns, shares, intervals, failures.

Bootstrap draws are seeded by the protocol's seed and the row's name, so an interval depends on the
row's counts alone. Rows in memory hold no text of records: a million verdicts are grouped in less
than a second.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from itertools import product
from typing import Any, TypeVar

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
from midchart.core.storage.rows import Ask, RowStore, literal, snapshot
from midchart.core.types import BANDS, UNLOCATED

Item = TypeVar("Item")
Group = TypeVar("Group", bound=Hashable)
ALL_BANDS = (*(name for name, _, _ in BANDS), "middle", "edge", "overall")
WIDE_BANDS = ("overall", "middle", "edge")


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


def grouped(rows: Iterable[Item], name: Callable[[Item], Group]) -> dict[Group, list[Item]]:
    """Rows by what ``name`` gives of each, in the order of the first of each group."""
    groups: dict[Group, list[Item]] = {}
    for row in rows:
        groups.setdefault(name(row), []).append(row)
    return groups


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


# Hits of selections in memory (Stage 1).


THRESHOLDS = (0.3, 0.4, 0.5, 0.6)
"""Probabilities above which a line is a semantic hit (docs/methods.md, Stage 1)."""
MAIN = 0.5
"""The paper's own threshold; the criterion "semantic" alone means this one."""
ALL_PIECES, ANY_PIECE = "all pieces", "any piece"
"""Of the evidence, by the ids of its sentences: each was kept, or at least one was."""
ALL_IN_PROMPT_NAME, ANY_IN_PROMPT_NAME = "all pieces in prompt", "any piece in prompt"
"""The same of the prompt after all cuts."""
PROMPTED = (ALL_IN_PROMPT_NAME, ANY_IN_PROMPT_NAME)
CRITERIA = {
    ALL_IN_PROMPT_NAME: ("evidence_all_in_prompt", ALL_IN_PROMPT),
    ANY_IN_PROMPT_NAME: ("evidence_in_prompt", "evidence_in_prompt"),
    "lexical": ("lexical", "lexical"),
    ALL_PIECES: ("evidence_all", ALL_KEPT),
    ANY_PIECE: ("evidence", "evidence"),
}
"""Criterion of a hit → the column of rows that begins its columns, and SQL of the hit."""
BANDS_OF_ROW = (
    f"CASE WHEN band = '{UNLOCATED}' THEN ['overall'] "
    "ELSE [band, CASE WHEN middle THEN 'middle' ELSE 'edge' END, 'overall'] END"
)
"""SQL: the bands in which a row counts."""
_CHOSEN = "label|instruction|record|band|middle|kept|picked|unmatched|reader|prompt_tokens"


def _hits(criterion: str) -> str:
    """SQL of the hits by a criterion, of prompts a row each reader."""
    column, hit = CRITERIA[criterion]
    prompt, every = criterion in PROMPTED, criterion in (ALL_PIECES, ALL_IN_PROMPT_NAME)
    where = "_in_prompt" if prompt else ""
    columns = {
        "criterion": literal(criterion),
        "hit": hit,
        # All pieces that were kept are as many sentences as were kept of the evidence.
        "own_hit": f"{hit} AND evidence{where}_picked = evidence_kept"
        if every
        else f"{column}_picked > 0",
        "chance": f"{column}_chance",
        "picked_chance": f"{column}_picked_chance",
        "evidence_share": f"evidence_share{where}",
    }
    if every:
        columns |= {"any_piece": f"evidence{where}", "any_piece_chance": f"evidence{where}_chance"}
    elif not prompt:
        columns |= {"kept_hits": f"{column}_kept", "picked_hits": f"{column}_picked"}
    if prompt:
        before = ALL_KEPT if every else "evidence"
        columns |= {"reader": "reader", "lost": f"{before} AND NOT {hit}"}
        columns["cut_tokens"] = "CASE WHEN prompt_cut THEN prompt_tokens END"
    return _select(columns, "chosen" if prompt else "once")


def _select(columns: Mapping[str, str], rows: str) -> str:
    listed = ", ".join(f"{sql} AS {name}" for name, sql in columns.items())
    return (
        f"SELECT label, instruction, record, bands, kept, picked, unmatched, {listed} FROM {rows}"
    )


def _semantic(name: str, threshold: float) -> str:
    above = f"list_filter(entailment, lambda x: x.probability > {threshold})"
    columns = {
        "criterion": literal(name),
        "hit": f"best > {threshold}",
        "kept_hits": f"len({above})",
        "picked_hits": f"len(list_filter({above}, lambda x: x.picked))",
        "own_hit": f"len(list_filter({above}, lambda x: x.picked)) > 0",
        "evidence_share": "evidence_share",
    }
    return _select(columns, "once JOIN entailed USING (label, instruction)")


@contextmanager
def hits(store: RowStore, plan: Plan) -> Generator[Ask]:
    """Query the selections of a run in its present state, those that failed left out, by a
    temporary table ``hits``: a row an arm, instruction, criterion and, of prompts, reader.

    ``hit``: null where it is not known; ``own_hit``: whether the arm's own picks are one; of the
    ``kept`` and ``picked`` lines ``kept_hits`` and ``picked_hits`` are hits, null for a criterion
    that asks nothing of single lines; ``lost``: a prompt's limits lost the hit; ``cut_tokens``: the
    tokens of a prompt that lost anything.
    """
    main = "selections" if "selections" in store.schemas else "answers"
    scored = bool(plan.options.get("semantic"))
    named = f"COLUMNS('^({_CHOSEN}|prompt_cut|lexical.*|evidence.*)$')"
    reader = ", '' AS reader" if main == "selections" else ""
    of_hits = [_hits(criterion) for criterion in CRITERIA]
    if scored:
        of_hits += [_semantic(name, threshold) for name, threshold in semantic_names().items()]

    def statements() -> list[str]:
        make = "CREATE OR REPLACE TEMP TABLE"
        tables = [
            f"{make} chosen AS SELECT {named}{reader}, {BANDS_OF_ROW} AS bands FROM "
            f"{store.source(main)} WHERE selection IS NOT NULL AND ({store.counted})",
            f"{make} once AS SELECT DISTINCT ON (label, instruction) * FROM chosen",
        ]
        if scored:
            tables.append(
                f"{make} entailed AS SELECT label, instruction, best, entailment "
                f"FROM {store.source('semantic')} WHERE best IS NOT NULL"
            )
        every = " UNION ALL BY NAME ".join(of_hits)
        more = "coalesce(reader, '') AS reader, dense_rank() OVER (ORDER BY record) AS patient"
        return [*tables, f"{make} hits AS SELECT * EXCLUDE reader, {more} FROM ({every})"]

    with snapshot(statements) as ask:
        yield ask


def semantic_names() -> dict[str, float]:
    """Criteria of semantic hits → their threshold: "semantic", and "semantic@0.3" and so on."""
    return {"semantic": MAIN} | {f"semantic@{t:g}": t for t in THRESHOLDS}


def criteria_of(ask: Ask, plan: Plan) -> list[tuple[str, str]]:
    """The criteria of a run's ``hits``, with the reader of a prompt: those of prompts where they
    are known, then the others."""
    rows = ask("SELECT DISTINCT criterion, reader FROM hits WHERE hit IS NOT NULL")
    known = {(row["criterion"], row["reader"]) for row in rows}
    prompts = [(c, reader) for reader in plan.readers or [""] for c in PROMPTED]
    others = [name for name in CRITERIA if name not in PROMPTED]
    others += semantic_names() if plan.options.get("semantic") else []
    return [*(pair for pair in prompts if pair in known), *((name, "") for name in others)]


# Answers and verdicts in memory (Stage 2).


MOST_PATIENTS = 500
"""Clusters when patients are resampled. More patients are pooled into so many independent groups,
so that a table costs the same for a thousand patients and a million."""

LARGE = (
    "prompt", "answer", "reasoning", "selection", "lines", "wording", "trace", "sources", "cut",
    "evidence_all", "evidence_all_in_prompt",
)  # fmt: skip
"""Columns of answers that tables do not take as they are: texts, and what :data:`ALL_KEPT` and
:data:`ALL_IN_PROMPT` derive."""
OF_THE_ANSWER = (
    "lexical", "evidence", "evidence_all", "evidence_in_prompt", "evidence_all_in_prompt",
    "question_survived", "failure_kind", "ended", "evidence_quoted",
)  # fmt: skip
OF_THE_QUESTION = (
    "label",
    "reader",
    "record",
    "instruction",
    "band",
    "middle",
    "task_type",
    "domain",
)
SITE_COLUMNS = (
    "needle", "fact", "length", "depth", "distractors", "reached", "haystack_tokens",
    "order_position", "time_position", "token_position",
)  # fmt: skip
"""Of the verdicts of needle runs."""


def _of_people(answers: str, reviews: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """SQL of verdicts of people as rows of verdicts with these columns of their answers; "" without
    one. ``answers`` is the SQL of the answers."""
    if not reviews:
        return ""
    values = ", ".join(
        f"({literal(r['answer_key'])}, {literal(r['judge'])}, {literal(r['outcome'])}, "
        f"{'true' if r['refusal'] else 'false'})"
        for r in reviews
    )
    return (
        f" UNION ALL BY NAME SELECT h.*, {', '.join(columns)}, 'ok' AS status, 0 AS repeat, "
        f"false AS nan_evidence FROM {answers} a "
        f"JOIN (VALUES {values}) h(answer_key, judge, outcome, refusal) ON a.key = h.answer_key"
    )


@contextmanager
def facts(store: RowStore, plan: Plan, reviews: Sequence[Mapping[str, Any]] = ()) -> Generator[Ask]:
    """Query a run of kind answers in its present state, by temporary tables without text:
    ``answered``, a row an answer; ``verdict_rows``, a row a verdict, with the numbers of its
    ``patient`` and ``card`` (its answer among distinct ones); ``judged``, those of repeat 0 that
    count, with columns of their answers.

    ``reviews``: human verdicts, added to the run's; ``plan`` then names these judges too.
    """
    site = SITE_COLUMNS if "needle" in store.schemas["verdicts"] else ()
    scored = bool(plan.options.get("semantic"))
    listed = ", ".join(f"a.{name}" for name in OF_THE_ANSWER)
    listed += f", e.best > {MAIN} AS semantic" if scored else ""

    def statements() -> list[str]:
        make, rows = "CREATE OR REPLACE TEMP TABLE", store.source("answers")
        people = _of_people(rows, reviews, (*OF_THE_QUESTION, *site))
        entailed = store.source("semantic") if scored else ""
        on = "e.label = s.label AND e.instruction = s.instruction"
        joined = f" LEFT JOIN {entailed} e ON {on}" if scored else ""
        return [
            f"{make} answered AS SELECT row_number() OVER () AS answer, "
            f"* EXCLUDE ({', '.join(LARGE)}), {ALL_KEPT} AS evidence_all, "
            f"{ALL_IN_PROMPT} AS evidence_all_in_prompt FROM {rows}",
            f"{make} verdict_rows AS WITH v AS (SELECT * EXCLUDE (raw, reason, key, item, how) "
            f"FROM (FROM {store.source('verdicts')}{people})) SELECT v.*, patient, "
            "hash(v.instruction, v.reader, coalesce(judged_text, v.answer_key)) AS card FROM v "
            f"JOIN (SELECT record, (row_number() OVER (ORDER BY record) - 1) % {MOST_PATIENTS} "
            "AS patient FROM (SELECT DISTINCT record FROM v)) USING (record) JOIN (SELECT "
            "answer_key, max(prompt_hash) AS judged_text FROM v GROUP BY 1) USING (answer_key)",
            # Without a reference: not a failure of an arm.
            f"{make} judged AS SELECT s.*, a.answer, {listed}, (s.outcome = 'failed' AND "
            "s.prompt_hash IS NULL AND coalesce(a.status = 'ok', false)) AS unjudgeable, "
            "CASE s.outcome WHEN 'correct' THEN true WHEN 'incorrect' THEN false END AS correct "
            f"FROM (SELECT * FROM verdict_rows WHERE {store.counted}) s "
            f"LEFT JOIN answered a ON a.key = s.answer_key{joined} WHERE coalesce(s.repeat, 0) = 0",
        ]

    with snapshot(statements) as ask:
        yield ask


# Rows counted by columns.


Counts = dict[str, Any]
Key = tuple[Any, ...]
CELL = ("label", "reader", "judge")
OUTCOMES = ("refusals", "unparsed", "cut_off", "failed")
OUTCOME_COUNTS = """
    count(*) FILTER (refusal) AS refusals, count(*) FILTER (outcome = 'unparsed') AS unparsed,
    count(*) FILTER (ended IN ('length', 'empty')) AS cut_off,
    count(*) FILTER (outcome = 'failed') AS failed, count(*) FILTER (unjudgeable) AS unjudgeable
"""
SUMS = ("correct", "n", "patients", "squares", "cross", "sizes")
NOTHING: Counts = dict.fromkeys((*SUMS, *OUTCOMES, "unjudgeable"), 0) | {"alike": None}


def counted(
    ask: Ask,
    by: Sequence[str],
    right: str = "correct",
    where: str = "true",
    rows: str = "judged",
    columns: str = OUTCOME_COUNTS,
    alike: Mapping[Key, float] | None = None,
) -> dict[Key, Counts]:
    """Counts of rows by the values of ``by`` (null is left out): ``n`` rows for which ``right`` is
    known, how many are ``correct``, and what a clustered interval needs of their ``patients``.

    ``by``, ``right``, ``where``, ``rows`` (a relation with a column ``patient``) and further
    ``columns`` are SQL. ``squares``, ``cross``, ``sizes``: sums over patients of c², c·n and n², of
    c right of n rows. ``alike``: the correlation of a patient's rows, by family (the second and
    third of ``by``); pooled over the cells of a family unless given; null where it is not given.
    """
    names = [f"_{i}" for i in range(len(by))]
    keys = ", ".join(names)
    named = ", ".join(f"{sql} AS {name}" for sql, name in zip(by, names, strict=True))
    counts = ask(
        f"""
        WITH known AS (SELECT *, {named}, {right} AS _right FROM {rows} WHERE {where}),
        each AS (SELECT {keys}, patient, count(*) FILTER (_right) AS c, count(_right) AS n
            FROM known GROUP BY ALL),
        sums AS (SELECT {keys}, count(*) FILTER (n > 0) AS patients, sum(c)::BIGINT AS correct,
            sum(n)::BIGINT AS n, sum(c * c)::DOUBLE AS squares, sum(c * n)::DOUBLE AS "cross",
            sum(n * n)::DOUBLE AS sizes FROM each GROUP BY ALL)
        FROM sums JOIN (SELECT {keys}, {columns} FROM known GROUP BY ALL) USING ({keys})
        ORDER BY {keys}
        """
    )
    cells = {tuple(row[name] for name in names): row for row in counts}
    if alike is None:
        alike = correlations(cells)
    return {key: {**count, "alike": alike.get(key[1:3])} for key, count in cells.items()}


def correlations(cells: Mapping[Key, Counts]) -> dict[Key, float]:
    """The correlation of a patient's rows by family, pooled over its cells
    (:mod:`midchart.core.stats.intervals`)."""
    families: dict[Key, list[ClusterSums]] = defaultdict(list)
    for key, count in cells.items():
        if count["n"]:
            share = count["correct"] / count["n"]
            sums = (count[name] for name in SUMS)
            families[key[1:3]].append(ClusterSums(*sums, variance=share * (1 - share)))
    return {family: pooled_correlation(samples) for family, samples in families.items()}


def by_patient(count: Counts) -> tuple[float, float] | None:
    """The interval by patient of a share, null for fewer than 5 patients."""
    if not count["n"]:
        return None
    interval = clustered_wilson(*(count[name] for name in SUMS), correlation=count["alike"])
    return reported_interval(None, count["patients"], interval)


def share_of(count: Counts) -> float | None:
    """The share of a cell's rows that are right; null without a row."""
    return count["correct"] / count["n"] if count["n"] else None


def share(count: Counts) -> dict[str, Any]:
    """n, number right, accuracy, and two intervals (``wilson`` of questions, ``patient`` null for
    fewer than 5); ``bound_low`` and ``bound_high``: were all unparsed and failed ones wrong, or all
    right; and how many answers were refusals, unparsed, cut off and failed."""
    n, correct = count["n"], count["correct"]
    unscored = count["unparsed"] + count["failed"] - count["unjudgeable"]
    total = n + unscored
    return {
        **pick(count, ("n", "correct", "patients")),
        "bound_low": correct / total if total else None,
        "bound_high": (correct + unscored) / total if total else None,
        "accuracy": share_of(count),
        **ends("wilson_", wilson_interval(correct, n) if n else None),
        **ends("patient_", by_patient(count)),
        **pick(count, OUTCOMES),
    }


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
    rows: Table = []
    for kind in FAILURE_KINDS:
        is_kind = f"failure_kind = {literal(kind)}"
        examples = f"arg_min(answer_key, answer_key, {EXAMPLES}) FILTER ({is_kind}) AS examples"
        of_kind = counted(ask, CELL, is_kind, where, columns=examples)
        rows += [
            {
                **columns,
                "kind": kind,
                "count": count["correct"],
                "n": count["n"],
                "share": share_of(count),
                **ends("patient_", by_patient(count)),
                **ends("wilson_", wilson_interval(count["correct"], count["n"])),
                "examples": " ".join(count["examples"]),
            }
            for columns, cell in cells(plan)
            if (count := of_kind.get(cell, NOTHING))["correct"]
        ]
    order = [cell for _, cell in cells(plan)]
    return sorted(rows, key=lambda row: order.index((row["label"], row["reader"], row["judge"])))


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
