"""NLI: whether the reference and the answer entail each other, by a small model on this machine.

Named as what it is: nli-deberta-v3-small, which semantic hits use too, not a clinician. Both
directions are asked, question and reference before the answer, and question and answer before the
reference; the larger probability counts in each class. Which output is which is read from the
model's ``id2label``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from core.embedding.pairs import CONTRADICTION, ENTAILMENT, NLI, Entailment, require
from core.judges import JUDGES
from core.judges.offline import texts_of
from core.judges.refusal import is_refusal
from core.protocol import Protocol
from core.types import Answer, Gold, Instruction, Verdict


@JUDGES.register("nli")
class Nli:
    """Correct where entailment, in either direction, reaches ``threshold`` and contradiction, in
    either, is less likely; else incorrect.

    threshold: probability in (0, 1); the semantic hit's .5 unless another is given. Raises
    ValueError for another threshold, MissingModel where the weights are not on this machine.
    """

    name, title = "nli", "Entailment by nli-deberta-v3-small"
    needs, group = NLI, 64

    def __init__(self, protocol: Protocol, threshold: float = 0.5) -> None:
        _checked(threshold)
        self.protocol, self.threshold = protocol, threshold
        self._entailment = Entailment()

    @classmethod
    def check(cls, protocol: Protocol, threshold: float = 0.5) -> None:
        """Refuse a threshold that cannot be and weights that are not here, without loading them."""
        _checked(threshold)
        require(ENTAILMENT, CONTRADICTION)

    def judge(self, instruction: Instruction, gold: Gold, answer: Answer) -> Verdict:
        """Judge ``answer`` by ``gold``."""
        ((_, verdict),) = self.judge_many([(instruction, gold, answer)])
        return verdict

    def judge_many(
        self, items: Sequence[tuple[Instruction, Gold, Answer]]
    ) -> Iterator[tuple[int, Verdict]]:
        """Each item's index and verdict, the pairs of all items scored together."""
        asked: list[tuple[int, str]] = []
        pairs: list[tuple[str, str]] = []
        for index, (instruction, gold, answer) in enumerate(items):
            found = texts_of(gold, answer, self.protocol)
            if isinstance(found, Verdict):
                yield index, found
                continue
            reference, text = found
            asked.append((index, text))
            pairs.append((f"{instruction.question} {reference}", text))
            pairs.append((f"{instruction.question} {text}", reference))
        if not asked:
            return
        entailed, against = self._entailment.classes(pairs, ENTAILMENT, CONTRADICTION)
        for place, (index, text) in enumerate(asked):
            both = slice(2 * place, 2 * place + 2)
            yes, no = float(entailed[both].max()), float(against[both].max())
            right = yes >= self.threshold and yes > no
            raw = f"entailment {yes:.3f}, contradiction {no:.3f}"
            yield index, Verdict("correct" if right else "incorrect", is_refusal(text), raw)


def _checked(threshold: float) -> None:
    if not 0.0 < threshold < 1.0:
        raise ValueError(f"threshold is a probability between 0 and 1, not {threshold!r}")
