"""Leaks planted in the training of the small reader: which texts and targets it learns from.

It is trained on generated records, so what may leak are the texts that it is evaluated on: patients
of the clinical cohorts, whose records and questions are read from the written cohort's own files,
and the examples of the evaluation's seed. A generated record has no prediction time, and its
question may be about any of its lines: there is no event after it that could leak.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from midchart.core.errors import WorkFailed
from midchart.core.loaders.open import open_cohort
from midchart.core.small_reader import training
from midchart.core.small_reader.recipe import Recipe, Shape
from midchart.core.small_reader.training import ReaderTrainer
from midchart.core.synthetic.cohort import make_clinical
from midchart.core.synthetic.training_examples import ExamplePlan, TrainingExample, make_example
from midchart.core.types import Cohort

pytestmark = pytest.mark.slow

SHAPE = Shape(layers=3, width=112, heads=7, feed_forward=112, words=400, window=2048)
RECIPE = Recipe(steps=4, records=2, asked=(6, 6), lines=(6, 8, 8), long=12, judged=2, half=False)
EVALUATION_SEED = 9_001
PLANS = (ExamplePlan(lines=(25, 25)), ExamplePlan(lines=(25, 25), distractors=0))
"""Plans whose examples of the evaluation's seed the reader is evaluated on."""
_PERSON = re.compile(r"\b(?:Mr|Mrs|Ms|Dr)\. ([A-Z][a-z]+)")


@pytest.fixture(scope="module")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Cohort:
    folder = tmp_path_factory.mktemp("evaluated")
    make_clinical(folder, 4, 120, 77)
    return open_cohort(str(folder))


@pytest.fixture(scope="module", autouse=True)
def few_examples_for_words() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "TOKENIZER_EXAMPLES", 25)
        yield


def folded(text: str) -> str:
    return " ".join(text.lower().split())


def evaluated_texts(cohort: Cohort) -> tuple[set[str], set[str], set[str]]:
    """Lines of the records, questions, and names of people of the evaluated patients."""
    lines: set[str] = set()
    people: set[str] = set()
    for record in cohort.records.values():
        for event in record.events:
            lines |= {folded(line) for line in (event.text, *event.text.splitlines())}
            people |= set(_PERSON.findall(event.text))
    return lines - {""}, {folded(one.question) for one in cohort.instructions}, people


def evaluated_examples() -> set[tuple[str, ...]]:
    """The records of the evaluation's own examples."""
    return {
        make_example(np.random.default_rng([EVALUATION_SEED, number, 25]), plan).lines
        for plan in PLANS
        for number in range(20)
    }


def leaks(cohort: Cohort, plant: Callable[[pytest.MonkeyPatch], None] | None = None) -> set[str]:
    """Train a few steps; what is wrong with the examples that the network is handed.

    The leak is planted after the trainer was built, which looks at its first examples itself.
    """
    lines, questions, people = evaluated_texts(cohort)
    records = evaluated_examples()
    handed: list[TrainingExample] = []
    with pytest.MonkeyPatch.context() as patch:
        trainer = ReaderTrainer(RECIPE, SHAPE, save_every=1)
        if plant is not None:
            plant(patch)
        encode = training.encode

        def encoded(tokenizer, example, *rest):
            handed.append(example)
            return encode(tokenizer, example, *rest)

        patch.setattr(training, "encode", encoded)
        trainer.run()
    problems: set[str] = set()
    for example in handed:
        texts = [line.partition("] ")[2] for line in example.lines]
        if example.lines in records:
            problems.add("an evaluated example")
        if any(folded(text) in lines for text in texts):
            problems.add("a line of an evaluated patient")
        if any(name in people for text in texts for name in _PERSON.findall(text)):
            problems.add("a name of an evaluated patient")
        for number, one in enumerate(example.asked):
            if folded(one.question) in questions:
                problems.add("a question about an evaluated patient")
            target = example.written(number).strip()
            if one.line is not None and one.answer != texts[one.line]:
                problems.add("an answer that is not its line")
            if one.line is not None and target != example.lines[one.line]:
                problems.add("a target that is not its line")
    assert len(handed) == RECIPE.steps * RECIPE.records
    return problems


def changing(
    change: Callable[[TrainingExample], TrainingExample],
) -> Callable[[pytest.MonkeyPatch], None]:
    def plant(patch: pytest.MonkeyPatch) -> None:
        make = training.make_example
        patch.setattr(training, "make_example", lambda rng, plan: change(make(rng, plan)))

    return plant


def with_line(example: TrainingExample, line: str) -> TrainingExample:
    """The example with its first line that answers nothing replaced."""
    taken = {one.line for one in example.asked}
    spare = next(i for i in range(len(example.lines)) if i not in taken)
    lines = (*example.lines[:spare], f"[2020-01-01] {line}", *example.lines[spare + 1 :])
    return replace(example, lines=lines)


def with_question(example: TrainingExample, question: str) -> TrainingExample:
    first, *others = example.asked
    return replace(example, asked=(replace(first, question=question), *others))


def swapped(example: TrainingExample) -> TrainingExample:
    """Each question gets the answer of the next."""
    answers = [one.answer for one in example.asked]
    moved = [*answers[1:], answers[0]]
    asked = (replace(one, answer=text) for one, text in zip(example.asked, moved, strict=True))
    return replace(example, asked=tuple(asked))


def test_the_reader_learns_from_no_evaluated_text(cohort: Cohort) -> None:
    assert leaks(cohort) == set()


@pytest.mark.parametrize(
    "leak", ["test patient", "reused patient", "question", "label swap", "evaluation example"]
)
def test_a_leak_planted_in_the_reader_s_training_is_seen(cohort: Cohort, leak: str) -> None:
    record = next(iter(cohort.records.values()))
    text = next(event.text for event in record.events if len(event.text) > 20)
    line = folded(text.splitlines()[0])
    person = sorted(evaluated_texts(cohort)[2])[0]
    asked = cohort.instructions[0].question
    plants: dict[str, tuple[Callable[[TrainingExample], TrainingExample], str]] = {
        "test patient": (lambda e: with_line(e, line), "a line of an evaluated patient"),
        "reused patient": (
            lambda e: with_line(e, f"Mr. {person} came back."),
            "a name of an evaluated patient",
        ),
        "question": (lambda e: with_question(e, asked), "a question about an evaluated patient"),
        "label swap": (swapped, "an answer that is not its line"),
        "evaluation example": (
            lambda e: make_example(np.random.default_rng([EVALUATION_SEED, 3, 25]), PLANS[0]),
            "an evaluated example",
        ),
    }
    change, problem = plants[leak]
    assert problem in leaks(cohort, changing(change))


def test_a_trainer_whose_first_examples_hold_an_evaluated_question_is_not_built(
    cohort: Cohort, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program's own guard, which compares with the templates of the evaluated cohorts."""
    asked = cohort.instructions[0].question
    changing(lambda example: with_question(example, asked))(monkeypatch)
    with pytest.raises(WorkFailed, match="share"):
        ReaderTrainer(RECIPE, SHAPE)
