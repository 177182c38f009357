"""Evaluates the small reader on held-out patients.

Answers come from the application's reader, prompt by prompt as in runs. An answer about a patient
is correct where it has every key of the fact that was asked for; separately counted is how often it
is the line with the evidence, verbatim.
"""

from __future__ import annotations

import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from midchart.core.arms import ARMS
from midchart.core.judges.rules import is_refusal
from midchart.core.loaders.open import open_cohort
from midchart.core.protocol import Protocol, parse
from midchart.core.readers.small import Small, answerable
from midchart.core.stats.intervals import wilson_interval
from midchart.core.synthetic.cohort import instruction_id, make_clinical, make_one
from midchart.core.synthetic.medicine import analytes
from midchart.core.text import words
from midchart.core.text.prompt import NOT_DOCUMENTED, build_prompt, line_text, undated
from midchart.core.text.prompt import without_date as text_of
from midchart.core.types import Gold, Instruction, Prompt, Selection, Span

_EVENTS = 300
SHORT = 25
"""Lines of the shorter contexts."""
_Meter = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class EvaluationRow:
    """Correct answers of ``n``, with Wilson's interval."""

    part: str
    what: str
    n: int
    right: int
    share: float
    low: float
    high: float


def row(part: str, what: str, hits: Sequence[bool]) -> EvaluationRow:
    """A row from single outcomes (at least one)."""
    right = sum(hits)
    share = wilson_interval(right, len(hits))
    return EvaluationRow(part, what, len(hits), right, right / len(hits), share.low, share.high)


def _answers(reader: Small, prompts: Sequence[Prompt]) -> list[str]:
    answers = dict(reader.read_many(prompts))
    return [answers[i].text for i in range(len(prompts))]


def _same(answer: str, wanted: str) -> bool:
    return words(answer) == words(wanted)


@dataclass(frozen=True, slots=True)
class Case:
    """A question about a held-out patient: its keys and two contexts, with and without the
    evidence."""

    instruction: Instruction
    gold: Gold
    kind: str
    keys: tuple[str, ...]
    shown: Selection
    bare: Selection

    def lines(self, protocol: Protocol) -> tuple[str, ...]:
        """The context lines that hold the evidence."""
        bare = {entry.sentence.id for entry in self.bare.kept}
        shown = (entry.sentence for entry in self.shown.kept)
        return tuple(line_text(sentence, protocol) for sentence in shown if sentence.id not in bare)

    @property
    def has_other_result(self) -> bool:
        """Whether the context without the evidence has another result of the test that is asked
        for, which would then be its highest, lowest or latest."""
        test = analytes().get(self.kind.partition("-")[2])
        if test is None or not self.kind.startswith(("extreme-", "latest-")):
            return False
        noted = rf"{re.escape(test.name)}: |\b{re.escape(test.short)}:? \d"
        return any(re.search(noted, entry.sentence.text) for entry in self.bare.kept)

    @property
    def short(self) -> Selection:
        """The context cut to ``SHORT`` lines: the evidence and the latest of the others."""
        spare = max(len(self.shown.kept) - SHORT, 0)
        early = {entry.sentence.id for entry in self.bare.kept[:spare]}
        late = tuple(entry for entry in self.shown.kept if entry.sentence.id not in early)
        return replace(self.shown, kept=late)


def cases(seed: int, patients: int, protocol: Protocol, meter: _Meter | None = None) -> list[Case]:
    """Questions about ``patients`` synthetic patients of a held-out cohort, in the application's
    contexts: the evidence and the latest events, and these without it."""
    keys: dict[str, tuple[str, tuple[str, ...]]] = {}
    for index in range(patients):
        synthetic = make_one(index, _EVENTS, seed)
        for number, asked in enumerate(synthetic.asked):
            id = instruction_id(seed, synthetic.patient.id, number)
            keys[id] = (asked.fact.kind, asked.fact.keys)
    selected: list[Case] = []
    with tempfile.TemporaryDirectory() as folder:
        make_clinical(Path(folder), patients, _EVENTS, seed, meter)
        cohort = open_cohort(folder)
        gold = cohort.gold

        def pinned(asked: Instruction) -> tuple[Span, ...]:
            return gold[asked.id].spans

        arms = [ARMS.build("oracle", protocol, pinned=pinned, evidence=e) for e in (True, False)]
        for one in cohort.instructions:
            record = cohort.records[one.record_id]
            contexts = [arm.select(record, one, protocol.budget()) for arm in arms]
            selected.append(Case(one, gold[one.id], *keys[one.id], *contexts))
    return selected


def holds(answer: str, keys: Iterable[str]) -> bool:
    """Whether an answer without its date has every key, as consecutive words."""
    text = " " + " ".join(words(undated(answer))) + " "
    return all(f" {' '.join(words(key))} " in text for key in keys)


def quotes(answer: str, lines: Sequence[str]) -> bool:
    """Whether an answer is one of the lines, or consecutive ones, verbatim."""
    texts = [text_of(line) for line in lines]
    spans = combinations(range(len(texts) + 1), 2)
    return any(_same(undated(answer), " ".join(texts[i:j])) for i, j in spans)


def _question_type(question: str) -> str:
    low = question.lower()
    if re.search(r"\b(highest|lowest)\b", low):
        return "highest or lowest"
    if re.search(r"\b(most recent|current)\b", low):
        return "most recent"
    if re.match(r"(has|have|had|is|was|were|are|did|does|do)\b", low):
        return "whether"
    return "other"


def _length(context: Selection) -> str:
    lines = len(context.kept)
    return (
        "under 30 lines" if lines < 30 else "30 to 59 lines" if lines < 60 else "60 lines or more"
    )


def patients(
    reader: Small, cases: Sequence[Case], protocol: Protocol
) -> tuple[list[EvaluationRow], list[dict[str, str]]]:
    """Rows on held-out patients, and every answer.

    Correct answers with the evidence, by type of question, and in a shorter context; "not
    documented" without the evidence (all, and those without another result of the test); and two
    controls that should have no correct answers: the question on another patient's context, and
    another question of the cohort on this context.
    """
    able = [case for case in cases if answerable(case.instruction.question)]

    def ask(questions: Sequence[Case], contexts: Sequence[Selection]) -> list[str]:
        prompts = [
            build_prompt(q.instruction.question, c, protocol, reader.window, reader.count_tokens)
            for q, c in zip(questions, contexts, strict=True)
        ]
        return _answers(reader, prompts)

    # Answers with the evidence, in short contexts, and without it; then both controls.
    answers = ask(able, [case.shown for case in able])
    short = ask(able, [case.short for case in able])
    bare = ask(able, [case.bare for case in able])
    # Seven positions on is another patient.
    moved = [able[(i + 7) % len(able)] for i in range(len(able))]
    strange = ask(able, [case.shown for case in moved])
    swapped = ask(moved, [case.shown for case in able])
    # Outcomes by part and question type.
    hits: dict[tuple[str, str], list[bool]] = defaultdict(list)
    rows: list[dict[str, str]] = []
    for i, case in enumerate(able):
        one, right = case.instruction, holds(answers[i], case.keys)
        sorts = (
            *("all", _question_type(one.question), _length(case.shown)),
            *(f"domain {one.domain}", f"kind {case.kind}"),
        )
        for what in sorts:
            hits["evidence shown", what].append(right)
        hits["evidence shown", "refused"].append(is_refusal(answers[i]))
        hits["evidence shown", "a line of evidence, word for word"].append(
            quotes(answers[i], case.lines(protocol))
        )
        hits[f"evidence shown in {SHORT} lines", "all"].append(holds(short[i], case.keys))
        none = _same(bare[i], NOT_DOCUMENTED)
        hits["evidence taken out", "said not documented"].append(none)
        if not case.has_other_result:
            hits["evidence taken out and no result of the test left", "said not documented"].append(
                none
            )
        hits["another patient's record", "right"].append(holds(strange[i], case.keys))
        hits["another patient's record", "said not documented"].append(
            _same(strange[i], NOT_DOCUMENTED)
        )
        hits["another question", "this fact told"].append(holds(swapped[i], case.keys))
        answered = {
            "kind": case.kind,
            "question": one.question,
            "said": answers[i],
            "bare": bare[i],
        }
        rows.append({**answered, "keys": " | ".join(case.keys), "right": str(right)})
    return [row(*name, hits[name]) for name in sorted(hits)], rows


def evaluate_reader(count: int = 20, seed: int = 9_003) -> list[dict[str, Any]]:
    """The small reader's accuracy on ``count`` patients of cohort ``seed`` (``evaluate-reader``).

    The cohorts 9001 and 9002 were used to choose what the reader declines; this one was not used.
    """
    protocol = parse("corrected")
    rows, _ = patients(Small(protocol), cases(seed, count, protocol), protocol)
    return [asdict(row) for row in rows]
