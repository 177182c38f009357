"""Training QCCS plus: on a cohort's training patients, or the house's on patients made for it.

The house's is trained on synthetic patients that no cohort of the program shares, once, in under
a minute, and kept in the cache.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from core import settings
from core.errors import InputError
from core.evidence import gold_sentence_ids
from core.files import alone, make_folder
from core.gate.config import PlusRecipe, PlusStep
from core.gate.plus.checkpoint import STEM, Plus, save_plus
from core.gate.plus.features import PlusWeights, ready, scores
from core.gate.plus.words import RecordWords, question_words, record_words
from core.loaders.gold import gold_under
from core.loaders.open import open_cohort
from core.protocol import Protocol
from core.run.gating.readable import record_of, told_unread
from core.run.gating.training import refuse_untrainable, split_of
from core.run.provenance import content_digest, versions
from core.run.rows import digest
from core.text import sentences, words
from core.training import Progress
from core.types import Cohort

HOUSE = "plus-2"
"""Changes whenever the house's gate would come out otherwise."""
HOUSE_PATIENTS, HOUSE_EVENTS, HOUSE_SEED = 160, 250, 9001
UNIT_FIELDS = ("unit", "sentence_tokens", "interval_events")
PLUS_FIELDS = (*UNIT_FIELDS, "seed", "k")
"""What of a protocol the card of a gate trained on a cohort depends on."""


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """A question with evidence: its record's sentences and which of them hold it."""

    record_id: str
    question: str
    texts: tuple[str, ...]
    gold: tuple[int, ...]


def asked_of(
    cohort: Cohort,
    record_ids: Iterable[str],
    protocol: Protocol,
    unread: set[str],
    digests: dict[str, str],
) -> list[Asked]:
    """The questions of some patients whose evidence was located, and that have a word.

    Records that cannot be read are left out and added to ``unread``; the hash of each of the
    others is added to ``digests``.
    """
    cohort = gold_under(cohort, protocol)
    wanted, found = set(record_ids), list[Asked]()
    texts: dict[str, tuple[str, ...]] = {}
    for instruction in cohort.instructions:
        id, gold = instruction.record_id, cohort.gold.get(instruction.id)
        record = record_of(cohort, id, unread) if id in wanted and gold is not None else None
        if record is None or gold is None or not gold.spans or not words(instruction.question):
            continue
        cut = sentences(record, protocol)
        ids = gold_sentence_ids(cut, gold.spans)
        texts.setdefault(id, tuple(s.text for s in cut))
        digests[id] = record.digest
        places = tuple(i for i, s in enumerate(cut) if s.id in ids)
        if places:
            found.append(Asked(id, instruction.question, texts[id], places))
    return found


def recall(weights: PlusWeights, asked: Iterable[Asked], k: int) -> tuple[int, int]:
    """Questions with an evidence sentence among the k best, and questions in all."""
    hits = n = 0
    for one in asked:
        found = scores(weights, ready(weights, list(one.texts)), one.question)
        hits += not set(one.gold).isdisjoint(np.argsort(-found, kind="stable")[:k].tolist())
        n += 1
    return hits, n


def train_plus_gate(
    cohort: Cohort,
    protocol: Protocol,
    folder: Path,
    progress: Progress[PlusStep] | None = None,
    recipe: PlusRecipe | None = None,
    every_patient: bool = False,
) -> Plus:
    """Train QCCS plus on a cohort's training patients and write it to ``folder``.

    ``every_patient``: train on all of them (a cohort made for training). Raises DataUseError
    where the cohort's tag forbids training, InputError where no evidence could be located,
    OSError where ``folder`` cannot be written.
    """
    from core.gate.plus.trainer import Example, PlusTrainer  # loads torch

    refuse_untrainable(cohort)
    recipe = recipe or PlusRecipe(seed=protocol.seed)
    split = None if every_patient else split_of(cohort, protocol)
    patients = set(cohort.records) if split is None else {*split.train, *split.validation}
    unread, digests = set[str](), dict[str, str]()
    make_folder(folder)
    asked = asked_of(cohort, patients, protocol, unread, digests)
    if not asked:
        raise InputError(
            f"{cohort.path}: no evidence was located; there is nothing to train on"
            + told_unread(len(unread))
        )
    made: dict[str, RecordWords] = {}
    for one in asked:
        if one.record_id not in made:
            made[one.record_id] = record_words(one.texts)
    examples = [
        Example(
            made[one.record_id],
            question_words(one.question, made[one.record_id]),
            np.array(one.gold, dtype=np.int64),
        )
        for one in asked
    ]
    trainer = PlusTrainer(examples, recipe)
    trainer.run(progress)
    weights = trainer.weights()
    facts = {
        "cohort": {"name": cohort.manifest.name, "digest": content_digest(Path(cohort.path))},
        "records": dict(digests),
        "recipe": dataclasses.asdict(recipe),
        "questions": len(asked),
        "losses": trainer.epoch_losses(),
        "versions": versions(),
    }
    if split is not None:
        hits, n = recall(
            weights, asked_of(cohort, split.test, protocol, unread, digests), protocol.k
        )
        facts |= {
            "split": dataclasses.asdict(split),
            "test": {"k": protocol.k, "hits": hits, "n": n},
        }
    facts["unread_records"] = len(unread)
    plus = Plus(weights, frozenset(patients), facts)
    save_plus(folder, plus)
    return plus


def house_plus_place(protocol: Protocol) -> Path:
    """Where the house's QCCS plus lies, or will."""
    fields = repr([(name, getattr(protocol, name)) for name in UNIT_FIELDS])
    return settings.cache_folder() / "gates" / digest(HOUSE, fields)[:16]


def house_plus(protocol: Protocol, progress: Progress[PlusStep] | None = None) -> Path:
    """The folder of the house's QCCS plus, trained if need be."""
    target = house_plus_place(protocol)
    card = target / f"{STEM}.json"
    if card.exists():
        return target
    with alone(target.with_suffix(".lock")):
        if not card.exists():
            from core.synthetic.cohort import make_clinical

            with tempfile.TemporaryDirectory() as place:
                path = Path(place) / "training"
                make_clinical(path, HOUSE_PATIENTS, HOUSE_EVENTS, HOUSE_SEED)
                cohort = open_cohort(str(path))
                train_plus_gate(cohort, protocol, target, progress, every_patient=True)
    return target
