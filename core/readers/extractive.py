"""Extractive: answers with the lines of its context that hold what is asked, word for word.

A baseline without generation: it shows what a selection is worth when reading adds no reasoning.
A line is compared with the question together with its title: by the analysed words that both have
and by MiniLM (midchart.core.stats.ranking). Only a line that holds the asked item, itself or in its
title, is an answer, and a heading is none; where no line does, the answer is "Not documented." and
the nearest line its source. Of a question for a section ("Which allergies?") the answer is the
lines under that heading, of one for the latest value the line of the newest date.

Of a multiple-choice question it chooses the option nearest to a line. Under the published
truncation its answer is empty where the question was cut off, where a language model would continue
the record (docs/methods.md, Stage 2: reading).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from midchart.core.bm25 import AnalysedIndex
from midchart.core.embedding.embedder import Embedder, cosines, shared
from midchart.core.errors import InputError
from midchart.core.protocol import Protocol
from midchart.core.readers import READERS
from midchart.core.stats.ranking import standardised_sum
from midchart.core.text import count_tokens
from midchart.core.text.prompt import (
    HEAD,
    LINE_DATE,
    MIDDLE,
    NOT_DOCUMENTED,
    TAIL,
    body,
    dated,
    is_heading,
    option_text,
)
from midchart.core.types import Answer, ContextLine, Prompt
from midchart.core.weights import MINILM

Vectors = NDArray[np.float32]
_DATE = re.compile(rf"\[{LINE_DATE}\] ")
LEAST_COVERAGE = 0.5
"""Share of what is asked, rarer parts counting more, that a line holds that is an answer."""
LEAST_COSINE = 0.6
"""Cosine of a line with the question from which it is an answer whatever words it has."""
MOST_LINES = 12
"""Most lines of an answer that is a section."""
_GENERAL = """
active anything care chart current currently date detail document documented earliest first get
given history information initial kind known last latest level measured mentioned name need newest
noted number oldest performed prescribed present previous reading receive received recent recently
recorded reported result status take taken taking time today type undergo used value year
"""
"""Words of a question that name no item."""
_ABSENT = re.compile(
    r"\bno\b.*\b(?:information|data|recorded|records?|indicated|available|applicable|on file)\b"
    r"|\b(?:not|none) (?:recorded|available|indicated|applicable|on file)\W*$",
    re.IGNORECASE,
)
"""A line that says that a section holds nothing."""
_NEWEST = re.compile(r"\b(?:most recent|latest|newest|last|current|currently|now)\b", re.IGNORECASE)
_OLDEST = re.compile(r"\b(?:first|earliest|initial|oldest)\b", re.IGNORECASE)
_LIST = re.compile(
    r"^\W*(?:list|show|name)\b|\b(?:which|what)\b.*?\b\w{3,}(?:s|ae)\b|\bany\b|\ball\b|\bplan\b",
    re.IGNORECASE,
)
_PRESSURE = re.compile(r"\b(?:systolic|diastolic)\b", re.IGNORECASE)
"""Of a blood pressure whose two numbers are lines of their own."""
_CODED = re.compile(r"\bcoded entry: ", re.IGNORECASE)
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAY = re.compile(
    r"(?<![\d./-])(?:(?P<y>\d{4})-(?P<m>\d\d)(?:-(?P<d>\d\d))?"
    r"|(?P<m2>\d\d?)/(?P<d2>\d\d?)/(?P<y2>\d{4}|\d\d)|(?P<d3>\d\d?)\.(?P<m3>\d\d?)\.(?P<y3>\d{4})"
    r"|(?P<y4>(?:19|20)\d\d)(?P<m4>[01]\d)(?P<d4>[0-3]\d))(?![\d-])"
    rf"|\b(?P<n>{'|'.join(_MONTHS)})[a-z]*\.?\s+(?:(?P<d5>\d\d?)(?:st|nd|rd|th)?,?\s+)?"
    r"(?P<y5>\d{4})\b",
    re.IGNORECASE,
)


def bare(line: str) -> str:
    """A context line without its date: the sentence itself, so that its vector is the arm's."""
    return line[match.end() :] if (match := _DATE.match(line)) else line


def titled(line: ContextLine) -> str:
    """A line's text below its title, as arms score it."""
    return f"{line.title}\n{bare(line.text)}" if line.title else bare(line.text)


def dates(text: str) -> list[datetime]:
    """The days that a text states, a month without a day as its first."""
    days: list[datetime] = []
    for match in _DAY.finditer(text):
        part = {name[0]: value for name, value in match.groupdict().items() if value}
        year, month, day = int(part["y"]), part.get("m"), int(part.get("d", 1))
        number = int(month) if month else 1 + _MONTHS.index(part["n"][:3].lower())
        if number > 12:  # the day before the month
            number, day = day, number
        try:
            days.append(datetime(year + (2000 if year < 100 else 0), number, day))
        except ValueError:
            continue
    return days


def fact_date(line: ContextLine) -> datetime:
    """The latest day that a line states, else that of its entry; the earliest there is without."""
    stated = dates(body(line)) or dates(dated(line.text))
    return max(stated, default=datetime.min)


@READERS.register("extractive")
class Extractive:
    """The context lines that hold what is asked, else "Not documented."; ties go to the earlier.

    ``window`` is in tokens of :func:`midchart.core.text.count_tokens`, the paper's reader's length.
    Raises InputError for one without room for a question, MissingModel without the weights.
    """

    name: str = "extractive"
    title: str = "Extractive baseline (non-generative)"
    needs: ClassVar[str] = MINILM
    group: ClassVar[int] = 16
    generative: ClassVar[bool] = False
    only_quotes: ClassVar[bool] = True

    def __init__(
        self, protocol: Protocol, window: int = 32_768, embedder: Embedder | None = None
    ) -> None:
        least = count_tokens(HEAD + MIDDLE + TAIL) + protocol.answer_tokens + 1
        if type(window) is not int or window < least:
            raise InputError(
                f"'window' of the reader 'extractive' is a whole number of tokens from {least}: "
                "fewer leave no room for a question and its answer"
            )
        self.protocol = protocol
        self.window = window
        self.embedder = embedder if embedder is not None else shared(self.needs)

    def count_tokens(self, text: str) -> int:
        """Words and punctuation marks of ``text``."""
        return count_tokens(text)

    def read_many(self, prompts: Sequence[Prompt]) -> Iterator[tuple[int, Answer]]:
        """Each prompt's index and answer, in order; the model encodes the lines of all together."""
        texts = list(dict.fromkeys(t for prompt in prompts for t in self._compared(prompt)))
        row = {text: i for i, text in enumerate(texts)}
        begun = time.perf_counter()
        vectors = self.embedder.embed(texts)
        each = (time.perf_counter() - begun) / max(1, len(prompts))

        for index, prompt in enumerate(prompts):
            answer = self._read(prompt, vectors[[row[text] for text in self._compared(prompt)]])
            yield index, replace(answer, seconds=answer.seconds + each)

    def read(self, prompt: Prompt) -> Answer:
        """The answer to one prompt."""
        return next(self.read_many([prompt]))[1]

    def _compared(self, prompt: Prompt) -> list[str]:
        """The texts whose vectors an answer needs: the question or its options, then the lines."""
        asked = [f"{prompt.question} {option}" for option in prompt.options] or [prompt.question]
        return [*asked, *map(titled, prompt.context)]

    def _read(self, prompt: Prompt, vectors: Vectors) -> Answer:
        """The lines of ``prompt.context`` that answer its question, with their date as shown.

        The answer is empty, and says why, where the prompt holds no question or no line.
        ``vectors`` float32 [n, dim]: of the texts of :meth:`_compared`.
        """
        begun = time.perf_counter()
        missing = ""
        if not prompt.question_survived:
            missing = "the question was cut off the prompt"
        elif not prompt.question.strip():
            missing = "the question is empty"
        elif not prompt.context:
            missing = "the prompt holds no line of the record"
        if missing:
            return Answer("", reason=missing, prompt_tokens=prompt.tokens)
        if prompt.options:
            return self._chosen(prompt, vectors, begun)
        lines, doubt = self._answer_lines(prompt, vectors)
        text = NOT_DOCUMENTED if doubt else _joined(lines)
        return Answer(
            text,
            reason=doubt,
            sources=tuple(line.sentence_id for line in lines),
            quotes=True,
            prompt_tokens=prompt.tokens,
            output_tokens=count_tokens(text),
            seconds=time.perf_counter() - begun,
            how="abstained" if doubt else "",
        )

    def _chosen(self, prompt: Prompt, vectors: Vectors, begun: float) -> Answer:
        """The option that, after the question, is nearest to any line; ties go to the earlier."""
        options = len(prompt.options)
        lines = vectors[options:]
        scores = np.stack(
            [np.round(cosines(lines, v).astype(np.float64), 6) for v in vectors[:options]]
        )
        best = int(np.argmax(scores.max(axis=1)))
        text = option_text(prompt.options, best)
        return Answer(
            text,
            sources=(prompt.context[int(np.argmax(scores[best]))].sentence_id,),
            prompt_tokens=prompt.tokens,
            output_tokens=count_tokens(text),
            seconds=time.perf_counter() - begun,
        )

    def _answer_lines(self, prompt: Prompt, vectors: Vectors) -> tuple[list[ContextLine], str]:
        """The lines that answer a question; or the nearest one, and why it does not."""
        context, question = prompt.context, prompt.question
        # Six decimals, as in the dense arm: float32 rounding must not decide.
        cosine = np.round(cosines(vectors[1:], vectors[0]).astype(np.float64), 6)
        texts = AnalysedIndex.of([titled(line) for line in context])
        general = set(texts.analyzer.terms(_GENERAL))
        items = [p for p in texts.analyzer.question(question) if not general.issuperset(p.terms)]
        held = texts.coverage(items)
        score = standardised_sum(texts.scores(question), cosine)
        heading = np.array([is_heading(bare(line.text)) for line in context])
        score = np.where(heading, score.min() - 1, score)
        answers = ~heading & ((held >= LEAST_COVERAGE) | (cosine >= LEAST_COSINE))
        if not answers.any():
            return [context[int(np.argmax(score))]], "no line of the context holds what is asked"
        absent = np.array([bool(_ABSENT.search(bare(line.text))) for line in context])
        if (answers & ~absent).any():
            answers &= ~absent
        titles = AnalysedIndex.of([line.title for line in context], texts.analyzer.language)
        in_section = answers & (titles.coverage(items) >= 1)
        listed = bool(_LIST.search(question)) and bool(in_section.any())
        if listed:
            answers = in_section
        best = int(np.argmax(np.where(answers, score, -np.inf)))
        newest, oldest = _NEWEST.search(question), _OLDEST.search(question)
        if newest or oldest:
            equal = [i for i in np.flatnonzero(answers).tolist() if held[i] >= held[best]]
            sign = 1 if newest else -1
            # What a person wrote goes before its codes, which may lack the value.
            narrative = {i: not _CODED.search(context[i].text) for i in equal}
            day = {i: fact_date(context[i]).toordinal() * sign for i in equal}
            best = max(equal, key=lambda i: (day[i], narrative[i], score[i]))
            parts = dict[frozenset[str], ContextLine]()
            for i in sorted(equal, key=score.__getitem__):
                if (day[i], narrative[i]) == (day[best], narrative[best]):
                    parts[frozenset(_PRESSURE.findall(context[i].text.lower()))] = context[i]
            pair = [frozenset([part]) for part in ("systolic", "diastolic")]
            if all(part in parts for part in pair):
                return [parts[part] for part in pair], ""
        elif listed:
            section = [
                line
                for line, other in zip(context, heading, strict=True)
                if not other and line.title == context[best].title
            ]
            return section[:MOST_LINES], ""
        return [context[best]], ""


def _joined(lines: Sequence[ContextLine]) -> str:
    """Lines as one, each after its date where they have several."""
    first, *others = lines
    same = len({dated(line.text) for line in lines}) == 1
    return "; ".join([first.text, *(body(line) if same else line.text for line in others)])
