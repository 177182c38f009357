"""The gates of a run of kind ``gate``: the paper's ablations and faults, evaluation and tables.

docs/methods.md, The QCCS gate. A variant belongs to one or more groups, of which a spec chooses; a
gate in several of them (the standard one) is trained once. All variants, faults included, are
evaluated on the same pairs of the test patients: labels by the corrected rules, three random
negatives a positive. None was used in training or in fitting the temperature.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from statistics import fmean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midchart.core.arms.base import top_k
from midchart.core.errors import InputError
from midchart.core.format import finite
from midchart.core.gate.checkpoint import GateConfig, GateRecipe, Head, Split
from midchart.core.gate.cohort_training import questions_of
from midchart.core.gate.examples import QuestionSentences, hashing_of, pairs, positives
from midchart.core.gate.measures import score_gap
from midchart.core.gate.scoring import Parts, Scorer
from midchart.core.loaders.check import resolve_position
from midchart.core.protocol import Protocol
from midchart.core.results.tables import ends, nested, pick, read_published
from midchart.core.runs.experiment import Table
from midchart.core.runs.job import TRAINED
from midchart.core.stats.paired import share_interval
from midchart.core.storage.rows import RowStore, Schema
from midchart.core.text import content_words
from midchart.core.text.evidence import chance_of_all, chance_of_hit, is_middle
from midchart.core.training_experiments.measures import (
    area_columns,
    calibration_error,
    calibration_rows,
)
from midchart.core.types import Cohort

GROUPS = ("ablation", "query", "loss", "faults")
NGRAMS = (2, 3, 4)
DIMS = (32, 64, 128)
HEADS: tuple[Head, ...] = ("linear", "standard", "deep")
PROCESSES = (1, 2, 3)
"""Salts under which a salted gate is scored: three processes other than that of its training."""
CORRECTED: Mapping[str, str] = {
    "hash": "blake2",
    "gate_text": "whole",
    "gate_positives": "all",
    "gate_negatives": "random",
}
FAULTS: Mapping[str, Mapping[str, str]] = {
    "salted hash": {"hash": "salted"},
    "first 3 positives": {"gate_positives": "first_3"},
    "earliest negatives": {"gate_negatives": "earliest"},
    "500 characters, 128 n-grams": {"gate_text": "500_characters_128_ngrams"},
}
ALL_FAULTS = "all four"
NO_FAULT = "none"


@dataclass(frozen=True, slots=True)
class Variant:
    """A gate to train.

    ``changes``: protocol fields that differ; ``fault``: its published fault ("none" for the
    corrected gate in the group of faults, empty outside it). ``loss``: bce or focal; ``groups``:
    those it belongs to.
    """

    name: str
    groups: frozenset[str]
    ngram: int = 3
    dim: int = 64
    head: Head = "standard"
    query: bool = True
    loss: str = "bce"
    fault: str = ""
    changes: Mapping[str, str] = field(default_factory=dict[str, str])

    def protocol(self, base: Protocol) -> Protocol:
        """The protocol this gate is trained under: ``base`` with its fault."""
        if not self.fault:
            return base
        return dataclasses.replace(base, **{**CORRECTED, **self.changes})

    def config(self, base: Protocol) -> GateConfig:
        """The gate's shape."""
        return GateConfig(
            hashing_of(self.protocol(base), self.ngram), self.dim, self.head, self.query
        )

    def recipe(self, base: Protocol, epochs: int) -> GateRecipe:
        """How it is trained."""
        loss = "focal" if self.loss == "focal" else "bce"
        return GateRecipe(epochs=epochs, loss=loss, seed=base.seed)

    def salts(self, base: Protocol) -> tuple[int, ...]:
        """The salts under which it is scored; 0 is that of the process of its training."""
        return (0, *PROCESSES) if self.protocol(base).hash == "salted" else (0,)


def _name(ngram: int = 3, dim: int = 64, head: str = "standard") -> str:
    return f"n={ngram} dim={dim} {head}"


def variants(groups: Iterable[str], protocol: Protocol) -> list[Variant]:
    """The variants of some groups, the standard gate first, each once."""
    standard = Variant(_name(), frozenset({"ablation", "query", "loss"}))
    grid = [
        Variant(_name(ngram, dim, head), frozenset({"ablation"}), ngram, dim, head)
        for ngram, dim, head in product(NGRAMS, DIMS, HEADS)
    ]
    every = [standard, *(one for one in grid if one.name != standard.name)]
    every.append(Variant(_name() + " without query", frozenset({"query"}), query=False))
    every.append(Variant(_name() + " focal", frozenset({"loss"}), loss="focal"))
    # Faults start from the corrected gate; under a protocol with faults it is a separate one.
    faults = frozenset({"faults"})
    if all(getattr(protocol, name) == value for name, value in CORRECTED.items()):
        every[0] = dataclasses.replace(standard, groups=standard.groups | faults, fault=NO_FAULT)
    else:
        every.append(Variant(f"{_name()} corrected", faults, fault=NO_FAULT))
    for fault, changes in FAULTS.items():
        every.append(Variant(f"fault: {fault}", faults, fault=fault, changes=changes))
    together = {name: value for changes in FAULTS.values() for name, value in changes.items()}
    every.append(Variant(f"fault: {ALL_FAULTS}", faults, fault=ALL_FAULTS, changes=together))
    chosen = frozenset(groups)
    return [one for one in every if one.groups & chosen]


TEST_DRAW = 2
"""Index of the test part in :func:`core.gate.cohort_training.split_pairs`: the pairs are those of a
gate's card."""


@dataclass(frozen=True, eq=False, slots=True)
class GateQuestion:
    """A question of a test patient.

    ``rows`` [m]: indices of the labelled sentences, ``label`` [m] their labels. ``lexical``,
    ``evidence`` [sentences]: the sentences with a content word of the reference, and with gold
    evidence; None where there is none.
    """

    asked: QuestionSentences
    rows: NDArray[np.int64]
    label: NDArray[np.float32]
    lexical: NDArray[np.bool_] | None
    evidence: NDArray[np.bool_] | None


@dataclass(frozen=True, eq=False, slots=True)
class Recalled:
    """Whether the relevant sentences of each question were kept, the question's patient, and the
    chance that as many random sentences do so."""

    hit: list[bool]
    patient: list[str]
    chance: list[float]


@dataclass(frozen=True, eq=False, slots=True)
class GateScores:
    """The scores of a gate.

    ``logits``, ``labels``, ``patients`` [pairs]. ``recalled``: by measure of recall at k, which
    counts questions of which a selected sentence contains a content word of the reference ("") or
    any piece of its evidence ("evidence_"), or the selected sentences all pieces ("evidence_all_");
    "middle_" is the first where the evidence is in the middle.
    """

    logits: NDArray[np.float64]
    labels: NDArray[np.float32]
    patients: NDArray[np.object_]
    recalled: Mapping[str, Recalled]


class Evaluation:
    """The questions of a split's test patients under a protocol.

    Raises InputError where no sentence is positive.
    """

    def __init__(self, cohort: Cohort, split: Split, protocol: Protocol) -> None:
        protocol, _ = resolve_position(protocol, cohort)
        self.k = protocol.k
        rules = dataclasses.replace(protocol, **CORRECTED)
        rng = np.random.default_rng([protocol.seed, TEST_DRAW])
        self.questions: list[GateQuestion] = []
        for asked in questions_of(cohort, split.test, protocol, {}):
            drawn = pairs([asked], rules, rng)
            first = {text: i for i, text in reversed(list(enumerate(asked.sentences)))}
            rows = np.array([first[drawn.sentences[i]] for i in drawn.sentence], dtype=np.int64)
            lexical = _mask(asked, positives(asked, "all")) if content_words(asked.answer) else None
            evidence = _mask(asked, asked.evidence) if asked.evidence else None
            self.questions.append(GateQuestion(asked, rows, drawn.label, lexical, evidence))
        if not any(len(question.rows) for question in self.questions):
            raise InputError(
                f"{cohort.path}: no sentence of a test patient shares a content word with a "
                "reference answer; a gate cannot be evaluated"
            )

    def evaluate(self, scorer: Scorer) -> GateScores:
        """Score every question with a gate; k sentences are selected, without a recency buffer."""
        parts: dict[Sequence[str], Parts] = {}
        logits: list[NDArray[np.float64]] = []
        names = ("", "evidence_", "evidence_all_", "middle_")
        recalled = {name: Recalled([], [], []) for name in names}
        for question in self.questions:
            asked = question.asked
            if asked.sentences not in parts:
                parts[asked.sentences] = scorer.parts(asked.sentences)
            scores = scorer.scores(parts[asked.sentences], asked.question)
            logits.append(scores[question.rows])
            top, n = top_k(scores, self.k), len(scores)
            in_middle = asked.position is not None and is_middle(asked.position)
            middle = question.lexical if in_middle else None
            masks = (question.lexical, question.evidence, question.evidence, middle)
            for name, relevant in zip(names, masks, strict=True):
                if relevant is None:
                    continue
                hits, selected = int(relevant.sum()), int(relevant[top].sum())
                every = name == "evidence_all_"
                chance = (chance_of_all if every else chance_of_hit)(n, hits, self.k)
                recalled[name].hit.append(selected == hits if every else selected > 0)
                recalled[name].patient.append(asked.record_id)
                recalled[name].chance.append(chance)
        return GateScores(
            np.concatenate(logits),
            np.concatenate([q.label for q in self.questions]),
            np.repeat(
                np.array([q.asked.record_id for q in self.questions], dtype=np.object_),
                [len(q.rows) for q in self.questions],
            ),
            recalled,
        )


def _mask(asked: QuestionSentences, places: Sequence[int]) -> NDArray[np.bool_]:
    """Which sentences [n] are at these places."""
    return np.isin(np.arange(len(asked.sentences)), np.asarray(places, dtype=np.int64))


# Rows and report tables. Shares are shares, not per cent. Intervals are by patient
# (midchart.core.stats.paired).


SCORE_BINS = 20
FAULT_ORDER = (NO_FAULT, *FAULTS, ALL_FAULTS)
PUBLISHED_HEADS = {"shallow": "linear", "standard": "standard", "deep": "deep"}
PAPER_COLUMNS = ("paper_recall", "paper_spread", "paper_low", "paper_high")
AREA = ("auroc", "ci_low", "ci_high")
Ends = tuple[float | None, float | None]

PIECES: Schema = {
    **dict.fromkeys(("chance", "evidence_chance", "middle_chance"), "DOUBLE"),
    **dict.fromkeys(("evidence_all_hits", "evidence_all_n"), "BIGINT"),
    **dict.fromkeys(("evidence_all_low", "evidence_all_high", "evidence_all_chance"), "DOUBLE"),
}
"""What runs of earlier versions do not hold of an evaluation."""
VARIANTS: Schema = {
    **TRAINED,
    "variant": "VARCHAR",
    **dict.fromkeys(("ngram", "dim"), "BIGINT"),
    "head": "VARCHAR",
    "query": "BOOLEAN",
    **dict.fromkeys(("loss", "fault"), "VARCHAR"),
    **dict.fromkeys(("seconds", "temperature"), "DOUBLE"),
    "curve": "STRUCT(epoch BIGINT, loss DOUBLE, validation_loss DOUBLE, validation_auroc DOUBLE)[]",
    "sittings": "STRUCT(salt BIGINT, auroc DOUBLE, ci_low DOUBLE, ci_high DOUBLE, gap DOUBLE, "
    "hits BIGINT, n BIGINT, low DOUBLE, high DOUBLE, evidence_hits BIGINT, evidence_n BIGINT, "
    "evidence_low DOUBLE, evidence_high DOUBLE, middle_hits BIGINT, middle_n BIGINT, "
    "middle_low DOUBLE, middle_high DOUBLE)[]",
    "pieces": f"STRUCT({', '.join(f'{name} {type}' for name, type in PIECES.items())})[]",
    "calibration": "STRUCT(stage VARCHAR, bin BIGINT, n BIGINT, mean_score DOUBLE, "
    "positive_rate DOUBLE, low DOUBLE, high DOUBLE, ece DOUBLE)[]",
    "scores": "STRUCT(label VARCHAR, bin_low DOUBLE, bin_high DOUBLE, count BIGINT)[]",
    "split": "STRUCT(part VARCHAR, patients BIGINT, sentences BIGINT, positives BIGINT)[]",
}
"""One row a trained variant. ``seconds``: of training, in the pass that finished it.
``sittings``: its evaluations, one for each process (salt) that it scored in; ``pieces``: chance
levels and all pieces of the evidence of each, null in runs of earlier versions."""


def evaluation_row(salt: int, answers: GateScores, protocol: Protocol) -> dict[str, Any]:
    """One evaluation: AUROC, score gap and recall, with intervals over patients."""
    columns: dict[str, Any] = {}
    if len(np.unique(answers.labels)) > 1:
        columns, _ = area_columns(answers.logits, answers.labels, answers.patients, protocol)
    row = {
        "salt": salt,
        **{name: columns.get(name) for name in AREA},
        "gap": finite(score_gap(answers.logits, answers.labels)),
    }
    for name, recalled in answers.recalled.items():
        row |= {f"{name}hits": sum(recalled.hit), f"{name}n": len(recalled.hit)}
        row[f"{name}chance"] = fmean(recalled.chance) if recalled.chance else None
        row |= ends(name, share_interval(recalled.hit, recalled.patient))
    return row


def evaluation_columns(evaluations: Iterable[Mapping[str, Any]]) -> dict[str, Table]:
    """The columns ``sittings`` and ``pieces`` of a variant's :func:`evaluation_row` entries."""
    listed = list(evaluations)
    return {
        "sittings": [{k: v for k, v in one.items() if k not in PIECES} for one in listed],
        "pieces": [pick(one, PIECES) for one in listed],
    }


def _evaluations(row: Mapping[str, Any]) -> Table:
    """The entries that :func:`evaluation_columns` stored."""
    pieces = row["pieces"] or [dict.fromkeys(PIECES)] * len(row["sittings"])
    return [one | more for one, more in zip(row["sittings"], pieces, strict=True)]


def reliability_rows(scores: GateScores, temperature: float) -> Table:
    """Reliability as trained (raw) and with the temperature (scaled), with its error ``ece``."""
    from scipy.special import expit

    table: Table = []
    for stage, divisor in (("raw", 1.0), ("scaled", temperature)):
        probability = {stage: expit(scores.logits / divisor)}
        rows = calibration_rows(probability, scores.labels, scores.patients, equal_width=True)
        table += [row | {"ece": calibration_error(rows)} for row in rows]
    return table


def score_rows(scores: GateScores) -> Table:
    """Histogram of the probabilities of positives and of negatives, in twenty equal bins."""
    from scipy.special import expit

    probability, labels = expit(scores.logits), scores.labels
    edges = np.linspace(0.0, 1.0, SCORE_BINS + 1)
    return [
        {
            "label": label,
            "bin_low": i / SCORE_BINS,
            "bin_high": (i + 1) / SCORE_BINS,
            "count": int(count),
        }
        for label, inside in (("positive", labels > 0.5), ("negative", labels <= 0.5))
        for i, count in enumerate(np.histogram(probability[inside], edges)[0])
    ]


def gate_tables(store: RowStore) -> dict[str, Table]:
    """All tables of a run."""
    rows = store.select("variants", "*", "status = 'ok'")
    rows = [row | {"sittings": _evaluations(row)} for row in rows]
    return {
        "training": nested(rows, "curve", ("variant",)),
        "ablation": _ablation(rows),
        "calibration": _calibration(rows),
        "scores": nested(rows, "scores", ("variant",)),
        "faults": _faults(rows),
        "split": _split(rows),
        "published": published(rows),
        "failures": store.select("variants", "variant, reason", "status = 'failed'"),
    }


def _recall(result: Mapping[str, Any], name: str = "") -> dict[str, Any]:
    """Recall of an evaluation with its interval and chance level, as columns; all null where n is
    0 or not known."""
    prefix = f"{name}_" if name else ""
    n = result[f"{prefix}n"]
    return {
        f"{prefix}recall": result[f"{prefix}hits"] / n if n else None,
        f"{name or 'recall'}_low": result[f"{prefix}low"],
        f"{name or 'recall'}_high": result[f"{prefix}high"],
        f"{name or 'recall'}_chance": result[f"{prefix}chance"],
    }


def _measured(result: Mapping[str, Any], more: Sequence[str] = ()) -> dict[str, Any]:
    """An evaluation's areas, and its recall of words, of all pieces and of any piece of the
    evidence."""
    return {
        **pick(result, (*AREA, *more)),
        **_recall(result),
        **_recall(result, "evidence_all"),
        **_recall(result, "evidence"),
        **pick(result, ("n", "evidence_n")),
    }


def _without_fault(rows: Table) -> Table:
    return [row for row in rows if row["fault"] in ("", NO_FAULT)]


def _ablation(rows: Table) -> Table:
    """One row each variant without a fault; ``n`` counts the questions of ``recall``,
    ``evidence_n`` those of all pieces (``evidence_all_recall``) and any piece
    (``evidence_recall``) of the evidence."""
    shape = ("variant", "ngram", "dim", "head", "query", "loss")
    return [
        {**pick(row, shape), **_measured(row["sittings"][0], ("gap",)), "seconds": row["seconds"]}
        for row in _without_fault(rows)
    ]


def _calibration(rows: Table) -> Table:
    """Reliability of each variant, raw and scaled, by bin of predicted probability."""
    bins = nested(rows, "calibration", ("variant", "temperature"))
    return [
        {_RENAMED.get(name, name): value for name, value in one.items()}
        | {"temperature": one["temperature"] if one["stage"] == "scaled" else 1.0}
        for one in bins
    ]


_RENAMED: Mapping[str, str] = {"low": "ci_low", "high": "ci_high", "recall_chance": "chance"}
"""Name of a measure → its column."""


def _faults(rows: Table) -> Table:
    """The corrected gate, and the gate under each published fault, in each process it scored in."""
    table: Table = []
    shown = [row for row in rows if row["fault"]]
    for row in sorted(shown, key=lambda row: FAULT_ORDER.index(row["fault"])):
        for result in row["sittings"]:
            name = row["fault"]
            if len(row["sittings"]) > 1:
                salt = result["salt"]
                name += ", same process" if salt == 0 else f", process {salt}"
            measured = _measured(result).items()
            table.append({"fault": name} | {_RENAMED.get(key, key): at for key, at in measured})
    return table


def _split(rows: Table) -> Table:
    """Patients, labelled pairs and positives, each part of the split.

    Pairs are those of a gate without a published fault in its examples, where there is one; the
    patients are the same for all.
    """
    return (_without_fault(rows) or rows)[0]["split"] if rows else []


def published(rows: Table) -> Table:
    """The paper's ablations, and the mean recall of our variants of the same factor and value.

    ``spread`` and ``recall_low``, ``recall_high`` are standard deviation, minimum and maximum over
    variants, as in the paper's table; for the ablation of the query ours are one gate each, and
    these are its interval by patient.
    """
    grid = [row for row in _ablation(rows) if row["query"] and row["loss"] == "bce"]
    columns = {"ngram": "ngram", "embedding_dim": "dim", "mlp": "head"}
    table: Table = []
    for line in read_published("gate_ablation.csv"):
        factor, value = line["factor"], line["value"]
        column, wanted = columns.get(factor), PUBLISHED_HEADS.get(value, value)
        recalls = [row["recall"] for row in grid if not column or str(row[column]) == wanted]
        ours = [recall for recall in recalls if recall is not None]
        extent = (min(ours), max(ours)) if len(ours) > 1 else (None, None)
        names = {"table": "gate_ablation", "factor": factor, "value": value}
        paper = [line[name] for name in ("mean_recall_pct", "sd", "low_pct", "high_pct")]
        table.append(names | _against_paper(paper, None, ours, extent, None))
    standard = {"ngram": 3, "dim": 64, "head": "standard", "loss": "bce"}
    for line, part in product(read_published("query_ablation.csv"), ("overall", "middle")):
        wanted = standard | {"query": line["condition"] == "with_query"}
        same = (row["sittings"][0] for row in _without_fault(rows) if pick(row, wanted) == wanted)
        result = next(same, None)
        of = "" if part == "overall" else "middle_"
        n = result and result[f"{of}n"]
        ours = [result[f"{of}hits"] / n] if result and n else []
        extent = (result[f"{of}low"], result[f"{of}high"]) if result and n else (None, None)
        names = {"table": "query_ablation", "factor": line["condition"], "value": part}
        # The paper gives one n, that of all its questions.
        paper_n = int(line["n"]) if part == "overall" else None
        paper = [line[f"{part}_pct"], None, None, None]
        table.append(names | _against_paper(paper, paper_n, ours, extent, n))
    return table


def _against_paper(
    paper: Sequence[str | None], paper_n: int | None, ours: Sequence[float], extent: Ends, n: Any
) -> dict[str, Any]:
    """The columns of the paper's figures (per cent) and of the recalls of our variants."""
    shares = [None if cell is None else round(float(cell) / 100, 6) for cell in paper]
    return {
        **dict(zip(PAPER_COLUMNS, shares, strict=True)),
        "paper_n": paper_n,
        "recall": fmean(ours) if ours else None,
        "spread": stdev(ours) if len(ours) > 1 else None,
        **dict(zip(("recall_low", "recall_high"), extent, strict=True)),
        "variants": len(ours),
        "n": n,
    }
