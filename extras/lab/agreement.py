"""``midchart agreement``: how far offline judges agree with people on a file of verdicts, and the
model of the judge ``statements``.

The file is tab-separated with columns ``question``, ``references`` (joined by " | ": one is
enough), ``answer`` and ``people`` ("correct" or "incorrect"), and optionally ``id``, which answers
to one question share. Further columns of verdicts are measured as judges of that name. ``--train``
fits the logistic regression; its own agreement is by ten folds of questions, five times divided.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midchart.core.access import LocalPath, needs
from midchart.core.errors import InputError, reason_of
from midchart.core.judges import JUDGES
from midchart.core.judges.agreement import ALL, KINDS, kind_of
from midchart.core.judges.statements import (
    FEATURES,
    Case,
    alternatives,
    by_claims,
    feature_rows,
)
from midchart.core.protocol import Protocol
from midchart.core.provenance import sha256_of
from midchart.core.stats.agreement import kappa_of, raw_of
from midchart.core.storage.files import output_file
from midchart.core.types import Answer, Gold, Instruction

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
JUDGES_MEASURED = ("exact", "token_overlap", "exact_else_overlap", "statements")
_COLUMNS = ("question", "references", "answer", "people", "id")
_OUTCOMES = ("correct", "incorrect")
_MEASURES = ("agreement", "kappa")
FOLDS, DIVISIONS, STRENGTH = 10, 5, 0.1
"""Cross-validation, and the inverse of the ridge penalty, on scaled features."""
OTHERS, WEIGHT = 6, 0.3
"""Answers to other questions that each question is trained with, as incorrect ones, and the weight
of one: systems that were judged too rarely answer beside the question to learn from."""


@dataclass(frozen=True, slots=True)
class Judged:
    """An answer of a system with people's verdict."""

    group: str
    question: str
    references: tuple[str, ...]
    answer: str
    correct: bool
    others: Mapping[str, bool]
    """Verdicts of others, by column."""

    @property
    def kind(self) -> str:
        """The kind of the first reference."""
        return kind_of(self.references[0])


def read_verdicts(path: Path) -> list[Judged]:
    """The rows of a file; raises InputError for one that is none, with its line."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = [*csv.DictReader(file, delimiter="\t")]
    except (OSError, UnicodeError) as error:
        raise InputError(f"{path.name} cannot be read: {reason_of(error)}") from error
    judged: list[Judged] = []
    columns = [
        name
        for name in (rows[0] if rows else ())
        if name not in _COLUMNS and all(row[name] in _OUTCOMES for row in rows)
    ]
    for line, row in enumerate(rows, start=2):
        texts = [row.get(name) or "" for name in _COLUMNS[:4]]
        references = tuple(alternatives(texts[1]))
        if not references or texts[3] not in _OUTCOMES:
            raise InputError(
                f"{path.name}, line {line}: needs question, references, answer and people (correct "
                "or incorrect), separated by tabs"
            )
        group = row.get("id") or texts[0]
        others = {name: row[name] == "correct" for name in columns}
        judged.append(Judged(group, texts[0], references, texts[2], texts[3] == "correct", others))
    if not judged:
        raise InputError(f"{path.name} holds no verdicts")
    return judged


def verdicts(judge: str, items: Sequence[Judged]) -> Bools:
    """Whether a judge finds each answer correct by one of its references, bool [n]."""
    built = JUDGES.build(judge, Protocol())
    correct = [
        any(
            built.judge(
                Instruction("q", "r", item.question), Gold("q", reference), Answer(item.answer)
            ).outcome
            == "correct"
            for reference in item.references
        )
        for item in items
    ]
    return np.array(correct, dtype=np.bool_)


def agreement_rows(judge: str, outcomes: Bools, items: Sequence[Judged]) -> list[dict[str, Any]]:
    """A row a kind of reference with answers: judge, kind, n, agreement, kappa."""
    people = np.array([item.correct for item in items])
    rows: list[dict[str, Any]] = []
    for kind in KINDS:
        chosen = np.array([kind in (ALL, item.kind) for item in items])
        if not chosen.any():
            continue
        tables = _table(outcomes[chosen], people[chosen])
        rows.append(
            {
                "judge": judge,
                "kind": kind,
                "n": int(chosen.sum()),
                "questions": len({i.group for i, c in zip(items, chosen, strict=True) if c}),
                "agreement": round(float(raw_of(tables)), 4),
                "kappa": round(float(kappa_of(tables)), 4),
            }
        )
    return rows


def _table(one: Bools, other: Bools) -> NDArray[np.int64]:
    return np.array(
        [[np.sum((one == a) & (other == b)) for b in (True, False)] for a in (True, False)]
    )


# The model of the judge ``statements``.


@dataclass(frozen=True, slots=True)
class Examples:
    """Features of every answer by each of its references [rows, features], the answer of a row,
    whether claims leave it open, what claims alone say of each answer (1, 0, nan: nothing), the
    verdict of people, the question's id, and the weight in training."""

    rows: Floats
    answer: NDArray[np.int64]
    is_open: Bools
    by_claims: Floats
    correct: Bools
    group: NDArray[np.str_]
    weight: Floats


def examples(items: Sequence[Judged], invented: Sequence[Judged]) -> Examples:
    """The training examples of a file's rows, and of answers that were made from them."""
    weight = np.append(np.ones(len(items)), np.full(len(invented), WEIGHT))
    items = [*items, *invented]
    claims = np.full(len(items), np.nan)
    cases: list[Case] = []
    owner: list[int] = []
    is_open: list[bool] = []
    for number, item in enumerate(items):
        verdict, undecided = by_claims(item.question, " | ".join(item.references), item.answer)
        if verdict is not None:
            claims[number] = verdict.outcome == "correct"
        open_cases = {case[1]: case for case in undecided}
        for reference in item.references:
            cases.append(open_cases.get(reference, (item.question, reference, item.answer)))
            owner.append(number)
            is_open.append(reference in open_cases)
    return Examples(
        np.array(feature_rows(cases)),
        np.array(owner),
        np.array(is_open),
        claims,
        np.array([item.correct for item in items]),
        np.array([item.group for item in items]),
        weight,
    )


def invented_answers(items: Sequence[Judged]) -> list[Judged]:
    """Every question with :data:`OTHERS` answers to other ones, which are incorrect, every second
    one after the question's words; and its reference after them, which is correct."""
    rng = np.random.default_rng(0)
    questions = {item.group: item for item in items}
    invented: list[Judged] = []
    for group, item in questions.items():
        others = [other.answer for other in items if other.group != group]
        texts = [others[place] for place in rng.choice(len(others), OTHERS)]
        texts[::2] = [f"{item.question}: {text}" for text in texts[::2]]
        invented += [replace(item, answer=text, correct=False, others={}) for text in texts]
        right = f"{item.question}: {item.references[0]}"
        invented.append(replace(item, answer=right, correct=True, others={}))
    return invented


def fit(known: Examples, chosen: Bools) -> Any:
    """A logistic regression on scaled features of the answers ``chosen`` [answers], each by its
    reference with the highest probability; the first fit takes the one with most of its words."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    score = known.rows[:, 0]
    model: Any = None
    for _ in range(2):
        best = _best(known, score)[chosen]
        model = make_pipeline(StandardScaler(), LogisticRegression(C=STRENGTH, max_iter=3000))
        weight = {"logisticregression__sample_weight": known.weight[chosen]}
        model.fit(known.rows[best], known.correct[chosen], **weight)
        score = model.predict_proba(known.rows)[:, 1]
    return model


def _best(known: Examples, score: Floats) -> NDArray[np.intp]:
    """The row of each answer with the highest score [answers]."""
    order = np.lexsort((score, known.answer))
    last = np.append(np.diff(known.answer[order]) > 0, True)
    return order[last]


def cross_validated(known: Examples, seed: int) -> Bools:
    """The judge's outcome on each answer, from a model that saw no answer to its question [n]."""
    names = np.unique(known.group)
    fold_of = dict(
        zip(np.random.default_rng(seed).permutation(names), range(len(names)), strict=True)
    )
    fold = np.array([fold_of[name] % FOLDS for name in known.group])
    outcomes = np.zeros(len(fold), dtype=np.bool_)
    for number in range(FOLDS):
        score = fit(known, fold != number).predict_proba(known.rows)[:, 1]
        tested = fold == number
        score = np.where(known.is_open, score, 0.0)
        outcomes[tested] = score[_best(known, score)][tested] >= 0.5
    return np.where(np.isnan(known.by_claims), outcomes, known.by_claims == 1)


def trained(known: Examples) -> dict[str, Any]:
    """The coefficients on all answers."""
    scaler, regression = (part for _, part in fit(known, known.weight > 0).steps)
    return {
        "features": list(FEATURES),
        "mean": [round(float(v), 6) for v in scaler.mean_],
        "scale": [round(float(v), 6) for v in scaler.scale_],
        "coefficients": [round(float(v), 6) for v in regression.coef_[0]],
        "intercept": round(float(regression.intercept_[0]), 6),
    }


@needs("researcher")
def judge_agreement(
    data: LocalPath,
    judges: Sequence[str] = JUDGES_MEASURED,
    train: LocalPath = "",
    source: str = "",
) -> dict[str, Any]:
    """Agreement of judges with people by kind of reference; with ``train``, the file to write, the
    model of ``statements`` and its card, which names ``source``. Raises InputError,
    UnknownName for a judge."""
    path = Path(data)
    items = read_verdicts(path)
    rows: list[dict[str, Any]] = []
    model: dict[str, Any] = {}
    for judge in judges:
        if judge == "statements" and train:
            known = examples(items, invented_answers(items))
            model = trained(known)
            outcomes = [cross_validated(known, seed) for seed in range(DIVISIONS)]
            divisions = [agreement_rows(judge, one[: len(items)], items) for one in outcomes]
            wrong = ~known.correct & (np.arange(len(known.correct)) >= len(items))
            model["answers_to_other_questions"] = {
                "n": int(wrong.sum()),
                "judged_correct": round(float(np.mean([one[wrong] for one in outcomes])), 4),
            }
            for same in zip(*divisions, strict=True):
                mean = {name: np.mean([row[name] for row in same]) for name in _MEASURES}
                rows.append(same[0] | {name: round(float(v), 4) for name, v in mean.items()})
        else:
            rows += agreement_rows(judge, verdicts(judge, items), items)
    for name in items[0].others:
        rows += agreement_rows(name, np.array([item.others[name] for item in items]), items)
    document = {
        "data": path.name,
        "sha256": sha256_of(path),
        "answers": len(items),
        "questions": len({item.group for item in items}),
        "agreement": rows,
    }
    if train:
        how = f"{FOLDS}-fold cross-validation by question, mean of {DIVISIONS} divisions"
        card = {"model": model, "source": source, **document, "statements": how}
        with output_file(Path(train)) as fresh:
            fresh.write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
    return document
