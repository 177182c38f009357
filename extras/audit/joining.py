"""Samples of a log joined to the records and questions of a cohort.

A sample belongs to the record that its log names, directly or through a table of ids; without a
name it is joined by content: the record that most of its text is from. A sample that belongs to no
record is named and left out. Its question is the cohort's own where the record has one with the
same words; what the log says of reference and evidence counts where the cohort has none.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from midchart.core.cohorts.columns import WHOLE
from midchart.core.cohorts.gold import LazyValues, gold_under, located_gold
from midchart.core.cohorts.kept_questions import kept_questions
from midchart.core.errors import DataError, InputError
from midchart.core.loaders.open import cohort_folder
from midchart.core.named_files import place_of
from midchart.core.parsing import read_named
from midchart.core.protocol import Protocol
from midchart.core.storage.lru import LRU
from midchart.core.text import words
from midchart.core.types import Cohort, Gold, Instruction
from midchart.extras.audit.alignment import Shingles
from midchart.extras.audit.samples.open import read_samples
from midchart.extras.audit.samples.sample import Sample, Step

LEAST_SHARE = 0.6
"""Of a sample's stretches of words that are in one patient's records alone: the smallest share
that must be in one record for the sample to be joined to it by content."""
FEWEST = 5
"""Such stretches that a sample needs to be joined by content."""
SYSTEM = "system"
"""Name of a system where a log names neither it nor its model."""
COHORT, REVIEWER, LOG = "cohort", "reviewer", "log"
"""Who says what the evidence is: the cohort's own files, people who marked it, the log."""
NOT_THERE = "that the cohort does not have"


class Comparison:
    """What the text of each sample shares with every patient's records, in one pass over them.

    The pass is made once it is needed: to join a sample whose log names no record, or to tell
    another patient's text from text of nobody.
    """

    def __init__(self, samples: Sequence[Sample], cohort: Cohort) -> None:
        self._samples, self._cohort = samples, cohort
        self._done: Shingles | None = None

    def shingles(self, progress: Callable[[int, int], None] | None = None) -> Shingles:
        """The comparison's result; ``progress`` is called with the records done and in all."""
        if self._done is None:
            cohort = self._cohort
            texts = ("\n".join([prompt_text(s), *map(step_text, s.steps)]) for s in self._samples)
            result = Shingles(texts)
            for number, record in enumerate(cohort.records):
                if progress is not None:
                    progress(number, len(cohort.records))
                with suppress(DataError):  # it is among cohort.skipped now
                    result.compare(cohort.records[record], cohort.patient.get(record, record))
            self._done = result
        return self._done


@dataclass(frozen=True)
class AuditedCohort(Cohort):
    """A cohort that is asked the questions of a log; its instructions have the ids of the samples.

    ``evidence_from``: who says what it is ("": no evidence is known), ``sources``: the systems'
    names, ``own_questions``: the cohort's questions with the same words, each by id;
    ``by_content``: ids whose record was found by content; ``unread``: parts of the log that could
    not be read or joined, in words; ``comparison``: what the samples' texts share with all records;
    ``frame_lines``: the system's own lines (:func:`is_frame`).
    """

    samples: Mapping[str, Sample] = field(default_factory=dict[str, Sample])
    evidence_from: Mapping[str, str] = field(default_factory=dict[str, str])
    sources: Mapping[str, str] = field(default_factory=dict[str, str])
    own_questions: Mapping[str, str] = field(default_factory=dict[str, str])
    by_content: frozenset[str] = frozenset()
    unread: tuple[str, ...] = ()
    comparison: Comparison | None = None
    frame_lines: frozenset[str] = frozenset()


_audited: LRU[AuditedCohort] = LRU(2)


def audited(
    cohort: Cohort,
    log: str,
    ids: str,
    protocol: Protocol,
    base: str = "",
) -> AuditedCohort:
    """The samples of a log (a file or folder) joined to a cohort; the last results are kept.

    ``ids``: a CSV file with two columns, the log's name of a patient and the record's id; ""
    without one. ``base``: the folder that relative paths start from. Raises DataError and
    InputError where nothing can be read or joined.
    """
    path, table = (_resolved(name, base) if name else None for name in (log, ids))
    if path is None:
        raise InputError("an audit needs 'log', the file or folder with another system's answers")
    stamp = (
        str(path), _stamp(path), table and str(table), table and _stamp(table), cohort.path,
        id(cohort.records), repr(protocol),
    )  # fmt: skip
    return _audited.get(repr(stamp), lambda: _join(cohort, path, table, protocol))


def _resolved(name: str, base: str) -> Path:
    path = place_of(name)
    return path if path.is_absolute() or not base else Path(base) / path


def _stamp(path: Path) -> tuple[int, int]:
    """Size and time of a file, or their sums over the files of a folder."""
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    stats = [file.stat() for file in files]
    return sum(s.st_size for s in stats), sum(s.st_mtime_ns for s in stats)


def _join(
    cohort: Cohort,
    path: Path,
    table: Path | None,
    protocol: Protocol,
) -> AuditedCohort:
    cohort = gold_under(cohort, protocol)
    troubles: list[str] = []
    samples = list(read_samples(path, troubles.append))
    if not samples:
        why = f": {troubles[0]}" if troubles else ""
        raise DataError(str(path), None, f"holds no sample that can be read{why}", "check the file")
    names = _ids(table) if table else {}
    comparison = Comparison(samples, cohort)
    # The record and the question of each sample.
    of_cohort = {(i.record_id, _folded(i.question)): i for i in cohort.instructions}
    records_of = _records_of(cohort)

    def record_called(name: str) -> str:
        return name if name in cohort.records else records_of.get(name, "")

    asked: dict[str, Instruction] = {}
    own_questions: dict[str, str] = {}
    by_content: set[str] = set()
    unjoined: list[str] = []
    for number, sample in enumerate(samples):
        spellings = [names.get(name, name) for name in _spellings(sample.patient)]
        record = next((r for name in spellings if (r := record_called(name))), "")
        if not record:
            record = comparison.shingles().record_of(number, LEAST_SHARE, FEWEST)
            by_content.add(sample.id)
        if record:
            known = of_cohort.get((record, _folded(sample.question)))
            asked[sample.id] = known or Instruction(sample.id, record, sample.question)
            if known is not None:  # else an id of the log may equal that of another question
                own_questions[sample.id] = known.id
        else:
            why = f"names a patient {NOT_THERE}" if sample.patient else "names no patient"
            unjoined.append(f"{sample.place} {why}, and no single record has its text")
    if not asked:
        raise InputError(
            f"none of the {len(samples):,} samples of {path.name} belongs to a record of "
            f"{Path(cohort.path).name} ({unjoined[0]}) — name the records in a column 'patient', "
            "or give a table of ids (CSV: name in the log, record id)"
        )
    by_id = {sample.id: sample for sample in samples if sample.id in asked}
    marked = kept_questions(cohort_folder(cohort.path))
    evidence_from = {
        id: _evidence_from(cohort, own_questions.get(id, ""), by_id[id], marked) for id in asked
    }

    def gold(id: str) -> Gold:
        """The cohort's own gold of a sample's question, else what the log says of it."""
        sample, question = by_id[id], asked[id]
        if evidence_from[id] in (COHORT, REVIEWER):
            return replace(cohort.gold[own_questions[id]], instruction_id=id)
        own_id = own_questions.get(id, "")
        reference = cohort.gold[own_id].answer if own_id in cohort.gold else ""
        answer = reference or next(iter(sample.reference), "")
        return located_gold(
            id, answer, sample.evidence, cohort.records[question.record_id], protocol
        )

    values = {one.name: getattr(cohort, one.name) for one in fields(Cohort)}
    questions = tuple(replace(question, id=id) for id, question in asked.items())
    values |= {"instructions": questions, "gold": LazyValues(list(asked), gold), "responses": ()}
    return AuditedCohort(
        **values,
        samples=by_id,
        evidence_from=evidence_from,
        sources=_sources(by_id),
        own_questions=own_questions,
        by_content=frozenset(by_content & asked.keys()),
        unread=(*unjoined, *troubles),
        comparison=comparison,
        frame_lines=_frame_lines(by_id, asked),
    )


def prompt_text(sample: Sample) -> str:
    """What the model was given of the record: the context where the log gives it apart, else the
    prompt's messages, else what the last step had; "" where the log has none of them."""
    if sample.context:
        return sample.context
    if sample.messages:
        return "\n".join(message.text for message in sample.messages)
    return step_text(sample.steps[-1]) if sample.steps else ""


def step_text(step: Step) -> str:
    """The chunks of a step, one after another."""
    return "\n".join(chunk.text for chunk in step.chunks)


def _ids(path: Path) -> dict[str, str]:
    """The table of ids: a log's name of a patient → record id. Raises DataError."""
    try:
        text = read_named(path).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "is no UTF-8 text"
        raise DataError(str(path), None, f"cannot be read ({why})", "check the file") from None
    names: dict[str, str] = {}
    for number, row in enumerate(csv.reader(text.splitlines()), 1):
        if len(row) != 2:
            problem = f"has {len(row)} columns"
            raise DataError(str(path), number, problem, "write: name in the log, record id")
        names[row[0].strip()] = row[1].strip()
    return names


def _spellings(name: str) -> list[str]:
    """A log's name of a patient as it is, and the id in a FHIR reference or in a number that a
    table with missing values wrote as a decimal (``17.0``)."""
    reference = re.search(r"(?:^|/)Patient/([A-Za-z0-9.-]{1,64})(?:/_history/|$)", name)
    inner = [reference[1]] if reference else []
    return [name, *inner, *([name.partition(".")[0]] if re.fullmatch(WHOLE, name) else [])]


def _sources(samples: Mapping[str, Sample]) -> dict[str, str]:
    """The name of each sample's system: with its model, where a system has several."""
    models: dict[str, set[str]] = {}
    for sample in samples.values():
        models.setdefault(sample.system, set()).add(sample.model)
    named: dict[str, str] = {}
    for id, sample in samples.items():
        parts = [sample.system] if sample.system else []
        if sample.model and (not parts or len(models[sample.system]) > 1):
            parts.append(sample.model)
        named[id] = ", ".join(parts) or SYSTEM
    return named


def _records_of(cohort: Cohort) -> dict[str, str]:
    """Patient → record, of the patients with one record."""
    records: dict[str, list[str]] = {}
    for record, patient in cohort.patient.items():
        records.setdefault(patient, []).append(record)
    return {patient: of[0] for patient, of in records.items() if len(of) == 1}


def _evidence_from(
    cohort: Cohort, own_question: str, sample: Sample, marked: Container[str]
) -> str:
    if own_question in cohort.gold and cohort.gold[own_question].snippets:
        return REVIEWER if own_question in marked else COHORT
    return LOG if sample.evidence else ""


def _folded(text: str) -> str:
    return " ".join(words(text))


def _frame_lines(samples: Mapping[str, Sample], asked: Mapping[str, Instruction]) -> frozenset[str]:
    """The lines, folded, that are in half of the prompts at least and in two patients' at least:
    a system's own words, not text of a record."""
    times: Counter[str] = Counter()
    records: dict[str, set[str]] = {}
    for id, sample in samples.items():
        for line in {_folded(line) for line in prompt_text(sample).splitlines()}:
            times[line] += 1
            seen = records.setdefault(line, set())
            if len(seen) < 2:
                seen.add(asked[id].record_id)
    return frozenset(
        line for line, n in times.items() if 2 * n >= len(samples) and len(records[line]) > 1
    )


def is_frame(text: str, question: str, lines: frozenset[str]) -> bool:
    """Whether text of a prompt is the system's own: one of its lines, the question, or a date or
    number that it puts before a line of the record."""
    folded = _folded(text)
    if not any(map(str.isalpha, folded)):
        return True
    asked = _folded(question)
    return folded in lines or (bool(asked) and (folded in asked or asked in folded))
