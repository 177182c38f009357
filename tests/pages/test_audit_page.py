"""Page Results of an audit: what was lost, and the questions to look at first."""

from __future__ import annotations

import numpy as np

from midchart.core import api
from midchart.core.cohorts.gold import gold_under
from midchart.core.loaders.open import open_cohort
from midchart.core.protocol import Protocol
from tests.simulations.audited_systems import Losses, questions_of, write_log
from tests.support.pages import frame_with, open_page, page_text
from tests.support.run_helpers import finished_run


def test_the_page_of_an_audit_has_its_conclusion_its_ledger_and_the_worst_questions(run, tmp_path):
    data = api.status(run)["data"]
    cohort = gold_under(open_cohort(data), Protocol())
    log = tmp_path / "answers.jsonl"
    lost = Losses(retrieval=1.0, middle=1.0)
    truth = write_log(cohort, questions_of(cohort), lost, log, np.random.default_rng(0))
    audited = finished_run(
        {"name": "audited", "kind": "audit", "data": data, "log": str(log), "arms": ["bm25"],
         "judges": ["exact_else_overlap"]}
    )  # fmt: skip
    try:
        n = len(truth.parts)
        page = open_page("results", run=audited)
        assert f"between “in the chart” and “retrieved” ({n})" in page_text(page)
        ledger = frame_with(page, "lost")
        assert list(ledger["lost"])[1] == n
        worst = frame_with(open_page("results", run=audited, view="worst"), "lost at")
        assert set(worst["lost at"]) == {"retrieved"} and len(worst) == n
    finally:
        api.remove_run(audited)
