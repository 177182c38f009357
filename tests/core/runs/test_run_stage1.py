"""Stage 1 of a run: semantic hits scored once, precision, overlap, recall by k, equal tokens."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import softmax

from midchart.core.embedding.pairs import NLI, shared
from midchart.core.experiments.selection import precision, recall
from midchart.core.loaders.open import open_cohort
from midchart.core.protocol import LATER, Protocol
from midchart.core.results.items import rows
from midchart.core.results.report import report
from midchart.core.results.tables import hits
from midchart.core.runs.directory import find_run
from midchart.core.runs.process import status
from midchart.core.runs.schemas import SELECTIONS, blank
from midchart.core.stats.intervals import wilson_of_share
from midchart.core.storage.rows import RowStore
from midchart.core.text import sentences
from tests.reference import pairs as plain
from tests.support import pair_models, run_members, stage2_rows
from tests.support.run_helpers import (
    continue_run,
    finished_run,
    read_questions,
    workspace_at,
    write_cohort,
    write_questions,
)

ARMS = ["bm25", {"name": "bm25", "k": 1}, {"name": "bm25", "k": 3}, "recency", "random"]
THRESHOLDS = (0.3, 0.4, 0.5, 0.6)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A data folder, a cache and the tiny models of this module; numbers are float32."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("stage1")
    pair_models.deberta(folder / "models" / NLI, seed=3)
    with workspace_at(folder), pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIDCHART_MODELS", str(folder / "models"))
        patch.setattr("midchart.core.embedding.pairs.hardware", lambda: ("cpu", "float32"))
        run_members.enter()
        yield folder
        run_members.leave()


@pytest.fixture(scope="module")
def cohort(place: Path) -> Path:
    """Twelve questions; the first has no reference answer, the second evidence of two snippets."""
    folder = write_cohort(place / "data" / "cohorts" / "tiny", events=12)
    questions = read_questions(folder)
    questions[0]["clinician_response"] = ""
    questions[1]["evidence"] += "|||Glucose: 93"
    write_questions(folder, questions)
    return folder


def spec(cohort: Path, **changes: object) -> dict[str, object]:
    return {"kind": "selection", "data": str(cohort), "arms": ARMS, "semantic": True, **changes}


@pytest.fixture(scope="module")
def run(cohort: Path) -> str:
    return finished_run(spec(cohort))


def texts_of(cohort: Path, record: str) -> dict[str, str]:
    loaded = open_cohort(str(cohort)).records[record]
    return {s.id: s.text for s in sentences(loaded, Protocol())}


@cache
def tables(run: str) -> dict[str, list[dict[str, object]]]:
    return report(run)["tables"]


def table(run: str, name: str, **fixed: object) -> list[dict[str, object]]:
    table_rows = tables(run)[name]
    return [r for r in table_rows if all(r[key] == value for key, value in fixed.items())]


def test_entailment_of_each_sentence_equals_the_reference(run, cohort, place):
    now = status(run)
    assert now["planned"] == now["done"] == 12 * 5 * 2 and now["failed"] == 0
    gold = open_cohort(str(cohort)).gold
    selected = {(r["label"], r["instruction"]): r for r in rows(run, "selections")}
    scored = rows(run, "semantic")
    assert len(scored) == 60
    pairs: dict[tuple[str, str], float] = {}
    for row in scored:
        if row["entailment"] is not None:
            texts, answer = texts_of(cohort, row["record"]), gold[row["instruction"]].answer
            for line in row["entailment"]:
                text = texts[line["id"]]
                pairs |= dict.fromkeys([(answer, text), (text, answer)], 0.0)
    logits = plain.outputs(place / "models" / NLI, list(pairs), 64).astype(np.float64)
    pairs = dict(zip(pairs, softmax(logits, axis=1)[:, 1].tolist(), strict=True))
    for row in scored:
        selection = selected[row["label"], row["instruction"]]["selection"]
        answer = gold[row["instruction"]].answer
        if row["instruction"] == "i00":
            assert (row["entailment"], row["best"], row["status"]) == (None, None, "ok")
            continue
        assert [line["id"] for line in row["entailment"]] == [k["id"] for k in selection]
        picked = [k["kept_by"] != "recency" for k in selection]
        assert [line["picked"] for line in row["entailment"]] == picked
        texts = [texts_of(cohort, row["record"])[k["id"]] for k in selection]
        probabilities = [line["probability"] for line in row["entailment"]]
        either = [max(pairs[answer, text], pairs[text, answer]) for text in texts]
        assert probabilities == pytest.approx(either, abs=1e-5)
        assert row["best"] == max(probabilities)
        assert row["model"].startswith(f"{NLI}@") and row["about"] == "answer"


def test_pairs_are_scored_once_across_arms_questions_and_runs(run, cohort):
    gold = open_cohort(str(cohort)).gold
    distinct = set()
    for row in rows(run, "semantic"):
        texts = texts_of(cohort, row["record"])
        for line in row["entailment"] or ():
            pair = (gold[row["instruction"]].answer, texts[line["id"]])
            distinct |= {pair, pair[::-1]}
    in_all = sum(len(row["entailment"] or ()) for row in rows(run, "semantic"))
    assert shared(NLI).once.made == len(distinct) < in_all
    finished_run(spec(cohort, arms=["recency", "bm25_ranked"]))
    assert shared(NLI).once.made == len(distinct), "other arms kept the same sentences"


def test_recall_at_each_threshold_is_counted_from_the_rows(run):
    bands = {(r["label"], r["instruction"]): r["band"] for r in rows(run, "selections")}
    best = {(r["label"], r["instruction"]): r["best"] for r in rows(run, "semantic")}
    criteria = [
        "lexical",
        "all pieces",
        "any piece",
        "semantic",
        *(f"semantic@{t}" for t in THRESHOLDS),
    ]
    assert list(dict.fromkeys(r["criterion"] for r in table(run, "recall"))) == criteria
    counts = set()
    for t in THRESHOLDS:
        for row in table(run, "recall", criterion=f"semantic@{t}"):
            of_label = [
                p
                for (label, i), p in best.items()
                if label == row["label"]
                and p is not None
                and (row["band"] in ("overall", bands[label, i]))
            ]
            if row["band"] in ("middle", "edge"):
                continue
            hits = sum(p > t for p in of_label)
            assert (row["n"], row["hits"]) == (len(of_label), hits)
            assert row["recall"] == (hits / len(of_label) if of_label else None)
            counts.add(hits)
        if t == 0.5:
            plain_name = [r["recall"] for r in table(run, "recall", criterion="semantic")]
            assert plain_name == [
                r["recall"] for r in table(run, "recall", criterion="semantic@0.5")
            ]
    assert len(counts) > 3, "thresholds and arms differ, or nothing was shown"
    assert all(r["n"] == 11 for r in table(run, "recall", band="overall", criterion="semantic"))


def store_of(folder: Path, selections: list[dict[str, object]]) -> RowStore:
    """A store of selections with these columns."""
    folder.mkdir()
    common = {**blank(SELECTIONS), "label": "bm25", "status": "ok", "selection": []}
    rows = [{**common, "key": str(i), **row} for i, row in enumerate(selections)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "selections.jsonl").write_text(text, encoding="utf-8")
    return RowStore(folder, {"selections": SELECTIONS})


def test_precision_intervals_are_those_of_resampled_questions(tmp_path: Path):
    """Two questions, 3 of 4 and 0 of 1 lines: a resample is (6/8), (3/5) or (0/2), 1:2:1, so the
    2.5th percentile is 0 and the 97.5th .75."""
    lines = [
        {"instruction": i, "band": "0-10", "middle": False, "kept": n, "picked": 0,
         "lexical": True, "lexical_kept": right, "lexical_picked": 0}
        for i, n, right in (("a", 4, 3), ("b", 1, 0))
    ]  # fmt: skip
    protocol = Protocol(intervals="percentile")
    run_plan = stage2_rows.plan(arms=stage2_rows.ARMS[:1], protocol=protocol)
    with hits(store_of(tmp_path / "items", lines), run_plan) as ask:
        (row,) = [
            r
            for r in precision(ask, run_plan)
            if (r["criterion"], r["of"], r["band"]) == ("lexical", "kept", "overall")
        ]
    assert (row["precision"], row["ci_low"], row["ci_high"]) == (0.6, 0.0, 0.75)
    assert (row["n"], row["hits"], row["questions"]) == (5, 3, 2)


def test_evidence_may_be_the_reference_and_the_best_snippet_counts(cohort):
    run = finished_run(spec(cohort, semantic="evidence", arms=["bm25"], limit=2))
    by_instruction = {r["instruction"]: r for r in rows(run, "semantic")}
    assert (
        by_instruction["i00"]["best"] is not None and by_instruction["i00"]["about"] == "evidence"
    )
    one, two = open_cohort(str(cohort)).gold["i01"].snippets
    texts = texts_of(cohort, by_instruction["i01"]["record"])
    from midchart.core.embedding.pairs import Entailment

    selected = [texts[line["id"]] for line in by_instruction["i01"]["entailment"]]
    each = [Entailment().either_way([(snippet, t) for t in selected]) for snippet in (one, two)]
    assert [line["probability"] for line in by_instruction["i01"]["entailment"]] == pytest.approx(
        np.maximum(*each).tolist()
    )
    assert any("reference evidence" in warning for warning in report(run)["warnings"])


def test_failed_scores_have_a_reason_and_are_repeated_on_resume(cohort, monkeypatch):
    def broken(self, pairs, progress=None):
        raise RuntimeError(f"the record says {pairs[0]}")

    with monkeypatch.context() as patch:
        patch.setattr("midchart.core.runs.semantic.Entailment.either_way", broken)
        run = finished_run(spec(cohort, arms=["bm25", "oracle"], limit=6))
    now = status(run)
    failed = [r for r in rows(run, "semantic") if r["status"] == "failed"]
    assert now["done"] + now["failed"] == now["planned"] == 24 and now["failed"] == len(failed)
    assert all(r["reason"].startswith("RuntimeError at ") for r in failed)
    assert not any("takes" in r["reason"] for r in failed)
    stages = {(r["stage"], r["count"]) for r in report(run)["tables"]["failures"]}
    assert stages == {("semantic", 6)}
    continue_run(find_run(run))
    assert status(run)["failed"] == 0 and status(run)["done"] == 24
    before = [r["key"] for r in rows(run, "semantic")]
    continue_run(find_run(run))
    assert [r["key"] for r in rows(run, "semantic")] == before


@pytest.mark.parametrize("preset", ["corrected", "published"])
def test_a_run_of_before_a_later_field_keeps_its_rows_under_either_preset(cohort, preset):
    table = spec(cohort, arms=["bm25"], semantic=False, limit=3)
    run = finished_run(table | {"protocol": {"preset": preset, **LATER}})
    before = rows(run, "selections")
    file = find_run(run).spec
    document = json.loads(file.read_text())
    for field in LATER:
        del document["protocol"][field]
    file.write_text(json.dumps(document))
    protocol = find_run(run).plan().protocol
    assert {field: getattr(protocol, field) for field in LATER} == dict(LATER)
    assert protocol.preset == preset
    continue_run(find_run(run))
    assert rows(run, "selections") == before


def test_recall_counts_the_units_of_a_question_that_were_kept_without_a_reason(cohort):
    arms = ["bm25", "random", "full"]
    for preset in ("corrected", "published"):
        run = finished_run(spec(cohort, arms=arms, semantic=False, protocol=preset))
        by_label = {arm: [r["unmatched"] for r in rows(run, "selections") if r["label"] == arm]
                    for arm in arms}  # fmt: skip
        unmatched = {arm: sum(counts) for arm, counts in by_label.items()}
        assert (unmatched["bm25"] > 0) == (preset == "published")
        assert unmatched["random"] == unmatched["full"] == 0
        (row,) = table(run, "recall", label="bm25", criterion="any piece", band="overall")
        assert row["unmatched"] == pytest.approx(unmatched["bm25"] / 12)


def test_token_matched_arms_are_reported_with_equal_k(cohort):
    run = finished_run(
        spec(cohort, semantic=False, token_matched=[30, 60], arms=[*ARMS[:2], "recency", "full"])
    )
    budgets = {(r["label"], r["k"], r["budget"]) for r in table(run, "recall")}
    assert budgets == {
        ("bm25", 20, "k=20"),
        ("bm25 k=1", 1, "k=1"),
        ("recency", 20, "k=20"),
        ("full", 20, "k=20"),
        *(
            (f"{arm} k=all tokens={n}", None, f"{n} tokens")
            for arm in ("bm25", "recency", "full")
            for n in (30, 60)
        ),
    }
    assert status(run)["planned"] == status(run)["done"] == 12 * 10
    for row in rows(run, "selections"):
        by = Counter(line["kept_by"] for line in row["selection"])
        assert row["picked"] == by["arm"] + by["both"] and row["kept"] == by.total()
        if row["k"] is None:
            assert row["selection_tokens"] <= int(row["label"].split("tokens=")[1])
            assert row["arm"] == "recency" or set(by) <= {"arm", "filler"}, "no buffer"
    recalled = {(r["label"], r["criterion"], r["band"]): r for r in table(run, "recall")}
    for (label, _, _), row in recalled.items():
        assert row["picked_hits"] <= row["hits"] <= row["n"]
        if label == "recency":
            assert row["picked_hits"] == 0
    by_recency = recalled["recency", "lexical", "overall"]
    assert by_recency["hits"] > 0 == by_recency["picked_recall"]
    assert by_recency["patient_low"] is by_recency["picked_high"] is None, (
        "three patients give no interval"
    )
    spent = {r["label"]: r["selection_tokens"] for r in table(run, "tokens")}
    assert spent["bm25 k=all tokens=60"] > 30, "a budget is used, not only kept"
    assert {r["label"] for r in table(run, "recall_sweep")} == {"bm25", "bm25 k=1"}


def test_the_published_buffer_takes_the_token_budget_first_with_a_warning(cohort):
    arms = ["bm25", "random", "recency"]
    common = {"semantic": False, "token_matched": 30, "arms": arms}
    run = finished_run(spec(cohort, **common, protocol={"recency_rule": "events_first"}))
    for row in rows(run, "selections"):
        by = Counter(line["kept_by"] for line in row["selection"])
        assert row["k"] is not None or row["picked"] == by["arm"], "the rest is the buffer's"
    over = {r["label"]: r["mostly_buffer"] for r in table(run, "tokens")}
    (warning,) = [w for w in report(run)["warnings"] if "recency buffer" in w]
    for label in ("bm25 k=all tokens=30", "random k=all tokens=30"):
        assert over[label] > 0 and f"{over[label]} of 12 selections" in warning
    assert over["recency"] == 12 and ", recency" not in warning and label in warning
    share = finished_run(spec(cohort, **common))
    assert not [w for w in report(share)["warnings"] if "recency buffer" in w]
    keys = [{row["key"] for row in rows(one, "selections")} for one in (run, share)]
    assert not keys[0] & keys[1], "what one rule selected never stands for the other's"


def test_evidence_of_the_full_arm_is_limited_by_the_protocol(cohort):
    """A run that nobody reads tells what a prompt would show, beside what was kept."""
    limited = spec(cohort, semantic=False, arms=["full", "bm25"], protocol={"full_characters": 400})
    run = finished_run(limited)
    overall = {
        (r["label"], r["criterion"]): r for r in table(run, "recall") if r["band"] == "overall"
    }
    selected, shown = overall["full", "any piece"], overall["full", "any piece in prompt"]
    assert selected["hits"] == selected["n"] == shown["n"] > shown["hits"]
    assert shown["kept_but_cut"] == selected["hits"] - shown["hits"]
    assert shown["prompts_cut"] == shown["n"]
    other = overall["bm25", "any piece in prompt"]
    assert other["hits"] == overall["bm25", "any piece"]["hits"]
    assert (other["prompts_cut"], other["cut_at_least"], other["cut_at_most"]) == (0, None, None)
    full = [row for row in rows(run, "selections") if row["label"] == "full"]
    lengths = [row["prompt_tokens"] for row in full]
    assert (shown["cut_at_least"], shown["cut_at_most"]) == (min(lengths), max(lengths))
    assert min(lengths) < max(lengths) < 400
    for row in rows(run, "selections"):
        lost = {k["id"] for k in row["selection"]} >= set(row["cut"])
        assert lost and (row["label"] == "bm25") == (row["cut"] == [])
    free = finished_run(spec(cohort, semantic=False, arms=["full", "bm25"]))
    assert {r["criterion"] for r in table(free, "recall")} == {"lexical", "all pieces", "any piece"}


def test_recall_has_an_interval_by_patient_from_five_patients_on(tmp_path: Path):
    """Twelve patients of two questions each, hit alike: the interval is that of twelve, and wider
    than Wilson's of 24; four patients have none."""
    run_plan = stage2_rows.plan(arms=stage2_rows.ARMS[:1])

    def of(patients: int) -> dict[str, object]:
        rows = [
            {"instruction": f"i{p}{q}", "record": f"p{p}", "band": "0-10",
             "middle": False, "evidence": p % 3 > 0, "evidence_picked": int(p % 3 == 1),
             "evidence_share": 0.5, "unmatched": q}
            for p in range(patients) for q in range(2)
        ]  # fmt: skip
        with hits(store_of(tmp_path / str(patients), rows), run_plan) as ask:
            (row,) = [
                row
                for row in recall(ask, run_plan)
                if (row["criterion"], row["band"]) == ("any piece", "overall")
            ]
        return row

    row = of(12)
    assert row["unmatched"] == 0.5, "of each patient's two questions one kept one such unit"
    assert (row["n"], row["patients"], row["recall"]) == (24, 12, pytest.approx(2 / 3))
    # Twelve rows in place of 24, at Student's t of eleven degrees for the normal.
    twelve = wilson_of_share(2 / 3, 12 * (1.959964 / 2.200985) ** 2)
    ends = (row["patient_low"], row["patient_high"])
    assert ends == pytest.approx((twelve.low, twelve.high), abs=1e-6)
    assert row["patient_low"] < row["wilson_low"] < row["recall"] < row["patient_high"]
    assert row["picked_low"] < row["picked_recall"] == 8 / 24 < row["picked_high"]
    few = of(4)
    assert few["patient_low"] is few["picked_high"] is None and few["recall"] == 0.5
