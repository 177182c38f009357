"""Differences between runs, the first being the baseline: in their specs and in their results.

Results are compared on the instructions that both runs scored, as arms are within a run
(:mod:`core.results.paired`); Holm's adjustment is over the comparisons of one run with the
baseline.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from core.errors import InputError
from core.results.paired import adjust, difference, no_pair, resampled
from core.results.report import counted_store, part_of
from core.results.reviews import reviews_of, with_reviews
from core.results.tables import facts
from core.runs.directory import RunDirectory, changed_rows, find_run
from core.runs.plan import RULE_JUDGES, Plan
from core.runs.schemas import UNLOCATED
from core.runs.status import status

Row = dict[str, Any]
Cell = tuple[str, str, str]
Right = Mapping[str, tuple[str, bool | None]]
"""Instruction → its record and whether the outcome was right (or the evidence there); None where it
is unscored (unparsed or failed). What nothing could be scored on is left out."""
Pairs = Sequence[tuple[str, bool | None, bool | None]]
"""Record, the baseline's outcome and the run's."""
NOT_COMPARED = frozenset({"run", "created", "spec.name", "spec.group"})
ACCURACY = "accuracy"
IN_PROMPT = "evidence in the prompt"
KEPT = "evidence kept, before any prompt limit"
MEASURES = (ACCURACY, IN_PROMPT, KEPT)
"""Runs are compared by the first of these that both have."""


@dataclass(frozen=True, slots=True)
class _Run:
    folder: RunDirectory
    plan: Plan
    cells: Mapping[str, Mapping[Cell, Right]]
    """By measure."""
    people: tuple[str, ...]
    """The judges who are people (:mod:`core.results.reviews`)."""
    cut_at: Mapping[Cell, Mapping[str, int]]
    """Tokens of the prompts that lost anything, by instruction."""


def compare_runs(runs: Sequence[str]) -> dict[str, Any]:
    """Two or more runs, the first as the baseline.

    ``runs``: run, name, kind, status, protocol of each. ``spec``: a row a field in which any
    differs, ``field`` and each run's value under its id. ``results``: a row each further run, arm,
    reader and judge, with ``measure`` (one of :data:`MEASURES`), n instructions of both runs,
    each run's share, the ``difference`` (that run minus the baseline) with both intervals, p and
    Holm's p; ``unscored`` instructions that one of the two did not score, ``bound_low`` and
    ``bound_high`` of the difference over all that these could have been, and the ``verdict``
    (:func:`core.results.paired.conclusion`). Where evidence in the prompt is compared,
    ``baseline_kept_but_cut`` and ``run_kept_but_cut`` count the instructions whose evidence was
    kept and then cut, ``…_cut_at_least`` and ``…_cut_at_most`` are the tokens of the shortest and
    the longest prompt that lost anything. ``notes``: warnings on reading them.
    Raises UnknownName, or InputError for fewer than two runs.
    """
    if len(dict.fromkeys(runs)) < 2:
        raise InputError("a comparison takes two runs or more, each once")
    read = [_read(run) for run in dict.fromkeys(runs)]
    base, *others = read
    return {
        "runs": [_named(run) for run in read],
        "spec": _spec_rows(read),
        "results": [row for run in others for row in _results(base, run)],
        "notes": [
            *filter(None, (changed_rows(run.folder) for run in read)),
            *(note for run in others for note in _notes(base, run)),
        ],
    }


def changed_questions(baseline: str, run: str) -> list[Row]:
    """The questions whose outcome differs between two runs, in the order of the baseline's rows.

    A row each question, arm, reader and judge: ``run``, ``arm``, ``reader``, ``judge`` and
    ``measure`` as in ``results`` of :func:`compare_runs`, ``record``, ``instruction``, whether the
    ``baseline`` and ``this`` run were right (or had the evidence), and the labels of arm, reader
    and judge in each, ``baseline_cell`` and ``run_cell``. Questions that one of them did not score
    are left out. Raises as :func:`compare_runs` does.
    """
    if baseline == run:
        raise InputError("a comparison takes two runs or more, each once")
    first, second = _read(baseline), _read(run)
    measure = _measure(first, second)
    rows: list[Row] = []
    for base_cell, run_cell, common in _pairs(first, second):
        for instruction in common:
            record, before = first.cells[measure][base_cell][instruction]
            _, after = second.cells[measure][run_cell][instruction]
            if None not in (before, after) and before != after:
                rows.append(
                    {
                        **_names(second, base_cell, run_cell, measure),
                        "record": record,
                        "instruction": instruction,
                        "baseline": before,
                        "this": after,
                        "baseline_cell": base_cell,
                        "run_cell": run_cell,
                    }
                )
    return rows


def _named(run: _Run) -> Row:
    now = status(run.folder.id)
    return {
        "run": run.folder.id,
        "name": now["name"],
        "kind": run.plan.kind,
        "status": now["status"],
        "done": now["done"],
        "planned": now["planned"],
    }


def _read(run: str) -> _Run:
    folder = find_run(run)
    plan, reviews = folder.plan(), reviews_of(folder)
    store = counted_store(folder, plan)
    cells: dict[str, dict[Cell, dict[str, tuple[str, bool | None]]]] = {}
    cut_at: dict[Cell, dict[str, int]] = defaultdict(dict)

    def add(measure: str, row: Row, right: bool | None) -> None:
        by_cell = cells.setdefault(measure, defaultdict(dict))
        by_cell[_cell(row)][row["instruction"]] = (row["record"], right)

    if "verdicts" in store.schemas:
        with facts(store, with_reviews(plan, reviews), reviews.rows()) as ask:
            # An answer without anything to judge it by is no failure of this run.
            for row in ask(
                "SELECT label, reader, judge, instruction, record, correct FROM judged "
                "JOIN questions USING (question) WHERE NOT unjudgeable ORDER BY answer"
            ):
                add(ACCURACY, row, row["correct"])
    main = next((name for name in ("selections", "answers") if name in store.schemas), "")
    # Selections and answers whose question has located evidence; without a prompt, whether it holds
    # the evidence is null.
    reader = "reader" if main == "answers" else "'' AS reader"
    columns = (
        f"label, {reader}, '' AS judge, instruction, record, evidence, evidence_in_prompt, "
        "prompt_cut, prompt_tokens"
    )
    located = f"(status = 'failed' AND band <> '{UNLOCATED}' OR evidence IS NOT NULL)"
    located_rows = store.select(main, columns, f"({store.counted}) AND {located}") if main else []
    limited = any(row["evidence_in_prompt"] is not None for row in located_rows)
    for row in located_rows:
        add(KEPT, row, row["evidence"])
        if limited:
            add(IN_PROMPT, row, row["evidence_in_prompt"])
        if row["prompt_cut"]:
            cut_at[_cell(row)][row["instruction"]] = row["prompt_tokens"]
    return _Run(folder, plan, cells, reviews.judges, cut_at)


def _cell(row: Row) -> Cell:
    return row["label"], row["reader"], row["judge"]


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inside in cast("Mapping[str, Any]", value).items():
            yield from _flat(inside, f"{name}.{key}" if name else key)
    elif isinstance(value, list) and name in ("spec.arms", "spec.readers", "spec.judges"):
        entries = cast("list[Any]", value)
        yield name, [e.get("label", e["name"]) if isinstance(e, dict) else e for e in entries]
    else:
        yield name, value


def _spec_rows(runs: Sequence[_Run]) -> list[Row]:
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


def _measure(base: _Run, run: _Run) -> str:
    """What both runs can be compared by; "" where there is nothing."""
    return next((m for m in MEASURES if m in base.cells and m in run.cells), "")


def _pairs(base: _Run, run: _Run) -> Iterator[tuple[Cell, Cell, list[str]]]:
    """The cells of two runs that are compared, each with the instructions of both."""
    measure = _measure(base, run)
    if not measure:
        return

    labels, other_labels = ([arm.label for arm in one.plan.arms] for one in (base, run))
    readers = _matched(base.plan.readers, run.plan.readers) or [("", "")]
    judges = [("", "")]
    if measure == ACCURACY:
        judges = _matched(base.plan.judges, run.plan.judges)
        judges += [(name, name) for name in base.people if name in run.people]
    for arm, other_arm in _matched(labels, other_labels):
        for reader, other_reader in readers:
            for judge, other_judge in judges:
                first, second = (arm, reader, judge), (other_arm, other_reader, other_judge)
                if first in base.cells[measure] and second in run.cells[measure]:
                    before, after = base.cells[measure][first], run.cells[measure][second]
                    common = [i for i in before if i in after and before[i][0] == after[i][0]]
                    yield first, second, common


def _results(base: _Run, run: _Run) -> list[Row]:
    rows: list[Row] = []
    measure = _measure(base, run)
    for base_cell, run_cell, common in _pairs(base, run):
        first, second = base.cells[measure][base_cell], run.cells[measure][run_cell]
        row = {
            **_names(run, base_cell, run_cell, measure),
            **_difference(base, [(*first[i], second[i][1]) for i in common], base_cell),
        }
        if measure == IN_PROMPT:
            row |= _lost("baseline", base, base_cell, common) | _lost("run", run, run_cell, common)
        rows.append(row)
    adjust(rows)
    return rows


def _lost(whose: str, run: _Run, cell: Cell, instructions: Sequence[str]) -> Row:
    """On how many instructions the evidence was kept and then cut from the prompt, and the tokens
    of the shortest and the longest prompt that lost anything."""
    kept_cell, shown = run.cells[KEPT][cell], run.cells[IN_PROMPT][cell]
    tokens = [run.cut_at[cell][i] for i in instructions if i in run.cut_at.get(cell, {})]
    return {
        f"{whose}_kept_but_cut": sum(
            bool(kept_cell[i][1]) and shown[i][1] is False for i in instructions
        ),
        f"{whose}_cut_at_least": min(tokens, default=None),
        f"{whose}_cut_at_most": max(tokens, default=None),
    }


def _names(run: _Run, base_cell: Cell, run_cell: Cell, measure: str) -> Row:
    """The columns that name a comparison."""
    both = [a if a == b else f"{a} → {b}" for a, b in zip(base_cell, run_cell, strict=True)]
    named = dict(zip(("arm", "reader", "judge"), both, strict=True))
    return {"run": run.folder.id, **named, "measure": measure}


def _difference(base: _Run, pairs: Pairs, cell: Cell) -> Row:
    """Counts, shares, difference, intervals and bounds of pairs."""
    scored = [(record, a, b) for record, a, b in pairs if a is not None and b is not None]
    records = sorted({record for record, _, _ in scored})
    row: Row = {"patients": len(records), "only_run": 0, "only_baseline": 0}
    if not scored:
        shares = dict.fromkeys(("baseline_share", "run_share"))
        return row | shares | no_pair(len(pairs))
    place = {record: i for i, record in enumerate(records)}
    cells = np.zeros((len(records), 4))
    for record, a, b in scored:
        cells[place[record], 2 * (not b) + (not a)] += 1
    totals = np.stack([cells[:, 1] - cells[:, 2], cells.sum(axis=1)], axis=1)
    both, only_run, only_base, _ = (int(total) for total in cells.sum(axis=0))
    bounds = (*_unscored(pairs, False), *_unscored(pairs, True))
    draws = resampled(totals, base.plan, "runs", *cell)[:, 0]
    return row | {
        "baseline_share": (both + only_base) / len(scored),
        "run_share": (both + only_run) / len(scored),
        "only_run": only_run,
        "only_baseline": only_base,
        **difference(cells, draws, len(pairs), bounds),
    }


def _unscored(pairs: Pairs, favoured: bool) -> tuple[int, int]:
    """Pairs that only the run, and only the baseline, got right, were all unscored outcomes of the
    run right (``favoured``) or wrong, and those of the baseline the opposite."""
    filled = [(not favoured if a is None else a, favoured if b is None else b) for _, a, b in pairs]
    return sum(b and not a for a, b in filled), sum(a and not b for a, b in filled)


def _notes(base: _Run, run: _Run) -> Iterator[str]:
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
    if not _measure(base, run):
        yield f"{name}: no result by instruction on both sides, so no pair; only the specs compare"
    elif not any(True for _ in _pairs(base, run)):
        yield f"{name} shares no arm, reader and judge with the baseline"
    for one in (base, run):
        words = part_of(one.folder, one.plan).words
        if words:
            yield f"{one.folder.id}: {words}"
        state = status(one.folder.id)["status"]
        if state != "done":
            yield f"{one.folder.id} is {state}: what is compared is what is there"
