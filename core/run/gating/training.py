"""Training a gate on a cohort, and the gate of the house: trained on the demo cohort, once.

The house's gate is made on first use in under a minute, kept in the cache under a name that
changes with anything that would change it, and made by one process while others wait.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from core import settings
from core.errors import DataUseError, InputError
from core.files import alone, make_folder
from core.gate.checkpoint import CARD, Gate, save_gate
from core.gate.config import Epoch, GateConfig, Recipe
from core.gate.examples import Asked, Pairs, hashing_of, pairs
from core.gate.measures import auroc, fit_temperature, known
from core.gate.split import Split, split_patients
from core.loaders.open import open_cohort
from core.protocol import Protocol
from core.run.gating.readable import record_of, told_unread
from core.run.gating.rows import curve_rows
from core.run.provenance import content_digest, versions
from core.run.rows import digest
from core.text import sentences
from core.training import Progress
from core.types import Cohort

HOUSE = "gate-3"
"""Changes whenever the house's gate would come out otherwise."""
PROTOCOL_FIELDS = (
    "unit", "sentence_tokens", "interval_events", "hash", "gate_text", "gate_positives",
    "gate_negatives", "seed",
)  # fmt: skip
"""What of a protocol a gate's training depends on."""


def refuse_untrainable(cohort: Cohort) -> None:
    """Raise DataUseError where the cohort's tag forbids training on it."""
    if not cohort.manifest.training_allowed:
        raise DataUseError(
            f"{cohort.manifest.name or cohort.path}: its data-use tag does not allow training "
            "(training_allowed in its midchart.toml)"
        )


def asked_of(
    cohort: Cohort,
    record_ids: Iterable[str],
    protocol: Protocol,
    unread: set[str],
    digests: dict[str, str],
) -> list[Asked]:
    """The questions with a reference answer of some patients, with their records' sentences.

    Records that cannot be read are left out and added to ``unread``; the hash of each of the
    others is added to ``digests``.
    """
    wanted = set(record_ids)
    found: list[Asked] = []
    texts: dict[str, list[str]] = {}
    for instruction in cohort.instructions:
        gold = cohort.gold.get(instruction.id)
        if instruction.record_id not in wanted or gold is None or not gold.answer:
            continue
        id = instruction.record_id
        if id not in texts:
            record = record_of(cohort, id, unread)
            if record is None:
                continue
            texts[id] = [s.text for s in sentences(record, protocol)]
            digests[id] = record.digest
        found.append(Asked(id, instruction.question, gold.answer, texts[id]))
    return found


@dataclasses.dataclass(frozen=True, slots=True)
class Lessons:
    """A cohort made ready for training: the split, the pairs of each of its parts, the records that
    could not be read and have none, and the hash of each record that was."""

    split: Split
    train: Pairs
    validation: Pairs
    test: Pairs
    unread: frozenset[str]
    digests: Mapping[str, str]


def split_of(cohort: Cohort, protocol: Protocol) -> Split:
    """The split of a cohort's patients that have questions with a reference.

    Raises DataUseError where its tag forbids training, InputError where it has too few patients.
    """
    refuse_untrainable(cohort)
    having = {i.record_id for i in cohort.instructions if i.id in cohort.gold}
    return split_patients(having, protocol.seed)


def lessons(cohort: Cohort, protocol: Protocol) -> Lessons:
    """Split a cohort by patients and draw the pairs of each part.

    A record that cannot be read is left out (the cohort's ``skipped`` says why). Raises
    DataUseError where its tag forbids training, InputError where it has too few patients or no
    pairs.
    """
    split, unread, digests = split_of(cohort, protocol), set[str](), dict[str, str]()
    drawn = [
        pairs(
            asked_of(cohort, ids, protocol, unread, digests),
            protocol,
            np.random.default_rng([protocol.seed, i]),
        )
        for i, ids in enumerate((split.train, split.validation, split.test))
    ]
    if not len(drawn[0]):
        raise InputError(
            f"{cohort.path}: no sentence shares a content word with a reference answer; "
            f"there is nothing to train a gate on{told_unread(len(unread))}"
        )
    return Lessons(split, *drawn, unread=frozenset(unread), digests=digests)


def train_gate(
    cohort: Cohort,
    protocol: Protocol,
    folder: Path,
    progress: Progress[Epoch] | None = None,
    config: GateConfig | None = None,
    recipe: Recipe | None = None,
) -> Gate:
    """Train a gate on a cohort's training patients and write it to ``folder``.

    ``progress`` is called after each epoch and may stop the training (Aborted). A stopped training
    resumes from the checkpoint in ``folder``, unless the cohort was edited and gives other pairs.
    The temperature is fitted on the validation patients. Raises as :func:`lessons` does, and
    OSError where ``folder`` cannot be written.
    """
    from core.gate.trainer import GateTrainer  # loads torch

    split_of(cohort, protocol)  # refuses before anything is made
    make_folder(folder)
    drawn = lessons(cohort, protocol)
    config = config or GateConfig(hashing_of(protocol))
    recipe = recipe or Recipe(seed=protocol.seed)
    trainer = GateTrainer(config, drawn.train, drawn.validation, recipe)
    identity = digest(repr(trainer.identity()))
    trainer.run(progress, folder / f"training-{identity[:12]}.safetensors")
    facts: Mapping[str, Any] = {
        "cohort": {"name": cohort.manifest.name, "digest": content_digest(Path(cohort.path))},
        "records": {
            id: drawn.digests[id]
            for id in (*drawn.split.train, *drawn.split.validation)
            if id in drawn.digests
        },
        "recipe": dataclasses.asdict(recipe),
        "protocol": {name: getattr(protocol, name) for name in PROTOCOL_FIELDS},
        "pairs": {
            part: {"n": len(p), "positives": int(p.label.sum())}
            for part, p in (
                ("train", drawn.train), ("validation", drawn.validation), ("test", drawn.test),
            )
        },
        "curve": curve_rows(trainer.history),
        "unread_records": len(drawn.unread),
        "test_auroc": known(auroc(trainer.logits(drawn.test), drawn.test.label)),
        "versions": versions(),
    }  # fmt: skip
    validated = trainer.logits(drawn.validation)
    temperature = fit_temperature(validated, drawn.validation.label)
    gate = Gate(config, trainer.weights(), drawn.split, temperature, facts)
    save_gate(folder, gate)
    for left in folder.glob("training-*.safetensors"):  # those of other pairs as well
        left.unlink(missing_ok=True)
    return gate


def house_cohort() -> Path | None:
    """The demo cohort in the data folder, where it is there."""
    path = settings.cohorts_folder() / "demo"
    return path if (path / "midchart.toml").is_file() else None


@lru_cache(maxsize=8)
def _digest(path: str, state: tuple[int, ...]) -> str:
    return content_digest(Path(path))


def house_gate_place(protocol: Protocol) -> Path:
    """Where the house's gate lies, or will."""
    demo = house_cohort()
    if demo is None:
        return _house_folder(protocol, "made")
    state = tuple(sorted(p.stat().st_mtime_ns for p in demo.rglob("*") if p.is_file()))
    return _house_folder(protocol, _digest(str(demo), state))


def house_gate(protocol: Protocol, progress: Progress[Epoch] | None = None) -> Path:
    """The folder of the gate trained on the demo cohort under a protocol, trained if need be.

    Where the demo cohort is not in the data folder, it is made anew in a temporary place; the
    same gate comes of it.
    """
    demo, target = house_cohort(), house_gate_place(protocol)
    if demo is None:
        from core.synthetic.cohort import make_clinical
        from core.synthetic.letters import MIXED

        with alone(target.with_suffix(".lock")):
            if not (target / CARD).exists():
                with tempfile.TemporaryDirectory() as place:
                    make_clinical(Path(place) / "demo", 40, 300, 42, dress=MIXED)
                    cohort = open_cohort(str(Path(place) / "demo"))
                    train_gate(cohort, protocol, target, progress)
        return target
    if (target / CARD).exists():
        return target
    with alone(target.with_suffix(".lock")):
        if not (target / CARD).exists():
            train_gate(open_cohort(str(demo)), protocol, target, progress)
    return target


def _house_folder(protocol: Protocol, cohort: str) -> Path:
    fields = repr([(name, getattr(protocol, name)) for name in PROTOCOL_FIELDS])
    return settings.cache_folder() / "gates" / digest(HOUSE, fields, cohort)[:16]
