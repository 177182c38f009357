"""Tables of a run of order and filler: changed answers by condition, against the reader's noise.

Noise is the share of changed answers where the same prompt was asked again. Every comparison with
it is paired by question, with patients as clusters
(:func:`midchart.core.stats.within.within_contrast`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np

from midchart.core.results.comparison import adjust_holm
from midchart.core.results.tables import cells, ends, entry_columns, failures, generator, grouped
from midchart.core.runs.experiment import Table
from midchart.core.runs.plan import Plan
from midchart.core.stats.intervals import wilson_of_share
from midchart.core.stats.paired import share_interval
from midchart.core.stats.within import WithinContrast, within_contrast
from midchart.core.storage.rows import RowStore, query
from midchart.extras.audit.order_and_filler.conditions import ORDERS
from midchart.extras.audit.order_and_filler.filler import FILLERS

Row = Mapping[str, Any]
Rows = Sequence[Row]
AGAIN = "same prompt again"
EVERYTHING = ""
"""In place of a level: all levels together."""
SITE_COLUMNS = "own_question, condition, factor, level, words, filler_tokens, draw"


def tables(store: RowStore, plan: Plan) -> dict[str, Table]:
    """All tables of a run, by name."""
    compared = _compared(store)
    return {
        "changes": _adjusted(_changed("changes", _conditions, compared, plan)),
        "factors": _adjusted(_changed("factors", _factors, compared, plan)),
        "levels": _adjusted(_levels(compared, plan)),
        "correct": _adjusted(_correct(store, plan)) if plan.judges else [],
        "questions": _questions(compared, plan),
        "failures": failures(store, plan),
    }


def _compared(store: RowStore) -> list[dict[str, Any]]:
    """The comparisons that were made, with the lengths of their prompts."""
    rows, answers = store.source("comparisons"), store.source("answers")
    return query(
        lambda: (
            f"SELECT c.label, c.reader, c.record, c.status, {_of('c')}, c.changed::DOUBLE AS "
            "changed, c.same_prompt, a.prompt_tokens, a.added_tokens, a.question_words "
            f"FROM {rows} c LEFT JOIN {answers} a ON a.key = c.answer_key "
            "ORDER BY c.label, c.reader, c.record, c.own_question, c.item"
        )
    )


def _of(table: str) -> str:
    return ", ".join(f"{table}.{name}" for name in SITE_COLUMNS.split(", "))


def _by_reader(compared: Rows, plan: Plan) -> Iterable[tuple[dict[str, Any], list[Row]]]:
    """Every arm entry × reader of the spec: the columns that name it, and its comparisons."""
    for entry, reader in product(plan.arms, plan.readers):
        names = {**entry_columns(entry), "reader": reader}
        yield names, [r for r in compared if (r["label"], r["reader"]) == (entry.label, reader)]


def contrast(
    inside: Rows, outside: Rows, value: str, resamples: int, rng: np.random.Generator
) -> WithinContrast | None:
    """The mean of a column over rows inside less that over rows outside, question by question, with
    patients as clusters; None where no question has both."""
    names = {row["own_question"]: row["record"] for row in (*inside, *outside)}
    index = {name: i for i, name in enumerate(names)}

    def columns(rows: Rows) -> np.ndarray[Any, np.dtype[np.float64]]:
        by_question: list[list[float]] = [[] for _ in index]
        for row in rows:
            by_question[index[row["own_question"]]].append(float(row[value]))
        width = max((len(one) for one in by_question), default=0)
        return np.array([one + [np.nan] * (width - len(one)) for one in by_question])

    if not inside or not outside:
        return None
    first, second = columns(inside), columns(outside)
    marks = np.arange(first.shape[1] + second.shape[1]) < first.shape[1]
    values = np.hstack([first, second])
    return within_contrast(values, list(names.values()), marks, resamples, rng)


def _differs(against: WithinContrast | None) -> dict[str, Any]:
    """Columns of a contrast; null without one."""
    return {
        "difference": against.difference if against else None,
        **ends("patient_", (against.low, against.high) if against else None),
        "p": against.p_value if against else None,
    }


def _share(rows: Rows, value: str, prefix: str) -> dict[str, Any]:
    """n, count of rows whose column is true, and their share, the mean over questions, with its
    interval by patient and Wilson's of the questions."""
    by_question: dict[str, list[float]] = {}
    for row in rows:
        by_question.setdefault(row["own_question"], []).append(float(row[value]))
    patients = {row["own_question"]: row["record"] for row in rows}
    means = [sum(of) / len(of) for of in by_question.values()]
    mean = sum(means) / len(means) if means else None
    plain = None if mean is None else wilson_of_share(mean, len(means))
    by_patient = share_interval(means, [patients[name] for name in by_question])
    return {
        "n": len(rows),
        value: int(sum(row[value] for row in rows)),
        "questions": len(means),
        "patients": len(set(patients.values())),
        prefix: mean,
        **ends(f"{prefix}_patient_", by_patient),
        **ends(f"{prefix}_wilson_", plain),
    }


def _mean(rows: Rows, name: str) -> float | None:
    """The mean of the known values of a column, to one decimal; None without one."""
    values = [float(row[name]) for row in rows if row[name] is not None]
    return round(sum(values) / len(values), 1) if values else None


def _counted(rows: Rows) -> list[Row]:
    """Comparisons that were made, those of an unchanged prompt only where it was asked again."""
    return [
        row
        for row in rows
        if row["changed"] is not None and (row["factor"] == "again" or not row["same_prompt"])
    ]


def changed(rows: Rows, again: Rows, resamples: int, rng: np.random.Generator) -> dict[str, Any]:
    """Columns of the comparisons of one condition or of several; ``again``: those of the same
    prompt asked again.

    ``share`` is the mean over questions, ``noise_share`` that of the same prompt asked again, on
    the same questions, and ``difference`` what is between them. ``same_prompt`` comparisons are
    left out: nothing could be moved, so the prompt was the base's. ``not_compared`` lack an
    answer.
    """
    compared = [row for row in rows if row["changed"] is not None]
    counted = _counted(rows)
    against = None
    if rows and rows[0]["factor"] != "again":
        against = contrast(counted, again, "changed", resamples, rng)
    return {
        **_share(counted, "changed", "share"),
        **_differs(against),
        "noise_share": against.outside if against else None,
        "same_prompt": len(compared) - len(counted),
        "not_compared": len(rows) - len(compared),
        "prompt_tokens": _mean(compared, "prompt_tokens"),
        "added_tokens": _mean(compared, "added_tokens"),
        "question_words": _mean(compared, "question_words"),
    }


def _again(rows: Rows) -> list[Row]:
    return [row for row in rows if row["factor"] == "again" and row["changed"] is not None]


FACTORS = ("again", "order", "filler")


def _in_order(rows: Rows) -> list[Row]:
    """The same prompt first, then orders, then filler by kind, tokens and words."""
    levels = ("", *ORDERS, *FILLERS)
    return sorted(
        rows,
        key=lambda row: (
            FACTORS.index(row["factor"]),
            levels.index(row["level"] or ""),
            row["filler_tokens"] or 0,
            row["words"] or "",
        ),
    )


Part = tuple[Mapping[str, str], Callable[[Row], bool]]
"""The columns that name a part of the comparisons, and which are of it."""


def _holding(column: str, value: object, factor: str = "") -> Callable[[Row], bool]:
    return lambda row: row[column] == value and factor in ("", row["factor"])


def _conditions(rows: Rows) -> list[Part]:
    names = dict.fromkeys(row["condition"] for row in _in_order(rows))
    return [({"condition": name}, _holding("condition", name)) for name in names]


def _factors(rows: Rows) -> list[Part]:
    """The same prompt again, all orders, all filler, and filler by kind, words and tokens."""
    parts: list[tuple[str, str, Callable[[Row], bool]]] = [
        (title, EVERYTHING, _holding("factor", factor))
        for factor, title in zip(FACTORS, (AGAIN, "any order", "any filler"), strict=True)
    ]
    for column, title in (
        ("level", "filler"),
        ("words", "question's words"),
        ("filler_tokens", "tokens of filler"),
    ):
        values = dict.fromkeys(row[column] for row in _in_order(rows) if row["factor"] == "filler")
        parts += [
            (title, str(one).replace("_", " "), _holding(column, one, "filler")) for one in values
        ]
    return [({"factor": a, "level": b}, of) for a, b, of in parts if any(map(of, rows))]


def _changed(name: str, parts: Callable[[Rows], list[Part]], compared: Rows, plan: Plan) -> Table:
    """A row each arm entry × reader × part, over all conditions that have it."""
    table: Table = []
    for names, rows in _by_reader(compared, plan):
        again = _again(rows)
        for part, of in parts(rows):
            rng = generator(plan, name, names["label"], names["reader"], *part.values())
            columns = changed(list(filter(of, rows)), again, plan.protocol.resamples, rng)
            table.append({**names, **part, **columns})
    return table


def _levels(compared: Rows, plan: Plan) -> Table:
    """Filler of one level against another of the same factor, all else equal: a row each arm entry
    × reader × pair; ``difference`` is the share of the first less that of the second."""
    table: Table = []
    for names, rows in _by_reader(compared, plan):
        answered = _counted(rows)
        for (one, of), (other, of_second) in combinations(_factors(rows), 2):
            factor, level, second = one["factor"], one["level"], other["level"]
            if factor != other["factor"]:
                continue
            name = (names["label"], names["reader"], factor, level, second)
            against = contrast(
                list(filter(of, answered)), list(filter(of_second, answered)), "changed",
                plan.protocol.resamples, generator(plan, "levels", *name),
            )  # fmt: skip
            table.append(
                {
                    **names,
                    "factor": factor,
                    "pair": f"{factor}: {level} against {second}",
                    "first": level,
                    "second": second,
                    "n": against.rows if against else 0,
                    "first_share": against.inside if against else None,
                    "second_share": against.outside if against else None,
                    **_differs(against),
                    "patients": against.clusters if against else 0,
                }
            )
    return table


def _correct(store: RowStore, plan: Plan) -> Table:
    """Correct answers of each condition against those to the base prompt, asked once or again, on
    the same questions: a row each arm entry × reader × judge × condition.

    ``to_wrong``: answers judged incorrect where the base answer is correct; ``to_right`` the other
    way round.
    """
    verdicts, rows = store.source("verdicts"), store.source("comparisons")
    judged = query(
        lambda: (
            f"SELECT v.label, v.reader, v.judge, v.record, {_of('v')}, c.same_prompt, "
            "CASE v.outcome WHEN 'correct' THEN 1.0 WHEN 'incorrect' THEN 0.0 END AS correct "
            f"FROM {verdicts} v LEFT JOIN {rows} c ON c.answer_key = v.answer_key "
            "WHERE coalesce(v.repeat, 0) = 0 ORDER BY v.record, v.own_question, v.item"
        )
    )
    table: Table = []
    for names, cell in cells(plan):
        known = [
            row
            for row in judged
            if (row["label"], row["reader"], row["judge"]) == cell and row["correct"] is not None
        ]
        base = {row["own_question"]: row["correct"] for row in known if row["factor"] == "base"}
        plain = [row for row in known if row["factor"] in ("base", "again")]
        varied = [row for row in known if row["factor"] != "base"]
        for condition in dict.fromkeys(row["condition"] for row in _in_order(varied)):
            chosen = [row for row in varied if row["condition"] == condition]
            is_again = condition == AGAIN
            chosen = [row for row in chosen if is_again or not row["same_prompt"]]
            against = None
            if not is_again:
                rng = generator(plan, "correct", *cell, condition)
                against = contrast(chosen, plain, "correct", plan.protocol.resamples, rng)
            both = [(base.get(row["own_question"]), row["correct"]) for row in chosen]
            table.append(
                {
                    **names,
                    "condition": condition,
                    **_share(chosen, "correct", "accuracy"),
                    **_differs(against),
                    "base_accuracy": against.outside if against else None,
                    "to_wrong": both.count((1.0, 0.0)),
                    "to_right": both.count((0.0, 1.0)),
                }
            )
    return table


def _questions(compared: Rows, plan: Plan) -> Table:
    """A row each arm entry × reader × question: how many of its conditions change the answer, and
    which; those that change most come first."""
    table: Table = []
    for names, rows in _by_reader(compared, plan):
        by_question = grouped(_in_order(_counted(rows)), lambda row: row["own_question"])
        listed: Table = [
            {
                "label": names["label"],
                "reader": names["reader"],
                "record": of[0]["record"],
                "own_question": question,
                "changed": int(sum(row["changed"] for row in of if row["factor"] != "again")),
                "n": sum(row["factor"] != "again" for row in of),
                "changed_again": int(sum(row["changed"] for row in _again(of))),
                "changed_by": "; ".join(
                    dict.fromkeys(row["condition"] for row in of if row["changed"])
                ),
            }
            for question, of in by_question.items()
        ]
        table += sorted(listed, key=lambda row: (-row["changed"], row["own_question"]))
    return table


def _adjusted(table: Table) -> Table:
    """The rows with ``p_holm``: p adjusted over the tests of an arm, reader and judge; order and
    filler as such are a family of two."""

    def family(row: Row) -> tuple[Any, ...]:
        return row["label"], row["reader"], row.get("judge"), row.get("level") == EVERYTHING

    for rows in grouped(table, family).values():
        adjust_holm(rows, ("p",))
    return table
