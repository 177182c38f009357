"""Sentences and figures of the Arms page, from tables made by hand."""

from __future__ import annotations

import pandas as pd
import pytest

from midchart.core.results.comparison import conclusion
from midchart.pages.ui.arms import charts as charts_arms
from midchart.pages.ui.arms import text as arms_text
from midchart.pages.ui.shared import chart, formats, results


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
    return row | {"verdict": conclusion(row)}


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
    return arms_text.headline(tables, "r", "j", "full")


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
    assert arms_text.headline({}, "r", "j", "full") == (
        "No answer under Full record has been judged yet."
    )


def test_the_sentence_says_what_it_could_have_missed():
    row = {"reader": "r", "judge": "j", "n": 120, "comparisons": 12, "among_all": 0.1001}
    tables = {"accuracy": [OVERALL], "detectable": [row]}
    assert arms_text.size(tables, "r", "j") == (
        "120 questions of 40 patients; 12 comparisons, McNemar's exact test with Holm's "
        "adjustment. A true difference of 10 points or more would be detected with power .8; a "
        "smaller "
        "one may have been missed."
    )
    few = {**row, "n": 4, "comparisons": 1, "among_all": None}
    assert "no difference could have been detected" in arms_text.size(
        {**tables, "detectable": [few]}, "r", "j"
    )
    assert arms_text.size({"accuracy": [OVERALL]}, "r", "j") == ""


def test_cautions_name_rules_faults_and_what_is_in_no_denominator():
    fault = {"reader": "r", "judge": "exact", "fault": "question cut off"}
    tables = {
        "accuracy": [OVERALL | {"judge": "exact"}],
        "faults": [{**fault, "struck": True, "n": 30}, {**fault, "struck": False, "n": 90}],
    }
    text = " ".join(arms_text.cautions(tables, "r", "exact"))
    assert "rule-based" in text
    assert "30 of 120 judged answers are affected by a published fault: question cut off." in text
    assert "3 verdicts failed" in text
    assert arms_text.cautions({"accuracy": []}, "r", "claude") == []


@pytest.mark.parametrize(
    "labels",
    [
        ["bm25", "bm25_ranked", "mmr", "bm25_filtered"],
        ["bm25", "bm25 k=1", "bm25 k=3", "bm25 k=5"],
        ["full", "recency", "random", "oracle"],
    ],
)
def test_four_arms_in_one_chart_share_neither_colour_nor_marker(labels):
    looks = chart.distinct_looks(labels)
    controls = [label for label in labels if label in chart.controls()]
    colours = [looks[label].colour for label in labels if label not in controls]
    assert len(set(colours)) == len(colours)
    assert len({looks[label].symbol for label in labels}) == len(labels)
    assert len({looks[label].dash for label in labels}) == len(labels)
    assert looks[labels[0]] == chart.look_of(labels[0]), "the first keeps its own"


def test_a_forest_holds_hostile_labels_as_text():
    line = chart.ForestRow("<img src=x onerror=1>", 1.0, 0.0, 2.0, "<b>words</b>")
    figure = chart.forest([line], "x")
    assert "<img" not in str(figure.layout.yaxis.ticktext)
    assert "<img" not in str(figure.data[0].text)


def test_names_at_line_ends_never_collide():
    assert chart.spread([0.0, 1.0, 30.0], 6.0) == [0.0, 6.0, 30.0]
    # 100, 106 and 112 would stand above the axis, where Plotly draws no name: down from 102.
    assert chart.spread([50.0, 100.0, 100.0, 100.0], 6.0) == [50.0, 90.0, 96.0, 102.0]
    # 27 names 6 apart need 156 of the span's 104: they share it, 4 apart.
    assert chart.spread([100.0] * 27, 6.0) == [-2.0 + 4 * i for i in range(27)]


def test_numbers_in_words():
    assert formats.signed(-2.04) == "−2.0"
    assert formats.signed(-0.04) == "0.0"
    assert formats.difference(0.1, 0.02, 0.18) == "+10.0 [+2.0, +18.0]"
    assert formats.difference(0.1, None, None) == "+10.0"
    assert [formats.p_value(p) for p in (None, 0.0002, 0.0314, 1.0)] == [
        "no p",
        "p < 0.001",
        "p = 0.031",
        "p = 1.000",
    ]
    assert formats.compact(3_140_000) == "3.1 million"


def recalled(label: str, **more: object) -> dict[str, object]:
    """A row of recall with its chance level."""
    row = {"label": label, "title": label, "k": 20, "band": "0-10", "n": 10, "recall": 0.6}
    ends = {"wilson_low": 0.3, "wilson_high": 0.8}
    chance = {"chance": 0.125, "evidence_share": 0.5, "picked_recall": 0.5, "picked_chance": 0.1}
    chance |= {"any_piece": 0.75, "any_piece_chance": 0.25}
    return {**row, **ends, **chance, **more}


def test_recall_has_its_chance_level_in_every_figure_and_table():
    frame = pd.DataFrame([recalled("bm25"), recalled("full", chance=1.0)])
    shown = results.share_table(frame, "recall", "wilson_low", "wilson_high")
    assert shown["% by chance"].tolist() == [12.5, 100.0]
    assert shown["% of the evidence"].tolist() == [50.0, 50.0]
    assert shown["% any piece"].tolist() == [75.0, 75.0]
    assert shown["% any piece by chance"].tolist() == [25.0, 25.0]
    assert shown["% of picks by chance"].tolist() == [10.0, 10.0]
    wide = results.wide(frame, "band", "recall", "wilson_low", "wilson_high")
    assert wide.iloc[0, 1].endswith("chance 12.5") and wide.iloc[1, 1].endswith("chance 100.0")
    lines = chart.share_rows(frame, "recall", "wilson_low", "wilson_high")
    drawn = {trace.name: trace for trace in chart.forest(lines, "evidence").data}
    assert sorted(drawn["chance"].x) == [12.5, 100.0] and "chance 12.5 %" in lines[0].text
    over_bands = charts_arms.by_band(frame, "recall", "wilson_low", "wilson_high", "evidence")
    assert [t.y[0] for t in over_bands.data if str(t.name).startswith("chance")] == [12.5, 100.0]
    accuracy = frame.assign(accuracy=0.5, unparsed=0, failed=0).drop(columns="chance")
    lines = chart.share_rows(accuracy, "accuracy", "wilson_low", "wilson_high")
    assert all(t.name != "chance" for t in chart.forest(lines, "accuracy").data)


def test_the_headline_of_a_selection_is_all_pieces_with_any_piece_and_both_by_chance():
    row = {"arm": "bm25", "band": "overall", "criterion": "all pieces", "n": 40, "recall": 0.5}
    row |= {"patient_low": 0.4, "patient_high": 0.6, "any_piece": 0.875, "any_piece_chance": 0.25}
    rows = [row | {"label": "bm25", "chance": 0.125}]
    rows += [row | {"label": "recency", "arm": "recency", "recall": 0.1, "chance": None}]
    any_piece = row | {"label": "recency", "criterion": "any piece", "recall": 1.0}
    assert arms_text.recall_headline({"recall": [*rows, any_piece]}) == (
        "BM25 keeps all pieces of the evidence of 50.0 % [40.0, 60.0] of 40 questions (chance "
        "12.5 %), the most of 2 arms, before any prompt limit, and any piece of 87.5 % (chance "
        "25.0 %); Recency only keeps all of 10.0 %, the least. Differences on the same questions "
        "are in table differences of the report."
    )


def test_a_recall_of_unknown_chance_draws_none():
    """Semantic hits have no chance level."""
    frame = pd.DataFrame([recalled("bm25", chance=None)])
    lines = chart.share_rows(frame, "recall", "wilson_low", "wilson_high")
    assert "chance" not in lines[0].text
    assert all(t.name != "chance" for t in chart.forest(lines, "semantic").data)
    wide = results.wide(frame, "band", "recall", "wilson_low", "wilson_high")
    assert "chance" not in wide.iloc[0, 1]
    assert results.cut_at(900, 1200) == "cut at 900–1,200 tokens"
    assert results.cut_at(900, 900) == "cut at 900 tokens"


def test_a_difference_that_only_some_judges_show_is_said_so():
    claimed = pair("mmr", 0.03, 0.027)
    other = pair("mmr", 0.02, 0.055, judge="token_overlap")
    tables = {"accuracy": [OVERALL], "paired": [claimed, other]}
    mmr = "MMR (MiniLM)"
    assert arms_text.headline(tables, "r", "j", "full") == (
        f"Against Full record (22.5 % correct): {mmr} (+3.0 points) is better. Not every judge "
        f"shows it for {mmr}."
    )
    assert arms_text.judged_by(tables, "r", "j", "j") == (
        "Judged by j, the primary judge of this run. Only some judges show a difference for "
        f"{mmr}: better by j, no difference shown by Token overlap (offline)."
    )
    # The primary judge claims nothing: the other's claim stands below.
    overall = OVERALL | {"judge": "token_overlap"}
    tables["accuracy"] = [overall]
    assert "is better" not in arms_text.headline(tables, "r", "token_overlap", "full")
    assert "better by j" in arms_text.judged_by(tables, "r", "token_overlap", "j")
    assert arms_text.judged_by(tables, "r", "token_overlap", "j").endswith(
        "The figures below are by j."
    )


def test_judges_that_agree_are_not_listed():
    rows = [pair("a", 0.1, 0.01), pair("a", 0.2, 0.01, judge="exact")]
    tables = {"accuracy": [OVERALL], "paired": rows}
    assert arms_text.headline(tables, "r", "j", "full").endswith("is better.")
    assert "Only some judges" not in arms_text.judged_by(tables, "r", "j", "j")
