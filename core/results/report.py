"""A run's report: one document of tables, the same whatever the order in which rows came.

Works on a run in progress too. The tables themselves are those of its experiment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from midchart.core.access import LocalPath, RunRef, needs
from midchart.core.errors import DataError, UnknownName
from midchart.core.format import write_sheet
from midchart.core.loaders.check import position_in_words
from midchart.core.parsing import read_document, read_json, user_path
from midchart.core.results.agreement import agreement_rows, agreement_words
from midchart.core.results.reviews import reviewers_of, reviews_of
from midchart.core.results.values import rows_of
from midchart.core.runs.declared import Conclusion, View
from midchart.core.runs.directory import DIGESTS, RESTORE, RunDirectory, find_run, row_digests
from midchart.core.runs.experiment import EXPERIMENTS, Table
from midchart.core.runs.gate_checkpoints import seen_patients
from midchart.core.runs.plan import BUFFER_ALONE, Plan
from midchart.core.runs.schemas import COUNTS, DIGESTED
from midchart.core.runs.status import seconds_at_work, status
from midchart.core.storage.files import output_file, output_path, writing
from midchart.core.storage.rows import RowStore, literal
from midchart.core.types import CUT_OFF

# The patients that a run's tables count: those that no gate of the run was trained or calibrated
# on. This holds for every arm; patients that a gate has seen (midchart.core.runs.gate_checkpoints)
# are reported in separate tables.


TEST, SEEN, ALL = "test", "seen", "all"
PARTS = (TEST, SEEN, ALL)


@dataclass(frozen=True, slots=True)
class PatientPart:
    """A part of a run's patients: ``where``, the condition on a row's ``record``, in SQL;
    ``patients``, their number; ``seen``, the number of those that a gate has seen, by arm's
    label."""

    name: str
    where: str
    patients: int
    seen: dict[str, int]

    @property
    def words(self) -> str:
        """What a reader of the tables should know of the patients; empty where all count."""
        if not self.seen:
            return ""
        arms = ", ".join(f"{label} {n}" for label, n in self.seen.items())
        if self.name == TEST:
            return (
                f"part = test: every table of results is of the {self.patients} patients that no "
                f"gate of this run was trained on; seen in training: {arms}, in tables of their "
                "own (recall_seen, accuracy_seen)"
            )
        if self.name == SEEN:
            return f"part = seen: patients on whom a gate of this run was trained ({arms})"
        return (
            f"part = {self.name}: patients on whom a gate of this run was trained are among these "
            f"{self.patients} ({arms}), so its arm is not comparable with the others"
        )


def part_of(folder: RunDirectory, plan: Plan, part: str = "") -> PatientPart:
    """A part of a run's patients: "test", "seen" or "all"; empty for "test" where the run has a
    trained arm and its spec did not ask for the training patients themselves, else all. Raises
    UnknownName."""
    if part and part not in PARTS:
        raise UnknownName("part of a run's patients", part, PARTS)
    kind = EXPERIMENTS.build(plan.kind)
    if not kind.compares:
        return PatientPart(ALL, "true", 0, {})
    store = folder.store(plan)
    records = {row["record"] for row in store.select(kind.main, "DISTINCT record")}
    noted = seen_patients(folder.path)
    seen = {label: records & ids for label, ids in noted.items()}
    counts = {label: len(ids) for label, ids in seen.items() if ids}
    everyone = frozenset[str]().union(*seen.values())
    name = part
    if not name:
        asked_seen = plan.part in ("train", "validation")
        name = TEST if noted and not asked_seen else plan.part or ALL
    listed = ", ".join(map(literal, sorted(everyone)))
    inside = f"record IN ({listed})" if listed else "false"
    if name == TEST:
        return PatientPart(name, f"NOT ({inside})", len(records - everyone), counts)
    if name == SEEN:
        return PatientPart(name, inside, len(everyone), counts)
    return PatientPart(name, "true", len(records), counts)


def counted_store(folder: RunDirectory, plan: Plan, part: str = "") -> RowStore:
    """A run's tables, whose tables of results count a part of its patients alone."""
    store = folder.store(plan)
    store.counted = part_of(folder, plan, part).where
    return store


@needs("viewer")
def run_totals(run: RunRef) -> dict[str, Any]:
    """What a finished run came to: ``correct`` of the ``n`` answers that its primary judge scored
    (of the patients that its tables count), ``tokens`` and ``cost_usd`` of all readers and judges
    (null where no row has them), and the ``seconds`` of work over all its starts. Raises
    UnknownName, DataError."""
    folder = find_run(run)
    plan = folder.plan()
    store = counted_store(folder, plan)
    total: dict[str, Any] = dict.fromkeys(("tokens", "cost_usd"))
    for table, schema in store.schemas.items():
        if "read_tokens" in schema:
            sums = "sum(read_tokens + output_tokens) AS tokens, sum(cost_usd) AS cost_usd"
            for name, value in store.select(table, sums)[0].items():
                if value is not None:
                    total[name] = (total[name] or 0) + value
    scored = {"correct": 0, "n": 0}
    if "verdicts" in store.schemas:
        counts = (
            "count(*) FILTER (outcome = 'correct') AS correct, "
            "count(*) FILTER (outcome IN ('correct', 'incorrect')) AS n"
        )
        primary = f"judge = {literal(plan.primary_judge)} AND {COUNTS} AND ({store.counted})"
        (scored,) = store.select("verdicts", counts, primary)
    return {**scored, **total, "seconds": seconds_at_work(folder)}


# The report.


REASONS = 3
"""Reasons of failed items that one line names."""

WHOLE = ("costs", "spent", "failures", "reviews", "review_verdicts", "judge_agreement")
"""Tables of costs, failures and reviews, which count every patient."""
SEEN_TOO = ("recall", "accuracy")
"""Tables repeated for the patients that a gate has seen, as ``recall_seen`` and so on."""


@needs("viewer")
def report(run: RunRef, part: str = "") -> dict[str, Any]:
    """The report of a run: run, kind, status, protocol, items and ``tables`` (which, its kind
    says).

    ``origin``: whose records the figures are of. ``conclusion``: what a finished run shows.
    ``part``: the patients that the tables of a run that compares arms count (:func:`part_of`).
    Raises UnknownName.
    """
    folder = find_run(run)
    plan = folder.plan()
    now = status(run)
    counted = part_of(folder, plan, part)
    tables = _tables(folder, plan, counted)
    if now["status"] != "done":
        withdraw(tables)
    document: dict[str, Any] = {
        "run": run,
        "name": plan.name,
        "kind": plan.kind,
        "status": now["status"],
        "protocol": plan.protocol.as_dict(),
        "position": {**plan.position, "words": position_in_words(plan.position)}
        if plan.position
        else None,
        "items": {name: now[name] for name in ("planned", "done", "failed")},
        "primary_judge": plan.primary_judge,
        "judge_agreement": {
            "words": agreement_words(plan.primary_judge),
            "short": agreement_words(plan.primary_judge, short=True),
        },
        "origin": origin(plan),
        "warnings": [
            *filter(None, (changed_rows(folder), counted.words)),
            *now["warnings"],
            *_warnings(folder, plan),
            *mostly_buffer(tables.get("tokens", ())),
            *cut_off(plan, folder.store(plan)),
        ],
        "part": {"name": counted.name, "patients": counted.patients, "seen": counted.seen},
        "tables": tables,
    }
    if now["status"] == "done":
        document["conclusion"] = asdict(conclusion_of(document))
    return document


def conclusion_of(report: Mapping[str, Any], **chosen: str) -> Conclusion:
    """What a report shows, by its experiment (:meth:`Experiment.conclusion`)."""
    return EXPERIMENTS.build(report["kind"]).conclusion(report, **chosen)


def views_of(report: Mapping[str, Any]) -> list[View]:
    """The views of a report that have rows; of a kind that declares none, each table as it is."""
    tables = report["tables"]
    declared = EXPERIMENTS.build(report["kind"]).views or tuple(
        View(name, name.replace("_", " ").capitalize(), name) for name in tables
    )
    return [view for view in declared if rows_of(tables, view, {})]


def origin(plan: Plan) -> str:
    """Whose records a run's figures are of, in words: synthetic ones or those of its cohort."""
    name = Path(plan.data).name
    if plan.raw["cohort"]["data_use"]["synthetic"]:
        of_cohort = not EXPERIMENTS.build(plan.kind).makes_records
        return "synthetic records" + (f" (cohort {name})" if of_cohort else "")
    return f"records of the cohort {name}"


UNFINISHED = "not claimed: the run has not finished"


def withdraw(tables: dict[str, Table]) -> None:
    """Take the verdicts out of the tables of a run that has not finished: they change until
    then."""
    if "verdict" in tables:
        tables["verdict"] = []
    for rows in tables.values():
        for row in rows:
            if row.get("verdict") is not None:
                row["verdict"] = UNFINISHED
            if row.get("other_judges"):
                row["other_judges"] = ""


def _tables(folder: RunDirectory, plan: Plan, part: PatientPart) -> dict[str, Table]:
    kind, store = EXPERIMENTS.build(plan.kind), folder.store(plan)
    store.counted = part.where
    tables = kind.tables(store, plan)
    if plan.judges:
        tables["judge_agreement"] = agreement_rows(plan)
    if not kind.compares:
        return tables
    if part.name == TEST and part.seen:
        seen = kind.tables(counted_store(folder, plan, SEEN), plan)
        tables |= {f"{name}_{SEEN}": seen[name] for name in SEEN_TOO if name in seen}
    parts = dict.fromkeys(WHOLE, ALL) | {f"{name}_{SEEN}": SEEN for name in SEEN_TOO}
    return {
        name: [row | {"part": parts.get(name, part.name)} for row in rows]
        for name, rows in tables.items()
    }


def _warnings(folder: RunDirectory, plan: Plan) -> list[str]:
    """Warnings about how the run was made."""
    warnings: list[str] = []
    codes = {plan.raw["versions"]["code"]}
    for line in folder.text(folder.events).split("\n")[:-1]:
        if '"started"' in line:
            with suppress(DataError, LookupError, TypeError):  # damaged
                codes.add(str(read_json(line, folder.events.name)["versions"]["code"]))
    if len(codes) > 1:
        warnings.append("the program's code changed between the start and a resume of this run")
    warnings += EXPERIMENTS.build(plan.kind).warnings(plan)
    if plan.named_primary not in ("", plan.primary_judge):
        warnings.append(
            f"the primary judge {plan.named_primary} of this run is none of its judges: an earlier "
            f"version derived its verdicts from two others; conclusions go by {plan.primary_judge}"
        )
    people = reviewers_of(folder)
    if people and not reviews_of(folder).cards:
        warnings.append(
            f"{', '.join(people)} reviewed this run, but it holds no words of answers here, so "
            "people are no judges in these tables"
        )
    changed = plan.asked.differences()
    if changed:
        listed = ", ".join(f"{name} = {value}" for name, (_, value) in changed.items())
        warnings.append(f"the protocol differs from the corrected one: {listed}")
    return warnings


MOST_CUT_OFF = 0.02
"""Share of a reader's answers that may be cut off or empty without a warning."""


def cut_off(plan: Plan, store: RowStore) -> list[str]:
    """A warning for each reader of whose answers more than :data:`MOST_CUT_OFF` were cut off or
    empty."""
    if "ended" not in store.schemas.get("answers", ()):
        return []
    ends = ", ".join(map(literal, CUT_OFF))
    rows = store.select(
        "answers",
        f"reader, count(*) AS n, count(*) FILTER (ended IN ({ends})) AS cut",
        "status = 'ok' GROUP BY reader ORDER BY reader",
    )
    return [
        f"{row['cut']} of {row['n']} answers of the reader {row['reader']} were cut off at the "
        "limit of their tokens or empty: they are unparsed, inside the bounds; give it more "
        "answer_tokens (the protocol) or reasoning_tokens (a reader that reasons)"
        for row in rows
        if row["cut"] > MOST_CUT_OFF * row["n"] and plan.protocol.preset != "published"
    ]


def mostly_buffer(tokens: Sequence[Mapping[str, Any]]) -> list[str]:
    """A warning where the recency buffer is more than half of a selection, with the counts, of the
    rows of a report's table ``tokens``; the arm that is nothing but the buffer is left out."""
    most: dict[str, tuple[int, int]] = {}
    for row in tokens:
        if row.get("mostly_buffer") and row["arm"] != BUFFER_ALONE:
            counts = (row["mostly_buffer"], row["n"])
            most[row["label"]] = max(most.get(row["label"], counts), counts)
    alike: dict[tuple[int, int], list[str]] = {}
    for label, counts in most.items():
        alike.setdefault(counts, []).append(label)
    counted = "; ".join(
        f"{over} of {n} selections of {', '.join(labels)}" for (over, n), labels in alike.items()
    )
    return [f"the recency buffer is more than half of the tokens in {counted}"] if alike else []


@needs("viewer")
def failed_in_words(run: RunRef) -> str:
    """One line on a run's failed items: how many, and the commonest reasons; raises UnknownName."""
    folder = find_run(run)
    plan, now = folder.plan(), status(run)
    store = folder.store(plan)
    counts: Counter[str] = Counter()
    for table in store.schemas:
        for row in store.select(
            table, "reason, count(*) AS n", "status = 'failed' GROUP BY reason"
        ):
            counts[" ".join((row["reason"] or "no reason given").split())] += row["n"]
    ranked = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    listed = "; ".join(f"{reason} ({n})" for reason, n in ranked[:REASONS])
    more = f"; {len(ranked) - REASONS} other reasons" if len(ranked) > REASONS else ""
    return (
        f"run {run}: {now['failed']} of {now['planned']} items failed: {listed}{more}; try them "
        f"again with: resume {run}"
    )


def changed_rows(folder: RunDirectory) -> str:
    """One line where a finished run's files of rows are not those that it finished with, or was
    imported with, else ""; a run without digests gives ""."""
    note = folder.imported if folder.imported.exists() else folder.done
    if not note.is_file():
        return ""
    name = f"run {folder.id}: {note.name}"
    written = read_document(folder.read(note), name, DIGESTED, RESTORE).get(DIGESTS)
    if written is None:
        return ""
    present = row_digests(folder)
    files = sorted(dict(written.items() ^ present.items()))
    if not files:
        return ""
    end = "it finished" if note.name == folder.done.name else "its import"
    return (
        f"the rows of run {folder.id} were changed after {end}: {', '.join(files)} no longer "
        f"match the SHA-256 digests in {note.name}"
    )


@needs("viewer")
def rows_warning(run: RunRef) -> str:
    """:func:`changed_rows` of a run; raises UnknownName."""
    return changed_rows(find_run(run))


@needs("viewer")
def report_csv(run: RunRef, folder: LocalPath, part: str = "") -> list[Path]:
    """Write one CSV a table of :func:`report` into ``folder``, made if need be; gives the files.
    Raises InputError where it cannot be written."""
    document = report(run, part)
    return write_tables(document["tables"], folder)


@needs("researcher")
def write_tables(
    tables: Mapping[str, Sequence[Mapping[str, Any]]], folder: LocalPath
) -> list[Path]:
    """Write tables as CSV, one a file, into ``folder``; as :func:`report_csv` does. A file has the
    columns of all of its rows, and no cell that a spreadsheet runs as a formula."""
    target = user_path(folder)
    files = {name: output_path(target / f"{name}.csv") for name in tables}
    with writing(target):
        target.mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        with (
            output_file(files[name]) as fresh,
            fresh.open("w", encoding="utf-8", newline="") as file,
        ):
            write_sheet(file, rows)
    return list(files.values())


# The methods paragraph of a run: what was compared, on what and how, as a paper says it.


NAMED = 20
"""Entries of a list up to which each is named; longer lists are counted."""


def _listed(what: str, labels: tuple[str, ...]) -> str:
    if len(labels) > NAMED:
        return f"{len(labels)} {what.lower()}."
    return f"{what}: {', '.join(labels)}." if labels else ""


@needs("viewer")
def methods(run: RunRef) -> str:
    """The paragraph, plain text; raises UnknownName."""
    folder = find_run(run)
    plan, now = folder.plan(), status(run)
    cohort, versions = plan.raw["cohort"], plan.raw["versions"]
    changed = {name: value for name, (_, value) in plan.asked.differences().items()}
    protocol = plan.protocol
    kind = EXPERIMENTS.build(plan.kind).title
    named = f"the cohort {cohort['data_use']['name'] or plan.data}"
    parts = [
        f"Run {run} ({kind}) was carried out with Midchart {versions['midchart']}"
        f" (code {versions['code'][:12]}) on {named} (content hash {cohort['digest'][:12]}).",
        f"It is on {origin(plan)}.",
        _listed("Arms", tuple(arm.label for arm in plan.arms)),
        _listed("Readers", plan.readers),
        _listed("Judges", plan.judges),
        f"Primary judge: {plan.primary_judge}. {agreement_words(plan.primary_judge)}"
        if plan.primary_judge
        else "",
        "Protocol: corrected"
        + (", with " + ", ".join(f"{k} = {v}" for k, v in changed.items()) if changed else "")
        + f"; random seed {protocol.seed}.",
        f"At most {protocol.k} {protocol.unit}s were selected for a question, in addition to the "
        f"{protocol.recency} most recent events."
        if plan.arms
        else "",
        f"Evidence position: {position_in_words(plan.position)}." if plan.position else "",
        f"Of {now['planned']:,} items {now['done']:,} were completed and {now['failed']:,} failed; "
        "failed items are not counted as incorrect.",
        f"Intervals are 95 % intervals; those clustered by patient are bootstrap intervals of "
        f"{protocol.resamples:,} resamples with expanded percentiles, "
        f"{'' if protocol.intervals == 'widened' else 'not '}widened to contain the score interval"
        " of the same counts.",
    ]
    return " ".join(filter(None, parts))
