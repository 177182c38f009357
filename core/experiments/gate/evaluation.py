"""What every gate of a run is examined on: the questions of the patients kept apart for testing.

One examination serves all variants, faults included, so that their figures can stand side by
side: labels by the corrected rules, three random negatives a positive, the same rows for all.
Nothing of it was seen in training or in fitting the temperature.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.arms.base import top_k
from core.arms.candidates import allowed
from core.errors import InputError
from core.experiments.gate.variants import CORRECTED
from core.gate.examples import Asked, pairs, positives
from core.gate.scorer import Parts, Scorer
from core.gate.split import Split
from core.loaders.gold import gold_under
from core.loaders.position import resolve_position
from core.protocol import Protocol
from core.runs.gate_training import record_of, unread_note
from core.text import content_words, sentences
from core.text.evidence import gold_sentence_ids, is_middle
from core.types import Cohort

TEST_DRAW = 2
"""The test part's place among those whose pairs are drawn
(:func:`core.runs.gate_training.split_pairs`), so that these are the very pairs that a gate's card
tells of."""


@dataclass(frozen=True, eq=False, slots=True)
class Question:
    """A question of a test patient.

    ``rows`` [m] are the labelled sentences (places in the record), ``label`` [m] whether each
    helps. ``may`` [n] are the sentences its cutoff allows; ``lexical`` [n], ``evidence`` [n] those
    that hold a content word of the reference, and the gold evidence; None where there is none.
    """

    record_id: str
    text: str
    rows: NDArray[np.int64]
    label: NDArray[np.float32]
    may: NDArray[np.int64]
    lexical: NDArray[np.bool_] | None
    evidence: NDArray[np.bool_] | None
    middle: bool


@dataclass(frozen=True, eq=False, slots=True)
class Recalled:
    """Questions of which something was to be kept: whether it was, and whose each is."""

    hit: list[bool]
    patient: list[str]


@dataclass(frozen=True, eq=False, slots=True)
class Answers:
    """What a gate made of the examination.

    ``logits``, ``labels``, ``patients`` [pairs]. Recall at k counts questions of which a kept
    sentence holds a content word of the reference (``lexical``), or its evidence; ``middle`` is
    the lexical one where the evidence lies in the middle.
    """

    logits: NDArray[np.float64]
    labels: NDArray[np.float32]
    patients: NDArray[np.str_]
    lexical: Recalled
    evidence: Recalled
    middle: Recalled


class Evaluation:
    """The questions of a split's test patients under a protocol.

    Records that cannot be read are left out: ``unread`` are their ids. Raises InputError where
    none of their sentences could be labelled positive.
    """

    def __init__(self, cohort: Cohort, split: Split, protocol: Protocol) -> None:
        cohort = gold_under(cohort, protocol)
        protocol, _ = resolve_position(protocol, cohort)
        self.k = protocol.k
        self.texts: dict[str, list[str]] = {}
        self.questions: list[Question] = []
        self.unread = set[str]()
        rules = dataclasses.replace(protocol, **CORRECTED)
        rng = np.random.default_rng([protocol.seed, TEST_DRAW])
        wanted = set(split.test)
        for instruction in cohort.instructions:
            gold, id = cohort.gold.get(instruction.id), instruction.record_id
            if id not in wanted or gold is None or not gold.answer:
                continue
            record = record_of(cohort, id, self.unread)
            if record is None:
                continue
            cut = sentences(record, protocol)
            texts = self.texts.setdefault(id, [s.text for s in cut])
            asked = Asked(id, instruction.question, gold.answer, texts)
            drawn = pairs([asked], rules, rng)
            place = {text: i for i, text in reversed(list(enumerate(texts)))}
            rows = np.array([place[drawn.sentences[i]] for i in drawn.sentence], dtype=np.int64)
            may = {s.id for s in allowed(cut, instruction.cutoff)}
            lexical = np.zeros(len(cut), dtype=bool)
            lexical[positives(asked, "all")] = True
            held = gold_sentence_ids(cut, gold.spans)
            at = getattr(gold, protocol.position)
            self.questions.append(
                Question(
                    id,
                    instruction.question,
                    rows,
                    drawn.label,
                    np.array([i for i, s in enumerate(cut) if s.id in may], dtype=np.int64),
                    lexical if content_words(gold.answer) else None,
                    np.array([s.id in held for s in cut], dtype=bool) if held else None,
                    at is not None and is_middle(at),
                )
            )
        if not any(len(question.rows) for question in self.questions):
            raise InputError(
                f"{cohort.path}: no sentence of a test patient shares a content word with a "
                "reference answer; a gate cannot be evaluated" + unread_note(len(self.unread))
            )

    def evaluate(self, scorer: Scorer) -> Answers:
        """Score every question with a gate; k sentences are kept, no recency buffer beside them."""
        parts: dict[str, Parts] = {}
        logits: list[NDArray[np.float64]] = []
        met = {name: Recalled([], []) for name in ("lexical", "evidence", "middle")}
        for question in self.questions:
            id = question.record_id
            if id not in parts:
                parts[id] = scorer.parts(self.texts[id])
            scores = scorer.scores(parts[id], question.text)
            logits.append(scores[question.rows])
            kept = question.may[top_k(scores[question.may], self.k)]
            for name, holds in (
                ("lexical", question.lexical),
                ("evidence", question.evidence),
                ("middle", question.lexical if question.middle else None),
            ):
                if holds is not None:
                    met[name].hit.append(bool(holds[kept].any()))
                    met[name].patient.append(id)
        return Answers(
            np.concatenate([np.zeros(0), *logits]),
            np.concatenate([np.zeros(0, np.float32), *(q.label for q in self.questions)]),
            np.repeat(
                np.array([q.record_id for q in self.questions], dtype=np.str_),
                [len(q.rows) for q in self.questions],
            ),
            **met,
        )
