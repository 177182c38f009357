"""The conclusion of a forecast run, from a report made by hand."""

from __future__ import annotations

from typing import Any

from midchart.core.training_experiments.forecast.views import conclusion
from tests.support import forecast_report

TASK = forecast_report.TASKS[0]


def report(**changed: str) -> dict[str, Any]:
    """A report in which these variants have other verdicts."""
    tables = forecast_report.tables()
    for row in tables["verdict"]:
        row["verdict"] = changed.get(row["variant"], row["verdict"])
    return forecast_report.report("", tables)


def test_the_verdict_names_better_worse_collapsed_and_counts() -> None:
    stated = conclusion(report(), TASK)
    assert stated.headline.startswith("Anemia: better than Softmax: Sparsemax +3.5 [")
    assert "; worse than Softmax: H2O −4.0 [" in stated.headline and "p = 0.040" in stated.headline
    assert "Constant" not in stated.headline
    collapsed, counts = stated.details
    assert collapsed == "The gate of Gated differential collapsed in 1 of 2 seeds."
    assert counts.startswith(
        "Better than Softmax among the count-based baselines: Logistic regression (counts) +4.2 ["
    )


def test_nothing_is_claimed_where_nothing_is_shown() -> None:
    none = dict.fromkeys(forecast_report.VERDICTS, "no difference shown") | {"softmax": "reference"}
    stated = conclusion(report(**none), TASK)
    assert stated.headline == (
        "Anemia: no attention is significantly better or worse than Softmax."
    )
    assert "count-based" not in " ".join(stated.details)
