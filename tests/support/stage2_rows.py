"""Simulated verdicts and answers of a run, for tests of its tables without cohort and worker."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from midchart.core.protocol import Protocol
from midchart.core.runs.plan import ArmConfig, ComponentSpec, Plan
from midchart.core.runs.schemas import ANSWERS, VERDICTS, blank
from midchart.core.storage.rows import RowStore

ARMS = (
    ArmConfig("bm25", 20, 5, None, {}, "bm25"),
    ArmConfig("bm25", 1, 5, None, {}, "bm25 k=1"),
    ArmConfig("dense", 20, 5, None, {}, "dense"),
)
BANDS = ("0-10", "10-30", "30-50", "50-70", "70-90", "90-100")
QUESTIONS, PATIENTS = 60, 20


def plan(**changes: object) -> Plan:
    run_plan = Plan(
        name="made up", kind="answers", data="", arms=ARMS,
        reader_entries=tuple(ComponentSpec(name, {}, name) for name in ("one", "two")),
        judge_entries=tuple(ComponentSpec(n, {}, n) for n in ("strict", "blind o'hara")),
        protocol=Protocol(resamples=300, position="order"),
    )  # fmt: skip
    return replace(run_plan, **changes)


def made_rows(seed: int = 0) -> tuple[list[dict], list[dict]]:
    """Answers and verdicts of 60 questions of 20 patients; patients differ in how hard they are."""
    draw = np.random.default_rng(seed)
    ease = draw.beta(2, 2, PATIENTS)
    answers, verdicts = [], []
    for q in range(QUESTIONS):
        patient, band = q % PATIENTS, BANDS[q % 6]
        common = {
            "record": f"p{patient}",
            "instruction": f"q{q:02d}",
            "band": "unlocated" if q == 59 else band,
            "middle": None if q == 59 else band in ("30-50", "50-70"),
            "task_type": ("R", "Rn", "S")[q % 3],
            "domain": None if q < 2 else ("laboratory", "diagnosis")[q % 2],
        }
        for a, entry in enumerate(ARMS):
            for reader in ("one", "two"):
                named = {"label": entry.label, "arm": entry.name, "k": entry.k, "reader": reader}
                key = f"{entry.label}/{reader}/{q:02d}"
                right = draw.random() < ease[patient] * (0.5 + 0.2 * a)
                refused = draw.random() < 0.15
                survived = draw.random() < 0.8
                shown = None if q == 59 else bool(draw.random() < 0.6)
                selected = None if q == 59 else bool(draw.random() < 0.7)
                answers.append(
                    {
                        **blank(ANSWERS),
                        **common,
                        **named,
                        "key": key,
                        "status": "ok",
                        "evidence_in_prompt": shown,
                        "evidence_all_in_prompt": shown and q % 4 > 0,
                        "evidence": selected,
                        "evidence_all": selected and q % 4 > 0,
                        "lexical": bool(draw.random() < 0.8),
                        "question_survived": survived,
                        "failure_kind": "refusal"
                        if refused
                        else "wrong entity"
                        if survived
                        else "continuation",
                        "prompt_tokens": 100,
                        "output_tokens": 10,
                        "seconds": 0.5,
                    }
                )
                for judge in ("strict", "blind o'hara"):
                    reported = right if draw.random() < 0.9 else not right
                    outcome = "correct" if reported and not refused else "incorrect"
                    if draw.random() < 0.05:
                        outcome = "unparsed"
                    verdicts.append(
                        {
                            **blank(VERDICTS),
                            **common,
                            **named,
                            "key": f"{key}/{judge}",
                            "status": "ok",
                            "judge": judge,
                            "answer_key": key,
                            "outcome": outcome,
                            "refusal": refused,
                            "nan_evidence": q % 10 == 0,
                            "repeat": 0,
                            "cost_usd": 0.001 if judge == "strict" else None,
                        }
                    )
    return answers, verdicts


def store_of(folder: Path, answers: list[dict], verdicts: list[dict]) -> RowStore:
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in (("answers", answers), ("verdicts", verdicts)):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return RowStore(folder, {"answers": ANSWERS, "verdicts": VERDICTS})
