"""Training examples: deterministic, answerable by the line they name, disjoint from evaluations."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from midchart.core.errors import InputError, WorkFailed
from midchart.core.judges.rules import is_refusal
from midchart.core.loaders.open import open_cohort
from midchart.core.protocol import Protocol
from midchart.core.synthetic.cohort import make_clinical
from midchart.core.synthetic.training_examples import (
    ExamplePlan,
    kinds,
    require,
    seeded_example,
    shared,
)
from midchart.core.text import count_tokens
from midchart.core.text.prompt import NOT_DOCUMENTED, build_prompt, without_date
from midchart.core.types import ContextLine, Selection

PLAN = ExamplePlan(lines=(8, 40))


def test_a_seed_and_a_number_determine_an_example() -> None:
    assert seeded_example(5, 7, PLAN) == seeded_example(5, 7, PLAN)
    assert seeded_example(5, 7, PLAN) != seeded_example(5, 8, PLAN)
    assert seeded_example(5, 7, PLAN) != seeded_example(6, 7, PLAN)


@pytest.mark.parametrize("place", ["uniform", "edges"])
def test_the_answer_is_the_named_line_verbatim(place: str) -> None:
    kinds: set[str] = set()
    for number in range(60):
        example = seeded_example(1, number, replace(PLAN, place=place))
        assert len(example.asked) == 20
        assert 8 <= len(example.lines) <= 40
        days = [line[1:11] for line in example.lines]
        assert days == sorted(days)
        for asked in example.asked:
            kinds.add(asked.kind)
            assert asked.line not in asked.distractors
            if asked.line is None:
                assert asked.answer == NOT_DOCUMENTED
                assert is_refusal(asked.answer)
            else:
                assert asked.answer == without_date(example.lines[asked.line])
    assert len(kinds) > 40


def test_facts_are_asked_for_equally_often_within_one() -> None:
    plan = replace(PLAN, lines=(8, 40), asked=24, absent=0.0, withheld=0.0)
    fewest = set[int]()
    for number in range(30):
        times = Counter(asked.line for asked in seeded_example(3, number, plan).asked)
        assert None not in times
        assert max(times.values()) - min(times.values()) <= 1
        fewest.add(min(times.values()))
    assert len(fewest) > 2


def test_a_withheld_fact_has_distractors_and_no_evidence() -> None:
    plan = ExamplePlan(
        lines=(30, 30), kinds=("lab",), withheld=1.0, distractors=2, invented=1.0, absent=0.0
    )
    seen = 0
    for number in range(12):
        example = seeded_example(6, number, plan)
        for asked in example.asked:
            day = next(word for word in asked.question.split() if word.count("-") == 2).strip(
                "?,.:"
            )
            of_the_day = [line for line in example.lines if f" {day}" in line or f"({day}" in line]
            name = set(asked.question.lower().replace("?", "").split())
            assert asked.line is None or asked.distractors == ()
            if asked.distractors:
                seen += 1
                assert asked.line is None
                # No line has both the day and the thing that are asked for.
                assert not any(
                    len(name & set(line.lower().replace(",", "").split())) > 3
                    for line in of_the_day
                )
    assert seen > 20


def test_evidence_near_the_edges_is_nearer_to_them() -> None:
    def share_of_middle(place: str) -> float:
        plan = ExamplePlan(lines=(40, 40), place=place, kinds=("lab", "dose_on_day"), distractors=0)
        at = [
            asked.line / 39
            for number in range(40)
            for asked in seeded_example(2, number, plan).asked
            if asked.line is not None
        ]
        return float(np.mean([0.3 <= place <= 0.7 for place in at]))

    # Of 40 lines, 16 lie in [.3, .7]: uniform places put .4 of the evidence there.
    assert share_of_middle("uniform") == pytest.approx(0.4, abs=0.08)
    assert share_of_middle("edges") < 0.2


def test_the_latest_value_comes_after_its_distractors() -> None:
    plan = ExamplePlan(lines=(20, 20), kinds=("latest", "dose"))
    for number in range(20):
        for asked in seeded_example(4, number, plan).asked:
            assert asked.line is None or all(i < asked.line for i in asked.distractors)


def test_prompts_equal_those_of_the_application() -> None:
    example = seeded_example(1, 1, PLAN)
    lines = tuple(ContextLine(f"e{i}", line) for i, line in enumerate(example.lines))
    selection = Selection("r", "i", "bm25", (), 0, lines=lines)
    packed = build_prompt(example.asked[0].question, selection, Protocol(), 9999, count_tokens)
    assert packed.text == example.prompt(0)
    assert all(day != "" for day, _ in pairwise(example.lines))


def test_training_examples_share_no_text_with_evaluation_cohorts(tmp_path) -> None:
    examples = [seeded_example(1, number, ExamplePlan(lines=(30, 60))) for number in range(150)]
    cohorts = []
    for seed in (42, 7):
        make_clinical(tmp_path / str(seed), 3, 150, seed)
        cohorts.append(open_cohort(tmp_path / str(seed)))
    assert shared(examples, cohorts) == ()
    require(examples, cohorts)


def test_shared_texts_are_detected(tmp_path) -> None:
    make_clinical(tmp_path / "c", 1, 150, 42)
    cohort = open_cohort(tmp_path / "c")
    example = seeded_example(1, 1, PLAN)
    question = replace(example.asked[0], question="What is the most recent uric acid?")
    templated = replace(example, asked=(question,))
    stolen = replace(
        example, lines=(*example.lines, "[2001-01-01] Uric acid 9.4 mg/dL (01/02/2014).")
    )
    needle = replace(example, lines=(*example.lines, "[2001-01-01] Takes riluzole."))
    copied = replace(example, asked=(replace(question, question=cohort.instructions[0].question),))
    for bad in (templated, stolen, needle, copied):
        assert len(shared([bad], [cohort])) == 1
        with pytest.raises(WorkFailed, match="training examples share 1 texts"):
            require([bad], [cohort])


def test_a_plan_that_cannot_be_met_is_refused() -> None:
    for plan in (ExamplePlan(lines=(3, 9)), ExamplePlan(lines=(9, 8)), ExamplePlan(kinds=("x",))):
        with pytest.raises(InputError, match="training examples"):
            seeded_example(1, 1, plan)
    assert {"lab", "dose", "present", "latest"} <= set(kinds())
