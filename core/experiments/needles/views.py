"""Views and conclusion of runs of kind needles: the same fact at every depth of the same record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from midchart.core.results.funnel import PARTS
from midchart.core.results.titles import title
from midchart.core.runs.declared import (
    BY_PATIENT,
    WILSON,
    Conclusion,
    Ends,
    Measure,
    View,
)

CORRECT = Measure(
    "accuracy", "% correct", "%", "Of the answers judged correct or incorrect.",
    (BY_PATIENT, WILSON), better="more",
)  # fmt: skip
IN_PROMPT = Measure("in_prompt", "% with all of the evidence in the prompt", "%")
MIDDLE = Measure(
    "difference", "points in the middle minus at the edge", "points",
    "Paired by fact or question; p Holm-adjusted over all tests of the run.",
    (Ends("ci_low", "ci_high", "by patient"),), "patients", clusters="patients", p="p_holm",
)  # fmt: skip
ASKED = ("label", "reader", "judge")

VIEWS = (
    View("lost", "Where in the chart is it lost?", "funnel",
         (Measure("count", "questions", "count"), Measure("share", "% of the questions")),
         "stack", rows=("band",), across="step", choose=ASKED, where={"band": PARTS},
         about="Depth of the fact in per cent of the record."),
    View("contrast", "Is the middle read less well?", "contrast", (MIDDLE,), "forest",
         rows=("label",), choose=("reader", "judge"), zero=True,
         more=("series", "middle", "edge", "in_prompt_middle", "in_prompt_edge",
               "left_out", "unscored"),
         opens=("label",), concludes=True),
    View("grid", "At which depth and length?", "heatmap", (CORRECT, IN_PROMPT), "grid",
         rows=("length",), across="depth", choose=(*ASKED, "distractors"),
         opens=("length", "depth", "distractors")),
    View("depth", "How does depth alone act?", "depths", (CORRECT, IN_PROMPT), "line",
         across="depth", choose=("reader", "judge", "distractors"),
         opens=("label", "depth", "distractors")),
    View("length", "How does length alone act?", "lengths", (CORRECT, IN_PROMPT), "line",
         across="length", choose=("reader", "judge", "distractors"),
         more=("haystack_tokens", "prompt_tokens"), opens=("label", "length", "distractors")),
    View("facts", "Which facts are hard?", "facts", (CORRECT,), "forest", rows=("fact",),
         choose=(*ASKED, "distractors"), more=("in_prompt",), opens=("fact", "distractors")),
    View("domains", "Which domains are hard?", "domains", (CORRECT,), "forest", rows=("domain",),
         choose=(*ASKED, "distractors", "band"), more=("in_prompt",)),
    View("measured", "At which measured depth?", "heatmap_positions", (CORRECT,), "grid",
         rows=("length",), across="depth", choose=(*ASKED, "position", "distractors")),
    View("detectable", "Which difference could be shown?", "detectable"),
    View("cuts", "How were records cut?", "cuts"),
    View("missed", "Which items failed?", "failures"),
)  # fmt: skip


def conclusion(
    report: Mapping[str, Any], label: str = "", reader: str = "", judge: str = ""
) -> Conclusion:
    """The verdict of an arm, a reader and a judge (default: the first, by the primary judge)."""
    rows = report["tables"].get("verdict") or []
    wanted = {"label": label, "reader": reader, "judge": judge or report["primary_judge"]}
    for column, value in wanted.items():
        rows = [row for row in rows if not value or row.get(column) == value] or rows
    if not rows:
        return Conclusion()
    first = rows[0]
    # The engine's sentence begins with the labels of arm, reader and judge.
    claim, _, numbers = str(first["text"]).partition(": ")[2].partition(": ")
    named = f"{title('arm', first['label'])}: {claim.rstrip('.')}."
    basis = (
        f"{title('arm', first['label'])}, read by {title('reader', first['reader'])}, judged by "
        f"{title('judge', first['judge'])}."
    )
    return Conclusion(named, (*filter(None, [f"{numbers[:1].upper()}{numbers[1:]}"]), basis))
