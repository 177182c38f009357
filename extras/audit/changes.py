"""What changed since an earlier audit, step by step, and whether that raises an alarm.

A step's share of questions with all evidence is compared by patient
(:mod:`midchart.extras.audit.change_statistics`). An alarm needs a p value, Holm-adjusted over the
steps, of .05 divided by the number of audits over which the rule is to hold: over that many audits
of a system that does not change, one or more false alarms come in 5 % of series at most, however
the audits depend on each other (Bonferroni). ``tests/extras/audit/watched_systems.py``
simulates the rates.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from midchart.core.errors import SpecError, UnknownName
from midchart.core.results.tables import ends, generator, grouped
from midchart.core.runs.directory import find_run
from midchart.core.runs.experiment import Table
from midchart.core.runs.plan import Plan
from midchart.core.stats.paired import holm_adjust
from midchart.core.storage.rows import RowStore
from midchart.extras.audit.cards import dealt_questions
from midchart.extras.audit.change_statistics import change_interval, change_p, share_change
from midchart.extras.audit.tables import ALL, CRITERIA, STEP_TITLES, STEPS, reached

ALPHA, AUDITS = 0.05, 50
"""False alarms in this share of series of so many audits without a change."""
DRAWS = 20_000
"""Exchanges of patients by which a p value is computed: it can be far below ALPHA / AUDITS."""
_COLUMNS = (
    "own_question, source, record, instruction, evidence_pieces, judged, retrieved, "
    "retrieved_all, reranked, reranked_all, prompt, prompt_all"
)
Row = Mapping[str, Any]


def alarms(p_values: Sequence[float], audits: int) -> list[bool]:
    """Which steps of an audit raise an alarm, of the p values of its steps."""
    return (holm_adjust(p_values) <= ALPHA / audits).tolist()


def earlier_rows(run: str) -> list[dict[str, Any]]:
    """The rows of the system in an earlier audit. Raises UnknownName for a run that is not there,
    SpecError for one that is no finished audit."""
    folder = find_run(run)
    plan = folder.plan()
    if plan.kind != "audit" or not folder.done.exists():
        raise SpecError(f"an audit is compared with a finished audit, and {run} is none")
    return _rows(folder.store(plan))


def _rows(store: RowStore) -> list[dict[str, Any]]:
    """Rows of the system, without questions that were cards of any audit: these were drawn for
    being uncertain, so an audit that knows their evidence is of harder questions."""
    rows = store.select("audited", _COLUMNS, "status = 'ok' AND role = 'system'")
    drawn = dealt_questions()
    rows = [row for row in rows if row["own_question"] not in drawn]
    return sorted(rows, key=lambda row: row["instruction"])


def changes(store: RowStore, plan: Plan) -> Table:
    """One row each source × criterion × step that both audits know: the ``share`` here and
    ``share_before``, their ``difference`` with its interval, p, and whether it is an ``alarm``.

    ``alarm`` is of all pieces of the evidence; other criteria have none. It takes an adjusted p of
    ``alarm_p`` at most. A source is compared with
    that of its name, and where each audit has one, whatever their names: a model's new version.
    Empty without an earlier audit, or where it was removed since.
    """
    options = plan.options
    if not options.get("against"):
        return []
    try:
        earlier = grouped(earlier_rows(options["against"]), itemgetter("source"))
    except UnknownName:
        return []  # removed since: :func:`warnings`
    now = grouped(_rows(store), itemgetter("source"))
    alone = len(now) == len(earlier) == 1
    table: Table = []
    for source, rows in sorted(now.items()):
        before = next(iter(earlier.values())) if alone else earlier.get(source)
        if before is None:
            continue
        for criterion in CRITERIA:
            family = [
                row for step in STEPS[1:]
                if (row := _change(source, criterion, step, before, rows, plan)) is not None
            ]  # fmt: skip
            if criterion == ALL and family:
                p_values = [row["p"] for row in family]
                adjusted = holm_adjust(p_values).tolist()
                raised = alarms(p_values, options["audits"])
                for row, p, alarm in zip(family, adjusted, raised, strict=True):
                    row |= {"p_holm": p, "alarm": alarm, "alarm_p": ALPHA / options["audits"]}
            table += family
    return table


def warnings(plan: Plan) -> list[str]:
    """Whether the earlier audit is gone."""
    if run := plan.options.get("against"):
        try:
            find_run(run)
        except UnknownName:
            return [f"the earlier audit {run} was removed, so nothing is compared with it"]
    return []


def _change(
    source: str, criterion: str, step: str, before: Sequence[Row], after: Sequence[Row], plan: Plan
) -> dict[str, Any] | None:
    """The change of a step; None where one of the audits does not know it."""
    counts: dict[str, list[float]] = defaultdict(lambda: [0.0] * 4)
    for at, rows in ((0, before), (2, after)):
        for row in rows:
            there = reached(row, step, criterion)
            if there is not None:
                counts[row["record"]][at] += there
                counts[row["record"]][at + 1] += 1
    cells = np.array([counts[patient] for patient in sorted(counts)]).reshape(-1, 4)
    first, second = cells[:, :2], cells[:, 2:]
    if not first[:, 1].any() or not second[:, 1].any():
        return None
    rng = generator(plan, "changes", source, criterion, step)
    interval = change_interval(first, second, plan.protocol.resamples, rng)
    shares = [float(of[:, 0].sum() / of[:, 1].sum()) for of in (first, second)]
    return {
        "source": source,
        "criterion": criterion,
        "step": step,
        "after_step": STEP_TITLES[step],
        "n": int(second[:, 1].sum()),
        "n_before": int(first[:, 1].sum()),
        "patients": int((second[:, 1] > 0).sum()),
        "in_both": int(((first[:, 1] > 0) & (second[:, 1] > 0)).sum()),
        "share_before": shares[0],
        "share": shares[1],
        "difference": share_change(first, second),
        **ends("patient_", interval),
        "p": change_p(first, second, DRAWS, rng),
        "p_holm": None,
        "alarm": None,
        "alarm_p": None,
    }
