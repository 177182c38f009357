"""Training the gates of the arms qccs and qccs_plus on a cohort; their default gates."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midchart.core import config as settings
from midchart.core.cohorts.demo import install
from midchart.core.cohorts.gold import gold_under
from midchart.core.embedding.embedder import cosines, shared
from midchart.core.errors import InputError
from midchart.core.format import finite
from midchart.core.gate.checkpoint import (
    CARD,
    VALIDATED,
    Gate,
    GateConfig,
    GateEpoch,
    GateRecipe,
    PlusRecipe,
    PlusStep,
    Split,
    fold_patients,
    load_gate,
    save_gate,
    split_patients,
)
from midchart.core.gate.examples import Pairs, QuestionSentences, hashing_of, pairs
from midchart.core.gate.measures import fit_temperature
from midchart.core.gate.plus import (
    Plus,
    PlusWeights,
    RecordWords,
    question_words,
    ready,
    record_words,
    save_plus,
    scores,
)
from midchart.core.gate.scoring import DECIMALS
from midchart.core.loaders.open import content_digest, open_cohort, refuse_untrainable
from midchart.core.protocol import Protocol
from midchart.core.provenance import digest, versions
from midchart.core.stats.auroc import ranking_areas
from midchart.core.storage.files import make_folder
from midchart.core.storage.lock import exclusive
from midchart.core.text import allowed, sentences, words
from midchart.core.text.evidence import chance_of_all, chance_of_hit, gold_sentence_ids
from midchart.core.training import Progress, history_rows
from midchart.core.types import Cohort, Gold, Instruction, Sentence

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
_UNIT_FIELDS = ("unit", "sentence_tokens", "interval_events")
PLUS_FIELDS = (*_UNIT_FIELDS, "seed", "k")
"""What of a protocol the card of a gate trained on a cohort depends on."""


def _questions(
    cohort: Cohort,
    record_ids: Iterable[str],
    protocol: Protocol,
    digests: dict[str, str],
    useful: Callable[[Instruction, Gold], object],
) -> list[QuestionSentences]:
    """The useful questions of some patients, with their records' sentences up to the cutoff.

    The hash of each record is added to ``digests``.
    """
    cohort = gold_under(cohort, protocol)
    wanted, questions = set(record_ids), list[QuestionSentences]()
    units: dict[tuple[str, datetime | None], tuple[list[Sentence], tuple[str, ...]]] = {}
    for instruction in cohort.instructions:
        id, cutoff = instruction.record_id, instruction.cutoff
        gold = cohort.gold.get(instruction.id) if id in wanted else None
        if gold is None or not useful(instruction, gold):
            continue
        record = cohort.records[id]
        digests[id] = record.digest
        if (id, cutoff) not in units:
            before = allowed(sentences(record, protocol), cutoff)
            units[id, cutoff] = before, tuple(s.text for s in before)
        before, texts = units[id, cutoff]
        ids = gold_sentence_ids(before, gold.spans)
        evidence = tuple(i for i, unit in enumerate(before) if unit.id in ids)
        questions.append(QuestionSentences(id, instruction.question, gold.answer, texts, evidence))
    return questions


def _questions_with_answers(
    cohort: Cohort,
    record_ids: Iterable[str],
    protocol: Protocol,
    digests: dict[str, str],
) -> list[QuestionSentences]:
    """The questions of some patients that have a reference answer; as :func:`_questions`."""
    return _questions(cohort, record_ids, protocol, digests, lambda _, gold: gold.answer)


def questions_with_evidence(
    cohort: Cohort,
    record_ids: Iterable[str],
    protocol: Protocol,
    digests: dict[str, str],
) -> list[QuestionSentences]:
    """The questions of some patients that have a word, and evidence up to their cutoff; as
    :func:`_questions`."""
    asked = _questions(
        cohort, record_ids, protocol, digests,
        lambda instruction, gold: gold.spans and words(instruction.question),
    )  # fmt: skip
    return [one for one in asked if one.evidence]


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
            _questions_with_answers(cohort, ids, protocol, digests),
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
    make_folder(folder)
    drawn = split_pairs(cohort, protocol, split)
    config = config or GateConfig(hashing_of(protocol))
    recipe = recipe or GateRecipe(seed=protocol.seed)
    trainer = GateTrainer(config, drawn.train, drawn.validation, recipe)
    identity = digest(repr(trainer.identity()))
    trainer.run(progress, folder / f"training-{identity[:12]}.pt")
    # What the checkpoint states about its training.
    facts: Mapping[str, Any] = {
        **_facts(cohort, recipe),
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


def _facts(cohort: Cohort, recipe: GateRecipe | PlusRecipe) -> dict[str, Any]:
    """What the card of every gate states about its training."""
    return {
        "cohort": {"name": cohort.manifest.name, "digest": content_digest(Path(cohort.path))},
        "recipe": dataclasses.asdict(recipe),
        "versions": versions(),
    }


def _cosine_of(one: QuestionSentences) -> NDArray[np.float64]:
    """Cosine of each sentence with the question by MiniLM, float64 [n], rounded."""
    embedder = shared()
    rows, question = embedder.embed(one.sentences), embedder.embed([one.question])[0]
    return np.round(cosines(rows, question).astype(np.float64), DECIMALS)


def recall(weights: PlusWeights, asked: Iterable[QuestionSentences], k: int) -> dict[str, Any]:
    """How many of ``n`` questions have all pieces of the evidence (``all_pieces``), and any
    (``any_piece``), among the k best sentences, and the chance of each by as many random ones."""
    all_pieces = any_piece = 0
    chances: list[tuple[float, float]] = []
    for one in asked:
        ranking = scores(weights, ready(weights, one.sentences), one.question, _cosine_of(one))
        best = set(np.argsort(-ranking, kind="stable")[:k].tolist())
        all_pieces += best.issuperset(one.evidence)
        any_piece += not best.isdisjoint(one.evidence)
        n, hits = len(one.sentences), len(one.evidence)
        chances.append((chance_of_all(n, hits, k), chance_of_hit(n, hits, k)))
    of_all, of_any = np.mean(chances, axis=0).tolist() if chances else (None, None)
    return {
        "k": k,
        "n": len(chances),
        "all_pieces": all_pieces,
        "all_pieces_chance": of_all,
        "any_piece": any_piece,
        "any_piece_chance": of_any,
    }


def train_plus_gate(
    cohort: Cohort,
    protocol: Protocol,
    folder: Path,
    progress: Progress[PlusStep] | None = None,
    recipe: PlusRecipe | None = None,
    split: Split | None = None,
) -> Plus:
    """Train QCCS plus on a cohort's training patients and write it to ``folder``.

    ``split``: of its patients; default :func:`split_of`.

    Raises DataUseError where the cohort's tag forbids training, MissingModel where MiniLM is not
    installed, InputError where no evidence could be located, OSError where ``folder`` cannot be
    written.
    """
    from midchart.core.gate.training import Example, PlusTrainer

    # Questions with located evidence, about training and validation patients.
    split = split or split_of(cohort, protocol)
    recipe = recipe or PlusRecipe(seed=protocol.seed)
    shared()  # raises before anything is made
    patients = {*split.train, *split.validation}
    digests = dict[str, str]()
    make_folder(folder)
    asked = questions_with_evidence(cohort, patients, protocol, digests)
    refuse_untrainable(cohort)  # its tag or its files may have changed meanwhile
    if not asked:
        raise InputError(f"{cohort.path}: no evidence was located; there is nothing to train on")
    # Features of each record once, of each question; then the training.
    prepared: dict[Sequence[str], RecordWords] = {}
    for one in asked:
        if one.sentences not in prepared:
            prepared[one.sentences] = record_words(one.sentences)
    examples = [
        Example(
            prepared[one.sentences],
            question_words(one.question, prepared[one.sentences], _cosine_of(one)),
            np.array(one.evidence, dtype=np.int64),
        )
        for one in asked
    ]
    trainer = PlusTrainer(examples, recipe)
    trainer.run(progress)
    weights = trainer.weights()
    train_records = dict(digests)
    # Evaluation on test patients, and the checkpoint.
    held = questions_with_evidence(cohort, split.test, protocol, digests)
    facts = {
        **_facts(cohort, recipe),
        "records": train_records,
        "questions": len(asked),
        "losses": trainer.epoch_losses(),
        "split": dataclasses.asdict(split),
        "test": recall(weights, held, protocol.k),
    }
    plus = Plus(weights, frozenset(patients), facts)
    save_plus(folder, plus)
    return plus


_GATE_VERSION = "gate-4"
"""Changed whenever the default gate of ``qccs`` would be trained to other weights."""
SHIPPED = Path(__file__).parent / "shipped"
"""The default gate of ``qccs_plus``, under every protocol (docs/log.md says how it was trained),
and that of ``qccs`` as ``midchart train-gate demo`` makes it under the corrected protocol."""


def default_gate(protocol: Protocol) -> Path:
    """The folder of the default gate of ``qccs``: the included one where it was trained so on this
    demo cohort (or there is none), else one that is trained if it does not exist."""
    folder = default_gate_folder("qccs", protocol)
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


DEFAULT_GATES: Mapping[str, Callable[[Protocol], Path]] = {
    "qccs": default_gate,
    "qccs_plus": lambda protocol: SHIPPED,
}
"""Arm → the folder of its default gate, trained on first use where it has to be."""


@cache
def _shipped_facts() -> Mapping[str, Any]:
    return load_gate(SHIPPED).facts


def default_gate_folder(name: str, protocol: Protocol) -> Path:
    """The folder of the default gate of an arm of :data:`DEFAULT_GATES`."""
    if name == "qccs_plus":
        return SHIPPED
    demo, included = _demo_cohort(), _shipped_facts()
    values = {field: getattr(protocol, field) for field in PROTOCOL_FIELDS}
    cohort = included["cohort"]["digest"] if demo is None else content_digest(demo)
    if values == included["protocol"] and cohort == included["cohort"]["digest"]:
        return SHIPPED
    return settings.gates_folder() / digest(_GATE_VERSION, repr(list(values.items())), cohort)[:16]


def _demo_cohort() -> Path | None:
    path = settings.cohorts_folder() / "demo"
    return path if (path / "midchart.toml").is_file() else None
