"""A question during a run: its record, its evidence, and what a selection kept of it.

A question's evidence has one or several pieces, each in one or several sentences. *Any piece* is
kept where at least one sentence with evidence is; *all pieces* where every such sentence is, as an
answer needs them all. Pieces that could not be located count in neither.

Recall and position always use the real gold; a protocol's fault in joining evidence affects the
judge alone. A question with unlocated evidence counts in "overall" and in no position band.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, groupby
from operator import and_, attrgetter
from typing import Any

import numpy as np

from midchart.core.arms.base import Candidates, candidates, index_of
from midchart.core.cohorts.gold import SourceCheck, check_with_source, location_columns
from midchart.core.embedding.pairs import Entailment
from midchart.core.errors import reason_of
from midchart.core.protocol import Protocol
from midchart.core.provenance import digest, now
from midchart.core.runs.job import Job, Row, Stopped
from midchart.core.runs.planner import own_patients
from midchart.core.runs.schemas import SEMANTIC, UNLOCATED, blank
from midchart.core.text import content_words, sentences, words
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
from midchart.core.text.prompt import body, context_texts, prompt_lines, was_cut
from midchart.core.types import (
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
        return self._chance(self._lexical_hits, tokens) if self.answer else None

    def any_piece(self, tokens: float) -> float | None:
        """Chance that a sentence holds evidence; None where the evidence is unlocated."""
        return self._chance(self._evidence_hits, tokens) if self.evidence else None

    def all_pieces(self, tokens: float) -> float | None:
        """Chance of every sentence that holds evidence, 0 where the cutoff excludes one; None
        where the evidence is unlocated."""
        if not self.evidence:
            return None
        n, hits = len(self._pool.sentences), self._evidence_hits
        if hits < len(self.evidence):
            return 0.0
        return chance_of_all(n, hits, n * tokens / self._tokens)

    def _chance(self, hits: int, tokens: float) -> float:
        n = len(self._pool.sentences)
        return chance_of_hit(n, hits, n * tokens / self._tokens) if n else 0.0

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
        holds = index_of(self._pool, self.protocol.bm25_idf).holding(wanted)
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
    check: SourceCheck | None = None
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

    def hits(self, selection: Selection, buffer_claims: bool = False) -> dict[str, Any]:
        """Lexical hit and evidence of a selection, and in how many lines (docs/methods.md).

        ``evidence``: any piece, at least one sentence that holds evidence; ``evidence_all``: all
        pieces, every such sentence. ``buffer_claims``: as :func:`own_pick` takes it. Text that an
        arm wrote is judged as written, not by the sentences it summarises.
        """
        answer = self.gold.answer if self.gold else ""
        lines = selection.lines
        if lines is None:
            lines = tuple(ContextLine(entry.sentence.id, "") for entry in selection.kept)
        picks = {k.sentence.id for k in selection.kept if own_pick(k.kept_by, buffer_claims)}
        is_pick = [line.sentence_id in picks for line in lines]
        hit = lexical_hits(context_texts(selection), answer)
        shares = self.held(lines)
        held = None if shares is None else contained(shares)
        buffer = sum(
            k.sentence.tokens for k in selection.kept if not own_pick(k.kept_by, buffer_claims)
        )
        chance, picked = self.chance, max(0, selection.tokens - buffer)
        return {
            "lexical": any(hit) if answer else None,
            "lexical_chance": chance.lexical(selection.tokens) if chance else None,
            "lexical_picked_chance": chance.lexical(picked) if chance else None,
            "evidence": None if held is None else bool(held),
            "evidence_all": None if held is None else len(held) == len(self.parts),
            "evidence_share": self._share(shares),
            "evidence_chance": chance.any_piece(selection.tokens) if chance else None,
            "evidence_picked_chance": chance.any_piece(picked) if chance else None,
            "evidence_all_chance": chance.all_pieces(selection.tokens) if chance else None,
            "evidence_all_picked_chance": chance.all_pieces(picked) if chance else None,
            "buffer_tokens": buffer,
            "kept": len(is_pick),
            "picked": sum(is_pick),
            "lexical_kept": sum(hit) if answer else None,
            "lexical_picked": sum(map(and_, hit, is_pick)) if answer else None,
            "evidence_kept": None if held is None else len(held),
            "evidence_picked": None if held is None else len(picks.intersection(held)),
        }

    def prompted(
        self, prompt: Prompt, selection: Selection, buffer_claims: bool = False
    ) -> dict[str, Any]:
        """What of a selection a prompt holds: its tokens, the ids that were cut, the evidence.

        ``prompt_cut``: a line, a part of one or the question was lost.
        ``evidence_in_prompt``: a line shows at least half of a sentence's evidence (any piece);
        ``evidence_all_in_prompt``: lines do so of every such sentence (all pieces);
        ``evidence_in_prompt_picked`` counts such lines that the arm itself chose;
        ``evidence_share_in_prompt`` is the share of the evidence's characters. All are None where
        :meth:`held` is. Chances are those of random sentences with the tokens of the context that
        the prompt holds.
        """
        shares = self.held(prompt.context)
        held = None if shares is None else contained(shares)
        picks = {k.sentence.id for k in selection.kept if own_pick(k.kept_by, buffer_claims)}
        lines, chance = prompt_lines(prompt, selection), self.chance
        tokens = sum(line.tokens for line in lines)
        picked = sum(line.tokens for line in lines if line.sentence_id in picks)
        return {
            "prompt_tokens": prompt.tokens,
            "cut": list(prompt.cut),
            "prompt_cut": was_cut(prompt, selection),
            "evidence_in_prompt": None if held is None else bool(held),
            "evidence_all_in_prompt": None if held is None else len(held) == len(self.parts),
            "evidence_in_prompt_picked": None if held is None else len(held & picks),
            "evidence_share_in_prompt": self._share(shares),
            "evidence_in_prompt_chance": chance.any_piece(tokens) if chance else None,
            "evidence_in_prompt_picked_chance": chance.any_piece(picked) if chance else None,
            "evidence_all_in_prompt_chance": chance.all_pieces(tokens) if chance else None,
            "evidence_all_in_prompt_picked_chance": chance.all_pieces(picked) if chance else None,
        }

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
        check: SourceCheck | None = None
        if gold is not None and gold.spans:
            record = cohort.records[instruction.record_id]
            parts = evidence_parts(sentences(record, protocol), gold.spans)
            by = (protocol.position,)
            [check] = check_with_source(cohort.gold, instruction.id, record, protocol, by)
    except Exception as error:  # noqa: BLE001 - becomes the reason of its rows
        return Question(instruction, cohort, None, {}, None, reason_of(error))
    position = None if gold is None else getattr(gold, protocol.position)
    answer = "" if gold is None else gold.answer
    chance = RandomSentences(cohort.records, instruction, protocol, parts.keys(), answer)
    return Question(instruction, cohort, gold, parts, position, chance=chance, check=check)


# Semantic hits: entailment between kept sentences and the reference (docs/methods.md, Stage 1).
# Scored after all selections, record by record, so that each distinct pair goes to the model once.


ABOUT = ("answer", "evidence")
"""What kept sentences are compared with: the reference answer, or the annotated evidence."""
_COLUMNS = (
    "label", "arm", "k", "record", "instruction", "order_position", "time_position",
    "token_position",    "location_score", "location_candidates", "band",
    "middle", "task_type", "domain", "specialty",
)  # fmt: skip

_Pair = tuple[str, str]


def score_semantic(job: Job, table: str) -> None:
    """Score the selections in ``table`` that have no semantic row yet."""
    about: str = job.plan.options.get("semantic", "")
    if about:
        _ScoringPass(job, table, about).run()


@dataclass(frozen=True, slots=True)
class _ScoredSelection:
    """A selection to score: its row, its lines (id, the arm's own pick, text) and the references;
    ``problem``: why it cannot be scored."""

    row: Row
    lines: tuple[tuple[str, bool, str], ...] = ()
    references: tuple[str, ...] = ()
    problem: str = ""

    def pairs(self) -> Iterator[_Pair]:
        """Each reference with each line."""
        return ((reference, text) for reference in self.references for _, _, text in self.lines)


class _ScoringPass:
    """One pass over the selections of a run."""

    def __init__(self, job: Job, table: str, about: str) -> None:
        self.job, self.table, self.about = job, table, about
        self.there = job.there("semantic")

    def run(self) -> None:
        """Score record by record; a record's rows are written when its pairs are scored."""
        selected = self._selected()
        asked = chain.from_iterable(own_patients(self.job).values())
        for record, instructions in groupby(asked, attrgetter("record_id")):
            todo = [
                row
                for instruction in instructions
                for row in selected.get(instruction.id, ())
                if _semantic_item(row) not in self.there
            ]
            if todo:
                self._record(record, todo)

    def _selected(self) -> dict[str, list[Row]]:
        """The selections by instruction; one that is in several readers' rows counts once."""
        selections: dict[str, dict[str, Row]] = {}
        columns = ", ".join((*_COLUMNS, "lines", "selection"))
        for row in self.job.store.select(self.table, columns):
            selections.setdefault(row["instruction"], {}).setdefault(row["label"], row)
        return {instruction: list(rows.values()) for instruction, rows in selections.items()}

    def _record(self, record: str, todo: Sequence[Row]) -> None:
        """Score a record's selections, all pairs at once."""
        texts: dict[str, str] = {}
        asked: list[_ScoredSelection] = []
        for row in todo:
            try:
                if not texts and row["lines"] is None and row["selection"] is not None:
                    computed = sentences(self.job.cohort.records[record], self.job.protocol)
                    texts = {sentence.id: sentence.text for sentence in computed}
                asked.append(self._asked(row, texts))
            except Exception as error:  # noqa: BLE001 - becomes the row's reason
                asked.append(_ScoredSelection(row, problem=reason_of(error)))
        pairs = list(dict.fromkeys(pair for one in asked for pair in one.pairs()))
        model: str | None = None
        scores: dict[_Pair, float] = {}
        problem = ""
        try:
            entailment = self.job.member("pair model", "entailment", Entailment)
            model = entailment.scorer.id
            computed = entailment.either_way(pairs, lambda done, planned: self.job.notify())
            scores = dict(zip(pairs, computed.tolist(), strict=True))
        except Stopped:
            raise
        except Exception as error:  # noqa: BLE001 - becomes the reason of the record's rows
            problem = reason_of(error)
        for one in asked:
            row = self._row(one, scores, one.problem or problem)
            self.job.append("semantic", {**row, "model": model})

    def _asked(self, row: Row, texts: Mapping[str, str]) -> _ScoredSelection:
        if row["selection"] is None:
            return _ScoredSelection(row, problem="the selection failed")
        gold = self.job.cohort.gold.get(row["instruction"])
        references: tuple[str, ...] = ()
        if gold is not None:
            references = (gold.answer,) if self.about == "answer" else gold.snippets
        claims = buffer_claims(self.job.protocol, row["k"])
        picked = {
            sentence["id"]: own_pick(sentence["kept_by"], claims) for sentence in row["selection"]
        }
        if row["lines"] is None:
            lines = [(id, chosen, texts[id]) for id, chosen in picked.items()]
        else:
            written = [ContextLine(line["id"], line["text"]) for line in row["lines"]]
            lines = [(w.sentence_id, picked.get(w.sentence_id, False), body(w)) for w in written]
        return _ScoredSelection(
            row, tuple(lines), tuple(text for text in references if text.strip())
        )

    def _row(self, asked: _ScoredSelection, scores: Mapping[_Pair, float], problem: str) -> Row:
        ids = ",".join(id for id, _, _ in asked.lines)
        named = {name: asked.row[name] for name in _COLUMNS}
        row: Row = {
            **blank(SEMANTIC),
            **named,
            "key": digest("semantic", self.about, named["label"], named["instruction"], ids),
            "item": _semantic_item(asked.row),
            "about": self.about,
            "status": "failed" if problem else "ok",
            "reason": problem or None,
            "time": now(),
        }
        if problem or not asked.references:
            return row
        judged = [
            {
                "id": id,
                "picked": picked,
                "probability": max(scores[reference, text] for reference in asked.references),
            }
            for id, picked, text in asked.lines
        ]
        best = max((line["probability"] for line in judged), default=0.0)
        return {**row, "entailment": judged, "best": best}


def _semantic_item(row: Mapping[str, Any]) -> str:
    return digest("semantic", row["label"], row["instruction"])
