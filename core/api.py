"""The front door: the plain functions that pages and the command line call.

Both see the same engine. Nothing here computes what a room below can; it finds cohorts, keeps a
few of them open, and hands questions on. No function opens a network connection.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from core import settings, weights
from core.arms import ARMS
from core.arms.scores import ArmScores, ScoreTable, explained, score_table, scored_arms
from core.errors import DataError, InputError, UnknownName
from core.evidence import band_of, gold_sentence_ids
from core.gate.recipe import Epoch
from core.judges import JUDGES
from core.loaders import LOADERS
from core.loaders.check import check_cohort
from core.loaders.open import open_cohort
from core.packing import build_prompt
from core.protocol import PRESETS, Protocol, parse
from core.readers import READERS
from core.run import (
    cancel,
    different_only,
    item,
    report,
    report_csv,
    resume,
    rows,
    start,
    status,
    wait,
)
from core.run.gates import arm_options, train_gate
from core.text import event_text, neutralise, sentences
from core.types import (
    BANDS,
    Answer,
    Cohort,
    Event,
    Explanation,
    Gold,
    Instruction,
    Manifest,
    Prompt,
    Record,
    Selection,
    Sentence,
    Span,
    Term,
    Verdict,
)

__all__ = [
    "BANDS",
    "PRESETS",
    "Answer",
    "ArmScores",
    "Cohort",
    "Event",
    "Explanation",
    "Gold",
    "Instruction",
    "Manifest",
    "Prompt",
    "Protocol",
    "Record",
    "ScoreTable",
    "Selection",
    "Sentence",
    "Span",
    "Term",
    "Verdict",
    "ask",
    "band_of",
    "cancel",
    "check",
    "cohorts",
    "different_only",
    "event_text",
    "explain",
    "folders",
    "gold_ids",
    "instruction_for",
    "item",
    "judge",
    "make_gate",
    "members",
    "models",
    "neutralise",
    "open_data",
    "parse",
    "prepare_demo",
    "report",
    "report_csv",
    "resume",
    "rows",
    "scored_arms",
    "scores",
    "select",
    "select_report",
    "sentences",
    "start",
    "status",
    "typed_question",
    "wait",
]


@dataclass(frozen=True, slots=True)
class CohortCard:
    """A cohort in ``data/cohorts``: its folder name, path, and why it cannot be opened if so."""

    name: str
    path: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class MemberCard:
    """A member of a family: an arm, reader, judge or loader. ``problem`` says why it is away."""

    name: str
    title: str
    problem: str = ""


_open: dict[str, tuple[tuple[Any, ...], Cohort]] = {}
_lock = threading.RLock()
OPEN_AT_ONCE = 4
"""Cohorts kept open; their records are read on demand, so this bounds memory, not speed."""


def _fingerprint(path: Path) -> tuple[Any, ...]:
    """Changes when a file of the cohort is added, removed or written."""
    if path.is_file():
        stat = path.stat()
        return (stat.st_mtime_ns, stat.st_size)
    entries = sorted(p for p in path.rglob("*") if p.is_file())
    return tuple((str(p), p.stat().st_mtime_ns, p.stat().st_size) for p in entries)


def open_data(data: str | Path) -> Cohort:
    """The cohort at a path, or the one of that name in ``data/cohorts``.

    Opened once and kept while its files are unchanged. Raises DataError where it cannot be read,
    UnknownName where neither a path nor a cohort has the name.
    """
    path = Path(data).expanduser()
    if not path.exists():
        named = settings.cohorts_folder() / str(data)
        if not named.exists():
            if "/" in str(data) or path.suffix:
                raise DataError(str(data), None, "there is no such file or folder")
            raise UnknownName("cohort", str(data), [card.name for card in cohorts()])
        path = named
    path = path.resolve()
    try:
        fingerprint = _fingerprint(path)
    except OSError as error:
        raise DataError(str(path), None, f"cannot be read ({error.strerror})") from None
    with _lock:
        held = _open.get(str(path))
        if held is None or held[0] != fingerprint:
            held = (fingerprint, open_cohort(str(path)))
            _open.pop(str(path), None)
            _open[str(path)] = held
            while len(_open) > OPEN_AT_ONCE:
                _open.pop(next(iter(_open)))
        return held[1]


def cohorts() -> list[CohortCard]:
    """Every cohort in ``data/cohorts``; one that cannot be opened says why."""
    folder = settings.cohorts_folder()
    if not folder.is_dir():
        return []
    cards: list[CohortCard] = []
    for path in sorted(p for p in folder.iterdir() if not p.name.startswith(".")):
        try:
            open_data(path)
        except InputError as error:
            cards.append(CohortCard(path.name, str(path), str(error)))
        else:
            cards.append(CohortCard(path.name, str(path)))
    return cards


def cohort_key(cohort: Cohort) -> str:
    """A short opaque key for caches: changes with the cohort's files."""
    return hashlib.blake2b(
        repr((cohort.path, _fingerprint(Path(cohort.path)))).encode(), digest_size=8
    ).hexdigest()


def check(data: str | Path) -> dict[str, Any]:
    """Read a whole cohort and say what is there, what was skipped and where (``check --json``)."""
    return check_cohort(open_data(data))


def prepare_demo(
    out: str | Path | None = None,
    patients: int = 40,
    events_per_patient: int = 300,
    seed: int = 42,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Make the synthetic clinical cohort at ``out`` (default ``data/cohorts/demo``)."""
    from core.synthetic.cohort import make_clinical

    folder = Path(out) if out is not None else settings.cohorts_folder() / "demo"
    return make_clinical(folder, patients, events_per_patient, seed, progress)


def make_gate(
    data: str | Path,
    out: str | Path | None = None,
    protocol: str = "corrected",
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Train a QCCS gate on a cohort and say where it lies and how it did (``train-gate --json``).

    Raises DataUseError where the cohort's tag forbids training, InputError where it has too few
    patients or no reference answers.
    """
    cohort = open_data(data)
    chosen = parse(protocol)
    folder = (
        Path(out) if out is not None else settings.cache_folder() / "gates" / cohort_key(cohort)
    )

    def told(epoch: Epoch, epochs: int) -> bool:
        if progress is not None:
            progress(epoch.epoch, epochs)
        return True

    gate = train_gate(cohort, chosen, folder, told)
    return {
        "folder": str(folder.resolve()),
        "hash": gate.config.hashing.name,
        "n": gate.config.hashing.n,
        "temperature": gate.temperature,
        "split": {part: len(getattr(gate.split, part)) for part in ("train", "validation", "test")},
        **{name: gate.facts[name] for name in ("pairs", "curve", "test_auroc", "recipe")},
    }


def folders() -> dict[str, str]:
    """Where cohorts, runs, caches and models lie, for messages that name the exact path."""
    return {
        "cohorts": str(settings.cohorts_folder()),
        "runs": str(settings.runs_folder()),
        "cache": str(settings.cache_folder()),
        "models": str(settings.models_folder()),
    }


def members(family: str) -> list[MemberCard]:
    """The members of "arm", "reader", "judge" or "loader", with what each needs and lacks."""
    registries: Mapping[str, Any] = {
        "arm": ARMS,
        "reader": READERS,
        "judge": JUDGES,
        "loader": LOADERS,
    }
    if family not in registries:
        raise UnknownName("family", family, registries)
    cards: list[MemberCard] = []
    for name in registries[family].names():
        factory = registries[family].get(name)
        needs = getattr(factory, "needs", None)
        cards.append(MemberCard(name, factory.title, weights.problem(needs) if needs else ""))
    return cards


def models() -> list[dict[str, Any]]:
    """Weights the program can use: which are here, which are missing, where they go."""
    return weights.catalogue()


def instruction_for(cohort: Cohort, instruction_id: str) -> Instruction:
    """The instruction with this id; raises UnknownName."""
    for instruction in cohort.instructions:
        if instruction.id == instruction_id:
            return instruction
    raise UnknownName("instruction", instruction_id, [i.id for i in cohort.instructions])


def typed_question(record: Record, question: str) -> Instruction:
    """An instruction for a question somebody typed; the cohort's own where it is the same."""
    question = question.strip()
    if not question:
        raise InputError("the question is empty; type a question about the record")
    digest = hashlib.blake2b(f"{record.id}\0{question}".encode(), digest_size=8).hexdigest()
    return Instruction(f"typed-{digest}", record.id, question)


def build_arm(cohort: Cohort | None, name: str, protocol: Protocol) -> Any:
    """An arm by name; the oracle is pinned to the cohort's located evidence, a gate that nobody
    named is the house's own, trained on first use."""
    if name != "oracle":
        return ARMS.build(name, protocol, **arm_options(name, protocol, {}))
    gold: Mapping[str, Gold] = cohort.gold if cohort is not None else {}

    def pinned(instruction: Instruction) -> tuple[Span, ...]:
        found = gold.get(instruction.id)
        return found.spans if found is not None else ()

    return ARMS.build(name, protocol, pinned=pinned)


def select(
    cohort: Cohort | None,
    record: Record,
    instruction: Instruction,
    arm: str,
    protocol: Protocol,
    k: int | None = None,
) -> Selection:
    """What ``arm`` keeps of ``record`` for ``instruction``."""
    return build_arm(cohort, arm, protocol).select(record, instruction, protocol.budget(k))


def scores(
    cohort: Cohort | None,
    record: Record,
    instruction: Instruction,
    arms: Sequence[str],
    protocol: Protocol,
) -> ScoreTable:
    """Every candidate sentence's score by each of ``arms``.

    An arm that is away, or cannot score this question, carries its reason in ``problem``.
    """
    made = [(name, partial(build_arm, cohort, name, protocol)) for name in arms]
    return score_table(record, instruction, made, protocol)


def explain(
    record: Record, instruction: Instruction, arm: str, sentence_id: str, protocol: Protocol
) -> Explanation | None:
    """A sentence's score by ``arm`` taken apart; None where the arm has nothing to take apart.

    Raises UnknownName for an arm there is not, or a sentence that the arm does not rank.
    """
    return explained(build_arm(None, arm, protocol), record, instruction, sentence_id)


def ask(
    instruction: Instruction, selection: Selection, reader: str, protocol: Protocol
) -> tuple[Prompt, Answer]:
    """What a reader is given for a selection, and what it answers."""
    built = READERS.build(reader, protocol)
    prompt = build_prompt(
        instruction.question, selection, protocol, built.window, built.count_tokens
    )
    return prompt, built.read(prompt)


def judge(
    instruction: Instruction, gold: Gold, answer: Answer, name: str, protocol: Protocol
) -> Verdict:
    """A judge's verdict on an answer."""
    return JUDGES.build(name, protocol).judge(instruction, gold, answer)


def gold_ids(record: Record, gold: Gold, protocol: Protocol) -> frozenset[str]:
    """Ids of the sentences that hold the gold evidence, under a protocol's unit."""
    return gold_sentence_ids(sentences(record, protocol), gold.spans)


def select_report(
    data: str | Path, record_id: str, question: str, arm: str, k: int | None, protocol: Protocol
) -> dict[str, Any]:
    """The JSON of ``select --json`` (DESIGN, The command line)."""
    cohort = open_data(data)
    ARMS.get(arm)  # an unknown arm is told before a record is read
    record = cohort.records[record_id]
    instruction = next(
        (
            i
            for i in cohort.instructions
            if i.record_id == record.id and question in (i.question, i.id)
        ),
        None,
    ) or typed_question(record, question)
    selection = select(cohort, record, instruction, arm, protocol, k)
    last = max(len(record.events) - 1, 1)
    orders = [kept.sentence.span.event / last for kept in selection.kept]
    return {
        "record": record.id,
        "question": instruction.question,
        "arm": arm,
        "protocol": protocol.as_dict(),
        "sentences": [
            {
                "id": kept.sentence.id,
                "event": kept.sentence.span.event,
                "time": kept.sentence.time.isoformat() if kept.sentence.time else None,
                "kind": kept.sentence.kind,
                "text": kept.sentence.text,
                "score": kept.score,
                "kept_by": kept.kept_by,
            }
            for kept in selection.kept
        ],
        "tokens": selection.tokens,
        "position_range": [min(orders), max(orders)] if orders else None,
    }
