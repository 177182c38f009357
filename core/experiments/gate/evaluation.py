"""Evaluation of a run's gates on the questions of the test patients.

All variants, faults included, are evaluated on the same pairs: labels by the corrected rules, three
random negatives a positive. None was used in training or in fitting the temperature.
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
from core.gate.cohort_training import record_of, unread_note
from core.gate.examples import Asked, Split, pairs, positives
from core.gate.scorer import Parts, Scorer
from core.loaders.gold import gold_under
from core.loaders.position import resolve_position
from core.protocol import Protocol
from core.text import content_words, sentences
from core.text.evidence import gold_sentence_ids, is_middle
from core.types import Cohort

TEST_DRAW = 2
"""Index of the test part in :func:`core.gate.cohort_training.split_pairs`: the pairs are those of a
gate's card."""


@dataclass(frozen=True, eq=False, slots=True)
class Question:
    """A question of a test patient.

    ``rows`` [m]: indices of the labelled sentences, ``label`` [m] their labels. ``allowed`` [n]:
    the sentences before its cutoff; ``lexical``, ``evidence`` [sentences]: those with a content
    word of the reference, and with gold evidence; None where there is none.
    """

    record_id: str
    text: str
    rows: NDArray[np.int64]
    label: NDArray[np.float32]
    allowed: NDArray[np.int64]
    lexical: NDArray[np.bool_] | None
    evidence: NDArray[np.bool_] | None
    middle: bool


@dataclass(frozen=True, eq=False, slots=True)
class Recalled:
    """Whether the relevant sentence of each question was kept, and the question's patient."""

    hit: list[bool]
    patient: list[str]


@dataclass(frozen=True, eq=False, slots=True)
class Answers:
    """The scores of a gate.

    ``logits``, ``labels``, ``patients`` [pairs]. Recall at k counts questions of which a selected
    sentence contains a content word of the reference (``lexical``), or its evidence; ``middle`` is
    the lexical one where the evidence is in the middle.
    """

    logits: NDArray[np.float64]
    labels: NDArray[np.float32]
    patients: NDArray[np.str_]
    lexical: Recalled
    evidence: Recalled
    middle: Recalled


class Evaluation:
    """The questions of a split's test patients under a protocol.

    Records that cannot be read are left out (``unread``). Raises InputError where no sentence is
    positive.
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
            units = sentences(record, protocol)
            texts = self.texts.setdefault(id, [s.text for s in units])
            asked = Asked(id, instruction.question, gold.answer, texts)
            drawn = pairs([asked], rules, rng)
            first = {text: i for i, text in reversed(list(enumerate(texts)))}
            before = {s.id for s in allowed(units, instruction.cutoff)}
            lexical = np.zeros(len(texts), dtype=bool)
            lexical[positives(asked, "all")] = True
            gold_ids = gold_sentence_ids(units, gold.spans)
            evidence = np.array([s.id in gold_ids for s in units], dtype=bool)
            position = getattr(gold, protocol.position)
            self.questions.append(
                Question(
                    id,
                    instruction.question,
                    np.array([first[drawn.sentences[i]] for i in drawn.sentence], dtype=np.int64),
                    drawn.label,
                    np.flatnonzero([s.id in before for s in units]),
                    lexical if content_words(gold.answer) else None,
                    evidence if gold_ids else None,
                    position is not None and is_middle(position),
                )
            )
        if not any(len(question.rows) for question in self.questions):
            raise InputError(
                f"{cohort.path}: no sentence of a test patient shares a content word with a "
                "reference answer; a gate cannot be evaluated" + unread_note(len(self.unread))
            )

    def evaluate(self, scorer: Scorer) -> Answers:
        """Score every question with a gate; k sentences are selected, without a recency buffer."""
        parts: dict[str, Parts] = {}
        logits: list[NDArray[np.float64]] = []
        recalled = {name: Recalled([], []) for name in ("lexical", "evidence", "middle")}
        for question in self.questions:
            id = question.record_id
            if id not in parts:
                parts[id] = scorer.parts(self.texts[id])
            scores = scorer.scores(parts[id], question.text)
            logits.append(scores[question.rows])
            top = question.allowed[top_k(scores[question.allowed], self.k)]
            for name, relevant in (
                ("lexical", question.lexical),
                ("evidence", question.evidence),
                ("middle", question.lexical if question.middle else None),
            ):
                if relevant is not None:
                    recalled[name].hit.append(bool(relevant[top].any()))
                    recalled[name].patient.append(id)
        return Answers(
            np.concatenate([np.zeros(0), *logits]),
            np.concatenate([np.zeros(0, np.float32), *(q.label for q in self.questions)]),
            np.repeat(
                np.array([q.record_id for q in self.questions], dtype=np.str_),
                [len(q.rows) for q in self.questions],
            ),
            **recalled,
        )
