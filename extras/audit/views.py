"""Views and conclusion of runs of kind audit: where the evidence got lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from midchart.core.format import p_number
from midchart.core.results.tables import grouped
from midchart.core.runs.declared import BY_PATIENT, WILSON, Conclusion, Measure, View
from midchart.extras.audit.tables import ALL, STEP_TITLES

THERE = Measure(
    "share", "% with the evidence there", "%",
    "Of the questions whose evidence is located in the record.", (BY_PATIENT, WILSON),
    clusters="patients", chance="chance", better="more",
)  # fmt: skip
BY_BAND = Measure(
    "share", "% with the evidence there", "%", "Ribbon: permuted positions.",
    (BY_PATIENT, WILSON), clusters="patients", null=("null_low", "null_high"), better="more",
)  # fmt: skip
CORRECT = Measure(
    "share", "% answered correctly", "%", "Of the questions with evidence in the prompt.",
    (BY_PATIENT, WILSON), clusters="patients", better="more",
)  # fmt: skip
DIFFERENCE = Measure(
    "difference", "points, the system minus the arm", "points",
    "With as many tokens as the system's prompt has. Left of 0 the arm shows more evidence, right "
    "of 0 the system.", (BY_PATIENT,), clusters="patients",
)  # fmt: skip
CORRECTED = Measure(
    "share", "% of all documented questions", "%",
    "The second reading's judgement of all questions, corrected by the cards' marks.",
    (BY_PATIENT,), clusters="patients", better="more",
)  # fmt: skip
CHANGE = Measure(
    "difference", "points since the earlier audit", "points",
    "Patients of both audits are pairs; an alarm needs a p far below .05, as many audits are made.",
    (BY_PATIENT,), clusters="patients", p="p_holm", better="more",
)  # fmt: skip
BANDS = ("0-10", "10-30", "30-50", "50-70", "70-90", "90-100")

VIEWS = (
    View("ledger", "Where did the evidence get lost?", "ledger", (THERE,), "forest",
         rows=("source", "after_step"), choose=("criterion",), where={"band": ("overall",)},
         more=("lost", "regained", "chance", "from_reviewer"),
         about="Steps in the order of the system's work; the arms have as many tokens."),
    View("corrected", "And of the questions without known evidence?", "corrected", (CORRECTED,),
         "forest", rows=("source", "after_step"), choose=("criterion",),
         more=("known", "cards", "not_documented", "machine_share", "share_width_after_ten",
               "cards_to_halve"),
         about="Page Review deals cards, uncertain questions more often: they count here, by "
               "their probabilities, not in this audit's ledger. A later audit knows their "
               "evidence."),
    View("changes", "What changed since the earlier audit?", "changes", (CHANGE,), "forest",
         rows=("source", "after_step"), choose=("criterion",), zero=True,
         more=("share_before", "share", "n_before", "in_both", "alarm", "alarm_p")),
    View("against_arms", "Would another selection keep more?", "against_arms", (DIFFERENCE,),
         "forest", rows=("source", "label"), choose=("criterion",), zero=True,
         more=("system_share", "arm_share", "only_system", "only_arm")),
    View("position", "Where in the chart is it lost?", "ledger", (BY_BAND,), "line",
         rows=("source",), across="band", choose=("criterion", "after_step"),
         where={"band": BANDS}, more=("lost", "null_low", "null_high")),
    View("prompt", "Does the place in the prompt matter?", "prompt_positions", (CORRECT,), "line",
         rows=("source",), across="prompt_band"),
    View("types", "Which questions lose evidence?", "types", (THERE,), "forest",
         rows=("task_type",), choose=("source",), more=("lost",)),
    View("prompts", "What are the prompts made of?", "prompts"),
    View("worst", "Which questions to look at first?", "worst",
         choose=("source",), opens=("record", "instruction", "own_question", "question"),
         about="A click opens the question in its chart, with what the system and Midchart's arms "
               "kept, cut and dropped."),
    View("log", "What of the log was used?", "log"),
    View("missed", "Which items failed?", "failures"),
)  # fmt: skip


def conclusion(report: Mapping[str, Any]) -> Conclusion:
    """Of each system the step that loses most, the best arm, and what prompts hold that the chart
    does not; of several systems first which keeps most."""
    tables = report["tables"]
    overall = [
        row for row in tables.get("ledger", ())
        if row["role"] == "system" and row["band"] == "overall" and row["criterion"] == ALL
    ]  # fmt: skip
    known = (row for row in overall if row["n"] and row["lost"] is not None)
    steps = grouped(known, lambda row: row["source"])
    made_of = {row["source"]: row for row in tables.get("prompts", ())}
    sources = list(dict.fromkeys((*steps, *made_of)))
    losses = {
        source: _losses(source, steps[source]) if source in steps
        else _of_cards(report, source) or _without_evidence(source, made_of[source])
        for source in sources
    }  # fmt: skip
    # What changed, the arms and the cards, and what is not the patient's.
    details: list[str] = []
    for source in sources:
        if source in steps:
            details += _changed(report, source) + _against_arms(report, source)
            details += filter(None, [_of_cards(report, source)])
        if source in made_of and (others := made_of[source]["with_other_patient"]):
            n = made_of[source]["n"]
            details.append(
                f"{source}: {others:,} of {n:,} prompts hold text of another patient's record."
            )
    if not sources:
        return Conclusion()
    if len(sources) == 1:
        return Conclusion(losses[sources[0]], tuple(details))
    return Conclusion(_compared(sources, steps), (*losses.values(), *details))


def _compared(sources: Sequence[str], steps: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Which system has all pieces of the evidence in its prompt most often, and which least."""
    shares = {
        source: row for source, rows in steps.items() for row in rows if row["step"] == "prompt"
    }
    names = f"{len(sources):,} systems were audited"
    if len(shares) < 2:
        return f"{names}: {', '.join(sources)}."
    order = sorted(shares, key=lambda source: shares[source]["share"])
    if shares[order[0]]["share"] == shares[order[-1]]["share"]:
        percent = f"{100 * shares[order[0]]['share']:.0f} %"
        return f"{names}: each has all pieces of the evidence in the prompt for {percent}."
    sentences = [
        f"{source} for {100 * shares[source]['share']:.0f} % of {shares[source]['n']:,} questions"
        for source in (order[-1], order[0])
    ]
    return (
        f"{names}, each on its own questions: all pieces of the evidence are in the prompt most "
        f"often with {sentences[0]}, least often with {sentences[1]}."
    )


def _losses(source: str, steps: Sequence[Mapping[str, Any]]) -> str:
    """The step at which a system loses most."""
    most, last = max(steps, key=lambda row: row["lost"]), steps[-1]
    if not most["lost"]:
        return f"{source}: all evidence is there at every step ({last['n']:,} questions)."
    before = STEP_TITLES[most["before"]]
    return (
        f"{source}: of {most['n']:,} questions with located evidence, most are lost between "
        f"“{before}” and “{most['after_step']}” ({most['lost']:,}); {last['hits']:,} are "
        f"{last['after_step']}."
    )


def _without_evidence(source: str, made_of: Mapping[str, Any]) -> str:
    share = made_of["record_share"] + made_of["changed_share"]
    return (
        f"{source}: no evidence is known, so no loss; {100 * share:.0f} % of the prompts' text "
        f"is the patient's record ({made_of['n']:,} prompt{'s' * (made_of['n'] != 1)})."
    )


def _rows_of(report: Mapping[str, Any], table: str, source: str) -> list[Mapping[str, Any]]:
    """A table's rows of a system by all pieces of the evidence."""
    rows = report["tables"].get(table, ())
    return [row for row in rows if row["source"] == source and row["criterion"] == ALL]


def _ends(row: Mapping[str, Any], sign: str = "") -> str:
    """The interval by patient in per cent, with ``sign`` ("+") before positive ends."""
    low, high = row["patient_low"], row["patient_high"]
    return "" if low is None else f" [{100 * low:{sign}.0f}, {100 * high:{sign}.0f}]"


def _against_arms(report: Mapping[str, Any], source: str) -> list[str]:
    """The arm that keeps most with as many tokens, in a sentence; none without an arm."""
    pairs = _rows_of(report, "against_arms", source)
    if not pairs:
        return []
    best = max(pairs, key=lambda row: row["arm_share"])
    return [
        f"All pieces in the prompt: {source} {100 * best['system_share']:.0f} %, "
        f"{best['label']} with as many tokens {100 * best['arm_share']:.0f} %; difference "
        f"{100 * best['difference']:+.0f} points{_ends(best, '+')}."
    ]


def _of_cards(report: Mapping[str, Any], source: str) -> str:
    """What the cards say of all questions, and how many more would say it more closely."""
    rows = [row for row in _rows_of(report, "corrected", source) if row["step"] != "read"]
    if not rows:
        return ""
    row = rows[-1]
    text = (
        f"{source}: by {row['cards']:,} card{'s' * (row['cards'] != 1)} and the machine, "
        f"{100 * row['share']:.0f} %{_ends(row)} of all {row['n']:,} questions that the charts "
        f"answer have all pieces {row['after_step']}"
    )
    if row["patient_low"] is None or row["share_width_after_ten"] is None:
        return f"{text}."
    halved = row["cards_to_halve"]
    halving = (
        f"{halved:,} more halve it" if halved is not None
        else "more cards cannot halve it: the variance between patients remains"
    )  # fmt: skip
    return (
        f"{text}; the interval of {100 * row['share_width']:.0f} points is expected to have "
        f"{100 * row['share_width_after_ten']:.0f} with ten more cards, and {halving}."
    )


def _changed(report: Mapping[str, Any], source: str) -> list[str]:
    """Whether anything changed since the earlier audit, in a sentence; none without one."""
    rows = _rows_of(report, "changes", source)
    if not rows:
        return []
    raised = [row for row in rows if row["alarm"]]
    if not raised:
        most = max(rows, key=lambda row: abs(row["difference"]))
        return [
            f"No alarm since the earlier audit (the smallest p is "
            f"{p_number(min(row['p_holm'] for row in rows))}, an alarm takes "
            f"{p_number(rows[0]['alarm_p'])}); the largest change: {most['after_step']} "
            f"{100 * most['difference']:+.0f} points{_ends(most, '+')}."
        ]
    shares = "; ".join(
        f"{row['after_step']} {100 * row['share_before']:.0f} → {100 * row['share']:.0f} %"
        for row in raised
    )
    return [f"Alarm: {source} changed since the earlier audit ({shares})."]
