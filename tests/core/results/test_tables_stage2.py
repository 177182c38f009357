"""Tables of Stage 2 on simulated verdicts equal plain loops over the same rows."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from midchart.core.experiments.answers.tables import stage2
from midchart.core.results.comparison import Pairing, adjust, family_differences
from midchart.core.runs.schemas import SEMANTIC, blank
from midchart.core.stats.paired import mcnemar_exact
from midchart.core.storage.rows import RowStore
from tests.support.stage2_rows import ARMS, QUESTIONS, made_rows, plan, store_of


@pytest.fixture(scope="module")
def rows() -> tuple[list[dict], list[dict]]:
    return made_rows()


@pytest.fixture(scope="module")
def store(tmp_path_factory, rows) -> RowStore:
    return store_of(tmp_path_factory.mktemp("stage2") / "items", *rows)


@pytest.fixture(scope="module")
def tables(store) -> dict[str, list[dict]]:
    return stage2(store, plan())


def judged(verdicts: list[dict], **fixed: object) -> list[dict]:
    return [
        v
        for v in verdicts
        if v["outcome"] in ("correct", "incorrect") and all(v[k] == x for k, x in fixed.items())
    ]


def test_accuracy_equals_a_plain_loop(tables, rows):
    _, verdicts = rows
    assert len(tables["accuracy"]) == 3 * 2 * 2 * 9
    for row in tables["accuracy"]:
        verdicts_of_cell = [
            v for v in verdicts if all(v[k] == row[k] for k in ("label", "reader", "judge"))
        ]
        if row["band"] in ("middle", "edge"):
            verdicts_of_cell = [
                v for v in verdicts_of_cell if v["middle"] is (row["band"] == "middle")
            ]
        elif row["band"] != "overall":
            verdicts_of_cell = [v for v in verdicts_of_cell if v["band"] == row["band"]]
        seen = judged(verdicts_of_cell)
        assert row["n"] == len(seen)
        assert row["correct"] == sum(v["outcome"] == "correct" for v in seen)
        assert row["patients"] == len({v["record"] for v in seen})
        assert row["unparsed"] == sum(v["outcome"] == "unparsed" for v in verdicts_of_cell)
        assert row["refusals"] == sum(v["refusal"] for v in verdicts_of_cell)
        assert row["patient_low"] <= row["accuracy"] <= row["patient_high"]
        # Students' t for the normal: never narrower than plain Wilson.
        assert row["patient_high"] - row["patient_low"] > 0.99 * (
            row["wilson_high"] - row["wilson_low"]
        )
    (one, *_) = [r for r in tables["unlocated"] if r["label"] == "bm25"]
    assert one["n"] + one["unparsed"] == 1


def test_refusals_are_counted_separately(tables, rows):
    answers = {a["key"]: a for a in rows[0]}
    for row in tables["refusals"]:
        seen = judged(rows[1], **{k: row[k] for k in ("label", "reader", "judge")})
        refused = [v for v in seen if v["refusal"]]
        assert (row["n"], row["refused"]) == (len(seen), len(refused))
        assert row["answered"] == row["n"] - row["refused"]
        blind = [v for v in refused if answers[v["answer_key"]]["evidence_in_prompt"] is False]
        assert row["refused_without_evidence"] == len(blind)
        complete = [v for v in refused if answers[v["answer_key"]]["evidence_all_in_prompt"]]
        assert row["refused_with_evidence"] == len(complete)
        unknown = [v for v in refused if answers[v["answer_key"]]["evidence"] is None]
        part = len(refused) - len(blind) - len(complete) - len(unknown)
        assert row["refused_with_part"] == part
        assert row["answered_correct"] == sum(
            v["outcome"] == "correct" for v in seen if not v["refusal"]
        )
        assert row["refused_low"] <= row["refused_share"] <= row["refused_high"]
        assert row["answered_low"] <= row["answered_accuracy"] <= row["answered_high"]


def test_ends_of_intervals_rise_with_the_hits_under_arms_on_the_same_questions(tables):
    """None right of as many questions gives no wider an interval than a few right."""
    families: dict[tuple, list[dict]] = {}
    for row in tables["accuracy"]:
        key = (row["reader"], row["judge"], row["band"], row["n"], row["patients"])
        families.setdefault(key, []).append(row)
    several = [family for family in families.values() if len(family) > 1]
    assert several
    for family in several:
        family.sort(key=lambda row: row["correct"])
        for end in ("patient_low", "patient_high"):
            ends = [row[end] for row in family]
            assert ends == sorted(ends)


def test_accuracy_by_hit_and_its_effect_for_each_criterion(tables, rows):
    answers = {a["key"]: a for a in rows[0]}
    column = {
        "any piece in prompt": "evidence_in_prompt",
        "all pieces in prompt": "evidence_all_in_prompt",
        "any piece": "evidence",
        "all pieces": "evidence_all",
        "lexical": "lexical",
    }
    known = [r for r in tables["hit_miss"] if r["criterion"] in column]
    assert len(known) == 3 * 2 * 5 * 2 * 2
    for row in known:
        seen = [
            v
            for v in judged(rows[1], **{k: row[k] for k in ("label", "reader", "judge")})
            if answers[v["answer_key"]][column[row["criterion"]]] is row["hit"]
        ]
        assert row["n"] == len(seen)
        assert row["correct"] == sum(v["outcome"] == "correct" for v in seen)


def test_semantic_hits_are_a_criterion_where_the_run_scored_them(tmp_path, rows):
    answers, verdicts = rows
    store = store_of(tmp_path / "items", answers, verdicts)
    scored = [
        {
            **blank(SEMANTIC),
            "key": f"{entry.label}/{q}",
            "label": entry.label,
            "instruction": f"q{q:02d}",
            "best": None if q == 5 else q / QUESTIONS,
        }
        for entry in ARMS
        for q in range(QUESTIONS)
    ]
    text = "".join(json.dumps(row) + "\n" for row in scored)
    (tmp_path / "items" / "semantic.jsonl").write_text(text, encoding="utf-8")
    store.schemas["semantic"] = SEMANTIC
    hit_miss = stage2(store, plan(options={"semantic": True}))["hit_miss"]
    semantic = [r for r in hit_miss if r["criterion"] == "semantic"]
    assert len(semantic) == 3 * 2 * 2 * 2
    for row in semantic:
        seen = [
            v
            for v in judged(verdicts, **{k: row[k] for k in ("label", "reader", "judge")})
            if v["instruction"] != "q05" and (int(v["instruction"][1:]) > 30) is row["hit"]
        ]
        assert row["n"] == len(seen)


def paired_by_hand(verdicts: list[dict], this: dict, that: dict) -> tuple[int, int, int]:
    a = {v["instruction"]: v["outcome"] == "correct" for v in judged(verdicts, **this)}
    b = {v["instruction"]: v["outcome"] == "correct" for v in judged(verdicts, **that)}
    both = a.keys() & b.keys()
    return len(both), sum(a[i] and not b[i] for i in both), sum(b[i] and not a[i] for i in both)


def test_paired_counts_equal_a_plain_loop_and_holm_is_within_a_family(tables, rows):
    assert {r["baseline"] for r in tables["paired"]} == {"bm25"}
    for row in tables["paired"]:
        fixed = {"reader": row["reader"], "judge": row["judge"]}
        n, this, base = paired_by_hand(
            rows[1], {**fixed, "label": row["label"]}, {**fixed, "label": "bm25"}
        )
        assert (row["n"], row["only_this"], row["only_baseline"]) == (n, this, base)
        assert row["p"] == mcnemar_exact(this, base)
        assert row["p"] <= row["p_holm"] <= min(1.0, 2 * row["p"])
        assert row["difference"] == pytest.approx((this - base) / n)
        for ends in ("difference", "patient"):
            assert row[f"{ends}_low"] <= row["difference"] <= row[f"{ends}_high"]


def test_unscored_answers_bound_every_accuracy_and_every_claim(tmp_path, rows):
    answers, verdicts = rows[0], [dict(v) for v in rows[1]]
    for v in verdicts:
        # dense answers a third and is right, and hedges elsewhere; bm25 is right on half of all.
        number = int(v["instruction"][1:])
        if v["judge"] == "strict" and v["label"] == "dense":
            v["outcome"], v["prompt_hash"] = ("correct" if number % 3 == 0 else "unparsed"), "h"
        elif v["judge"] == "strict":
            v["outcome"], v["prompt_hash"] = ("correct" if number % 2 else "incorrect"), "h"
    tables = stage2(store_of(tmp_path / "items", answers, verdicts), plan())
    (row,) = [
        r for r in tables["accuracy"]
        if (r["label"], r["reader"], r["judge"], r["band"]) == ("dense", "one", "strict", "overall")
    ]  # fmt: skip
    assert (row["n"], row["accuracy"], row["unparsed"]) == (QUESTIONS // 3, 1.0, 2 * QUESTIONS // 3)
    assert (row["bound_low"], row["bound_high"]) == (pytest.approx(1 / 3), 1.0)
    (pair,) = [
        r for r in tables["paired"]
        if (r["label"], r["reader"], r["judge"]) == ("dense", "one", "strict")
    ]  # fmt: skip
    assert pair["difference"] == pytest.approx(0.5) and pair["p_holm"] < 0.05
    assert (pair["n"], pair["unscored"]) == (QUESTIONS // 3, 2 * QUESTIONS // 3)
    assert (pair["bound_low"], pair["bound_high"]) == (pytest.approx(-1 / 6), pytest.approx(1 / 2))
    assert pair["p_bound_holm"] == 1.0 and pair["verdict"].startswith("not claimed")
    for counts in tables["multiplicity"]:
        if counts["judge"] == "strict":
            family = [
                r for r in tables[counts["table"]]
                if all(r[k] == counts[k] for k in ("baseline", "reader", "judge"))
            ]  # fmt: skip
            claimed = sum(r["verdict"] in ("better", "worse") for r in family)
            assert counts["below_05_holm"] == claimed
    (counts,) = [
        r for r in tables["multiplicity"]
        if (r["table"], r["reader"], r["judge"]) == ("paired", "one", "strict")
    ]  # fmt: skip
    assert counts["below_05"] > counts["below_05_holm"], "the overturned pair is not counted"


def test_a_difference_that_rests_on_one_patient_is_not_claimed():
    """Twenty gains of one patient of six are significant if questions are independent."""
    cells = np.array([[0.0, 20.0, 0.0, 0.0], *[[4.0, 0.0, 0.0, 4.0]] * 5])
    (row,) = family_differences([Pairing(cells, 60, (20, 0, 20, 0))])
    adjust([row])
    assert row["p_holm"] < 1e-5 and row["patient_low"] <= 0 < row["patient_high"]
    assert row["verdict"] == "not claimed: its interval by patient includes 0"
    spread = Pairing(np.array([[3.0, 4.0, 0.0, 3.0]] * 6), 60, (24, 0, 24, 0))
    (row,) = family_differences([spread])
    adjust([row])
    assert row["patient_low"] > 0 and row["verdict"] == "better"
    several = family_differences([spread] * 4)
    assert several[0]["patient_low"] < row["patient_low"], "intervals of a family hold at once"


def test_the_same_words_differ_by_0_without_an_interval(tmp_path, rows):
    """Two arms that give the same words to every question are not compared by chance."""
    answers, verdicts = ([dict(row) for row in table] for table in rows)
    outcome = {
        (v["instruction"], v["reader"], v["judge"]): v["outcome"]
        for v in verdicts
        if v["label"] == "bm25"
    }
    for v in verdicts:
        if v["label"] in ("bm25", "dense"):
            v["prompt_hash"] = f"{v['instruction']}/{v['reader']}"
            v["outcome"] = outcome[v["instruction"], v["reader"], v["judge"]]
    paired = stage2(store_of(tmp_path / "items", answers, verdicts), plan())["paired"]
    for row in paired:
        ends = {row[f"{name}_low"] for name in ("patient", "difference")}
        if row["label"] == "dense":
            assert (row["difference"], ends, row["verdict"]) == (0.0, {None}, "the same answers")
        else:
            assert None not in ends


def test_agreement_of_judges_equals_a_plain_loop(tables, rows):
    by_key = {(v["answer_key"], v["judge"]): v["outcome"] for v in judged(rows[1])}
    for row in tables["judges"]:
        pairs = [
            (by_key[a["key"], row["first"]], by_key[a["key"], row["second"]])
            for a in rows[0]
            if (a["label"], a["reader"]) == (row["label"], row["reader"])
            and (a["key"], row["first"]) in by_key
            and (a["key"], row["second"]) in by_key
        ]
        assert row["n"] == len(pairs)
        assert row["both_yes"] == pairs.count(("correct", "correct"))
        assert row["only_second"] == pairs.count(("incorrect", "correct"))
        assert row["raw"] == pytest.approx(np.mean([x == y for x, y in pairs]))
        for measure in ("raw", "kappa", "ac1", "positive_agreement"):
            assert row[f"{measure}_low"] <= row[measure] <= row[f"{measure}_high"]
    for overall in tables["agreement"]:
        parts = [r for r in tables["judges"] if r["reader"] == overall["reader"]]
        assert overall["n"] == sum(r["n"] for r in parts)
        assert overall["neither"] == sum(r["neither"] for r in parts)


def test_identical_answers_of_several_arms_count_once_in_agreement(tmp_path, rows):
    """Two arms give the same words to a question; a judge's tie over the copies counts nowhere."""
    answers, verdicts = ([dict(row) for row in table] for table in rows)
    for row in verdicts:
        if row["label"] != "dense":
            row["prompt_hash"] = f"{row['instruction']}/{row['reader']}"
    tables = stage2(store_of(tmp_path / "items", answers, verdicts), plan())
    for overall in tables["agreement"]:
        votes, copies = {}, Counter()
        for v in judged(verdicts, reader=overall["reader"]):
            card = v["prompt_hash"] or v["answer_key"]
            vote = votes.setdefault(card, Counter())
            vote[v["judge"]] += 1 if v["outcome"] == "correct" else -1
            copies[card, v["judge"]] += 1
        one, other = overall["first"], overall["second"]
        both = {card: vote for card, vote in votes.items() if vote[one] and vote[other]}
        assert overall["n"] == len(both) < overall["answers"]
        assert overall["answers"] == sum(min(copies[c, one], copies[c, other]) for c in both)
        assert overall["both_yes"] == sum(v[one] > 0 and v[other] > 0 for v in both.values())
        parts = [r for r in tables["judges"] if r["reader"] == overall["reader"]]
        assert overall["n"] < sum(r["n"] for r in parts), "an arm has one answer to a question"
