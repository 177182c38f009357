"""Multiple choice: LongHealth's three tasks, counted as its authors count, and ways to choose."""

from __future__ import annotations

import json
import re
from hashlib import blake2b
from pathlib import Path

import pytest

from midchart.core import api
from midchart.core.errors import SpecError
from midchart.core.experiments.answers.experiment import CANNOT, task_cohort
from midchart.core.loaders.open import open_cohort
from midchart.core.protocol import Protocol
from midchart.core.readers import READERS
from midchart.core.text.choices import correct_option
from midchart.core.types import Answer
from tests.support.run_helpers import contents, finished_run, workspace_at

LETTERS = "abcde"
UNREAD = "I would rather not choose"
DRUGS = ("aspirin", "heparin", "insulin", "digoxin", "codeine")


class Picker:
    """Answers in LongHealth's format, with a letter drawn from the prompt, or with none."""

    name, title, window = "test_picker", "Picker", 32_000

    def __init__(self, protocol: Protocol) -> None:
        pass

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def read(self, prompt):
        drawn = blake2b(prompt.text.encode(), digest_size=2).digest()[0] % (len(prompt.options) + 1)
        if drawn == len(prompt.options):
            return Answer(UNREAD)
        return Answer(f"The correct answer is {'ABCDEF'[drawn]}: {prompt.options[drawn]}.")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory):
    with (
        workspace_at(tmp_path_factory.mktemp("choice")) as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setitem(READERS._factories, "test_picker", Picker)
        patients = {}
        for p in range(6):
            texts = {
                f"text_{t}": f"Letter {t} of patient {p}, seen on 01/0{t + 1}/2020.\n\n"
                f"Dose {t}{p} of {DRUGS[(t + p) % 5]} was started at visit {t}."
                for t in range(4)
            }
            questions = [
                {
                    "No": q,
                    "question": f"Which drug was started at visit {q} of patient {p}?",
                    **{f"answer_{x}": drug for x, drug in zip(LETTERS, DRUGS, strict=True)},
                    "correct": DRUGS[(q + p) % 5],
                    "answer_location": {f"text_{q}": {"start": [0.6], "end": [0.9]}},
                }
                for q in range(4)
            ]
            patients[f"patient_{p}"] = {"texts": texts, "questions": questions}
        (folder / "data" / "cohorts" / "lh").mkdir(parents=True)
        (folder / "data" / "cohorts" / "lh" / "benchmark.json").write_text(json.dumps(patients))
        yield folder / "data" / "cohorts" / "lh"


def authors_count(answers: list[tuple[str, tuple[str, ...], str]]) -> float:
    """Accuracy by the rule of LongHealth's authors: the letter of the option that contains the
    correct text, and the letter that follows "The correct answer is"."""
    right = 0
    for text, options, correct in answers:
        letter = ""
        for name, option in zip("ABCDEF", options, strict=False):
            if correct in option:
                letter = name
        stated = re.findall(r"The correct answer is (\w):", text)
        right += bool(stated) and stated[0] == letter
    return right / len(answers)


@pytest.mark.parametrize("task", [1, 2, 3])
def test_a_task_is_scored_as_its_authors_score_it(place: Path, task: int) -> None:
    spec = {
        "kind": "answers",
        "data": str(place),
        "arms": ["full"],
        "readers": ["test_picker"],
        "judges": ["choice", {"name": "choice", "rule": "authors"}],
        "task": task,
        "repeats": 2,
        "others": 3,
    }
    run = finished_run(spec)
    cohort = task_cohort(open_cohort(place), task, 2, 3, Protocol().seed)
    rows = list(contents(run)["answers"].values())
    asked = {one.id: one for one in cohort.instructions}
    answers = [
        (row["answer"], asked[row["instruction"]].options, cohort.gold[row["instruction"]].answer)
        for row in rows
    ]
    assert len(answers) == 6 * 4 * 2
    tables = api.report(run)["tables"]
    ours, overall = (row for row in tables["accuracy"] if row["band"] == "overall")
    assert overall["judge"] != ours["judge"] == "choice"
    assert overall["accuracy"] == pytest.approx(authors_count(answers))
    assert 0 < overall["accuracy"] < 1
    unread = sum(text == UNREAD for text, _, _ in answers)
    assert unread == ours["unparsed"] == len(answers) - ours["n"] > overall["unparsed"] == 0
    assert ours["bound_low"] == pytest.approx(authors_count(answers))
    assert ours["bound_high"] == pytest.approx(authors_count(answers) + unread / len(answers))
    assert {row["record"] for row in rows} == {f"patient_{p}" for p in range(6)}
    size = 5 if task == 1 else 6
    chance = tables["chance"][-1]
    assert (chance["options"], chance["questions"], chance["chance"]) == (
        None,
        48,
        pytest.approx(1 / size),
    )


def test_the_notes_of_each_task(place: Path) -> None:
    opened = open_cohort(place)
    patient_texts = {id: {e.text for e in record.events} for id, record in opened.records.items()}
    for task, notes in ((1, 4), (2, 4), (3, 3)):
        cohort = task_cohort(opened, task, 3, 3, 42)
        orders: set[tuple[str, ...]] = set()
        for one in cohort.instructions:
            patient = cohort.patient[one.record_id]
            record, gold = cohort.records[one.record_id], cohort.gold[one.id]
            texts = [event.text for event in record.events]
            orders.add(tuple(texts))
            assert len(set(texts)) == notes
            assert len(patient_texts[patient] & set(texts)) == {1: 4, 2: 1, 3: 0}[task]
            assert (one.options[-1] == CANNOT) == (task > 1)
            assert correct_option(gold.answer, one.options) is not None
            if task == 3:
                assert (gold.answer, gold.spans) == (CANNOT, ())
            else:
                (span,) = gold.spans
                assert gold.answer in record.events[span.event].text[span.start : span.end]
                source = next(
                    e for e in opened.records[patient].events if e.text == texts[span.event]
                )
                assert source.time == record.events[span.event].time
        assert len(orders) > 24
    with pytest.raises(SpecError, match="there are 20"):
        task_cohort(opened, 3, 1, 21, 42)
