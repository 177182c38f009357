"""A question of a cohort: its record, its evidence, and what a selection kept of it.

A question's evidence has one or several pieces, each in one or several sentences. *Any piece* is
kept where at least one sentence with evidence is; *all pieces* where every such sentence is, as an
answer needs them all. Pieces that could not be located count in neither.

Recall and position always use the real gold; a protocol's fault in joining evidence affects the
judge alone. A question with unlocated evidence counts in "overall" and in no position band.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from operator import and_
from typing import Any

import numpy as np

from midchart.core.arms.base import Candidates, candidates, index_of
from midchart.core.cohorts.gold import Check, check_with_source, location_columns
from midchart.core.errors import reason_of
from midchart.core.protocol import Protocol
from midchart.core.text import content_words, count_tokens, sentences, words
from midchart.core.text.evidence import (
    band_of,
    chance_of_all,
    chance_of_hit,
    contained,
    evidence_in_lines,
    evidence_parts,
    is_middle,
    lexical_hits,
)
from midchart.core.text.prompt import body, context_texts, was_cut
from midchart.core.types import (
    UNLOCATED,
    Cohort,
    ContextLine,
    Gold,
    Instruction,
    Prompt,
    Record,
    Selection,
    Span,
)


@dataclass(frozen=True)
class RandomSentences:
    """Chance level of recall: exact probability that random sentences are a hit for a question.

    A number of the sentences that the question's cutoff allows is drawn without replacement, each
    equally likely, so that their expected tokens are those of the context compared (the arm
    ``random`` without a recency buffer).

    ``evidence``: ids of the sentences that hold evidence (empty where it is unlocated);
    ``answer``: the reference answer, "" without one. The record is read on first use; what the
    loader raises is raised then.
    """

    records: Mapping[str, Record]
    instruction: Instruction
    protocol: Protocol
    evidence: Collection[str]
    answer: str

    def lexical(self, tokens: float) -> float | None:
        """Chance that a sentence holds a content word of the answer; None without an answer."""
        return self._chance(chance_of_hit, self._lexical_hits, tokens) if self.answer else None

    def any_piece(self, tokens: float) -> float | None:
        """Chance that a sentence holds evidence; None where the evidence is unlocated."""
        return self._chance(chance_of_hit, self._evidence_hits, tokens) if self.evidence else None

    def all_pieces(self, tokens: float) -> float | None:
        """Chance of every sentence that holds evidence, 0 where the cutoff excludes one; None
        where the evidence is unlocated."""
        if self.evidence and self._evidence_hits < len(self.evidence):
            return 0.0
        return self._chance(chance_of_all, self._evidence_hits, tokens) if self.evidence else None

    def _chance(self, of: Callable[[int, int, float], float], hits: int, tokens: float) -> float:
        n = len(self._pool)
        return of(n, hits, n * tokens / self._tokens) if n else 0.0

    @cached_property
    def _pool(self) -> Candidates:
        record = self.records[self.instruction.record_id]
        return candidates(record, self.instruction.cutoff, self.protocol)

    @cached_property
    def _tokens(self) -> int:
        """Tokens of all candidates, at least 1."""
        return max(1, sum(sentence.tokens for sentence in self._pool.sentences))

    @cached_property
    def _evidence_hits(self) -> int:
        return sum(sentence.id in self.evidence for sentence in self._pool.sentences)

    @cached_property
    def _lexical_hits(self) -> int:
        wanted = content_words(self.answer)
        holds = index_of(self._pool, self.protocol).holding(wanted)
        sentences = (self._pool.sentences[i] for i in np.flatnonzero(holds).tolist())
        # The index holds words of titles too, which are not shown.
        return sum(not s.title or not wanted.isdisjoint(words(s.text)) for s in sentences)


def own_pick(kept_by: str, buffer_claims: bool) -> bool:
    """Whether the arm itself chose a line: not the recency buffer alone.

    ``buffer_claims``: lines that both chose are the buffer's (:func:`buffer_claims`).
    """
    return kept_by == "arm" or (kept_by == "both" and not buffer_claims)


def buffer_claims(protocol: Protocol, k: int | None) -> bool:
    """Whether lines that an arm and the recency buffer both chose are the buffer's: it was served
    first, and an arm without a ``k`` ranks every sentence, the buffer's too."""
    return k is None and protocol.recency_rule == "events_first"


@dataclass(frozen=True, slots=True)
class Question:
    """An instruction with its gold. ``gold`` is None where the cohort has none; ``problem`` says
    why it could not be read. ``parts`` are the pieces of the evidence by the id of the sentence
    that holds them. ``check``: how locating it by its text compares with its source's spans.
    ``chance`` is what random sentences hit; without it columns of chance are null. ``site``:
    further columns of its rows, which replace those of the same name.
    """

    instruction: Instruction
    cohort: Cohort
    gold: Gold | None
    parts: Mapping[str, tuple[Span, ...]]
    position: float | None
    problem: str = ""
    chance: RandomSentences | None = None
    check: Check | None = None
    site: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def record(self) -> Record:
        """The record; raises what the loader raises."""
        return self.cohort.records[self.instruction.record_id]

    def columns(self) -> dict[str, Any]:
        """The columns that every row about this question holds."""
        at = self.position
        return {
            "record": self.instruction.record_id,
            "instruction": self.instruction.id,
            "order_position": self.gold.order if self.gold else None,
            "time_position": self.gold.time if self.gold else None,
            "token_position": self.gold.token if self.gold else None,
            **location_columns(self.gold, self.check),
            "band": UNLOCATED if at is None else band_of(at),
            "middle": None if at is None else is_middle(at),
            "task_type": self.instruction.task_type or None,
            "domain": self.instruction.domain or None,
            "specialty": self.instruction.specialty or None,
            **self.site,
        }

    def held(self, lines: Iterable[ContextLine]) -> dict[str, float] | None:
        """Share of the evidence in each of its sentences that lines give word for word.

        None where that is not known: the evidence is unlocated, or a line is a summary.
        """
        return evidence_in_lines(lines, self.parts) if self.parts else None

    def quoted(self, sources: Collection[str]) -> bool | None:
        """Whether one of the sentences that a reader names as its source holds evidence; None where
        it names none, or the evidence is unlocated."""
        return any(id in self.parts for id in sources) if self.parts and sources else None

    def hits(self, selection: Selection, buffer_claims: bool = False) -> dict[str, Any]:
        """Lexical hit and evidence of a selection, and in how many lines (docs/methods.md).

        ``buffer_claims``: as :func:`own_pick` takes it. Text that an arm wrote is judged as
        written, not by the sentences it summarises.
        """
        answer = self.gold.answer if self.gold else ""
        lines = selection.lines
        if lines is None:
            lines = tuple(ContextLine(entry.sentence.id, "") for entry in selection.kept)
        picks = {k.sentence.id for k in selection.kept if own_pick(k.kept_by, buffer_claims)}
        is_pick = [line.sentence_id in picks for line in lines]
        hit = lexical_hits(context_texts(selection), answer)
        filler = sum(k.sentence.tokens for k in selection.kept if k.kept_by == "filler")
        others = sum(
            k.sentence.tokens for k in selection.kept if not own_pick(k.kept_by, buffer_claims)
        )
        chance, picked = self.chance, max(0, selection.tokens - others)
        evidence, held = self._evidence(lines, picks, selection.tokens, picked)
        return {
            "lexical": any(hit) if answer else None,
            "lexical_chance": chance.lexical(selection.tokens) if chance else None,
            "lexical_picked_chance": chance.lexical(picked) if chance else None,
            **evidence,
            "buffer_tokens": others - filler,
            "filler_tokens": filler,
            "kept": len(is_pick),
            "picked": sum(is_pick),
            "lexical_kept": sum(hit) if answer else None,
            "lexical_picked": sum(map(and_, hit, is_pick)) if answer else None,
            "evidence_kept": held,
        }

    def prompted(
        self, prompt: Prompt, selection: Selection, buffer_claims: bool = False
    ) -> dict[str, Any]:
        """What of a selection a prompt holds: its tokens, the ids that were cut, the evidence.

        ``prompt_cut``: a line, a part of one or the question was lost. The columns of the evidence
        are those of :meth:`hits` with ``_in_prompt``.
        """
        picks = {k.sentence.id for k in selection.kept if own_pick(k.kept_by, buffer_claims)}
        tokens = [(line.sentence_id in picks, count_tokens(body(line))) for line in prompt.context]
        all_tokens, picked = sum(n for _, n in tokens), sum(n for pick, n in tokens if pick)
        evidence, _ = self._evidence(prompt.context, picks, all_tokens, picked, "_in_prompt")
        return {
            "prompt_tokens": prompt.tokens,
            "cut": list(prompt.cut),
            "prompt_cut": was_cut(prompt),
            **evidence,
        }

    def _evidence(
        self, lines: Sequence[ContextLine], picks: Set[str], tokens: int, picked: int, end: str = ""
    ) -> tuple[dict[str, Any], int | None]:
        """The columns of the evidence in the lines of a context, and the number of its sentences
        there.

        ``evidence``: a line shows at least half of a sentence's evidence (any piece);
        ``evidence_all``: lines do so of every such sentence (all pieces); ``evidence_share``: of
        the evidence's characters; ``evidence_picked`` counts the sentences that the arm itself
        chose (``picks``). All are None where :meth:`held` is. Chances are those of random sentences
        of as many ``tokens`` as the context has, or the picks of it. ``end``: of names.
        """
        shares, chance = self.held(lines), self.chance
        held = None if shares is None else contained(shares)
        return {
            f"evidence{end}": None if held is None else bool(held),
            f"evidence_all{end}": None if held is None else len(held) == len(self.parts),
            f"evidence_share{end}": self._share(shares),
            f"evidence{end}_chance": chance.any_piece(tokens) if chance else None,
            f"evidence{end}_picked_chance": chance.any_piece(picked) if chance else None,
            f"evidence_all{end}_chance": chance.all_pieces(tokens) if chance else None,
            f"evidence_all{end}_picked_chance": chance.all_pieces(picked) if chance else None,
            f"evidence{end}_picked": None if held is None else len(held & picks),
        }, None if held is None else len(held)

    def _share(self, shares: Mapping[str, float] | None) -> float | None:
        """Share of all of the evidence's characters, of the shares of each sentence's."""
        if shares is None:
            return None
        lengths = {id: sum(s.end - s.start for s in spans) for id, spans in self.parts.items()}
        return sum(lengths[id] * share for id, share in shares.items()) / sum(lengths.values())


def question_of(cohort: Cohort, instruction: Instruction, protocol: Protocol) -> Question:
    """An instruction with its gold; what cannot be read is in ``problem``, not raised.

    The protocol is a run's: its position is one of the three, not "auto".
    """
    try:
        gold = cohort.gold.get(instruction.id)
        parts: Mapping[str, tuple[Span, ...]] = {}
        check: Check | None = None
        if gold is not None and gold.spans:
            record = cohort.records[instruction.record_id]
            parts = evidence_parts(sentences(record, protocol), gold.spans)
            checks = check_with_source(cohort.gold, instruction.id, record, protocol)
            check = checks.get(protocol.position)
    except Exception as error:  # noqa: BLE001 - becomes the reason of its rows
        return Question(instruction, cohort, None, {}, None, reason_of(error))
    position = None if gold is None else getattr(gold, protocol.position)
    answer = "" if gold is None else gold.answer
    chance = RandomSentences(cohort.records, instruction, protocol, parts.keys(), answer)
    return Question(instruction, cohort, gold, parts, position, chance=chance, check=check)
