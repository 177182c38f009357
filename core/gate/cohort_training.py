"""Training the gate of the arm qccs on a cohort; its default gate."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from midchart.core import config as settings
from midchart.core.cohorts.demo import install
from midchart.core.cohorts.gold import gold_under
from midchart.core.errors import InputError
from midchart.core.format import finite
from midchart.core.gate.checkpoint import (
    CARD,
    VALIDATED,
    Gate,
    GateConfig,
    GateEpoch,
    GateRecipe,
    Split,
    fold_patients,
    load_gate,
    save_gate,
    split_patients,
)
from midchart.core.gate.examples import Pairs, QuestionSentences, hashing_of, pairs
from midchart.core.gate.measures import fit_temperature
from midchart.core.loaders.open import content_digest, open_cohort, refuse_untrainable
from midchart.core.protocol import Protocol
from midchart.core.provenance import digest, versions
from midchart.core.stats.auroc import ranking_areas
from midchart.core.storage.lock import exclusive
from midchart.core.text import allowed, sentences, words
from midchart.core.text.evidence import evidence_parts
from midchart.core.training import Progress, history_rows
from midchart.core.types import Cohort, Sentence

PROTOCOL_FIELDS = (
    "unit", "sentence_tokens", "interval_events", "hash", "gate_text", "gate_positives",
    "gate_negatives", "seed",
)  # fmt: skip
"""What of a protocol a gate's training depends on."""
_POSITIVE = {
    "all": "shares a content word with a reference answer",
    "first_3": "contains a longer word of a reference answer",
    "evidence": "holds located evidence",
}


def questions_of(
    cohort: Cohort,
    record_ids: Iterable[str],
    protocol: Protocol,
    digests: dict[str, str],
) -> list[QuestionSentences]:
    """The questions of some patients that have a reference answer, with their records' sentences
    up to the cutoff.

    The hash of each record is added to ``digests``.
    """
    cohort = gold_under(cohort, protocol)
    wanted, questions = set(record_ids), list[QuestionSentences]()
    units: dict[tuple[str, datetime | None], tuple[list[Sentence], tuple[str, ...]]] = {}
    for instruction in cohort.instructions:
        id, cutoff = instruction.record_id, instruction.cutoff
        gold = cohort.gold.get(instruction.id) if id in wanted else None
        if gold is None or not gold.answer:
            continue
        record = cohort.records[id]
        digests[id] = record.digest
        if (id, cutoff) not in units:
            before = allowed(sentences(record, protocol), cutoff)
            units[id, cutoff] = before, tuple(s.text for s in before)
        before, texts = units[id, cutoff]
        ids = evidence_parts(before, gold.spans).keys()
        evidence = tuple(i for i, unit in enumerate(before) if unit.id in ids)
        position = getattr(gold, protocol.position, None)
        questions.append(
            QuestionSentences(id, instruction.question, gold.answer, texts, evidence, position)
        )
    return questions


@dataclasses.dataclass(frozen=True, slots=True)
class SplitPairs:
    """A cohort made ready for training: the split, the pairs of each of its parts, and the hash of
    each record."""

    split: Split
    train: Pairs
    validation: Pairs
    test: Pairs
    digests: Mapping[str, str]


def split_of(cohort: Cohort, protocol: Protocol, validated: float = VALIDATED) -> Split:
    """The split of a cohort's patients that have questions with a reference.

    ``validated``: share of the training patients to validate on. Raises DataUseError where its tag
    forbids training, InputError where it has too few patients.
    """
    refuse_untrainable(cohort)
    return split_patients(_asked_patients(cohort), protocol.seed, validated)


def folds_of(
    cohort: Cohort, protocol: Protocol, number: int, new_questions: bool = False
) -> list[Split]:
    """Splits of the same patients for cross-fitting: each patient is in the test part of one.

    ``new_questions``: patients who are asked the same question are in the same part, so that a gate
    is tested on questions that it was not trained on. Raises as :func:`split_of`, and InputError
    where there are too few patients, or groups of them.
    """
    refuse_untrainable(cohort)
    ids = _asked_patients(cohort)
    groups = {id: {id} for id in ids}
    asked: dict[tuple[str, ...], str] = {}
    for instruction in cohort.instructions if new_questions else ():
        id = instruction.record_id
        if id not in ids:
            continue
        other = asked.setdefault(tuple(words(instruction.question)), id)
        if groups[id] is not groups[other]:
            groups[other] |= groups[id]
            for member in groups[id]:
                groups[member] = groups[other]
    together = {min(group): group for group in groups.values()}
    return fold_patients(together.values(), number, protocol.seed)


def _asked_patients(cohort: Cohort) -> set[str]:
    return {i.record_id for i in cohort.instructions if i.id in cohort.gold}


def split_pairs(cohort: Cohort, protocol: Protocol, split: Split | None = None) -> SplitPairs:
    """Draw the pairs of each part of a split of a cohort's patients (default: :func:`split_of`).

    Raises DataUseError where its tag forbids training, InputError where it has too few patients or
    no pairs.
    """
    split, digests = split or split_of(cohort, protocol), dict[str, str]()
    drawn = [
        pairs(
            questions_of(cohort, ids, protocol, digests),
            protocol,
            np.random.default_rng([protocol.seed, i]),
        )
        for i, ids in enumerate((split.train, split.validation, split.test))
    ]
    refuse_untrainable(cohort)  # its tag or its files may have changed meanwhile
    if not len(drawn[0]):
        raise InputError(
            f"{cohort.path}: no sentence {_POSITIVE[protocol.gate_positives]}; "
            "there is nothing to train a gate on"
        )
    return SplitPairs(split, *drawn, digests=digests)


def train_gate(
    cohort: Cohort,
    protocol: Protocol,
    folder: Path,
    progress: Progress[GateEpoch] | None = None,
    config: GateConfig | None = None,
    recipe: GateRecipe | None = None,
    split: Split | None = None,
) -> Gate:
    """Train a gate on a cohort's training patients and write it to ``folder``.

    ``split``: of its patients; default :func:`split_of`.

    ``progress`` is called after each epoch and may stop the training (Aborted). A stopped training
    resumes from the checkpoint in ``folder``, unless the cohort was edited and gives other pairs.
    The temperature is fitted on the validation patients. Raises as :func:`split_pairs` does, and
    OSError where ``folder`` cannot be written.
    """
    from midchart.core.gate.training import GateTrainer

    # Train on the pairs of the training patients.
    split = split or split_of(cohort, protocol)  # refuses before anything is made
    folder.mkdir(parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=folder).close()  # it is writable
    drawn = split_pairs(cohort, protocol, split)
    config = config or GateConfig(hashing_of(protocol))
    recipe = recipe or GateRecipe(seed=protocol.seed)
    trainer = GateTrainer(config, drawn.train, drawn.validation, recipe)
    identity = digest(repr(trainer.identity()))
    trainer.run(progress, folder / f"training-{identity[:12]}.pt")
    # What the checkpoint states about its training.
    facts: Mapping[str, Any] = {
        "cohort": {"name": cohort.manifest.name, "digest": content_digest(Path(cohort.path))},
        "recipe": dataclasses.asdict(recipe),
        "versions": versions(),
        "records": {
            id: drawn.digests[id]
            for id in (*drawn.split.train, *drawn.split.validation)
            if id in drawn.digests
        },
        "protocol": {name: getattr(protocol, name) for name in PROTOCOL_FIELDS},
        "pairs": {
            part: {"n": len(p), "positives": int(p.label.sum())}
            for part, p in (
                ("train", drawn.train), ("validation", drawn.validation), ("test", drawn.test),
            )
        },
        "curve": history_rows(trainer.history),
        "test_auroc": finite(ranking_areas(trainer.logits(drawn.test), drawn.test.label)[0]),
    }  # fmt: skip
    # Temperature from validation patients; then the checkpoint.
    validated = trainer.logits(drawn.validation)
    temperature = fit_temperature(validated, drawn.validation.label) if len(validated) else 1.0
    gate = Gate(config, trainer.weights(), drawn.split, temperature, facts)
    save_gate(folder, gate)
    for left in folder.glob("training-*.pt"):  # those of other pairs as well
        left.unlink(missing_ok=True)
    return gate


_GATE_VERSION = "gate-4"
"""Changed whenever the default gate of ``qccs`` would be trained to other weights."""
SHIPPED = Path(__file__).parent / "shipped"
"""The gate as ``midchart train-gate demo`` makes it under the corrected protocol."""


def default_gate(protocol: Protocol) -> Path:
    """The folder of the default gate: the included one where it was trained so on this
    demo cohort (or there is none), else one that is trained if it does not exist."""
    folder = default_gate_folder(protocol)
    if (folder / CARD).exists():
        return folder
    with exclusive(folder.with_suffix(".lock")), tempfile.TemporaryDirectory() as place:
        if not (folder / CARD).exists():  # another process may have trained it meanwhile
            demo = _demo_cohort()
            if demo is None:
                demo = Path(place) / "demo"
                install("clinical", demo)
            train_gate(open_cohort(str(demo)), protocol, folder)
    return folder


@cache
def _shipped_facts() -> Mapping[str, Any]:
    return load_gate(SHIPPED).facts


def default_gate_folder(protocol: Protocol) -> Path:
    """The folder of the default gate, which need not have been trained yet."""
    demo, included = _demo_cohort(), _shipped_facts()
    values = {field: getattr(protocol, field) for field in PROTOCOL_FIELDS}
    cohort = included["cohort"]["digest"] if demo is None else content_digest(demo)
    if values == included["protocol"] and cohort == included["cohort"]["digest"]:
        return SHIPPED
    return settings.gates_folder() / digest(_GATE_VERSION, repr(list(values.items())), cohort)[:16]


def _demo_cohort() -> Path | None:
    path = settings.cohorts_folder() / "demo"
    return path if (path / "midchart.toml").is_file() else None
