"""A replication on a cohort: its runs, the faults' waterfall, and the paper's tables beside them.

The runs of a replication are found by what they ran (cohort, reader, protocol), not by a name or
a list that could be lost: a step that was run from the command line counts like any other. One on
files that the cohort no longer holds does not, and where several would do, the one that holds the
arms and judges asked for goes before those that are merely newer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from core.protocol import Protocol
from core.run.comparing import compare_runs
from core.run.folder import find_run
from core.run.opening import digest_of
from core.run.plan import Plan
from core.run.replication.paper import paper_rows
from core.run.replication.steps import ARMS, Step, steps
from core.run.report import report
from core.run.review.verdicts import reviews_of, with_reviews
from core.run.state import status

Row = dict[str, Any]
OF_A_RUN = ("run", "status", "done", "failed", "planned", "reason")


def replication(
    data: str | Path, reader: str, arms: Sequence[Any] = ARMS, judges: Sequence[str] = ()
) -> dict[str, Any]:
    """How far the replication with a reader on a cohort is.

    ``arms`` and ``judges``: those that its runs are to hold, as a spec names them.
    ``steps``: a row each: ``name``, ``title``, ``did`` (the fault in a sentence), ``fields``, and
    its fittest ``run`` with ``status``, counts and ``reason``; None where there is none.
    ``runs``: ids of the finished runs in the order of steps, None for a step without one.
    """
    known = _runs(Path(data), reader, {*map(_arm, arms)}, {*judges})
    rows: list[Row] = []
    for step in steps():
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
    runs = [row["run"] if row["status"] == "done" else None for row in rows]
    return {"steps": rows, "runs": runs}


def _fields(step: Step) -> dict[str, Any]:
    return {name: getattr(step.protocol, name) for name in step.fault.fields} if step.fault else {}


def _bare(protocol: Protocol) -> Protocol:
    """A protocol without the name of the preset it came from."""
    return replace(protocol, preset="")


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
        fit = len(arms & have) + len(judges & {*plan.judges}), now["status"] == "done"
        best = found.get(_bare(plan.protocol))
        if best is None or fit > best[0]:
            found[_bare(plan.protocol)] = fit, now
    return {protocol: row for protocol, (_, row) in found.items()}


@lru_cache(maxsize=8)
def _digest(data: str, stamps: frozenset[tuple[str, int, int]]) -> str:
    """The hash of a cohort's files, worked out once while none of them changes (``stamps``)."""
    return digest_of(data)


def _stamps(data: Path) -> frozenset[tuple[str, int, int]]:
    """Every file of a cohort with its time and size."""
    files = [data] if data.is_file() else [path for path in data.rglob("*") if path.is_file()]
    return frozenset((str(p), p.stat().st_mtime_ns, p.stat().st_size) for p in files)


def waterfall(runs: list[str], label: str, judge: str) -> list[Row]:
    """What each fault costs an arm: a row a step.

    ``step``, ``run``, ``n`` questions that every judge could judge, ``accuracy`` with its Wilson
    interval; and, but for the first, the paired ``difference`` to the step before with its interval
    by patients (``low``, ``high``; null where no question changed) and McNemar's ``p``.
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
                **{k: share.get(k) for k in ("n", "accuracy", "wilson_low", "wilson_high")},
                **dict.fromkeys(("difference", "low", "high", "p")),
            }
        )
    for row, (first, second) in zip(rows[1:], pairwise(runs), strict=True):
        for pair in compare_runs([first, second])["results"]:
            if (pair["arm"], pair["judge"]) == (label, judge):
                row |= {
                    "difference": pair["difference"],
                    "low": pair["patient_low"],
                    "high": pair["patient_high"],
                    "p": pair["p"],
                }
    return rows


FROM = {
    "stage1": ("recall", "band", "recall"),
    "stage2": ("accuracy", "band", "accuracy"),
    "other_arms": ("accuracy", "band", "accuracy"),
    "k_sweep": ("accuracy", "band", "accuracy"),
    "task_type": ("task_type", "task_type", "accuracy"),
    "hit_miss": ("hit_miss", "evidence", "accuracy"),
}
"""A table of the paper → the table of a report, its column of strata, and its share."""


def beside(published: str | None, corrected: str | None, judge: str) -> list[Row]:
    """The paper's rows, each with this installation's under either protocol.

    To :func:`core.run.replication.paper.paper_rows` come ``published``, ``corrected``, each with
    ``_low``, ``_high`` (Wilson) and ``_n``; null where the run has no such arm, or is None.
    """
    mine = {name: _shares(run, judge) for name, run in
            (("published", published), ("corrected", corrected))}  # fmt: skip
    rows: list[Row] = []
    for row in paper_rows():
        for name, shares in mine.items():
            share = shares.get((row["table"], row["label"], row["what"]), (None, None, None, None))
            keys = (name, f"{name}_low", f"{name}_high", f"{name}_n")
            row |= dict(zip(keys, share, strict=True))
        rows.append(row)
    return rows


def _shares(run: str | None, judge: str) -> dict[tuple[str, str, str], tuple[Any, ...]]:
    if run is None:
        return {}
    tables = report(run)["tables"]
    found: dict[tuple[str, str, str], tuple[Any, ...]] = {}
    for name, (table, stratum, share) in FROM.items():
        for row in tables.get(table, ()):
            if row.get("judge", judge) == judge and row.get("criterion", "lexical") == "lexical":
                figures = tuple(row[key] for key in (share, "wilson_low", "wilson_high", "n"))
                found[name, row["label"], row[stratum]] = figures
    return found


def arms_and_judges(run: str) -> tuple[list[str], list[str]]:
    """Labels of a run's arms and judges, in the order of its spec; people after them."""
    folder = find_run(run)
    plan: Plan = with_reviews(folder.plan(), reviews_of(folder))
    return [entry.label for entry in plan.arms], list(plan.judges)
