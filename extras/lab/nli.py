"""NLI: whether the reference and the answer entail each other, by a small model on this machine.

nli-deberta-v3-small, which semantic hits use too, scores both directions: question and reference
before the answer, and question and answer before the reference; the larger probability of each
class counts. The order of classes is read from the model's ``id2label``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from pydantic import Field

from midchart.core.embedding.pairs import CONTRADICTION, ENTAILMENT, NLI, Entailment, require
from midchart.core.judges.rules import texts_of
from midchart.core.options import Configurable, Options
from midchart.core.protocol import Protocol
from midchart.core.text.refusals import is_refusal
from midchart.core.types import Answer, Gold, Instruction, Verdict


class NliOptions(Options):
    """Options of the judge ``nli``."""

    threshold: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Probability of entailment from which on an answer may be correct."""


class Nli(Configurable):
    """Correct where entailment, in either direction, reaches ``threshold`` and exceeds the
    contradiction, in either; else incorrect.

    Raises SpecError for an invalid threshold, MissingModel where the weights are not installed.
    """

    name, title, family = "nli", "Entailment by nli-deberta-v3-small", "judge"
    needs, group = NLI, 64
    options_model = NliOptions

    def __init__(self, protocol: Protocol, **options: Any) -> None:
        self.protocol, self.threshold = protocol, self.read_options(options).threshold
        self._entailment = Entailment()

    @classmethod
    def check(cls, protocol: Protocol, **options: Any) -> None:
        """Refuse invalid options and missing weights, without loading them."""
        cls.read_options(options)
        require(ENTAILMENT, CONTRADICTION)

    def judge(self, instruction: Instruction, gold: Gold, answer: Answer) -> Verdict:
        """Judge ``answer`` by ``gold``."""
        ((_, verdict),) = self.judge_many([(instruction, gold, answer)])
        return verdict

    def judge_many(
        self, items: Sequence[tuple[Instruction, Gold, Answer]]
    ) -> Iterator[tuple[int, Verdict]]:
        """Each item's index and verdict; the pairs of all items are scored together."""
        answers: list[tuple[int, str]] = []
        pairs: list[tuple[str, str]] = []
        for index, (instruction, gold, answer) in enumerate(items):
            texts = texts_of(gold, answer, self.protocol)
            if isinstance(texts, Verdict):
                yield index, texts
                continue
            reference, text = texts
            answers.append((index, text))
            pairs.append((f"{instruction.question} {reference}", text))
            pairs.append((f"{instruction.question} {text}", reference))
        if not answers:
            return
        entailed, against = self._entailment.classes(pairs, ENTAILMENT, CONTRADICTION)
        for place, (index, text) in enumerate(answers):
            both = slice(2 * place, 2 * place + 2)
            yes, no = float(entailed[both].max()), float(against[both].max())
            correct = yes >= self.threshold and yes > no
            raw = f"entailment {yes:.3f}, contradiction {no:.3f}"
            yield index, Verdict("correct" if correct else "incorrect", is_refusal(text), raw)
