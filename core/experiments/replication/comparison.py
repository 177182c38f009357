"""A replication on a cohort: its runs, the faults' waterfall, and the paper's tables beside them.

The runs of a replication are found by what they ran (cohort, reader, protocol), not by a name or
a list that could be lost: a step that was run from the command line counts like any other. One on
files that the cohort no longer holds does not, and where several would do, the one that holds the
arms and judges asked for goes before those that are merely newer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from core.experiments.replication.elsewhere import Figure, Figures, column_of, figures
from core.experiments.replication.paper import paper_rows
from core.experiments.replication.steps import ARMS, FAULTS, Step, alone, steps
from core.protocol import Protocol
from core.runs.directory import find_run
from core.runs.items import compare_runs
from core.runs.parts import counted_store
from core.runs.plan import Plan
from core.runs.planner import digest_of
from core.runs.report import report
from core.runs.reviews import reviews_of, with_reviews
from core.runs.rows import COUNTS
from core.runs.status import status
from core.runs.tables import literal

Row = dict[str, Any]
OF_A_RUN = ("run", "status", "done", "failed", "planned", "reason")


def replication(
    data: str | Path, reader: str, arms: Sequence[Any] = ARMS, judges: Sequence[Any] = ()
) -> dict[str, Any]:
    """How far the replication with a reader on a cohort is.

    ``reader`` is its label; ``arms`` and ``judges``: those that its runs are to hold, as a spec
    names them.
    ``steps``: a row each: ``name``, ``title``, ``did`` (the fault in a sentence), ``fields``, and
    its fittest ``run`` with ``status``, counts and ``reason``; None where there is none.
    ``runs``: ids of the finished runs in the order of steps, None for a step without one.
    ``alone``: rows as of ``steps``, of the runs with one fault alone.
    """
    known = _runs(Path(data), reader, {*map(_arm, arms)}, {_name(judge) for judge in judges})
    rows = _found(steps(), known)
    runs = [row["run"] if row["status"] == "done" else None for row in rows]
    return {"steps": rows, "runs": runs, "alone": _found(alone(), known)}


def _found(steps: Sequence[Step], known: Mapping[Protocol, Row]) -> list[Row]:
    rows: list[Row] = []
    for step in steps:
        found = known.get(_bare(step.protocol))
        rows.append(
            {
                "name": step.name,
                "title": step.title,
                "did": step.fault.did if step.fault else "",
                "fields": _fields(step),
                **{key: found and found[key] for key in OF_A_RUN},
            }
        )
    return rows


def _fields(step: Step) -> dict[str, Any]:
    return {name: getattr(step.protocol, name) for name in step.fault.fields} if step.fault else {}


def _bare(protocol: Protocol) -> Protocol:
    """A protocol without the name of the preset it came from."""
    return replace(protocol, preset="")


def _name(entry: Any) -> str:
    return entry if isinstance(entry, str) else entry["name"]


def readers_of(data: str | Path) -> dict[str, Any]:
    """The readers that alone read a run of answers on a cohort, newest run first: label → the name
    or table that a spec names it by."""
    found: dict[str, Any] = {}
    for now in status():
        if now["kind"] == "answers":
            plan = find_run(now["run"]).plan()
            if Path(plan.data) == Path(data) and len(plan.reader_entries) == 1:
                (entry,) = plan.reader_entries
                table = {"name": entry.name, **entry.options}
                found.setdefault(entry.label, table if entry.options else entry.name)
    return found


def _arm(entry: Any) -> tuple[str, int | None]:
    """An arm of a spec and its k; None for the protocol's."""
    return (entry, None) if isinstance(entry, str) else (entry["name"], entry.get("k"))


def _runs(
    data: Path, reader: str, arms: set[tuple[str, int | None]], judges: set[str]
) -> dict[Protocol, Row]:
    """Protocol → the run of answers on a cohort, as it is now, by a reader alone.

    The one with most of the arms and judges that are asked for; of several finished ones first,
    then the newest.
    """
    found: dict[Protocol, tuple[tuple[int, bool], Row]] = {}
    for now in status():
        if now["kind"] != "answers":
            continue
        plan = find_run(now["run"]).plan()
        if Path(plan.data) != data or plan.readers != (reader,) or plan.limit or plan.part:
            continue
        if plan.digest != _digest(str(data), _stamps(data)):
            continue
        usual = plan.protocol.budget().k
        have = {(e.name, None if e.k == usual else e.k) for e in plan.arms if e.tokens is None}
        named = {entry.name for entry in plan.judge_entries}
        fit = len(arms & have) + len(judges & named), now["status"] == "done"
        best = found.get(_bare(plan.asked))
        if best is None or fit > best[0]:
            found[_bare(plan.asked)] = fit, now
    return {protocol: row for protocol, (_, row) in found.items()}


@lru_cache(maxsize=8)
def _digest(data: str, stamps: frozenset[tuple[str, int, int]]) -> str:
    """The hash of a cohort's files, worked out once while none of them changes (``stamps``)."""
    return digest_of(data)


def _stamps(data: Path) -> frozenset[tuple[str, int, int]]:
    """Every file of a cohort with its time and size."""
    files = [data] if data.is_file() else [path for path in data.rglob("*") if path.is_file()]
    return frozenset((str(p), p.stat().st_mtime_ns, p.stat().st_size) for p in files)


UNSCORED = ("unscored", "bound_low", "bound_high")


def waterfall(runs: list[str], label: str, judge: str) -> list[Row]:
    """What each fault costs an arm: a row a step.

    ``step``, ``run``, ``n`` questions that every judge could judge, ``accuracy`` with its
    interval by patient; and, but for the first, the paired ``difference`` to the step before with
    its interval by patient (``low``, ``high``), how many questions ``changed``, the bounds over
    ``unscored`` ones (``bound_low``, ``bound_high``) and McNemar's ``p``; and ``acted``, on how
    many of the ``both`` questions of the two steps the prompt, the answer or what was judged is
    another text.
    """
    rows: list[Row] = []
    for run in runs:
        told = [
            row
            for row in report(run)["tables"]["accuracy"]
            if (row["label"], row["judge"], row["band"]) == (label, judge, "overall")
        ]
        share = told[0] if told else {}
        rows.append(
            {
                "run": run,
                **{k: share.get(k) for k in ("n", "accuracy", "patient_low", "patient_high")},
                **dict.fromkeys(
                    ("difference", "low", "high", "changed", *UNSCORED, "p", "acted", "both")
                ),
            }
        )
    texts = [_texts(run, label, judge) for run in runs]
    for row, (first, second), (before, after) in zip(
        rows[1:], pairwise(runs), pairwise(texts), strict=True
    ):
        row |= dict(zip(("acted", "both"), _acted(before, after), strict=True))
        for pair in compare_runs([first, second])["results"]:
            if (pair["arm"], pair["judge"]) == (label, judge):
                row |= {
                    "difference": pair["difference"],
                    "low": pair["patient_low"],
                    "high": pair["patient_high"],
                    "changed": pair["only_run"] + pair["only_baseline"],
                    **{name: pair[name] for name in UNSCORED},
                    "p": pair["p"],
                }
    return rows


def faults_alone(
    corrected: str, runs: Mapping[str, str | None], label: str, judge: str
) -> list[Row]:
    """What each fault does alone, against the corrected run: a row a fault.

    ``runs``: name of a step of :func:`core.experiments.replication.steps.alone` → its finished
    run, None
    where there is none. ``n`` questions judged in both; ``acted``: questions on which the
    prompt, the answer or what was judged is another text; ``right_here`` and
    ``right_there``: questions right under the fault alone and without it alone; ``difference``
    with its interval by patients, its bounds over ``unscored`` questions and McNemar's ``p``.
    ``silent``: why the fault cannot show on
    this arm, cohort or reader; empty where it acted or was not run.
    """
    arm = next((e.name for e in find_run(corrected).plan().arms if e.label == label), "")
    base = _texts(corrected, label, judge)
    rows: list[Row] = []
    for fault in FAULTS:
        run = runs.get(f"only_{fault.name}")
        row: Row = {"fault": fault.name, "title": fault.title, "did": fault.did, "run": run}
        row |= dict.fromkeys(("n", "acted", "right_here", "right_there"))
        row |= {**dict.fromkeys(("difference", "low", "high", *UNSCORED, "p")), "silent": ""}
        rows.append(row)
        if fault.arms and arm not in fault.arms:
            row["silent"] = f"concerns the arms {' and '.join(fault.arms)} alone"
            continue
        if run is None:
            continue
        other = _texts(run, label, judge)
        row["acted"], _ = _acted(base, other)
        for pair in compare_runs([corrected, run])["results"]:
            if (pair["arm"], pair["judge"]) == (label, judge):
                row |= {
                    "n": pair["n"],
                    "right_here": pair["only_run"],
                    "right_there": pair["only_baseline"],
                    "difference": pair["difference"],
                    "low": pair["patient_low"],
                    "high": pair["patient_high"],
                    **{name: pair[name] for name in UNSCORED},
                    "p": pair["p"],
                }
        if not row["acted"]:
            row["silent"] = fault.spared
    return rows


def _acted(
    before: Mapping[str, tuple[Any, ...]], after: Mapping[str, tuple[Any, ...]]
) -> tuple[int, int]:
    """On how many instructions of two runs' texts these differ, and how many both have."""
    both = before.keys() & after.keys()
    return sum(before[key] != after[key] for key in both), len(both)


def _texts(run: str, label: str, judge: str) -> dict[str, tuple[Any, ...]]:
    """Instruction → the prompt (its hash), the answer and what was judged (its hash)."""
    folder = find_run(run)
    plan = folder.plan()
    store = counted_store(folder, plan)
    mine = f"label = {literal(label)} AND status = 'ok' AND ({store.counted})"
    columns = "key, instruction, prompt_hash, answer"
    judged = {
        row["answer_key"]: row["prompt_hash"]
        for row in store.select(
            "verdicts",
            "answer_key, prompt_hash",
            f"{COUNTS} AND judge = {literal(judge)} AND label = {literal(label)}",
        )
    }
    return {
        row["instruction"]: (
            row["prompt_hash"],
            row["answer"],
            judged.get(row["key"]),
        )
        for row in store.select("answers", columns, mine)
    }


@dataclass(frozen=True, slots=True)
class _From:
    """Where a table of the paper has its counterpart in a report: the report's table, its column
    of strata, its share, and the judge and criterion of the rows ("" for the judge chosen, and
    for the lexical criterion where rows have one)."""

    table: str
    stratum: str
    share: str = "accuracy"
    judge: str = ""
    criterion: str = "lexical"


FROM: Mapping[str, _From] = {
    "stage1": _From("recall", "band", "recall"),
    "stage2": _From("accuracy", "band"),
    "other_arms": _From("accuracy", "band"),
    "k_sweep": _From("accuracy", "band"),
    "task_type": _From("task_type", "task_type"),
    "hit_miss": _From("hit_miss", "evidence"),
    "hit_miss_semantic": _From("hit_miss", "evidence", criterion="semantic"),
    "token_overlap": _From("accuracy", "band", judge="token_overlap"),
    "oracle": _From("accuracy", "band"),
    "reader_14b": _From("accuracy", "band"),
    "failure_taxonomy": _From("failure_kinds", "kind", "share"),
}
"""A table of the paper → its counterpart in a report, share by share."""
LARGER = "14B"
"""What the label of a reader holds whose figures belong to the paper's table of the 14B reader."""


def beside(
    published: str | None, corrected: str | None, judge: str, others: Sequence[str] = ()
) -> list[Row]:
    """The paper's rows, each with this installation's under either protocol.

    To :func:`core.experiments.replication.paper.paper_rows` come ``published``, ``corrected``,
    each with
    ``_low``, ``_high`` (by patient) and ``_n``; null where the run has no such arm, or is None.
    ``others``: runs of a curve, gate or forecast, for the tables of these; each stands under the
    protocol that it ran under.
    """
    mine = {"published": _shares(published, judge), "corrected": _shares(corrected, judge)}
    for run in others:
        mine[column_of(run)] |= figures(run)
    rows: list[Row] = []
    for row in paper_rows():
        for name, shares in mine.items():
            share = shares.get((row["table"], row["label"], row["what"]), (None, None, None, None))
            keys = (name, f"{name}_low", f"{name}_high", f"{name}_n")
            row |= dict(zip(keys, share, strict=True))
        rows.append(row)
    return rows


def _shares(run: str | None, judge: str) -> Figures:
    """(table, label, what) → share, its interval and n, of a finished run."""
    if run is None:
        return {}
    tables = report(run)["tables"]
    larger = any(LARGER in reader for reader in find_run(run).plan().readers)
    found: Figures = {}
    for name, source in FROM.items():
        if name == "reader_14b" and not larger:
            continue
        wanted = source.judge or judge
        for row in tables.get(source.table, ()):
            same = row.get("criterion", source.criterion) == source.criterion
            if row.get("judge", wanted) == wanted and same:
                share = (row[source.share], row["patient_low"], row["patient_high"], row["n"])
                found[name, row["label"], row[source.stratum]] = share
    return found | _entailed(tables) | _agreeing(tables, judge)


def _entailed(tables: Mapping[str, Any]) -> Figures:
    """The counterparts of the paper's tables of semantic hits."""
    found: Figures = {}
    for row in tables.get("recall", ()):
        figures = (row["recall"], row["patient_low"], row["patient_high"], row["n"])
        name, _, threshold = row["criterion"].partition("@")
        if row["band"] != "overall":
            continue
        if threshold:
            found["nli_threshold", row["label"], f"semantic hit, p > {threshold}"] = figures
        elif name in ("semantic", "lexical"):
            found["nli_recall", row["label"], name] = figures
    for row in tables.get("overlap", ()):
        if (row["criterion"], row["band"]) == ("semantic", "overall"):
            for what, column in (
                ("semantic only", "criterion_only"),
                ("lexical only", "lexical_only"),
            ):
                figures = [row[f"{column}_{end}"] for end in ("share", "low", "high")]
                found["nli_recall", row["label"], what] = (*figures, row["n"])
    return found


def _agreeing(tables: Mapping[str, Any], judge: str) -> Figures:
    """The counterparts of the paper's tables of two judges: the chosen one with another.

    The other is blind in the table of the blind judge, and sees the evidence in that of two
    judges; with several, the first of the spec.
    """
    found: Figures = {}
    for row in tables.get("judges", ()):
        pair = (row["first"], row["second"])
        if judge not in pair or not row["n"]:
            continue
        n, mine = row["n"], 0 if pair[0] == judge else 1
        yes = [(row["both_yes"] + row[f"only_{which}"]) / n for which in ("first", "second")]
        other = pair[1 - mine]
        blind = other.startswith("blind")
        if judge.startswith("blind"):
            continue
        table = "blind_judge" if blind else "judge_agreement"
        names = ("sees the evidence", "blind") if blind else ("first judge", "second judge")
        measure, what = ("raw", "agreement") if blind else ("kappa", "Cohen's kappa")
        figures: dict[str, Figure] = {
            names[0]: (yes[mine], None, None, n),
            names[1]: (yes[1 - mine], None, None, n),
            what: (row[measure], row[f"{measure}_low"], row[f"{measure}_high"], n),
        }
        for name, values in figures.items():
            found.setdefault((table, row["label"], name), values)
    return found


def arms_and_judges(run: str) -> tuple[list[str], list[str]]:
    """Labels of a run's arms and judges, in the order of its spec; people after them."""
    folder = find_run(run)
    plan: Plan = with_reviews(folder.plan(), reviews_of(folder))
    return [entry.label for entry in plan.arms], list(plan.judges)
