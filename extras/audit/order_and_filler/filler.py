"""Lines that lengthen a context: of the patient, of other patients, or neutral text.

No filler holds evidence: lines in which the locator finds a piece of it, and lines that state the
reference answer, are left out. No line is after the question's cut-off.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from pathlib import Path

import numpy as np

from midchart.core.arms.base import candidates
from midchart.core.arms.hits import Question
from midchart.core.errors import DataError, WorkFailed
from midchart.core.protocol import Protocol
from midchart.core.provenance import seeded
from midchart.core.reference_tables import table_row, yaml_table
from midchart.core.text import as_words, content_words, count_tokens, words
from midchart.core.text.evidence import locate
from midchart.core.text.prompt import line_text
from midchart.core.types import Cohort, Event, Kept, Record, Sentence, Span

FILLERS = ("same_patient", "other_patients", "neutral")
WORDS = ("avoided", "repeated")
LEAST = 0.9
"""Share of the asked tokens that filler must hold."""
ENOUGH = 0.99
"""Share from which on no further line is tried."""
DONORS = 10
"""Other patients whose lines one patient's contexts are lengthened with."""


@dataclass(frozen=True, slots=True)
class Filler:
    """Lines of filler, their tokens with dates, and how many of their words are the question's."""

    lines: tuple[Sentence, ...]
    tokens: int
    question_words: int


class FillerSource:
    """Draws filler from a cohort."""

    def __init__(self, cohort: Cohort, protocol: Protocol) -> None:
        self.cohort, self.protocol = cohort, protocol
        self._others = lru_cache(maxsize=2)(self._drawn_others)
        self._words = lru_cache(maxsize=1 << 15)(as_words)

    def draw(
        self,
        question: Question,
        shown: Sequence[Kept],
        of: tuple[str, str, int],
        seed: tuple[str, ...],
    ) -> Filler:
        """Filler for a context that has the lines ``shown``; ``of``: kind, how the question's
        words are treated, and tokens; ``seed``: names of its generator.

        Words "avoided": no line holds a word of the question of four letters or more; "repeated":
        the lines that hold most of them come first, and neutral lines hold one each. Raises
        WorkFailed where there is less than :data:`LEAST` of the tokens.
        """
        kind, treated, tokens = of
        asked = self._asked(question)
        rng = seeded(self.protocol.seed, "filler", kind, treated, *seed)
        repeated = asked if treated == "repeated" else ()
        possible = self._lines(kind, question, shown, repeated, rng)
        lines = list(islice(possible, tokens if kind == "neutral" else None))
        counts = {
            line.id: sum(word in asked for word in self._words(line.text).split()) for line in lines
        }
        if treated == "avoided":
            lines = [line for line in lines if not counts[line.id]]
        else:
            lines.sort(key=lambda line: -counts[line.id])
        filled, total = self._filled(lines, question, tokens)
        if total < LEAST * tokens:
            where = kind.replace("_", " ")
            raise WorkFailed(f"filler ({where}, words {treated}): {total} of {tokens} tokens")
        order = rng.permutation(len(filled)).tolist()
        chosen = tuple(filled[i] for i in order)
        return Filler(chosen, total, sum(counts[line.id] for line in chosen))

    @staticmethod
    def _asked(question: Question) -> frozenset[str]:
        one = question.instruction
        return content_words(" ".join((one.question, *one.options)))

    def _lines(
        self,
        kind: str,
        question: Question,
        shown: Sequence[Kept],
        repeated: Collection[str],
        rng: np.random.Generator,
    ) -> Iterator[Sentence]:
        """Possible lines in random order; of the record, those that are neither shown nor hold
        evidence. Neutral lines have the date of the first that is shown, for their tokens."""
        if kind == "neutral":
            time = shown[0].sentence.time if shown else None
            for number, text in enumerate(neutral_sentences(rng, sorted(repeated))):
                span = Span(0, 0, len(text))
                yield Sentence(f"neutral:{number}", span, time, "note", text, count_tokens(text))
            return
        if kind == "same_patient":
            record, one = question.record(), question.instruction
            pool: Sequence[Sentence] = candidates(record, one.cutoff, self.protocol).sentences
            left_out = {*question.parts, *(entry.sentence.id for entry in shown)}
            pool = [line for line in pool if line.id not in left_out]
        else:
            cutoff = question.instruction.cutoff
            pool = self._others(self.cohort.patient_of(question.instruction))
            pool = [line for line in pool if not cutoff or (line.time and line.time <= cutoff)]
        for index in rng.permutation(len(pool)).tolist():
            yield pool[index]

    def _drawn_others(self, patient: str) -> list[Sentence]:
        """The lines of :data:`DONORS` other patients, with ids that name them; of fewer where a
        record cannot be read, which the cohort notes."""
        patients = self.cohort.patient
        others = [id for id in self.cohort.records if patients.get(id, id) != patient]
        drawn = seeded(self.protocol.seed, "donors", patient).permutation(len(others))[:DONORS]
        lines: list[Sentence] = []
        for id in (others[i] for i in sorted(drawn.tolist())):
            with suppress(DataError):
                pool = candidates(self.cohort.records[id], None, self.protocol).sentences
                lines += [replace(line, id=f"{id}:{line.id}") for line in pool]
        return lines

    def _filled(
        self, lines: Sequence[Sentence], question: Question, tokens: int
    ) -> tuple[list[Sentence], int]:
        """As many of the lines, in their order, as ``tokens`` allow, none with evidence."""
        gold = question.gold
        snippets = tuple(s for s in (gold.snippets if gold else ()) if words(s))
        answer = as_words(gold.answer) if gold and words(gold.answer) else None
        evidence: set[str] = set()
        while True:
            filled: list[Sentence] = []
            total = 0
            for line in lines:
                if total >= ENOUGH * tokens:
                    break
                states = answer is not None and answer in self._words(line.text)
                cost = count_tokens(line_text(line, self.protocol))
                if not states and line.id not in evidence and total + cost <= tokens:
                    filled.append(line)
                    total += cost
            holding = self._located(filled, snippets)
            if not holding:
                return filled, total
            evidence |= holding

    def _located(self, lines: Sequence[Sentence], snippets: Sequence[str]) -> set[str]:
        """The lines in which the locator finds a piece of evidence."""
        if not lines or not snippets:
            return set()
        events = tuple(Event(i, None, "note", text=line.text) for i, line in enumerate(lines))
        digest = blake2b("\n".join(line.text for line in lines).encode("utf-8", "surrogatepass"))
        record = Record("filler", events, digest.hexdigest())
        return {lines[span.event].id for span in locate(record, snippets, self.protocol).spans}


@table_row
class NeutralText:
    """Parts of sentences, and sentences with a word of a question (neutral.yaml)."""

    subjects: tuple[str, ...]
    actions: tuple[str, ...]
    places: tuple[str, ...]
    words: tuple[str, ...]


neutral_text = yaml_table(NeutralText, Path(__file__).with_name("neutral.yaml"))


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


def neutral_sentences(rng: np.random.Generator, words: Sequence[str] = ()) -> Iterator[str]:
    """Different sentences in random order, until there is no other; with ``words`` each holds one
    of them."""
    text = neutral_text()
    middles = text.words if words else text.actions
    shape = (len(text.subjects), len(middles), len(text.places), max(1, len(words)))
    order = np.unravel_index(rng.permutation(int(np.prod(shape))), shape)
    for subject, middle, place, word in zip(*(part.tolist() for part in order), strict=True):
        sentence = "{subject} " + middles[middle] + " {place}" if not words else middles[middle]
        yield _capitalised(
            sentence.format(
                subject=text.subjects[subject],
                place=text.places[place],
                word=words[word] if words else "",
            )
        )
