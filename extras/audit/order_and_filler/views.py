"""Views and conclusion of runs of kind order_and_filler: which answers change, beyond noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from midchart.core.format import count, p_value, percent, with_interval
from midchart.core.results.comparison import ALPHA
from midchart.core.results.titles import title
from midchart.core.runs.declared import BY_PATIENT, Conclusion, Ends, Measure, View
from midchart.extras.audit.order_and_filler.tables import AGAIN, EVERYTHING

SHARES = (
    Ends("share_patient_low", "share_patient_high", "by patient"),
    Ends("share_wilson_low", "share_wilson_high", "Wilson, questions independent"),
)
CHANGED = Measure(
    "share", "% of answers that change", "%",
    "Answers that say something else than the answer to the base prompt.", SHARES,
    clusters="patients", better="less",
)  # fmt: skip
ABOVE_NOISE = Measure(
    "difference", "points above the reader's noise", "points",
    "Paired by question with the same prompt asked again; p Holm-adjusted over the rows shown.",
    (BY_PATIENT,), clusters="patients", p="p_holm", better="less",
)  # fmt: skip
LEVEL = Measure(
    "difference", "points, the first minus the second", "points",
    "Left of 0 the second changes more answers. Paired by question, all else equal; p "
    "Holm-adjusted over the rows shown.",
    (BY_PATIENT,), clusters="patients", p="p_holm",
)  # fmt: skip
WORSE = Measure(
    "difference", "points correct, minus the base prompt", "points",
    "Paired by question with all answers to the base prompt; p Holm-adjusted over the rows shown.",
    (BY_PATIENT,), clusters="patients", p="p_holm", better="more",
)  # fmt: skip
ASKED = ("label", "reader")
MORE = (
    "noise_share",
    "added_tokens",
    "question_words",
    "prompt_tokens",
    "same_prompt",
    "not_compared",
)

VIEWS = (
    View("factors", "What changes answers?", "factors", (CHANGED, ABOVE_NOISE), "forest",
         rows=("factor", "level"), choose=ASKED, more=MORE,
         about="The same prompt again is the reader's own noise. Other rows are over all "
         "conditions that have what they name."),
    View("changes", "And each condition alone?", "changes", (CHANGED, ABOVE_NOISE), "forest",
         rows=("condition",), choose=ASKED, more=MORE,
         about="Words: the question's, avoided or repeated in the filler."),
    View("levels", "Which filler changes more?", "levels", (LEVEL,), "forest", rows=("pair",),
         choose=ASKED, zero=True, more=("first_share", "second_share")),
    View("correct", "Do answers get worse?", "correct", (WORSE,), "forest", rows=("condition",),
         choose=(*ASKED, "judge"), zero=True,
         more=("accuracy", "base_accuracy", "to_wrong", "to_right")),
    View("questions", "Which questions change?", "questions", choose=ASKED,
         opens=("record", "own_question"), about="A click opens the question in its chart."),
    View("reviewed", "What did people review?", "reviews"),
    View("missed", "Which items failed?", "failures"),
)  # fmt: skip


def conclusion(
    report: Mapping[str, Any], label: str = "", reader: str = "", judge: str = ""
) -> Conclusion:
    """What reordering, filler and nothing at all change, of an arm and a reader (default: the
    first)."""
    rows = _chosen(report, "factors", label=label, reader=reader)
    if not rows:
        return Conclusion()
    of_first = [row for row in rows if (row["label"], row["reader"]) ==
                (rows[0]["label"], rows[0]["reader"])]  # fmt: skip
    pooled = {row["factor"]: row for row in of_first if row["level"] == EVERYTHING and row["n"]}
    noise = pooled.pop(AGAIN, None)
    verbs = {"any order": "reordering its context", "any filler": "filler"}
    parts = [f"{verbs[name]} changes {_share(row)}" for name, row in pooled.items()]
    if not parts or noise is None:
        return Conclusion()
    more = [name.removeprefix("any ") for name in pooled if _claim(pooled[name]) == MORE_THAN_NOISE]
    shown = f"{' and '.join(more)} {'is' if len(more) == 1 else 'are'} more than noise"
    shown = shown if more else "more than noise is not shown"
    again = _share(noise) if noise["changed"] else f"none of {noise['n']}"
    who = f"{title('reader', noise['reader'])} with {title('arm', noise['label'])}"
    headline = f"{who}: {' and '.join(parts)} of answers, the same prompt again {again}; {shown}."
    details = [*map(_above, pooled.items()), _noise(noise)]
    details += _worst(_chosen(report, "correct", label=noise["label"], reader=noise["reader"],
                              judge=judge or report["primary_judge"]))  # fmt: skip
    return Conclusion(headline, tuple(details))


def _chosen(report: Mapping[str, Any], table: str, **wanted: str) -> list[Mapping[str, Any]]:
    return [
        row
        for row in report["tables"].get(table) or ()
        if all(not value or row[name] == value for name, value in wanted.items())
    ]


def _share(row: Mapping[str, Any]) -> str:
    return with_interval(row["share"], row["share_patient_low"], row["share_patient_high"])


MORE_THAN_NOISE = "more than noise"


def _claim(row: Mapping[str, Any]) -> str:
    """What is claimed of a factor: by its p value, where its interval agrees."""
    low, high = row["patient_low"], row["patient_high"]
    if low is not None and row["p_holm"] <= ALPHA and (low > 0 or high < 0):
        return MORE_THAN_NOISE if low > 0 else "less than noise"
    if row["p_holm"] <= ALPHA:
        return "not claimed to be more than noise, as its interval holds 0"
    return "not shown to be more than noise"


def _above(named: tuple[str, Mapping[str, Any]]) -> str:
    name, row = named
    subject = name.removeprefix("any ").capitalize()
    if row["difference"] is None:
        return f"{subject}: no question was asked again, so noise is not known."
    difference = with_interval(row["difference"], row["patient_low"], row["patient_high"], "points")
    return (
        f"{subject}: {_claim(row)}, {difference} points ({p_value(row['p_holm'])} after Holm), on "
        f"{count(row['questions'], 'question')} of {count(row['patients'], 'patient')}."
    )


def _noise(row: Mapping[str, Any]) -> str:
    asked = count(row["n"], "answer")
    if row["changed"]:
        return f"The reader's own noise: {row['changed']} of {asked} to the same prompt changed."
    return (
        f"The reader shows no noise: none of {asked} to the same prompt changed, so that changes "
        "come from the prompt."
    )


def _worst(rows: list[Mapping[str, Any]]) -> list[str]:
    known = [row for row in rows if row["difference"] is not None]
    if not known:
        return []
    worst = min(known, key=lambda row: row["difference"])
    if worst["difference"] >= 0:
        return ["Under no condition are fewer answers correct than to the base prompt."]
    ends = worst["patient_low"], worst["patient_high"]
    return [
        f"Correct answers fall most under “{worst['condition']}”: {percent(worst['accuracy'])} "
        f"against {percent(worst['base_accuracy'])} to the base prompt "
        f"({with_interval(worst['difference'], *ends, 'points')} points, "
        f"{p_value(worst['p_holm'])} after Holm)."
    ]
