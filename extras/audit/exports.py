"""A finished run of kind answers as files of other tools: Inspect AI, Every Eval Ever, and
ArchEHR-QA's submissions.

One log for each arm and reader. Prompts and answers are in it only where that is asked for and the
cohort's data-use tag allows it; ids, verdicts, tokens and prices always are.

ArchEHR-QA scores *factuality*: precision, recall and F1 of the sentences that answers cite, all
cases together. *Strict*: those labelled essential count; *lenient*: the supplementary ones too. Its
submission is a list of ``{"case_id", "answer"}``, whose answers end with the sentences that they
cite, ``|3,4|``. Source: BioNLP 2025 shared task (https://archehr-qa.github.io); its organisers'
script has not read what is written here.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import numpy as np

from midchart.core.access import LocalPath, RunRef, guarded, needs
from midchart.core.errors import InputError, missing_package
from midchart.core.loaders.benchmarks import LABELS, LabelledCase, labelled_cases
from midchart.core.loaders.open import open_cohort
from midchart.core.parsing import user_path
from midchart.core.protocol import Protocol
from midchart.core.provenance import now, sha256_of
from midchart.core.results.export import check_text_allowed, cohort_name, finished_plan
from midchart.core.results.report import report
from midchart.core.runs.directory import RunDirectory, find_run, write_json
from midchart.core.runs.plan import Plan
from midchart.core.runs.schemas import COUNTS
from midchart.core.stats.intervals import cluster_totals, ratio
from midchart.core.stats.paired import reported_interval
from midchart.core.storage.files import use_ordinary_mode
from midchart.core.text import sentences
from midchart.core.text.prompt import LINE_DATE

Written = dict[str, Any]
SCHEMA_VERSION = "0.3.0"
"""Of Every Eval Ever."""
LEFT_OUT = "[text of the record left out]"
_ENDS = {"length": "max_tokens", "filter": "content_filter", "tool": "tool_calls"}
"""How an answer ended → Inspect's word; "stop" otherwise."""


@dataclass(frozen=True, slots=True)
class ExportedSystem:
    """An arm and reader of a run: its answers, each with outcome by judge, and its accuracies."""

    run: str
    created: str
    label: str
    reader: str
    task: str
    answers: list[dict[str, Any]]
    accuracies: list[Mapping[str, Any]]
    with_text: bool
    plan: Plan

    def text(self, answer: Mapping[str, Any], column: str) -> str:
        """A text of an answer, or that it is left out."""
        return (answer[column] or "") if self.with_text else LEFT_OUT


@guarded
@needs("researcher", paths=("folder",))
def _export(to: str, run: RunRef, out: LocalPath | None = None, with_text: bool = False) -> Written:
    """Write a finished run of kind answers as logs of ``to`` into a folder that is not there yet.

    ``to``: "inspect", "every-eval-ever" or "archehr-qa"; ``out`` None: ``RUN-TO`` here. Gives
    ``run``, ``folder``, ``files`` and ``with_text``. Raises InputError for another kind or state
    (or cohort, of ArchEHR-QA's submission), DataUseError where text is asked for and its tag does
    not allow it, MissingModel where inspect-ai is not installed.
    """
    folder = find_run(run)
    plan = finished_plan(folder)
    if plan.kind != "answers":
        raise InputError(f"run {run} is of kind {plan.kind}; only runs of kind answers are written")
    if with_text:
        check_text_allowed(folder, plan)
    target = user_path(out) if out is not None else Path(f"{run}-{to}")
    if target.exists():
        raise InputError(f"{target}: is there already; name a folder that is not")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".export-", dir=target.parent) as place:
            staging = Path(place, "log")
            staging.mkdir()
            rows = 0
            for system in _systems(folder, plan, with_text):
                WRITERS[to](system, staging)
                rows += len(system.answers)
            folder.note("exported", file=str(target), rows=rows, with_text=with_text)
            use_ordinary_mode(staging)
            shutil.move(staging, target)
    except OSError as error:
        raise InputError(f"{target}: cannot be written ({error.strerror or error})") from None
    files = sorted(p.relative_to(target).as_posix() for p in target.rglob("*") if p.is_file())
    return {"run": run, "folder": str(target), "files": files, "with_text": with_text}


def _systems(folder: RunDirectory, plan: Plan, with_text: bool) -> Iterator[ExportedSystem]:
    store = folder.store(plan)
    texts = ", prompt, answer" if with_text else ""
    columns = (
        "key, record, instruction, label, reader, read_tokens, output_tokens, reused_tokens, "
        f"seconds, ended, prompt_hash, model, cost_usd, sources, selection{texts}"
    )
    outcomes: dict[str, dict[str, str]] = {}
    where = f"status = 'ok' AND {COUNTS}"
    for row in store.select("verdicts", "answer_key, judge, outcome", where):
        outcomes.setdefault(row["answer_key"], {})[row["judge"]] = row["outcome"]
    accuracies = [
        row for row in report(folder.id)["tables"]["accuracy"] if row["band"] == "overall"
    ]
    for entry in plan.arms:
        for reader in plan.readers:
            answers = [
                row | {"outcomes": outcomes.get(row["key"], {})}
                for row in store.select("answers", columns, "status = 'ok' ORDER BY instruction")
                if (row["label"], row["reader"]) == (entry.label, reader)
            ]
            yield ExportedSystem(
                folder.id, plan.raw["created"], entry.label, reader, cohort_name(plan), answers,
                [r for r in accuracies if (r["label"], r["reader"]) == (entry.label, reader)],
                with_text, plan,
            )  # fmt: skip


def _plain(name: str) -> str:
    """A name, which may hold any character, as a part of a path."""
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in name)[:80]


def _file_name(system: ExportedSystem) -> str:
    plain = _plain(f"{system.label}-{system.reader}")
    return f"{plain}_{sha256(f'{system.label}/{system.reader}'.encode()).hexdigest()[:8]}"


# Inspect AI, by its own package.


def _write_inspect(system: ExportedSystem, folder: Path) -> None:
    if importlib.util.find_spec("inspect_ai") is None:
        raise missing_package("inspect-ai", "inspect")
    log: Any = importlib.import_module("inspect_ai.log")
    model: Any = importlib.import_module("inspect_ai.model")
    scorer: Any = importlib.import_module("inspect_ai.scorer")
    name = f"midchart/{_plain(system.reader)}"
    samples: list[Any] = []
    for answer in system.answers:
        tokens = {"input_tokens": answer["read_tokens"], "output_tokens": answer["output_tokens"]}
        known = {key: value for key, value in tokens.items() if value is not None}
        usage = model.ModelUsage(
            **known, total_tokens=sum(known.values()), total_cost=answer["cost_usd"]
        )
        ended = _ENDS.get(answer["ended"] or "", "stop")
        prompt, text = system.text(answer, "prompt"), system.text(answer, "answer")
        output = model.ModelOutput.from_content(name, text, stop_reason=ended)
        output.usage = usage
        letters = {"correct": "C", "incorrect": "I"}
        samples.append(log.EvalSample(
            id=answer["instruction"], epoch=1, input=prompt, target="", output=output,
            messages=[model.ChatMessageUser(content=prompt), output.choices[0].message],
            scores={
                judge: scorer.Score(value=letters[outcome])
                for judge, outcome in answer["outcomes"].items() if outcome in letters
            },
            metadata={"patient": answer["record"], "arm": system.label,
                      "outcomes": answer["outcomes"], "prompt_hash": answer["prompt_hash"]},
            model_usage={name: usage},
        ))  # fmt: skip
    scores = [
        log.EvalScore(
            name=row["judge"], scorer=row["judge"], scored_samples=row["n"],
            metrics={"accuracy": log.EvalMetric(name="accuracy", value=row["accuracy"])},
        )
        for row in system.accuracies if row["accuracy"] is not None
    ]  # fmt: skip
    ids = [sample.id for sample in samples]
    spec = log.EvalSpec(
        created=system.created, run_id=system.run, task=f"{system.task}/{system.label}",
        task_id=_file_name(system), model=name, config=log.EvalConfig(epochs=1),
        dataset=log.EvalDataset(name=system.task, samples=len(ids), sample_ids=ids),
        metadata={"midchart_run": system.run, "arm": system.label, "reader": system.reader},
    )  # fmt: skip
    results = log.EvalResults(
        total_samples=len(samples), completed_samples=len(samples), scores=scores
    )
    written = log.EvalLog(status="success", eval=spec, results=results, samples=samples)
    log.write_eval_log(written, str(folder / f"{_file_name(system)}.eval"))


# Every Eval Ever: the documents of its schema.


def _write_every_eval_ever(system: ExportedSystem, folder: Path) -> None:
    model = {"name": system.reader, "id": f"midchart/{_plain(system.reader)}"}
    evaluation = f"{_plain(system.task)}/{model['id']}/{system.run}/{_file_name(system)}"
    # Its validator takes names that are UUIDs of version 4 alone.
    identifier = str(UUID(bytes=sha256(evaluation.encode()).digest()[:16], version=4))
    place = folder / "data" / _plain(system.task) / model["id"]
    place.mkdir(parents=True, exist_ok=True)
    samples = place / f"{identifier}_samples.jsonl"
    rows = 0
    with samples.open("w", encoding="utf-8") as file:
        for answer in system.answers:
            for judge, outcome in answer["outcomes"].items():
                if outcome in ("correct", "incorrect"):
                    row = _instance(system, answer, judge, outcome == "correct", evaluation)
                    file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")
                    rows += 1
    write_json(place / f"{identifier}.json", {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": evaluation,
        "evaluation_timestamp": system.created,
        "retrieved_timestamp": now(),
        "source_metadata": {
            "source_name": "midchart", "source_type": "evaluation_run",
            "source_organization_name": "unknown", "evaluator_relationship": "other",
        },
        "eval_library": {"name": "midchart", "version": _version()},
        "model_info": {
            **model, "developer": "midchart",
            "additional_details": {"deployment_type": "unknown", "model_availability": "unknown",
                                   "arm": system.label},
        },
        "evaluation_results": [
            _result(system, row) for row in system.accuracies if row["accuracy"] is not None
        ],
        "detailed_evaluation_results": {
            "format": "jsonl", "file_path": samples.relative_to(folder).as_posix(),
            "hash_algorithm": "sha256", "total_rows": rows,
            "checksum": sha256_of(samples),
        },
    })  # fmt: skip


def _version() -> str:
    return importlib.import_module("midchart.core").__version__


def _result(system: ExportedSystem, row: Mapping[str, Any]) -> dict[str, Any]:
    names = ("patient", "bootstrap by patient") if row["patient_low"] is not None else None
    side, method = names or ("wilson", "Wilson, questions independent")
    interval = {
        "lower": row[f"{side}_low"], "upper": row[f"{side}_high"], "confidence_level": 0.95,
        "method": method,
    }  # fmt: skip
    return {
        "evaluation_result_id": row["judge"],
        "evaluation_name": system.task,
        "source_data": {"dataset_name": system.task, "source_type": "other"},
        "metric_config": {
            "evaluation_description": f"share of answers that {row['judge']} judges correct",
            "metric_id": "accuracy", "metric_name": row["judge"], "metric_kind": "accuracy",
            "metric_unit": "proportion", "lower_is_better": False, "score_type": "continuous",
            "min_score": 0.0, "max_score": 1.0,
        },
        "score_details": {
            "score": row["accuracy"],
            "uncertainty": {"confidence_interval": interval, "num_samples": row["n"]},
        },
    }  # fmt: skip


def _instance(
    system: ExportedSystem, answer: Mapping[str, Any], judge: str, correct: bool, evaluation: str
) -> dict[str, Any]:
    text = system.text(answer, "answer")
    read, written = answer["read_tokens"], answer["output_tokens"]
    usage = {"input_tokens": read, "output_tokens": written}
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": evaluation,
        "model_id": f"midchart/{_plain(system.reader)}",
        "evaluation_name": system.task,
        "evaluation_result_id": judge,
        "sample_id": answer["instruction"],
        "sample_hash": answer["prompt_hash"],
        "interaction_type": "single_turn",
        "input": {"raw": system.text(answer, "prompt"), "reference": []},
        "output": {"raw": [text]},
        "messages": None,
        "answer_attribution": [{
            "turn_idx": 0, "source": "output.raw", "extracted_value": text,
            "extraction_method": "none", "is_terminal": True,
        }],
        "evaluation": {"score": float(correct), "is_correct": correct},
        "token_usage": None if read is None or written is None
        else {**usage, "total_tokens": read + written},
        "performance": None if answer["seconds"] is None
        else {"latency_ms": 1000 * answer["seconds"]},
        "error": None,
        "metadata": {"patient": answer["record"], "arm": system.label,
                     "ended": answer["ended"] or ""},
    }  # fmt: skip


# ArchEHR-QA.


def _write_archehr(system: ExportedSystem, folder: Path) -> None:
    cases = cases_of(find_run(system.run))
    scores = scores_of(cases, system.answers, system.plan.protocol)
    facts = {"arm": system.label, "reader": system.reader, "scores": scores}
    write_json(folder / f"{_file_name(system)}_scores.json", facts)
    if system.with_text:
        answers = submission(cases, system.answers)
        text = json.dumps(answers, ensure_ascii=False, indent=1)
        (folder / f"{_file_name(system)}.json").write_text(text, encoding="utf-8")


WRITERS: Mapping[str, Callable[[ExportedSystem, Path], None]] = {
    "archehr-qa": _write_archehr,
    "every-eval-ever": _write_every_eval_ever,
    "inspect": _write_inspect,
}


to_archehr_qa = partial(_export, "archehr-qa")
to_every_eval_ever = partial(_export, "every-eval-ever")
to_inspect = partial(_export, "inspect")


_DATE = re.compile(rf"^\[{LINE_DATE}\] ")
"""Before a line that a reader quotes."""
MOST_WORDS = 75
"""Of an answer; the task's script reads no more."""
Answers = Sequence[Mapping[str, Any]]
"""Rows of table ``answers``."""


@dataclass(frozen=True, slots=True)
class SubmittedCase:
    """A case: its sentences and labels, and where Midchart's own sentences of the note lie, by id:
    first character and the one after."""

    labelled: LabelledCase
    spans: Mapping[str, tuple[int, int]]

    def sentences_of(self, ids: Iterable[str]) -> list[str]:
        """The case's sentences, in the note's order, that any of these sentences of ours touch."""
        spans = [self.spans[id] for id in ids if id in self.spans]
        return [
            name
            for name, (start, end) in self.labelled.places.items()
            if any(begin < end and start < stop for begin, stop in spans)
        ]


def cases_of(folder: RunDirectory) -> dict[str, SubmittedCase]:
    """The cases of a run's cohort by record; raises InputError where it is not ArchEHR-QA's."""
    cohort = open_cohort(folder.cohort_path())
    if cohort.format != "archehr_qa":
        raise InputError(f"{cohort.path}: is no cohort of ArchEHR-QA, whose task this is")
    protocol = folder.plan().protocol
    labelled = labelled_cases(Path(cohort.path))
    return {
        id: SubmittedCase(
            labelled[id],
            {
                one.id: (one.span.start, one.span.end)
                for one in sentences(cohort.records[id], protocol)
            },
        )
        for id in cohort.records
        if id in labelled
    }


def scores_of(
    cases: Mapping[str, SubmittedCase], answers: Answers, protocol: Protocol
) -> list[dict[str, Any]]:
    """A row for what is cited and what was selected, strictly and leniently.

    ``precision``, ``recall`` and ``f1`` over all cases with a key (null where they are 0/0), F1
    with its interval over cases (null for fewer than five), ``cases``, and ``long_answers``, those
    of more than 75 words (null without text).
    """
    labelled = [
        one for one in answers if one["record"] in cases and cases[one["record"]].labelled.labels
    ]
    long = [len((one["answer"] or "").split()) > MOST_WORDS for one in labelled if "answer" in one]
    rows: list[dict[str, Any]] = []
    for of, ids_of in (("cited", _cited), ("selected", _selected)):
        for criterion, labels in (("strict", LABELS[:1]), ("lenient", LABELS[:2])):
            counts = np.array(
                [_counts(cases[one["record"]], ids_of(one), labels) for one in labelled], float
            ).reshape(-1, 3)
            rows.append(
                {"of": of, "criterion": criterion, **_measures(counts, protocol),
                 "cases": len(labelled), "long_answers": sum(long) if long else None}
            )  # fmt: skip
    return rows


def submission(cases: Mapping[str, SubmittedCase], answers: Answers) -> list[dict[str, str]]:
    """The answers in the task's form, by case."""
    lines: list[dict[str, str]] = []
    for one in answers:
        case = cases.get(one["record"])
        if case is None:
            continue
        cited = ",".join(case.sentences_of(_cited(one)))
        text = _DATE.sub("", " ".join((one["answer"] or "").split()))
        lines.append({"case_id": one["record"], "answer": f"{text} |{cited}|" if cited else text})
    return lines


def _cited(answer: Mapping[str, Any]) -> list[str]:
    return list(answer["sources"] or ())


def _selected(answer: Mapping[str, Any]) -> list[str]:
    return [one["id"] for one in answer["selection"] or ()]


def _counts(case: SubmittedCase, ids: Iterable[str], labels: Sequence[str]) -> tuple[int, int, int]:
    """Sentences that are named and labelled, named, and labelled."""
    named = set(case.sentences_of(ids))
    right = {name for name, label in case.labelled.labels.items() if label in labels}
    return len(named & right), len(named), len(right)


def _measures(counts: np.ndarray[Any, Any], protocol: Protocol) -> dict[str, float | None]:
    """Micro precision, recall and F1 of counts [cases, 3], which :func:`_counts` gives."""
    both, named, right = (float(total) for total in counts.sum(axis=0))
    measures: dict[str, float | None] = {
        "precision": both / named if named else None,
        "recall": both / right if right else None,
        "f1": 2 * both / (named + right) if named + right else None,
        "f1_low": None,
        "f1_high": None,
    }
    if len(counts) and named + right:
        rng = np.random.default_rng(protocol.seed)
        pairs = np.stack([2 * counts[:, 0], counts[:, 1] + counts[:, 2]], axis=1)
        totals = cluster_totals(pairs, protocol.resamples, rng)
        ends = reported_interval(ratio(totals[:, 0], totals[:, 1]), len(counts))
        measures["f1_low"], measures["f1_high"] = ends if ends is not None else (None, None)
    return measures
