"""From a row of an audit to the chart that it is about."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from midchart.core import api
from midchart.extras.audit.pages import patient as marks_of_audit
from midchart.pages.ui import navigation
from midchart.pages.ui.patient import controls
from midchart.pages.ui.results import kit
from midchart.pages.ui.shared.pickers import token


def open_chart(shown: kit.Shown, _: api.View, row: Mapping[str, Any]) -> None:
    """Open page Patient on the question of a row: the cohort's own, else as it was asked, with the
    marks of the audited system."""
    cohort = api.run_cohort(shown.run["run"])
    name, record = Path(cohort.path).name, row["record"]
    if row["own_question"]:
        asked = {"patient": token(name, record), "question": token(name, row["own_question"])}
    else:
        asked = controls.typed_address(name, cohort.records[record], row["question"])
    asked |= marks_of_audit.address(shown.run["run"], row["instruction"])
    navigation.on_click("patient", cohort=name, **asked)
