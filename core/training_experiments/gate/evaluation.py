"""The gates of a run of kind ``gate``: the paper's ablations and faults, and their evaluation.

PROTOCOL, The QCCS gate. A variant belongs to one or more groups, of which a spec chooses; a gate in
several of them (the standard one) is trained once. All variants, faults included, are evaluated on
the same pairs of the test patients: labels by the corrected rules, three random negatives a
positive. None was used in training or in fitting the temperature.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.typing import NDArray

from core.arms.base import allowed, top_k
from core.errors import InputError
from core.gate.checkpoint import GateConfig, Head, Recipe, Split
from core.gate.cohort_training import record_of, unread_note
from core.gate.examples import Asked, hashing_of, pairs, positives
from core.gate.scoring import Parts, Scorer
from core.loaders.check import resolve_position
from core.loaders.gold import gold_under
from core.protocol import Protocol
from core.text import content_words, sentences
from core.text.evidence import gold_sentence_ids, is_middle
from core.types import Cohort

GROUPS = ("ablation", "query", "loss", "faults")
NGRAMS = (2, 3, 4)
DIMS = (32, 64, 128)
HEADS: tuple[Head, ...] = ("linear", "standard", "deep")
PROCESSES = (1, 2, 3)
"""Salts under which a salted gate is scored: three processes other than that of its training."""
CORRECTED: Mapping[str, str] = {
    "hash": "blake2",
    "gate_text": "whole",
    "gate_positives": "all",
    "gate_negatives": "random",
}
FAULTS: Mapping[str, Mapping[str, str]] = {
    "salted hash": {"hash": "salted"},
    "first 3 positives": {"gate_positives": "first_3"},
    "earliest negatives": {"gate_negatives": "earliest"},
    "500 characters, 128 n-grams": {"gate_text": "500_characters_128_ngrams"},
}
ALL_FAULTS = "all four"
NO_FAULT = "none"


@dataclass(frozen=True, slots=True)
class Variant:
    """A gate to train.

    ``changes``: protocol fields that differ; ``fault``: its published fault ("none" for the
    corrected gate in the group of faults, empty outside it). ``loss``: bce or focal; ``groups``:
    those it belongs to.
    """

    name: str
    groups: frozenset[str]
    ngram: int = 3
    dim: int = 64
    head: Head = "standard"
    query: bool = True
    loss: str = "bce"
    fault: str = ""
    changes: Mapping[str, str] = field(default_factory=dict[str, str])

    def protocol(self, base: Protocol) -> Protocol:
        """The protocol this gate is trained under: ``base`` with its fault."""
        if not self.fault:
            return base
        return dataclasses.replace(base, **{**CORRECTED, **self.changes})

    def config(self, base: Protocol) -> GateConfig:
        """The gate's shape."""
        return GateConfig(
            hashing_of(self.protocol(base), self.ngram), self.dim, self.head, self.query
        )

    def recipe(self, base: Protocol, epochs: int) -> Recipe:
        """How it is trained."""
        loss = "focal" if self.loss == "focal" else "bce"
        return Recipe(epochs=epochs, loss=loss, seed=base.seed)

    def salts(self, base: Protocol) -> tuple[int, ...]:
        """The salts under which it is scored; 0 is that of the process of its training."""
        return (0, *PROCESSES) if self.protocol(base).hash == "salted" else (0,)


def _name(ngram: int = 3, dim: int = 64, head: str = "standard") -> str:
    return f"n={ngram} dim={dim} {head}"


def variants(groups: Iterable[str], protocol: Protocol) -> list[Variant]:
    """The variants of some groups, the standard gate first, each once."""
    standard = Variant(_name(), frozenset({"ablation", "query", "loss"}))
    grid = [
        Variant(_name(ngram, dim, head), frozenset({"ablation"}), ngram, dim, head)
        for ngram, dim, head in product(NGRAMS, DIMS, HEADS)
    ]
    every = [standard, *(one for one in grid if one.name != standard.name)]
    every.append(Variant(_name() + " without query", frozenset({"query"}), query=False))
    every.append(Variant(_name() + " focal", frozenset({"loss"}), loss="focal"))
    # Faults start from the corrected gate; under a protocol with faults it is a separate one.
    faults = frozenset({"faults"})
    if all(getattr(protocol, name) == value for name, value in CORRECTED.items()):
        every[0] = dataclasses.replace(standard, groups=standard.groups | faults, fault=NO_FAULT)
    else:
        every.append(Variant(f"{_name()} corrected", faults, fault=NO_FAULT))
    for fault, changes in FAULTS.items():
        every.append(Variant(f"fault: {fault}", faults, fault=fault, changes=changes))
    together = {name: value for changes in FAULTS.values() for name, value in changes.items()}
    every.append(Variant(f"fault: {ALL_FAULTS}", faults, fault=ALL_FAULTS, changes=together))
    chosen = frozenset(groups)
    return [one for one in every if one.groups & chosen]


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
