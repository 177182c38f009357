"""Training data of a gate: the split by patients, and labelled pairs of question and sentence.

Sentences that share a content word with the reference answer are positive, others negative, three
to one (docs/methods.md, The QCCS gate). Sentences with the located evidence are another choice of
positives. The published choices (substrings of longer words, the first three
positives in time, the earliest negatives) are options of the protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from midchart.core.gate.ngrams import Hashing
from midchart.core.protocol import Protocol
from midchart.core.text import content_words, words

_NEGATIVES_A_POSITIVE = 3
_PUBLISHED_POSITIVES = 3
_PUBLISHED_WORD = 5
"""The published positives: a substring match of a word of more than four letters, first three."""


@dataclass(frozen=True, slots=True)
class QuestionSentences:
    """A question with its reference answer and the texts of all sentences of its record;
    ``evidence`` are the places of those that hold its located evidence, ``position`` that of the
    evidence in the record, by the protocol's rule."""

    record_id: str
    question: str
    answer: str
    sentences: Sequence[str]
    evidence: Sequence[int] = ()
    position: float | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Pairs:
    """Training pairs over distinct texts: ``question`` [n] and ``sentence`` [n] are rows of
    ``questions`` and ``sentences``, ``label`` [n] is 1 or 0."""

    questions: tuple[str, ...]
    sentences: tuple[str, ...]
    question: NDArray[np.int64]
    sentence: NDArray[np.int64]
    label: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.label)


def hashing_of(protocol: Protocol, n: int = 3, scoring: bool = False) -> Hashing:
    """The hashing a protocol asks for.

    Under ``hash = "salted"`` training happens under salt 0, and ``scoring`` under the salt
    ``protocol.hash_salt`` of another process.
    """
    limited = protocol.gate_text == "500_characters_128_ngrams"
    salt = protocol.hash_salt if scoring and protocol.hash == "salted" else 0
    return Hashing(
        protocol.hash,
        n,
        salt=salt,
        characters=500 if limited else 0,
        ngrams=128 if limited else 0,
    )


def positives(asked: QuestionSentences, rule: str) -> list[int]:
    """Sentences that count as positive, by place; ``rule`` is the protocol's gate_positives."""
    if rule == "evidence":
        return list(asked.evidence)
    if rule == "all":
        wanted = content_words(asked.answer)
        return [i for i, s in enumerate(asked.sentences) if not wanted.isdisjoint(words(s))]
    long_words = [w for w in words(asked.answer) if len(w) >= _PUBLISHED_WORD]
    matches = (i for i, s in enumerate(asked.sentences) if any(w in s.lower() for w in long_words))
    return [i for i, _ in zip(matches, range(_PUBLISHED_POSITIVES), strict=False)]


def pairs(
    asked: Iterable[QuestionSentences], protocol: Protocol, rng: np.random.Generator
) -> Pairs:
    """Positives of each question and three times as many negatives.

    Negatives are random others (published: the earliest others). A question without a positive
    sentence teaches nothing and is left out.
    """
    questions: dict[str, int] = {}
    sentences: dict[str, int] = {}
    rows: list[tuple[int, int, int]] = []
    for one in asked:
        chosen = positives(one, protocol.gate_positives)
        if not chosen:
            continue
        # Others by text, so that a copied-forward positive is never a negative too.
        texts = {one.sentences[i] for i in chosen}
        others = [i for i, s in enumerate(one.sentences) if s not in texts]
        wanted = min(_NEGATIVES_A_POSITIVE * len(chosen), len(others))
        picked = (
            others[:wanted]
            if protocol.gate_negatives == "earliest"
            else [others[i] for i in rng.choice(len(others), wanted, replace=False)]
        )
        q = questions.setdefault(one.question, len(questions))
        for places, label in ((chosen, 1), (picked, 0)):
            rows += [
                (q, sentences.setdefault(one.sentences[i], len(sentences)), label) for i in places
            ]
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return Pairs(
        tuple(questions),
        tuple(sentences),
        table[:, 0],
        table[:, 1],
        table[:, 2].astype(np.float32),
    )
