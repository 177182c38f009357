"""Opening the log of another system as a finished run that is only read here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

from midchart.core import config as settings
from midchart.core.access import Received, guarded, needs
from midchart.core.egress import audit
from midchart.core.errors import DataError, InputError, one_line
from midchart.core.identity import person
from midchart.core.options import read_run_name
from midchart.core.parsing import user_path
from midchart.core.protocol import Protocol
from midchart.core.provenance import digest, now, versions
from midchart.core.results.importing import make_read_only
from midchart.core.runs.directory import (
    DIGESTS,
    LOG_OF,
    RunDirectory,
    make_run,
    row_digests,
    write_json,
)
from midchart.core.storage.files import writing
from midchart.core.storage.rows import FinishedTable
from midchart.core.storage.staging import incoming
from midchart.core.types import Manifest
from midchart.extras.audit.other_results import OtherResults
from midchart.extras.audit.samples.open import format_of, read_samples
from midchart.extras.audit.samples.sample import Sample

KIND = "other_results"
LONGEST_SOURCE = 100
"""Characters of a log's name that the name of its run has."""
MOST_NAMED = 20
"""Parts of a log that could not be read, by name; the others are counted."""


@guarded
@needs("researcher", paths=("folder",))
def import_results(path: Received, name: str = "", sample_format: str = "") -> dict[str, Any]:
    """Open a log (a file or folder of a known format) as a finished run.

    ``name``: of the run, else the log's, hidden characters as escapes. Gives ``run``, ``folder``,
    ``format``, ``samples``, ``scores``, ``patients`` (None where the log names none) and
    ``warnings``: what could not be read, and what the figures lack. Raises DataError where nothing
    can be read, UnknownName for a format that is not known, InputError for a name that is too long
    or cannot be printed, MissingModel where its package is not installed; then nothing is left of
    it.
    """
    place = user_path(path)
    chosen_name = read_run_name(name, "import")
    source = _shown(place.name)
    read_format = format_of(place, sample_format)
    runs, cohort = settings.runs_folder(), _received_for(place)
    with writing(runs):
        runs.mkdir(parents=True, exist_ok=True)
        stack = ExitStack()
        hidden = stack.enter_context(incoming(runs, settings.imports_lock()))
    stack.enter_context(writing(runs))
    tables = {
        name: FinishedTable(hidden, name, schema) for name, schema in OtherResults.schemas.items()
    }
    for table in tables.values():
        stack.callback(table.close)
    troubles: list[str] = []
    count = unread = scores = unnamed = 0
    patients: set[str] = set()
    prompts: set[str] = set()
    total = sha256()

    def trouble(line: str) -> None:
        nonlocal unread
        unread += 1
        if len(troubles) < MOST_NAMED:
            troubles.append(one_line(line))

    with stack:
        # The rows, before the run's folder is made: the run appears complete or not at all.
        for sample in read_samples(place, trouble, sample_format):
            count += 1
            total.update(_append(tables, prompts, sample).encode())
            scores += len(sample.scores)
            patients.add(sample.patient)
            unnamed += not sample.patient
        if not count:
            reason = troubles[0] if troubles else f"{place.name}: holds no sample"
            raise DataError(place.name, None, f"nothing can be read ({reason})", "check the format")
        for table in tables.values():
            table.complete()
        warnings = [*troubles, *_doubts(count, unread, scores, unnamed)]
        facts = {"format": read_format.name, "warnings": warnings}
        run_name = chosen_name or f"{source} ({read_format.name})"

        def complete(folder: RunDirectory) -> None:
            if _received_for(place) != cohort:
                raise InputError(f"{place.name}: its cohort was removed meanwhile")
            for table in hidden.glob("*.parquet"):
                table.rename(folder.items / table.name)
            finished = {"run": folder.id, "finished": now(), "seconds": 0.0, "planned": count}
            digests = row_digests(folder)
            write_json(folder.imported, {
                "cohort": "absent", "data": "", "imported": now(), "by": person().name,
                "with_text": True, LOG_OF: cohort, DIGESTS: digests,
            })  # fmt: skip
            write_json(folder.done, {**finished, "done": count, "failed": 0, DIGESTS: digests})
            make_read_only(folder)
            audit.run_action("run imported", run=folder.id, file=place.name)

        document = _document(run_name, source, total.hexdigest(), count, facts)
        folder = make_run(document, complete=complete)
    return {
        "run": folder.id,
        "folder": str(folder.path),
        "format": read_format.name,
        "samples": count,
        "scores": scores,
        "patients": None if unnamed else len(patients),
        "warnings": warnings,
    }


def _shown(file: str) -> str:
    """The name of a file that somebody sent, as one line that any terminal shows."""
    text = one_line(file)
    return text if len(text) <= LONGEST_SOURCE else f"{text[: LONGEST_SOURCE - 1]}…"


def _received_for(place: Path) -> str:
    """The cohort that a log was received for (:mod:`midchart.extras.audit.received_logs`), or
    ""."""
    logs = settings.received_folder().resolve()
    inside = place.resolve()
    if not inside.is_relative_to(logs):
        return ""
    cohort = next(iter(inside.relative_to(logs).parts), "")
    return cohort if cohort and (settings.cohorts_folder() / cohort).is_dir() else ""


_encoded = json.JSONEncoder(ensure_ascii=False).encode
_encoded_in_order = json.JSONEncoder(ensure_ascii=False, sort_keys=True).encode


def _append(tables: Mapping[str, FinishedTable], prompts: set[str], sample: Sample) -> str:
    """Write a sample's rows, and its prompt where it is none of ``prompts``; gives a hash of
    them."""
    messages = _encoded([[one.role, one.text] for one in sample.messages])
    prompt = digest(messages, sample.context)
    shared: dict[str, Any] = {"item": sample.id, "status": "ok", "reason": None}
    common = {
        **shared,
        "record": sample.patient,
        "instruction": digest(sample.patient, sample.task, sample.question or messages),
        "task": sample.task,
        "system": sample.system,
        "model": sample.model,
        "ended": sample.ended or None,
    }
    row: dict[str, Any] = {
        **common,
        "prompt_hash": prompt,
        "read_tokens": sample.input_tokens,
        "output_tokens": sample.output_tokens,
        "cost_usd": sample.cost_usd,
        "question": sample.question,
        "answer": sample.answer,
        "place": sample.place,
        "reference": list(sample.reference),
    }
    content = _encoded_in_order([row, dict(sample.scores)])
    key = digest(sample.id, content)
    tables["samples"].append({"key": key, **row}, len(content))
    for metric, score in sample.scores.items():
        scored = {**common, "metric": metric, "score": float(score)}
        tables["scores"].append({"key": digest(key, metric), **scored}, len(content))
    if prompt not in prompts:
        prompts.add(prompt)
        texts = {"messages": messages, "context": sample.context}
        tables["prompts"].append(
            {"key": prompt, **shared, **texts}, len(messages) + len(sample.context)
        )
    return key


def _doubts(count: int, unread: int, scores: int, unnamed: int) -> list[str]:
    doubts: list[str] = []
    if unread > MOST_NAMED:
        doubts.append(f"{unread - MOST_NAMED:,} further parts of the log could not be read")
    if not scores:
        doubts.append("the log holds no score, so there is nothing to compare")
    if unnamed:
        doubts.append(
            f"{unnamed:,} of {count:,} samples name no patient: where one of them counts, "
            "intervals are by question, and too narrow if questions share a patient"
        )
    return doubts


def _document(
    name: str, source: str, content: str, count: int, facts: Mapping[str, Any]
) -> dict[str, Any]:
    """``spec.json`` of an imported log; its texts may not leave this machine."""
    return {
        "spec": {
            "name": name, "kind": KIND, "data": source, "arms": [], "readers": [], "judges": [],
            "limit": None, "part": "", "options": {}, "allow_hosts": [],
        },
        "protocol": Protocol().as_dict(),
        "position": None,
        "cohort": {
            "path": source, "format": facts["format"], "digest": content,
            "data_use": asdict(Manifest(name=source)),
        },
        "versions": versions(),
        "weights": {},
        "instructions": count,
        "planned": count,
        "found": dict(facts),
    }  # fmt: skip
