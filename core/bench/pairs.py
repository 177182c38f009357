"""Entailment of what several arms keep: every arm anew, and each distinct pair once.

The model is made in the bench's own folder: smaller than the real one, so the ratio, not the
milliseconds, is what carries over.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from core.arms import ARMS
from core.bench import BENCHES, compare, reference
from core.embedding.pairs import NLI, Entailment, PairScorer
from core.protocol import Protocol
from core.types import Budget, Event, Instruction, Record

ANSWER = "patient takes metformin at a dose of 500 milligram"
DRUGS = ("metformin", "warfarin", "lisinopril", "glucose", "hemoglobin", "chest pain", "fever")
STATES = ("started on day", "dose of milligram", "denied", "stable", "no plan", "is at")
NAMES = ("bm25", "bm25_filtered", "bm25_ranked", "recency", "random", "shortest")
DEPTHS = (1, 3, 5, 10)


def kept_by_arms() -> list[list[str]]:
    """What ten arm entries keep of a record of 600 lines for one question: their texts."""
    rng = np.random.default_rng(0)
    begin = datetime(2010, 1, 1)
    texts = [
        f"{rng.choice(DRUGS)} {rng.choice(STATES)} {i} {' '.join(rng.choice(DRUGS, i % 5))}"
        for i in range(600)
    ]
    events = tuple(
        Event(i, begin + timedelta(days=i), "x", text=text) for i, text in enumerate(texts)
    )
    record = Record("bench", events, "bench-pairs")
    asked = Instruction("i", "bench", "what dose of metformin is the patient started on")
    entries = [(name, Budget(20, 5)) for name in NAMES] + [("bm25", Budget(k, 5)) for k in DEPTHS]
    return [
        [k.sentence.text for k in ARMS.build(name, Protocol()).select(record, asked, budget).kept]
        for name, budget in entries
    ]


@contextmanager
def _made(folder: Path) -> Generator[tuple[Any, Entailment]]:
    """The plain model and the fast one, both loaded."""
    plain = reference("pairs")
    with tempfile.TemporaryDirectory() as made:
        model = plain.make(Path(made))
        fast = Entailment(PairScorer(NLI, folder, model))
        fast.either_way([(ANSWER, "fever")])
        yield plain.load(model), fast


def _bench(name: str, size: str, ask: float, again: bool) -> dict[str, Any]:
    arms = kept_by_arms()
    pairs = [(ANSWER, text) for texts in arms for text in texts]
    distinct = len(set(pairs))
    with tempfile.TemporaryDirectory() as folder, _made(Path(folder)) as (model, fast):
        plain = reference("pairs").every_arm_anew

        def once() -> None:
            if not again:
                shutil.rmtree(Path(folder) / "pairs")
            fast.either_way(pairs)

        return compare(
            name,
            size.format(entries=len(arms), pairs=len(pairs), distinct=distinct),
            lambda: plain(model, ANSWER, arms, fast.index),
            once,
            ask=ask,
            rounds=3,
            fast_calls=20 if again else 1,
        )


@BENCHES.register("pairs")
def pairs() -> dict[str, Any]:
    """Every arm's pairs in batches of 32 as they come, and distinct pairs, sorted, none on disk."""
    return _bench("pairs", "{entries} arms, {pairs} pairs, {distinct} distinct", 2, False)


@BENCHES.register("pairs_again")
def pairs_again() -> dict[str, Any]:
    """The same once the pairs are on disk: another report, another arm, another run."""
    return _bench("pairs_again", "{entries} arms, {pairs} pairs, all on disk", 50, True)
