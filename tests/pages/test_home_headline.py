"""The Home page's headline table, for runs that were judged and runs that only selected."""

from __future__ import annotations

from midchart.pages.ui.home_view import headline


def recall(label: str, hits: int, n: int) -> dict[str, object]:
    share = hits / n
    bounds = {"patient_low": share, "patient_high": share}
    return {
        "label": label, "criterion": "all pieces", "band": "overall", "n": n, "hits": hits,
        "recall": share, **bounds, "chance": 0.125, "any_piece": 0.75, "any_piece_chance": 0.25,
    }  # fmt: skip


def test_a_run_without_judges_shows_what_was_kept_of_how_many_questions():
    frame, _, judge = headline(
        {"tables": {"recall": [recall("bm25", 21, 36), recall("full", 36, 36)]}}
    )
    assert judge == ""
    title = "all pieces of the evidence kept, before any prompt limit"
    assert list(frame.columns) == ["arm", title, "any piece", "n"]
    assert frame["n"].tolist() == [36, 36]
    assert frame[title][0].startswith("58.3 %") and frame[title][0].endswith("chance 12.5 %")
    assert frame["any piece"][0] == "75.0 %, chance 25.0 %"


def test_a_judged_run_shows_accuracy_next_to_it():
    row = {
        "label": "bm25", "judge": "exact", "reader": "extractive", "band": "overall", "n": 30,
        "accuracy": 0.5, "patient_low": 0.3, "patient_high": 0.7,
    }  # fmt: skip
    frame, _, judge = headline({"tables": {"recall": [recall("bm25", 21, 36)], "accuracy": [row]}})
    assert judge == "exact"
    assert frame["n"].tolist() == [30]
    assert frame["accuracy"][0].startswith("50")


def test_evidence_is_that_in_the_reader_s_prompt_and_what_was_cut_is_next_to_it():
    """``full`` keeps everything and shows a third of it: the headline has the third."""
    cut = {"criterion": "all pieces in prompt", "prompts_cut": 30, "kept_but_cut": 24}
    cut |= {"cut_at_least": 15900, "cut_at_most": 16384}
    prompted = [
        recall("full", 12, 36) | cut | {"reader": "qwen"},
        recall("full", 36, 36) | cut | {"reader": "wide", "prompts_cut": 0, "kept_but_cut": 0},
        recall("full", 36, 36) | {"reader": ""},
    ]
    row = {
        "label": "full", "judge": "exact", "reader": "qwen", "band": "overall", "n": 36,
        "accuracy": 0.5, "patient_low": 0.3, "patient_high": 0.7,
    }  # fmt: skip
    frame, _, _ = headline({"tables": {"recall": prompted, "accuracy": [row]}})
    title = "all pieces of the evidence in prompt"
    assert list(frame.columns) == ["arm", title, "any piece", "accuracy", "n", "prompts cut"]
    assert frame[title][0].startswith("33.3 %")
    assert frame["prompts cut"][0] == "30 cut at 15,900–16,384 tokens; evidence kept but cut in 24"
