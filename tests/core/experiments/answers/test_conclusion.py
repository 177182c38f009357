"""The conclusion of a comparison of arms, from tables made by hand."""

from __future__ import annotations

from typing import Any

from midchart.core.experiments.answers.conclusion import (
    cautions,
    conclusion,
    headline,
    judged_by,
    recall_headline,
    size,
)
from midchart.core.results.comparison import conclusion as verdict


def pair(label: str, difference: float, p: float, **more: object) -> dict[str, object]:
    row = {
        "label": label,
        "reader": "r",
        "judge": "j",
        "n": 120,
        "difference": difference,
        "p_holm": p,
        "p_bound_holm": p,
        "patient_low": None,
        "patient_high": None,
        **more,
    }
    return row | {"verdict": verdict(row)}


OVERALL = {
    "label": "full",
    "reader": "r",
    "judge": "j",
    "band": "overall",
    "n": 120,
    "patients": 40,
    "accuracy": 0.225,
    "patient_low": 0.16,
    "patient_high": 0.31,
    "unparsed": 0,
    "failed": 3,
}


def verdict_text(*pairs: dict[str, object]) -> str:
    tables = {"accuracy": [OVERALL], "paired": list(pairs)}
    return headline(tables, "r", "j", "full")


def test_a_difference_that_unscored_answers_could_overturn_is_not_claimed():
    assert verdict_text(pair("a", 0.1, 0.01, p_bound_holm=0.3), pair("b", -0.2, 0.01)) == (
        "Against Full record (22.5 % correct): b (−20.0 points) is worse; no difference is claimed "
        "for a (+10.0 points): unscored answers could reverse it."
    )


def test_a_difference_whose_interval_by_patient_includes_0_is_not_claimed():
    uncertain = pair("a", 0.1, 0.01, patient_low=-0.02, patient_high=0.2)
    assert verdict_text(uncertain).endswith(
        "for a (+10.0 points): its interval by patient includes 0."
    )


def test_the_sentence_claims_no_more_than_the_tests():
    assert verdict_text() == "Full record: 22.5 % correct [16.0, 31.0] of 120 questions."
    assert verdict_text(pair("bm25 k=1", 0.1, 0.06)) == (
        "BM25, k = 1 does not differ significantly from Full record (22.5 % correct)."
    )
    assert verdict_text(pair("a", 0.1, 0.06), pair("b", -0.3, 1.0)) == (
        "None of 2 arms is significantly different from Full record (22.5 % correct; "
        "Holm-adjusted)."
    )
    assert verdict_text(pair("a", 0.1, 0.01), pair("b", -0.2, 0.05), pair("c", 0.3, 0.2)) == (
        "Against Full record (22.5 % correct): a (+10.0 points) is better; b (−20.0 points) is "
        "worse; the other one does not differ significantly."
    )
    many = [pair(name, -0.1 - i / 100, 0.001) for i, name in enumerate("abcd")]
    assert verdict_text(*many) == (
        "Against Full record (22.5 % correct): 4 arms (d −13.0 points the furthest) are worse."
    )
    assert headline({}, "r", "j", "full") == ("No answer under Full record has been judged yet.")


def test_a_baseline_that_was_cut_says_so():
    lengths = {"label": "full", "reader": "r", "n": 120, "prompts_cut": 119, "cut_share": 0.7}
    pieces = {"label": "full", "reader": "r", "band": "overall", "n": 36, "hits": 3,
              "criterion": "all pieces in prompt"}  # fmt: skip
    tables = {"accuracy": [OVERALL], "tokens": [lengths], "recall": [pieces]}
    cut = "Full record, cut to 30 % (all evidence inside: 3 of 36)"
    assert headline(tables, "r", "j", "full").startswith(f"{cut}: 22.5 % correct")
    tables["tokens"] = [lengths | {"prompts_cut": 60}]
    assert headline(tables, "r", "j", "full").startswith("Full record: 22.5 % correct")


def test_the_sentence_says_what_it_could_have_missed():
    row = {"reader": "r", "judge": "j", "n": 120, "comparisons": 12, "among_all": 0.1001}
    tables = {"accuracy": [OVERALL], "detectable": [row]}
    assert size(tables, "r", "j") == (
        "120 questions of 40 patients; 12 comparisons, McNemar's exact test with Holm's "
        "adjustment. A true difference of 10 points or more would be detected with power .8; a "
        "smaller "
        "one may have been missed."
    )
    few = {**row, "n": 4, "comparisons": 1, "among_all": None}
    assert "no difference could have been detected" in size(
        {**tables, "detectable": [few]}, "r", "j"
    )
    assert size({"accuracy": [OVERALL]}, "r", "j") == ""


def test_cautions_name_rules_faults_and_what_is_in_no_denominator():
    fault = {"reader": "r", "judge": "exact", "fault": "question cut off"}
    tables = {
        "accuracy": [OVERALL | {"judge": "exact"}],
        "faults": [{**fault, "struck": True, "n": 30}, {**fault, "struck": False, "n": 90}],
    }
    text = " ".join(cautions(tables, "r", "exact"))
    assert "rule-based" in text
    assert "30 of 120 judged answers are affected by a published fault: question cut off." in text
    assert "3 verdicts failed" in text
    assert cautions({"accuracy": []}, "r", "claude") == []


def test_the_headline_of_a_selection_is_all_pieces_with_any_piece_and_both_by_chance():
    row = {"arm": "bm25", "band": "overall", "criterion": "all pieces", "n": 40, "recall": 0.5}
    row |= {"patient_low": 0.4, "patient_high": 0.6, "any_piece": 0.875, "any_piece_chance": 0.25}
    rows = [row | {"label": "bm25", "chance": 0.125}]
    rows += [row | {"label": "recency", "arm": "recency", "recall": 0.1, "chance": None}]
    any_piece = row | {"label": "recency", "criterion": "any piece", "recall": 1.0}
    assert recall_headline({"recall": [*rows, any_piece]}) == (
        "BM25 keeps all pieces of the evidence of 50.0 % [40.0, 60.0] of 40 questions (chance "
        "12.5 %), the most of 2 arms, before any prompt limit, and any piece of 87.5 % (chance "
        "25.0 %); Recency only keeps all of 10.0 %, the least. Differences on the same questions "
        "are in table differences of the report."
    )


def test_a_difference_that_only_some_judges_show_is_said_so():
    claimed = pair("mmr", 0.03, 0.027, other_judges="token_overlap: no difference shown")
    other = pair("mmr", 0.02, 0.055, judge="token_overlap")
    tables = {"accuracy": [OVERALL], "paired": [claimed, other]}
    mmr = "MMR (MiniLM)"
    assert headline(tables, "r", "j", "full") == (
        f"Against Full record (22.5 % correct): {mmr} (+3.0 points) is better. Not every judge "
        f"shows it for {mmr}."
    )
    assert judged_by(tables, "r", "j", "j") == (
        "Judged by j, the primary judge of this run. Only some judges show a difference for "
        f"{mmr}: better by j, no difference shown by Token overlap (offline)."
    )
    # The primary judge claims nothing: the other's claim stands below.
    overall = OVERALL | {"judge": "token_overlap"}
    tables["accuracy"] = [overall]
    assert "is better" not in headline(tables, "r", "token_overlap", "full")
    assert "better by j" in judged_by(tables, "r", "token_overlap", "j")
    assert judged_by(tables, "r", "token_overlap", "j").endswith("The figures below are by j.")


def report(tables: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"tables": tables, "primary_judge": "j", "warnings": [], **more}


def test_the_conclusion_is_by_the_primary_judge_whichever_judge_is_shown():
    other = pair("a", 0.2, 0.01, judge="exact")
    rows = [OVERALL, OVERALL | {"judge": "exact"}]
    tables = {"accuracy": rows, "paired": [pair("a", 0.1, 0.2), other]}
    for judge in ("", "j", "exact"):
        stated = conclusion(report(tables), judge=judge)
        assert (
            stated.headline == "a does not differ significantly from Full record (22.5 % correct)."
        )
        assert stated.details[0].startswith("Judged by j, the primary judge of this run.")
    assert "The figures below are by Exact values (offline)." in stated.details[0]
    assert "rule-based" in stated.details[-1], "a caution about the judge that is shown"


def test_training_patients_and_faults_of_the_protocol_are_part_of_the_conclusion():
    part = {"name": "test", "patients": 8, "seen": {"gate": 4}}
    warnings = ["the protocol differs from the corrected one in k", "few patients"]
    stated = conclusion(report({"accuracy": [OVERALL]}, part=part, warnings=warnings))
    seen, faults = stated.details[-2:]
    assert "the 8 patients not used to train a gate" in seen and "4, reported separately" in seen
    assert faults == "The protocol differs from the corrected one in k."
