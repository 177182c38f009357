"""Terms and abbreviations in one sentence each, shown on hover in tables and at pickers."""

from __future__ import annotations

import re
from collections.abc import Iterable

TERMS = {
    "arm": "A way to choose the sentences of a record that the reader sees.",
    "95 %": "95 % interval: [low, high]; a dash where too few patients give one.",
    "BM25": "Ranks sentences by the question's words they contain, rare words counting more.",
    "Dense": "Ranks sentences by the similarity of their embedding to the question's.",
    "MMR": "Maximal marginal relevance: similar to the question and unlike what is kept already.",
    "QCCS": "The paper's trained gate: an n-gram network scores each sentence for the question.",
    "k": "Sentences kept in addition to the most recent events.",
    "NLI": "Natural language inference: whether one text entails another.",
    "Holm": "p adjusted for the number of comparisons so that any false claim stays below 5 %.",
    "Newcombe": "Interval of a difference of paired shares that treats questions as independent.",
    "Wilson": "Score interval of a share that treats questions as independent.",
    "κ": "Cohen's kappa: agreement corrected for chance; near 0 where one verdict is rare.",
    "AC1": "Gwet's AC1: agreement corrected for chance, stable where one verdict is rare.",
    "positive agreement": "Agreement on the answers that were judged correct.",
    "AUROC": "Chance that a random positive is scored above a random negative; 0.5 is chance.",
    "AUPRC": "Area under precision against recall; chance is the share of positives.",
    "recall": "Share of questions whose evidence is kept.",
    "all pieces": "Every sentence that holds evidence is there: an answer needs all.",
    "any piece": "At least one sentence that holds evidence is there.",
    "prevalence": "Share of positive labels.",
    "refusals": "Answers in which the reader declines to answer.",
    "unparsed": "Verdicts that could not be read; excluded from all denominators.",
    "unscored": "Answers without a verdict; a difference they could reverse is not claimed.",
    "score gap": "Mean probability of positives minus that of negatives.",
    "chance": "What random sentences with as many tokens would reach.",
    "distractors": "Notes on the same item with another date and value.",
    "ECE": "Expected calibration error: mean gap of predicted probability and observed rate.",
    "SD": "Standard deviation.",
}
_WORD = {
    term: re.compile(rf"(?<!\w){re.escape(term)}(?!\w)", 0 if len(term) < 3 else re.IGNORECASE)
    for term in TERMS
}


def meaning(text: str) -> str:
    """The terms of a text in a sentence each; "" where it has none."""
    return " ".join(sentence for term, sentence in TERMS.items() if _WORD[term].search(text))


def of_options(titles: Iterable[str]) -> str | None:
    """The terms of a picker's options, each named; None where they have none."""
    text = " · ".join(titles)
    known = [f"{term}: {sentence}" for term, sentence in TERMS.items() if _WORD[term].search(text)]
    return " ".join(known) or None
