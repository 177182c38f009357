"""Views of runs of kind answers and selection: arms compared, their evidence, judges, costs."""

from __future__ import annotations

from midchart.core.results.funnel import PARTS
from midchart.core.runs.declared import BY_PATIENT, WILSON, Ends, Measure, Unit, View

SHARE = (BY_PATIENT, WILSON)
DIFFERENCE = (
    BY_PATIENT,
    Ends("difference_low", "difference_high", "Newcombe, questions independent"),
)
CORRECT = Measure(
    "accuracy", "% correct", "%",
    "Answers judged correct, of those judged correct or incorrect; unparsed and failed answers are "
    "counted apart.",
    SHARE, clusters="patients", better="more",
)  # fmt: skip
KEPT = Measure(
    "recall", "% of questions with the evidence kept", "%",
    "Chance: random sentences with the same number of tokens, question by question.",
    SHARE, clusters="patients", chance="chance", better="more",
)  # fmt: skip
PRECISION = Measure(
    "precision", "% of the kept sentences that hold evidence", "%",
    "Of the sentences that an arm keeps, those with evidence.",
    (Ends("ci_low", "ci_high", "bootstrap"),), better="more",
)  # fmt: skip
PAIRED = Measure(
    "difference", "points above the baseline", "points",
    "Questions judged for both arms; p by McNemar's exact test, Holm-adjusted over all comparisons "
    "of a reader and judge, over which the intervals hold at once. Where the one by patient "
    "includes 0, nothing is claimed; of the same answers there is none.",
    DIFFERENCE, p="p_holm", better="more",
)  # fmt: skip
KEPT_MORE = Measure(
    "difference", "points that the second arm keeps less (right) or more (left)", "points",
    "The same questions under both arms, with an interval by patient.",
    (Ends("ci_low", "ci_high", "by patient"),), clusters="patients",
)  # fmt: skip
OUTCOMES = ("refusals", "unparsed", "failed")
BANDS = ("0-10", "10-30", "30-50", "50-70", "70-90", "90-100")

QUESTIONS = Measure("count", "questions", "count", "Questions with located evidence.")
STEPS = Measure("share", "% of the questions", "%", "Questions with located evidence.")
_AGREEMENT: tuple[tuple[str, str, Unit, str], ...] = (
    ("ac1", "Gwet's AC1", "", "Agreement corrected for chance, stable if one outcome is rare."),
    ("kappa", "Cohen's kappa", "", "Agreement corrected for chance."),
    ("raw", "raw agreement", "%", "Cards with the same verdict of both."),
)
_AGREED = tuple(
    Measure(name, title, unit, text, (Ends(f"{name}_low", f"{name}_high", "by patient"),),
            clusters="patients", better="more")
    for name, title, unit, text in _AGREEMENT
)  # fmt: skip
NOT_NEW = (
    "Patients on whom a gate of this run was trained: these figures do not generalise to new ones."
)

ANSWERS_VIEWS = (
    View("funnel", "Where is evidence lost?", "funnel", (STEPS, QUESTIONS), "stack", across="step",
        choose=("reader", "judge"), where={"band": ("overall",)}, opens=("label", "step"),
        about="A question counts at the step at which all of its evidence was not there any more."),
    View("lost", "Where in the chart is evidence lost?", "funnel", (QUESTIONS, STEPS), "stack",
        rows=("band",), across="step", choose=("label", "reader", "judge"), where={"band": PARTS},
        opens=("label", "band", "step"), about="Tenths of the record in per cent."),
    View("overall", "Which arm answers best?", "accuracy", (CORRECT,), "forest",
        choose=("reader", "judge"), where={"band": ("overall",)}, more=OUTCOMES, ranked=True,
        about="Hollow markers are controls.", opens=("label",), concludes=True),
    View("corrected", "What would people say?", "corrected_accuracy",
        (Measure("corrected", "% correct, corrected by people's verdicts", "%",
                 "The judge's accuracy, corrected by the cards that people judged.",
                 (Ends("corrected_low", "corrected_high", "by patient"),), clusters="patients"),),
        "forest", choose=("reader",), more=("accuracy", "cards"), opens=("label",)),
    View("pairs", "Which differences hold?", "paired", (PAIRED,), "forest",
        choose=("reader", "judge"), ranked=True, zero=True, opens=("label",), concludes=True,
        more=("only_this", "only_baseline", "unscored", "verdict")),
    View("position", "Does the evidence's position matter?", "accuracy", (CORRECT,), "line",
        across="band", choose=("reader", "judge"), where={"band": BANDS},
        about="Parts of the record in per cent; the middle is 30–70 %.", opens=("label", "band")),
    View("evidence", "Which arm keeps the evidence?", "recall", (KEPT,), "forest",
        choose=("criterion", "reader"), where={"band": ("overall",)},
        more=("any_piece", "evidence_share", "picked_recall", "kept_but_cut"), ranked=True,
        about="All pieces: every sentence with evidence is there; any piece: at least one is. "
        "Tick: chance.", opens=("label", "criterion")),
    View("evidence_position", "Is evidence in the middle kept?", "recall", (KEPT,), "line",
        across="band", choose=("criterion", "reader"), where={"band": BANDS},
        about="Dotted: chance.", opens=("label", "criterion", "band")),
    View("found", "Does having the evidence help?", "hit_miss", (CORRECT,), "forest",
        rows=("label", "evidence"), choose=("criterion", "reader", "judge"), more=OUTCOMES,
        about="An arm finds the evidence of some questions and misses that of others, so the "
        "difference is not the effect of finding it alone.", opens=("label", "criterion", "hit")),
    View("types", "Which types of question go wrong?", "task_type", (CORRECT,), "grid",
        across="task_type", choose=("reader", "judge"), more=OUTCOMES, opens=("label", "task_type"),
        about="R: one fact to retrieve, Rn: several, S: to be summarised or derived."),
    View("domains", "Which domains go wrong?", "domain", (CORRECT,), "grid", across="domain",
        choose=("reader", "judge"), more=OUTCOMES, opens=("label", "domain")),
    View("k", "How many sentences are enough?", "k_sweep", (CORRECT,), "line", rows=("arm",),
        across="k", choose=("reader", "judge", "band"), opens=("label", "band")),
    View("evidence_k", "How many sentences keep the evidence?", "recall_sweep", (KEPT, PRECISION),
        "line", rows=("arm",), across="k", choose=("criterion", "reader"),
        opens=("label", "criterion")),
    View("readers", "Does another reader answer better?", "readers", (PAIRED,), "forest",
        choose=("judge", "reader"), more=("verdict",), ranked=True, zero=True, opens=("label",)),
    View("judges", "Do the judges agree?", "agreement", _AGREED, "forest",
        rows=("first", "second"), choose=("reader",),
        more=("both_yes", "only_first", "only_second", "neither"),
        about="A card is an answer's words to a question, judged once whichever arms gave them."),
    View("trusted", "How far do judges agree with people?", "judge_agreement",
        (Measure("kappa", "Cohen's kappa", "", "Agreement corrected for chance."),
         Measure("agreement", "agreement", "%", "Answers with the same verdict of both.")),
        "grid", rows=("judge",), across="kind", more=("n", "questions"),
        about="Measured on answers of systems to general questions, none of them from charts."),
    View("itself", "Does a judge agree with itself?", "self_agreement",
        (Measure("agreement", "agreement of repeats", "%", "",
                 (Ends("agreement_low", "agreement_high", "by patient"),), clusters="patients"),),
        "forest", rows=("judge",), choose=("reader",), more=("repeats", "unanimous")),
    View("failures", "How do answers go wrong?", "failure_kinds",
        (Measure("share", "% of the incorrect answers", "%", "", SHARE),), "grid", across="kind",
        choose=("reader", "judge"), opens=("label", "kind")),
    View("refusals", "When does the reader decline?", "refusals",
        (Measure("refused_share", "% declined", "%", "",
                 (Ends("refused_low", "refused_high", "by patient"),)),), "forest",
        choose=("reader", "judge"), ranked=True, opens=("label",),
        more=("refused_correct", "refused_with_evidence", "refused_with_part",
              "refused_without_evidence", "answered_accuracy")),
    View("faults", "What do published faults cost?", "faults", (CORRECT,), "forest",
        rows=("label", "struck"), choose=("fault", "reader", "judge"),
        about="Answers that the fault affected (yes) next to those that it did not (no)."),
    View("costs", "What does an answer cost?", "costs",
        (Measure("prompt_tokens", "prompt tokens", "tokens"),
         Measure("seconds", "seconds", "s"), Measure("cost_usd", "cost", "USD")),
        "forest", rows=("label", "judge"), choose=("reader",), opens=("label",),
        more=("failed", "read_tokens", "reused_tokens", "output_tokens", "seconds_each",
              "tokens_per_second")),
    View("tokens", "How long are the prompts?", "tokens",
        (Measure("prompt_tokens", "tokens of a prompt", "tokens"),
         Measure("selection_tokens", "tokens kept", "tokens")),
        "forest", choose=("reader",), opens=("label",),
        more=("sentences", "buffer_tokens", "filler_tokens", "cut_share", "prompts_cut",
              "question_survived", "evidence_all_in_prompt", "evidence_share",
              "selection_seconds")),
    View("tests", "Which tests were made?", "multiplicity",
                 about="Of all comparisons, those below .05 before and after adjustment."),
    View("seen", "And the training patients?", "accuracy_seen", (CORRECT,), "forest",
        choose=("reader", "judge"), where={"band": ("overall",)}, more=OUTCOMES, ranked=True,
        about=NOT_NEW, opens=("label",)),
    View("evidence_seen", "And the evidence of training patients?", "recall_seen", (KEPT,),
        "forest", choose=("criterion", "reader"), where={"band": ("overall",)}, ranked=True,
        about=NOT_NEW, opens=("label", "criterion")),
    View("located", "Where was evidence found?", "location",
        (Measure("share", "% of the questions with evidence", "%", "",
                 (Ends("wilson_low", "wilson_high", "Wilson"),)),), rows=("measure",)),
    View("reviewed", "What did people review?", "reviews"),
    View("missed", "Which items failed?", "failures", opens=("label",)),
)  # fmt: skip
_OF_ANSWERS = {view.name: view for view in ANSWERS_VIEWS}
SELECTION_VIEWS = (
    *(_OF_ANSWERS[name] for name in ("funnel", "lost", "evidence", "evidence_position")),
    View("differences", "Which arm keeps more?", "differences", (KEPT_MORE,), "forest",
         rows=("first", "second"), choose=("criterion", "budget"),
         more=("only_first", "only_second"), zero=True),
    *(_OF_ANSWERS[name] for name in ("evidence_k", "evidence_seen")),
    View("tokens", "How long is what is kept?", "tokens",
         (Measure("selection_tokens", "tokens kept", "tokens"),
          Measure("buffer_tokens", "tokens of the recency buffer", "tokens"),
          Measure("filler_tokens", "tokens drawn to fill the budget", "tokens")), "forest",
         more=("sentences", "mostly_buffer", "evidence_share", "selection_seconds"),
         opens=("label",)),
    *(_OF_ANSWERS[name] for name in ("located", "missed")),
)  # fmt: skip
