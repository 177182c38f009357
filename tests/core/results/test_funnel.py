"""The funnel of evidence: each question counts once, at the step at which its evidence was lost."""

from __future__ import annotations

import pytest

from midchart.core.results.funnel import (
    CUT,
    KEPT,
    MISREAD,
    MISSED,
    OTHERWISE,
    RIGHT,
    STEPS,
    UNQUOTED,
    UNUSED,
    arms_sentence,
    funnel,
    sentence,
    step_of,
)
from tests.support.stage2_rows import made_rows, plan, store_of


@pytest.mark.parametrize(
    ("selected", "prompted", "quoted", "correct", "named", "step"),
    [
        (False, False, None, False, True, MISSED),
        (True, False, None, False, True, CUT),
        (True, True, False, False, True, UNQUOTED),
        (True, True, None, False, True, UNQUOTED),  # it declined
        (True, True, True, False, True, MISREAD),
        (True, True, True, True, True, RIGHT),
        (True, True, False, True, True, OTHERWISE),  # by another sentence
        (False, False, None, True, True, OTHERWISE),  # a guess
        (True, True, None, False, False, UNUSED),
        (True, True, None, True, False, RIGHT),
        (True, False, None, True, False, OTHERWISE),
        (False, False, None, None, False, MISSED),  # without a reader
        (True, False, None, None, False, CUT),
        (True, True, None, None, False, KEPT),
    ],
)
def test_evidence_ends_at_one_step(selected, prompted, quoted, correct, named, step):
    row = {"kept": selected, "prompted": prompted, "quoted": quoted, "correct": correct}
    assert step_of(row, named) == step


def test_a_question_counts_once_in_its_tenth_and_in_each_wider_band(tmp_path):
    answers, verdicts = made_rows()
    for row in (*answers, *verdicts):
        number = int(row["instruction"][1:])
        row["order_position"] = (number % 20) / 20
        row["middle"] = 0.3 <= row["order_position"] < 0.7
    for row in answers:
        row["evidence_quoted"] = row["reader"] == "one" or None
    rows = funnel(store_of(tmp_path / "items", answers, verdicts), plan(), "order_position")
    by_key = {answer["key"]: answer for answer in answers}
    for label, reader, judge in {(r["label"], r["reader"], r["judge"]) for r in rows}:
        seen = [
            verdict
            for verdict in verdicts
            if (verdict["label"], verdict["reader"], verdict["judge"]) == (label, reader, judge)
            and verdict["outcome"] in ("correct", "incorrect")
            and by_key[verdict["answer_key"]]["evidence"] is not None
        ]
        of = {
            band: {
                row["step"]: row["count"]
                for row in rows
                if (row["label"], row["reader"], row["judge"], row["band"])
                == (label, reader, judge, band)
            }
            for band in ("0-10", "30-40", "middle", "edge", "overall")
        }
        inside = [0.3 <= verdict["order_position"] < 0.4 for verdict in seen]
        assert sum(of["30-40"].values()) == sum(inside)
        assert sum(of["middle"].values()) == sum(verdict["middle"] for verdict in seen)
        assert sum(of["overall"].values()) == len(seen)
        right = sum(verdict["outcome"] == "correct" for verdict in seen)
        assert of["overall"][RIGHT] + of["overall"][OTHERWISE] == right
        assert (UNUSED in of["overall"]) == (reader != "one"), "a source is named by one alone"
        assert set(of["overall"]) < set(STEPS)


def rows_of(label: str = "bm25", arm: str = "bm25", **counts: int) -> list[dict]:
    steps = {"missed": MISSED, "cut": CUT, "unused": UNUSED, "right": RIGHT, "without": OTHERWISE}
    n = sum(counts.values())
    return [
        {"label": label, "arm": arm, "band": "middle", "step": steps[name], "count": count,
         "share": count / n}
        for name, count in counts.items()
    ]  # fmt: skip


def test_what_became_of_the_evidence_in_words():
    assert sentence(rows_of(missed=6, cut=4, unused=4, right=2, without=1)) == (
        "Of 17 facts in the middle of these charts, 10 never reached the model, 4 were there and "
        "not used, 2 were answered right and 1 was answered right without it."
    )
    assert sentence(rows_of(missed=1), "edge") == sentence([]) == ""
    several = rows_of(missed=1, right=3) + rows_of("dense", "dense", unused=3, right=1)
    oracle = rows_of("oracle", "oracle", right=4)
    assert arms_sentence(several + oracle) == (
        "Dense (MiniLM) brings the evidence to the model most often (100.0 %) and BM25 has the "
        "most right answers (75.0 %)."
    )
