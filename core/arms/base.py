"""What arms share: candidates, top k, the recency buffer, the token budget, the order; BM25.

A new arm is one file with a subclass of :class:`ScoredArm` and, in most cases, one method,
``score``. Only sentences that an arm has a reason to keep are kept; sentences of equal score are in
an order drawn from the protocol's seed, the record and the question, so a selection is the same in
every process. Under the published protocol k are kept whatever their score, the earliest first.

Candidates are the sentences of a record up to the question's cutoff. Nothing after the cutoff
reaches an arm, not even its statistics: BM25's document frequencies are those of the candidates
alone.

The BM25 arms are subclasses of :class:`BM25Arm` (docs/methods.md, Arms): BM25 over lower-cased
``\\w+`` words. Published: sentences that score zero fill up k from the record's start (rank_bm25
leaves their order to an unstable sort).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import blake2b
from itertools import groupby, islice
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from midchart.core.bm25 import BM25Index
from midchart.core.errors import UnknownName
from midchart.core.protocol import Protocol
from midchart.core.storage.lru import LRU
from midchart.core.text import allowed, sentence_rule, sentences, word_spans, words
from midchart.core.types import (
    Budget,
    Explanation,
    Instruction,
    Kept,
    KeptBy,
    Record,
    Selection,
    Sentence,
    Term,
)

Positions = NDArray[np.intp]


@dataclass(frozen=True, eq=False, slots=True)
class Candidates:
    """Sentences that an arm may select.

    ``key`` names this very set by content, the record's digest first, for keeping what is derived
    from it. ``positions`` [n] is each sentence's place among all sentences the cutoff allows (0, 1,
    2, … unless an arm leaves some out). ``withheld`` counts sentences of the record after the
    cutoff. ``analysed``: what is stored of the record whose sentences they all are.
    """

    key: tuple[str, ...]
    sentences: Sequence[Sentence]
    positions: Positions
    withheld: int = 0
    analysed: Any = None

    def __len__(self) -> int:
        return len(self.sentences)

    def only(self, wanted: Sequence[bool], rule: str) -> Candidates:
        """The candidates for which ``wanted`` [n] is true; ``rule`` names the choice in the key."""
        chosen = np.flatnonzero(np.asarray(wanted, dtype=bool)).tolist()
        return Candidates(
            (*self.key, rule),
            tuple(self.sentences[i] for i in chosen),
            self.positions[chosen],
            self.withheld,
        )


def candidates(record: Record, cutoff: datetime | None, protocol: Protocol) -> Candidates:
    """All sentences of ``record`` under ``protocol`` that are not after ``cutoff``."""
    everything = sentences(record, protocol)
    within = everything if cutoff is None else tuple(allowed(everything, cutoff))
    withheld = len(everything) - len(within)
    # A cutoff that excludes nothing shares the index of no cutoff.
    until = cutoff.isoformat() if cutoff and withheld else ""
    key = (record.digest, *sentence_rule(protocol), until)
    analysed = None if withheld else record.analysed
    return Candidates(key, within, np.arange(len(within)), withheld, analysed)


def _most_recent(pool: Candidates, events: int) -> list[int]:
    """Positions of all sentences of the ``events`` latest events with text.

    Events are newest first, the sentences of one event in reading order.
    """
    backwards = range(len(pool) - 1, -1, -1)
    groups = groupby(backwards, key=lambda i: pool.sentences[i].span.event)
    return [i for _, group in islice(groups, max(events, 0)) for i in reversed(list(group))]


Scores = NDArray[np.float64]
Mask = NDArray[np.bool_]
Trace = tuple[tuple[str, str], ...]


def generator(*parts: str) -> np.random.Generator:
    """A generator seeded by texts, the same in every process and on every machine."""
    # With the lengths of the parts, distinct sequences have distinct names.
    name = "".join(f"{len(part)}:{part}" for part in parts)
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "big")))


def top_k(scores: Scores, k: int, draw: Callable[[], Scores] | None = None) -> Positions:
    """Indices of the ``k`` highest of ``scores`` [n], best first, ties to the lower of ``draw()``
    [n], which is called only where there are any among them, or without it to the lower index.
    """
    k = max(0, k)
    order = np.argsort(-scores, kind="stable")
    if draw is not None and k:
        ranked = scores[order[: k + 1]]
        if np.any(ranked[1:] == ranked[:-1]):
            order = np.lexsort((draw(), -scores))
    return order[:k]


def _fitting(
    everything: Candidates, wanted: list[int], room: int | None, contiguous: bool = False
) -> list[int]:
    """Of ``wanted``, in the order in which they are served, what ``room`` tokens hold; the first
    that does not fit ends it where ``contiguous``."""
    if room is None:
        return wanted
    fitting: list[int] = []
    for position in wanted:
        tokens = everything.sentences[position].tokens
        if tokens <= room:
            fitting.append(position)
            room -= tokens
        elif contiguous:
            break
    return fitting


class ScoredArm(ABC):
    """An arm that gives each candidate sentence a score and keeps the best.

    Subclasses set ``name`` and ``title`` and write :meth:`score`. ``by_relevance``: show the
    picks in rank order whatever the protocol says. ``buffered``: the recency buffer is added
    to the picks. ``contiguous``: under a token budget stop at the first sentence that does not
    fit instead of going on to smaller ones. ``filled``: what is left of a token budget is filled by
    a draw. ``control``: a baseline that no method should lose to;
    charts draw it in grey. ``titled``: under the protocol's ``scored_text = "titled"`` it scores
    titles too.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    by_relevance: ClassVar[bool] = False
    buffered: ClassVar[bool] = True
    contiguous: ClassVar[bool] = False
    control: ClassVar[bool] = False
    filled: ClassVar[bool] = True
    titled: ClassVar[bool] = True

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol if self.titled else replace(protocol, scored_text="plain")

    @abstractmethod
    def score(self, pool: Candidates, instruction: Instruction) -> Scores:
        """Score of each candidate, float64 [n], higher is better; ``pool`` is never empty."""

    def pool(self, everything: Candidates) -> Candidates:
        """The candidates that the arm ranks; by default all of them."""
        return everything

    def ranked(
        self, record: Record, instruction: Instruction, sentence_id: str
    ) -> tuple[Candidates, int]:
        """The pool of a question and the place of a sentence in it; raises UnknownName for a
        sentence that the arm does not rank (not of this record, after the cutoff, filtered out)."""
        pool = self.pool(candidates(record, instruction.cutoff, self.protocol))
        for place, sentence in enumerate(pool.sentences):
            if sentence.id == sentence_id:
                return pool, place
        raise UnknownName("sentence", sentence_id, (s.id for s in pool.sentences))

    def reasons(self, pool: Candidates, instruction: Instruction) -> Mask:
        """Which candidates the arm has a reason to keep, bool [n]; by default all of them."""
        return np.ones(len(pool.sentences), dtype=bool)

    def rank(self, pool: Candidates, instruction: Instruction, k: int) -> tuple[Positions, Scores]:
        """The selected indices into ``pool``, best first, and their scores."""
        scores = self.score(pool, instruction)
        best = self.best(pool, instruction, scores, k)
        return best, scores[best]

    def best(self, pool: Candidates, instruction: Instruction, scores: Scores, k: int) -> Positions:
        """Indices of the ``k`` highest of ``scores`` [n] that may be kept, best first; one of −∞
        never is."""
        if self.protocol.unmatched == "dropped":
            reasons = self.reasons(pool, instruction)
            scores, k = np.where(reasons, scores, -np.inf), min(k, int(np.count_nonzero(reasons)))
        best = top_k(scores, k, self.draw(pool, instruction))
        return best[scores[best] > -np.inf]

    def draw(self, pool: Candidates, instruction: Instruction) -> Callable[[], Scores] | None:
        """What draws a number for each candidate, float64 [n], by which ties are ordered; None
        where the earliest comes first."""
        if self.protocol.ties == "earliest":
            return None
        # Without the protocol's other fields: the same units are drawn in the same order by every
        # arm, and under every choice that leaves them as they are.
        parts = ("ties", str(self.protocol.seed), pool.key[0], instruction.question)
        return lambda: generator(*parts).random(len(pool.sentences))

    def unmatched(self, record: Record, instruction: Instruction, selection: Selection) -> int:
        """Number of the arm's own picks in a selection that it has no reason to keep."""
        pool = self.pool(candidates(record, instruction.cutoff, self.protocol))
        if not pool.sentences:
            return 0
        without = np.flatnonzero(~self.reasons(pool, instruction)).tolist()
        picks = {k.sentence.id for k in selection.kept if k.score is not None}
        return sum(pool.sentences[i].id in picks for i in without)

    def trace(self, pool: Candidates, instruction: Instruction, scores: Scores) -> Trace:
        """Additional facts on the selection, from its ``scores``, best first."""
        return ()

    def select(self, record: Record, instruction: Instruction, budget: Budget) -> Selection:
        """Keep the best ``budget.k`` sentences and the recency buffer.

        Nothing after ``instruction.cutoff`` is looked at. ``budget.tokens`` covers everything:
        first the picks in rank order, then the buffer, newest event first (the other way round
        under the protocol's ``recency_rule = "events_first"``); a sentence that does not fit is
        left out, counted in ``cut``, and smaller ones may still follow. A draw then fills what is
        left of a token budget (not under ``unmatched = "kept"``).
        """
        # What may be kept: the arm's picks, best first, and the recency buffer.
        everything = candidates(record, instruction.cutoff, self.protocol)
        pool = self.pool(everything)
        ranked, scores = np.zeros(0, dtype=np.intp), np.zeros(0)
        if pool.sentences:
            ranked, scores = self.rank(pool, instruction, budget.k)
        picks: list[int] = pool.positions[ranked].tolist()
        score_of = dict(zip(picks, scores.tolist(), strict=True))
        recent = self._buffer(everything, budget)
        is_recent = set(recent)

        # Those that fit the budget, and the order in which they are shown.
        first = self.protocol.recency_rule == "events_first"
        wanted = list(dict.fromkeys(recent + picks if first else picks + recent))
        fitting = set(_fitting(everything, wanted, budget.tokens, self.contiguous))
        left_out = len(wanted) - len(fitting)
        filler = self._filler(everything, instruction, wanted, fitting, budget)
        fitting |= filler
        best = [p for p in picks if p in fitting]
        rest = sorted(p for p in fitting if p not in score_of)
        order = "relevance" if self.by_relevance else self.protocol.order
        shown = {
            "time": sorted(fitting),
            "relevance": best + rest,
            "edges": best[::2] + rest + best[1::2][::-1],
            "end": rest + best[::-1],
        }[order]

        def entry_at(position: int) -> Kept:
            by: KeptBy = "filler" if position in filler else "arm"
            if position in is_recent:
                by = "both" if position in score_of else "recency"
            return Kept(everything.sentences[position], score_of.get(position), by)

        # What the selection reports of itself.
        trace = [("candidates", str(len(pool.sentences)))]
        if everything.withheld:
            trace.append(("after the cutoff", str(everything.withheld)))
        if self.protocol.unmatched == "dropped" and len(picks) < min(budget.k, len(pool.sentences)):
            available = int(np.count_nonzero(self.reasons(pool, instruction)))
            if available < budget.k:
                trace.append(("kept of k", f"{available} of {budget.k}"))
        if filler:
            trace.append(("filler", str(len(filler))))
        trace.extend(self.trace(pool, instruction, scores))
        return Selection(
            record.id,
            instruction.id,
            self.name,
            tuple(entry_at(p) for p in shown),
            sum(everything.sentences[p].tokens for p in shown),
            left_out,
            tuple(trace),
        )

    def _filler(
        self,
        everything: Candidates,
        instruction: Instruction,
        wanted: Sequence[int],
        fitting: set[int],
        budget: Budget,
    ) -> set[int]:
        """Positions that a draw by the seed, the same for every arm, adds to those ``fitting`` a
        token budget, of what is not ``wanted``: so arms are compared at equal tokens."""
        if budget.tokens is None or self.protocol.unmatched == "kept" or not self.filled:
            return set()
        room = budget.tokens - sum(everything.sentences[p].tokens for p in fitting)
        if room <= 0:
            return set()
        parts = ("filler", str(self.protocol.seed), everything.key[0], instruction.question)
        drawn: list[int] = generator(*parts).permutation(len(everything)).tolist()
        taken = set(wanted)
        return set(_fitting(everything, [p for p in drawn if p not in taken], room))

    def _buffer(self, everything: Candidates, budget: Budget) -> list[int]:
        """Positions of the recency buffer's sentences: newest event first, an event's sentences
        in reading order. It is the same for every arm that has one, whatever its picks are."""
        if not self.buffered:
            return []
        recent = _most_recent(everything, budget.recency)
        return _fitting(everything, recent, self.protocol.buffer_tokens(budget.tokens))


_NOTE = "The BM25 part of each word of the question that the sentence or its title holds; exact."

_indexes: LRU[BM25Index] = LRU(32, lambda index: index.size)


def index_of(pool: Candidates, protocol: Protocol) -> BM25Index:
    """The BM25 index of a set of candidates with their titles, cached between questions."""
    idf = protocol.bm25_idf

    def stored_or_made() -> BM25Index:
        rule = (idf, *sentence_rule(protocol))
        stored = pool.analysed.bm25(rule) if pool.analysed else None
        return stored or BM25Index([words(s.scored_text) for s in pool.sentences], idf)

    return _indexes.get((idf, pool.key), stored_or_made)


class BM25Arm(ScoredArm):
    """The k sentences of highest BM25 score among the arm's pool."""

    def index(self, pool: Candidates) -> BM25Index:
        """The index of the candidates under the protocol."""
        return index_of(pool, self.protocol)

    def score(self, pool: Candidates, instruction: Instruction) -> Scores:
        return self.index(pool).scores(words(instruction.question))

    def reasons(self, pool: Candidates, instruction: Instruction) -> Mask:
        """The sentences that share a word with the question, their titles included."""
        return self.index(pool).holding(words(instruction.question))

    def trace(self, pool: Candidates, instruction: Instruction, scores: Scores) -> Trace:
        return (("picks that share no word", str(int(np.count_nonzero(scores == 0)))),)

    def explain(self, record: Record, instruction: Instruction, sentence_id: str) -> Explanation:
        """The part of each word of the question in a sentence's score, in the question's order.

        The parts are exactly those that the score adds up; a word asked twice occurs twice, one
        that adds nothing is left out. Raises UnknownName as :meth:`ranked` does.
        """
        pool, place = self.ranked(record, instruction, sentence_id)
        spans: dict[str, list[tuple[int, int]]] = {}
        for word, start, end in word_spans(pool.sentences[place].text):
            spans.setdefault(word, []).append((start, end))
        parts = self.index(pool).explain(words(instruction.question), place)
        terms = tuple(Term(word, part, tuple(spans.get(word, ()))) for word, part in parts)
        return Explanation(terms, 0.0, _NOTE)
