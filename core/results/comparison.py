"""Paired comparisons of arms and readers within a run, and of runs.

A difference has McNemar's exact p with Holm's adjustment in its family, Newcombe's interval
(questions independent) and the one by patient, both simultaneous over the family, and bounds over
all outcomes that the unscored answers could have had.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import median
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from midchart.core.access import RunRef, needs
from midchart.core.errors import InputError, UnknownName
from midchart.core.results.report import changed_rows, counted_store, part_of, withdraw
from midchart.core.results.reviews import reviews_of, with_reviews
from midchart.core.results.tables import entry_columns, facts, grouped
from midchart.core.runs.directory import RunDirectory, find_run
from midchart.core.runs.experiment import Table
from midchart.core.runs.plan import RULE_JUDGES, Plan
from midchart.core.runs.schemas import ALL_IN_PROMPT, ALL_KEPT
from midchart.core.runs.status import status
from midchart.core.stats.intervals import cluster_members
from midchart.core.stats.paired import (
    holm_adjust,
    mcnemar_exact,
    newcombe_paired,
    simultaneous,
    smallest_difference,
)
from midchart.core.storage.rows import Ask
from midchart.core.types import UNLOCATED

POWER, ALPHA = 0.8, 0.05
Floats = NDArray[np.float64]
Key = tuple[str, ...]
DIFFERENCE = (
    "difference", "difference_low", "difference_high", "patient_low", "patient_high",
    "bound_low", "bound_high", "p", "p_bound",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pairing:
    """The pairs of one comparison, the first minus the second.

    ``cells`` [patients, 4]: scored pairs of each patient (at least one in all) that both, only the
    first, only the second or neither got right; ``pairs``: their number with unscored ones;
    ``bounds``: pairs that only the first and only the second got right, if the unscored answers of
    the first were all wrong and the second's all right, and the other way round. ``same``: every
    pair is of the same words with the same verdict, so the difference is 0 whoever is asked.
    """

    cells: Floats
    pairs: int
    bounds: tuple[int, int, int, int]
    same: bool = False


def family_differences(family: Sequence[Pairing]) -> list[dict[str, Any]]:
    """Columns of the differences of a family of comparisons, whose intervals hold at once
    (:func:`midchart.core.stats.paired.simultaneous`); those of the same words have none.

    ``p_bound`` is McNemar's p of the bound on the other side of the difference, and 1 where that
    bound is 0 or of the other sign.
    """
    tested = [one for one in family if not one.same]
    by_patient = iter(simultaneous([one.cells for one in tested]))
    level = 1 - ALPHA / max(len(tested), 1)
    rows: list[dict[str, Any]] = []
    for one in family:
        counts = [int(total) for total in one.cells.sum(axis=0)]
        bounds, pairs, n = one.bounds, one.pairs, sum(counts)
        low, high = (bounds[0] - bounds[1]) / pairs, (bounds[2] - bounds[3]) / pairs
        gain = counts[1] > counts[2]
        against = bounds[:2] if gain else bounds[2:]
        holds = low > 0 if gain else high < 0
        plain = None if one.same else newcombe_paired(*counts, level=level)
        ends = None if one.same else next(by_patient)
        values = (
            (counts[1] - counts[2]) / n, *((plain.low, plain.high) if plain else (None, None)),
            *(ends or (None, None)), low, high,
            mcnemar_exact(counts[1], counts[2]), mcnemar_exact(*against) if holds else 1.0,
        )  # fmt: skip
        columns: dict[str, Any] = dict(zip(DIFFERENCE, values, strict=True))
        rows.append(columns | {"n": n, "unscored": pairs - n, "same": one.same})
    return rows


def no_pair(unscored: int = 0) -> dict[str, Any]:
    """The columns of :func:`family_differences` without a scored pair."""
    return {**dict.fromkeys(DIFFERENCE), "n": 0, "unscored": unscored, "same": False}


def pairing(
    clusters: Sequence[Any],
    first: Sequence[bool | None],
    second: Sequence[bool | None],
    same: bool = False,
) -> Pairing | None:
    """The pairs of outcomes [pairs], None where unscored, of ``clusters`` [pairs], labels that
    sort; None without a scored pair."""
    one, other = (np.array(of, dtype=np.float64) for of in (first, second))
    known = np.flatnonzero(~np.isnan(one + other))
    if not known.size:
        return None
    count, member = cluster_members([clusters[i] for i in known.tolist()])
    cells = np.zeros((count, 4))
    np.add.at(cells, (member, (3 - 2 * one[known] - other[known]).astype(np.intp)), 1.0)

    def bound(unscored: float) -> tuple[int, int]:
        a, b = np.nan_to_num(one, nan=unscored), np.nan_to_num(other, nan=1 - unscored)
        return int((a > b).sum()), int((b > a).sum())

    return Pairing(cells, len(one), (*bound(0.0), *bound(1.0)), same)


Cell = tuple[str, str, str]
Right = Mapping[Any, tuple[Any, bool | None, Any]]
"""Question → its patient, whether the outcome was right (or the evidence there; None where it is
unscored: unparsed or failed), and what was judged. What nothing could be scored on is left out."""


def scored(
    ask: Ask, columns: Sequence[str] = ("instruction", "patient", "correct", "card")
) -> dict[Cell, Right]:
    """The judged answers of a run by label, reader and judge; ``columns``: SQL of the question and
    its outcome. An answer without anything to judge it by is no failure of this run."""
    listed = ", ".join(f"list({sql} ORDER BY answer) AS _{i}" for i, sql in enumerate(columns))
    cells: dict[Cell, Right] = {}
    for row in ask(
        f"SELECT label, reader, judge, {listed} FROM judged WHERE NOT unjudgeable GROUP BY ALL"
    ):
        label, reader, judge, questions, *outcomes = row.values()
        cells[label, reader, judge] = dict(zip(questions, zip(*outcomes, strict=True), strict=True))
    return cells


def common(first: Right, second: Right) -> list[Any]:
    """The questions of both, about the same patients, in the order of the first."""
    return [q for q in first if q in second and first[q][0] == second[q][0]]


def compare(family: Sequence[tuple[dict[str, Any], Right, Right]], first: str = "this") -> Table:
    """The rows of a family of tests, to which the columns of :func:`family_differences` are added,
    how often only the ``first`` and only the baseline was right, adjusted p values and verdicts.
    ``family``: of each comparison its row, the outcomes compared, and those of the baseline."""
    rows, known = [row for row, *_ in family], list[tuple[dict[str, Any], Pairing]]()
    for row, this, base in family:
        both = common(base, this)
        same = all(this[q][2] is not None and this[q][1:] == base[q][1:] for q in both)
        one, other = ([of[q][1] for q in both] for of in (this, base))
        pairs = pairing([base[q][0] for q in both], one, other, same)
        row |= {f"only_{first}": 0, "only_baseline": 0, **no_pair(len(both))}
        if pairs:
            _, only, only_base, _ = (int(count) for count in pairs.cells.sum(axis=0))
            row |= {f"only_{first}": only, "only_baseline": only_base}
            known.append((row, pairs))
    computed = family_differences([pairs for _, pairs in known])
    for (row, _), columns in zip(known, computed, strict=True):
        row |= columns
    adjust(rows)
    return rows


def conclusion(row: Mapping[str, Any]) -> str | None:
    """What a comparison shows at .05 after Holm: "better", "worse", "no difference shown",
    "the same answers", or "not claimed: …" where the interval by patient includes 0 (McNemar's test
    takes items of a patient as independent) or the unscored answers could reverse it; None without
    a pair."""
    if row["p_holm"] is None:
        return None
    if row.get("same"):
        return "the same answers"
    if row["p_holm"] > ALPHA:
        return "no difference shown"
    if row["patient_low"] is not None and row["patient_low"] <= 0 <= row["patient_high"]:
        return "not claimed: its interval by patient includes 0"
    if row["p_bound_holm"] > ALPHA:
        return "not claimed: unscored answers could reverse it"
    return "better" if row["difference"] > 0 else "worse"


def adjust_holm(family: Table, names: Sequence[str] = ("p", "p_bound")) -> None:
    """Add the Holm-adjusted p value of each test of a family to its row (``p_holm`` for ``p``);
    None where a row has no test."""
    tested = [row for row in family if row["p"] is not None]
    for name in names:
        adjusted = iter(holm_adjust([row[name] for row in tested]).tolist())
        for row in family:
            row[f"{name}_holm"] = None if row["p"] is None else next(adjusted)


def adjust(family: Table) -> None:
    """Put Holm's p values and the verdict into a family of tests. Rows need ``p``, ``p_bound`` and
    ``difference``, all None where there is no pair."""
    adjust_holm(family)
    for row in family:
        row["verdict"] = conclusion(row)


def _note_other_judges(rows: Table) -> None:
    """Put ``other_judges`` into comparisons: each judge whose verdict on the same arms and reader
    is another one, with that verdict ("exact: better"), "" where all judges agree."""
    by_pair = grouped(rows, lambda row: (row["label"], row["reader"]))
    for row in rows:
        row["other_judges"] = "; ".join(
            f"{other['judge']}: {other['verdict']}"
            for other in by_pair[row["label"], row["reader"]]
            if other["verdict"] is not None and other["verdict"] != row["verdict"]
        )


def paired(ask: Ask, plan: Plan, baseline: str = "") -> Table:
    """Every arm entry against ``baseline`` (a label; the first entry) on questions both answered. A
    family of tests, for Holm, is the comparisons of one reader and judge. Raises UnknownName."""
    labels = [entry.label for entry in plan.arms]
    baseline = baseline or labels[0]
    if baseline not in labels:
        raise UnknownName("arm of the run", baseline, labels)
    cells = scored(ask)
    rows: Table = []
    for reader, judge in product(plan.readers, plan.judges):
        base = cells.get((baseline, reader, judge), {})
        named = {"baseline": baseline, "reader": reader, "judge": judge}
        rows += compare(
            [
                (entry_columns(entry) | named, cells.get((entry.label, reader, judge), {}), base)
                for entry in plan.arms
                if entry.label != baseline
            ]
        )
    _note_other_judges(rows)
    return rows


def readers(ask: Ask, plan: Plan) -> Table:
    """Every further reader against the first, arm by arm; Holm over the arms of a reader and judge.
    The same prompt budget may hold more or less for another reader: it counts its own tokens."""
    first, *others = plan.readers
    cells = scored(ask) if others else {}
    rows: Table = []
    for reader, judge in product(others, plan.judges):
        named = {"baseline": first, "reader": reader, "judge": judge}
        rows += compare(
            [
                (
                    entry_columns(entry) | named,
                    cells.get((entry.label, reader, judge), {}),
                    cells.get((entry.label, first, judge), {}),
                )
                for entry in plan.arms
            ]
        )
    _note_other_judges(rows)
    return rows


def detectable(comparisons: Table) -> Table:
    """The smallest difference that a reader's and judge's comparisons (:func:`paired`) could have
    shown with power .8, by one test at .05 (``alone``) and as the first step of Holm over the
    family (``among_all``), at the median n and discordant share. Null where five questions or
    fewer."""
    families: dict[Key, Table] = defaultdict(list)
    for row in comparisons:
        if row["n"]:
            families[row["baseline"], row["reader"], row["judge"]].append(row)
    rows: Table = []
    for (baseline, reader, judge), family in families.items():
        n = int(median(row["n"] for row in family))
        discordant = median((row["only_this"] + row["only_baseline"]) / row["n"] for row in family)
        rows.append(
            {
                "baseline": baseline,
                "reader": reader,
                "judge": judge,
                "comparisons": len(family),
                "n": n,
                "discordant": discordant,
                "power": POWER,
                "alpha": ALPHA,
                "alone": smallest_difference(n, discordant, POWER, ALPHA),
                "among_all": smallest_difference(n, discordant, POWER, ALPHA / len(family)),
            }
        )
    return rows


def multiplicity(tables: dict[str, Table]) -> Table:
    """How many tests a report made, family by family, and how many are significant before and after
    Holm; ``below_05_holm`` goes by ``p_bound_holm``: whatever the unscored answers are."""
    families: dict[Key, Table] = defaultdict(list)
    for name in ("paired", "readers"):
        for row in tables[name]:
            if row["p"] is not None:
                families[name, row["baseline"], row["reader"], row["judge"]].append(row)
    return [
        {
            "table": name,
            "baseline": baseline,
            "test": f"McNemar, exact, against {baseline}, over arms",
            "reader": reader,
            "judge": judge,
            "tests": len(family),
            "adjusted": "Holm",
            "below_05": sum(row["p"] <= ALPHA for row in family),
            "below_05_holm": sum(row["p_bound_holm"] <= ALPHA for row in family),
        }
        for (name, baseline, reader, judge), family in families.items()
    ]


# Differences between runs, the first being the baseline: in their specs and in their results.
# Results are compared on the instructions that both runs scored, as arms are within a run; Holm's
# adjustment is over the comparisons of one run with the baseline by one judge: one judge decides,
# whatever others a run has.


Row = dict[str, Any]
NOT_COMPARED = frozenset({"run", "created", "spec.name", "spec.group"})
ACCURACY = "accuracy"
IN_PROMPT = "all pieces of the evidence in the prompt"
KEPT = "all pieces of the evidence kept, before any prompt limit"
MEASURES = (ACCURACY, IN_PROMPT, KEPT)
"""Runs are compared by the first of these that both have."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What of a finished run is compared with another: a row each arm, reader and judge."""

    folder: RunDirectory
    plan: Plan
    cells: Mapping[str, Mapping[Cell, Right]]
    """By measure."""
    people: tuple[str, ...]
    """The judges who are people (:mod:`midchart.core.results.reviews`)."""


@needs("viewer")
def compare_runs(runs: Sequence[RunRef]) -> dict[str, Any]:
    """Two or more runs, the first as the baseline: ``runs``, ``spec`` (a row a field in which any
    differs), ``results`` (a row each further run, arm, reader and judge, :func:`differences`) and
    ``notes`` on reading them. Raises UnknownName, or InputError for fewer than two runs."""
    if len(dict.fromkeys(runs)) < 2:
        raise InputError("a comparison takes two runs or more, each once")
    read = [read_outcomes(run) for run in dict.fromkeys(runs)]
    base, *others = read
    return {
        "runs": [_named(run) for run in read],
        "spec": _spec_rows(read),
        "results": [row for run in others for row in differences(base, run)],
        "notes": [
            *filter(None, (changed_rows(run.folder) for run in read)),
            *(note for run in others for note in _notes(base, run)),
        ],
    }


@needs("viewer")
def changed_questions(baseline: RunRef, run: RunRef) -> list[Row]:
    """The questions whose outcome differs between two runs, a row each question, arm, reader and
    judge; those that one run did not score are left out. Raises as :func:`compare_runs` does."""
    if baseline == run:
        raise InputError("a comparison takes two runs or more, each once")
    first, second = read_outcomes(baseline), read_outcomes(run)
    rows: list[Row] = []
    for names, cells, before, after in _comparable(first, second)[1]:
        for instruction in common(before, after):
            (record, was, _), now = before[instruction], after[instruction][1]
            if None not in (was, now) and was != now:
                rows.append(
                    {
                        **names,
                        "record": record,
                        "instruction": instruction,
                        "baseline": was,
                        "this": now,
                        "baseline_cell": cells[0],
                        "run_cell": cells[1],
                    }
                )
    return rows


def _named(run: Outcomes) -> Row:
    now = status(run.folder.id)
    return {
        "run": run.folder.id,
        "name": now["name"],
        "kind": run.plan.kind,
        "status": now["status"],
        "done": now["done"],
        "planned": now["planned"],
    }


def read_outcomes(run: str) -> Outcomes:
    """The outcomes of a run by its id; raises UnknownName, DataError."""
    folder = find_run(run)
    plan, reviews = folder.plan(), reviews_of(folder)
    store = counted_store(folder, plan)
    cells: dict[str, dict[Cell, Right]] = {}
    if "verdicts" in store.schemas:
        with facts(store, with_reviews(plan, reviews), reviews.rows()) as ask:
            cells[ACCURACY] = scored(ask, ("instruction", "record", "correct", "NULL"))
    main = next((name for name in ("selections", "answers") if name in store.schemas), "")
    # Selections and answers whose question has located evidence; without a prompt, whether it holds
    # the evidence is null.
    reader = "reader" if main == "answers" else "'' AS reader"
    columns = (
        f"label, {reader}, instruction, record, evidence_in_prompt, "
        f"{ALL_KEPT} AS all_kept, {ALL_IN_PROMPT} AS all_in_prompt"
    )
    located = f"(status = 'failed' AND band <> '{UNLOCATED}' OR evidence IS NOT NULL)"
    rows = store.select(main, columns, f"({store.counted}) AND {located}") if main else []
    limited = any(row["evidence_in_prompt"] is not None for row in rows)
    for measure, column in ((KEPT, "all_kept"), (IN_PROMPT, "all_in_prompt")):
        if rows and (limited or measure == KEPT):
            by_cell: dict[Cell, Any] = defaultdict(dict)
            for row in rows:
                cell = row["label"], row["reader"], ""
                by_cell[cell][row["instruction"]] = row["record"], row[column], None
            cells[measure] = by_cell
    return Outcomes(folder, plan, {m: of for m, of in cells.items() if of}, reviews.judges)


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inside in cast("Mapping[str, Any]", value).items():
            yield from _flat(inside, f"{name}.{key}" if name else key)
    elif isinstance(value, list) and name in ("spec.arms", "spec.readers", "spec.judges"):
        entries = cast("list[Any]", value)
        yield name, [e.get("label", e["name"]) if isinstance(e, dict) else e for e in entries]
    else:
        yield name, value


def _spec_rows(runs: Sequence[Outcomes]) -> list[Row]:
    derived = ("found", "position")
    flat = [{k: v for k, v in _flat(run.plan.raw) if not k.startswith(derived)} for run in runs]
    rows: list[Row] = []
    for field in dict.fromkeys(field for one in flat for field in one):
        # A field that an older run does not have reads as an empty one.
        shown = [_shown(one.get(field)) for one in flat]
        if field not in NOT_COMPARED and len(set(shown)) > 1:
            ids = (run.folder.id for run in runs)
            rows.append({"field": field, **dict(zip(ids, shown, strict=True))})
    return rows


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, cast("list[Any]", value)))
    return "" if value is None else str(value)


def _matched(first_names: Sequence[str], second_names: Sequence[str]) -> list[tuple[str, str]]:
    """Names of both; where they share none and each has one, those two."""
    both = [(name, name) for name in first_names if name in second_names]
    alone = len(first_names) == len(second_names) == 1
    return both or ([(first_names[0], second_names[0])] if alone else [])


Compared = tuple[Row, tuple[Cell, ...], Right, Right]
"""An arm, reader and judge of two runs: its columns, its cell in each run, and the outcomes."""


def _comparable(base: Outcomes, run: Outcomes) -> tuple[str, list[Compared]]:
    """What two runs can be compared by, "" where there is nothing, and what of both is compared."""
    measure = next((m for m in MEASURES if m in base.cells and m in run.cells), "")
    if not measure:
        return "", []
    labels, other_labels = ([arm.label for arm in one.plan.arms] for one in (base, run))
    readers = _matched(base.plan.readers, run.plan.readers) or [("", "")]
    judges = [("", "")]
    if measure == ACCURACY:
        judges = _matched(base.plan.judges, run.plan.judges)
        judges += [(name, name) for name in base.people if name in run.people]
    compared: list[Compared] = []
    for pairs in product(_matched(labels, other_labels), readers, judges):
        cells: tuple[Cell, ...] = tuple(zip(*pairs, strict=True))
        before, after = base.cells[measure].get(cells[0]), run.cells[measure].get(cells[1])
        if before is not None and after is not None:
            both = [a if a == b else f"{a} → {b}" for a, b in pairs]
            named = dict(zip(("arm", "reader", "judge"), both, strict=True))
            names = {"run": run.folder.id, **named, "measure": measure}
            compared.append((names, cells, before, after))
    return measure, compared


def differences(base: Outcomes, run: Outcomes) -> list[Row]:
    """A row each arm, reader and judge of both runs: ``n`` instructions, each run's share, their
    difference (the run minus the baseline) with its intervals, bounds, p values and verdict."""
    rows: list[Row] = []
    families: dict[str, list[tuple[Row, Right, Right]]] = defaultdict(list)
    for names, _, before, after in _comparable(base, run)[1]:
        both = common(before, after)
        known = [q for q in both if None not in (before[q][1], after[q][1])]
        shares = (
            sum(bool(of[q][1]) for q in known) / len(known) if known else None
            for of in (before, after)
        )
        row: Row = {**names, "patients": len({before[q][0] for q in known})}
        row |= dict(zip(("baseline_share", "run_share"), shares, strict=True))
        families[row["judge"]].append((row, after, before))
        rows.append(row)
    for family in families.values():
        compare(family, "run")
    if any(status(one.folder.id)["status"] != "done" for one in (base, run)):
        withdraw({"results": rows})
    return rows


def _notes(base: Outcomes, run: Outcomes) -> Iterator[str]:
    name = run.folder.id
    if base.plan.kind != run.plan.kind:
        yield f"{name} is a run of kind {run.plan.kind}, the baseline one of {base.plan.kind}"
    if base.plan.digest != run.plan.digest:
        yield f"{name} ran on other files than the baseline: instructions are paired by their ids"
    prompts = [one.plan.protocol.judge_prompt for one in (base, run)]
    models = {judge.name for one in (base, run) for judge in one.plan.judge_entries} - RULE_JUDGES
    if prompts[0] != prompts[1] and models:
        yield (
            f"{name} asked its judges by the {prompts[1]} prompt, the baseline by the {prompts[0]} "
            f"one (protocol, judge_prompt): verdicts of {', '.join(sorted(models))} may differ for "
            "that alone"
        )
    measure, compared = _comparable(base, run)
    if not measure:
        yield f"{name}: no result by instruction on both sides, so no pair; only the specs compare"
    elif not compared:
        yield f"{name} shares no arm, reader and judge with the baseline"
    for one in (base, run):
        words = part_of(one.folder, one.plan).words
        if words:
            yield f"{one.folder.id}: {words}"
        state = status(one.folder.id)["status"]
        if state != "done":
            yield f"{one.folder.id} is {state}: what is compared is what is there"
