"""A run's folder, ``data/runs/<id>/``, and the plan written in it.

::

    spec.json        the plan, immutable: spec, protocol in full, cohort and its digest,
                     data-use tag, versions, planned items
    spec.toml        the spec as it was written; not exported
    items/           rows: JSON Lines while it runs, Parquet after
    events.jsonl     started, progress, cancelled, failed, finished
    log.txt          what the worker printed: places of faults, never text of a record
    judging/         spending of judges with a budget, a file a judge
    gates.json       the gate of each arm that has one, by hash
                     (midchart.core.runs.gate_checkpoints)
    people.jsonl     who started, resumed, cancelled and exported it, and when; not exported
    labels.json      its name in lists (midchart.core.runs.status); not exported
    lock             held by the worker while it lives
    cancel           a stop was requested
    cancelled        the worker stopped
    queued.json      number in the queue and kind of slot (midchart.core.runs.process)
    slot             slot of this machine where its worker is or was
    place            "cores", "ray" or "ray://HOST:PORT" (midchart.core.runs.planner)
    done.json        finished: counts, times and SHA-256 digests of the files of rows
    imported.json    imported from another installation, read-only
                     (midchart.core.results.importing); with digests of the files of rows

Ids are UTC and sort by time. A folder is made under a hidden name and renamed.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from os import SEEK_END
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from midchart.core import config as settings
from midchart.core.egress import audit
from midchart.core.errors import DataError, InputError, UnknownName
from midchart.core.format import for_terminal
from midchart.core.identity import ROLES, Person, by_name_alone, person
from midchart.core.parsing import read_document
from midchart.core.protocol import BEFORE, LATER, parse
from midchart.core.provenance import now, sha256_of
from midchart.core.runs.experiment import EXPERIMENTS
from midchart.core.runs.plan import RULE_JUDGES, ArmConfig, ComponentSpec, Plan
from midchart.core.runs.schemas import DONE, IMPORTED, PERSON, PLAN, QUEUED
from midchart.core.storage.files import incoming, replacing, sync_folder, writing
from midchart.core.storage.jsonl import add_line, read_lines
from midchart.core.storage.lock import Lock, exclusive
from midchart.core.storage.rows import RowStore

ROWS = ("items", "forecast")
"""Folders of a run with files of rows."""
LOG_OF = "log_of"
"""In ``imported.json``: the cohort (name) to which a received log belongs."""


RESTORE = "restore the folder, remove it, or open it with the version and the packages that made it"


class _File:
    """A path in a run's folder, as an attribute."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, folder: RunDirectory, owner: type[RunDirectory]) -> Path:
        return folder.path / self.name


@dataclass(frozen=True)
class RunDirectory:
    """A run's folder and the files in it."""

    path: Path
    spec = _File("spec.json")
    written = _File("spec.toml")
    items = _File("items")
    events = _File("events.jsonl")
    log = _File("log.txt")
    lock = _File("lock")
    cancel = _File("cancel")
    cancelled = _File("cancelled")
    done = _File("done.json")
    imported = _File("imported.json")
    people = _File("people.jsonl")
    queued = _File("queued.json")
    slot = _File("slot")
    unreachable = _File("no_network")
    cluster_note = _File("place")
    labels = _File("labels.json")

    @property
    def id(self) -> str:
        """The run's id."""
        return self.path.name

    def cluster(self) -> str:
        """Where its work is done, as :func:`midchart.core.runs.pool.read_cluster` spells it."""
        return self.text(self.cluster_note)

    def text(self, file: Path, last: int = 0) -> str:
        """The text in a file of the folder, "" where there is none; ``last``: its last so many
        bytes. Raises DataError."""
        try:
            return self.read(file, last).decode("utf-8", "replace")
        except FileNotFoundError:
            return ""

    def read(self, file: Path, last: int = 0) -> bytes:
        """The bytes of a file of the folder, or the ``last`` ones; raises FileNotFoundError, and
        DataError where it may not be read."""
        with self.readable(file.name), file.open("rb") as opened:
            opened.seek(max(0, opened.seek(0, SEEK_END) - last) if last else 0)
            return opened.read()

    @contextmanager
    def readable(self, name: str) -> Generator[None]:
        """Raise DataError for a file of the folder that the body may not read."""
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            reason = f"cannot be read ({error.strerror})"
            raise DataError(f"run {self.id}: {name}", None, reason, RESTORE) from None

    def document(self, file: Path, model: TypeAdapter[Any]) -> Any:
        """The JSON document in a file of the folder, as it is written; raises FileNotFoundError,
        and DataError where it cannot be read or ``model`` does not accept it."""
        return read_document(self.read(file), f"run {self.id}: {file.name}", model, RESTORE)

    def finished(self) -> dict[str, Any]:
        """``done.json``: counts, times and digests; raises DataError, FileNotFoundError."""
        return self.document(self.done, DONE)

    def plan(self) -> Plan:
        """The plan in ``spec.json``; raises DataError."""
        try:
            raw = self.document(self.spec, PLAN)
        except FileNotFoundError:
            raise DataError(f"run {self.id}: spec.json", None, "is missing", RESTORE) from None
        spec = raw["spec"]
        EXPERIMENTS.get(spec["kind"])
        raw["protocol"] = _with_later_fields(raw["protocol"], spec["judges"])
        return Plan(
            name=spec["name"],
            kind=spec["kind"],
            data=raw["cohort"]["path"],
            digest=raw["cohort"]["digest"],
            arms=tuple(ArmConfig(**entry) for entry in spec["arms"]),
            reader_entries=tuple(ComponentSpec(**entry) for entry in spec["readers"]),
            judge_entries=tuple(ComponentSpec(**entry) for entry in spec["judges"]),
            protocol=parse(raw["protocol"]),
            limit=spec["limit"],
            part=spec.get("part", ""),
            options=spec.get("options", {}),
            allow_hosts=tuple(spec.get("allow_hosts", ())),
            group=spec.get("group", ""),
            named_primary=spec.get("primary_judge", ""),
            planned=raw["planned"],
            raw=raw,
        )

    def imported_facts(self) -> dict[str, Any]:
        """``imported.json``; empty for a run of this installation. Raises DataError."""
        try:
            return self.document(self.imported, IMPORTED)
        except FileNotFoundError:
            return {}

    def cohort_path(self) -> str:
        """The path of the run's cohort. That in an imported run's plan is of another machine: its
        cohort is the one in ``data/cohorts`` that was the same when it was imported.

        Raises InputError where there is none, and DataError.
        """
        imported = self.imported_facts()
        if not imported:
            return self.plan().data
        if imported["cohort"] != "same" or not imported["data"]:
            raise InputError(
                f"run {self.id} was imported, and its cohort is not here; import the cohort, then "
                "the run"
            )
        return imported["data"]

    def note(self, action: str, **facts: Any) -> None:
        """Note in the audit log and in ``people.jsonl`` what the acting person did with the run;
        raises WorkFailed."""
        audit.note(action, run=self.id, cohort=Path(self.plan().data).name, **facts)
        self.note_person(action)

    def note_person(self, action: str) -> None:
        """Note in ``people.jsonl`` alone what the acting person did with the run."""
        acting = person()
        who = {"who": acting.name, "is_account": acting.is_account}
        add_line(self.people, {"time": now(), **who, "action": action}, durable=True)

    def started_by(self) -> Person:
        """Who started or last resumed it, in whose name its worker acts; raises DataError."""
        asked = ("started", "resumed")
        lines = [line for line in read_lines(self.people, PERSON) if line["action"] in asked]
        if not lines:
            reason = "does not say who started the run"
            raise DataError(f"run {self.id}: people.jsonl", None, reason, "resume the run")
        who = lines[-1]
        return Person(who["who"], ROLES[-1], who.get("is_account", False))

    def store(self, plan: Plan) -> RowStore:
        """The tables of the run with this plan."""
        return RowStore(self.items, EXPERIMENTS.build(plan.kind).schemas)


def _with_later_fields(
    protocol: Mapping[str, Any], judges: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any]:
    """A plan's protocol, with what it did where it was written before a field was there; one
    without ``judge_prompt`` used the plain prompt wherever it used any."""
    names = {judge["name"] for judge in judges}
    plain = protocol.get("preset") == "published" or not names <= RULE_JUDGES
    return {**BEFORE, **LATER, "judge_prompt": "plain" if plain else "fenced", **protocol}


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a document atomically, hidden characters in it as escapes."""
    with replacing(path) as fresh:
        text = json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False)
        fresh.write_text(for_terminal(text, json=True), encoding="utf-8")


RUN_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")
DIGESTS = "sha256"
"""Field of ``done.json``: SHA-256 of each file of rows, by its path in the run's folder."""


def row_digests(folder: RunDirectory) -> dict[str, str]:
    """SHA-256 of each file of rows of a finished run, by its path in the run's folder; raises
    DataError."""
    digests: dict[str, str] = {}
    for path in sorted(p for part in ROWS for p in (folder.path / part).glob("*.parquet")):
        name = path.relative_to(folder.path).as_posix()
        with folder.readable(name):
            digests[name] = sha256_of(path)
    return digests


def run_ids() -> list[str]:
    """Ids of all runs, oldest first."""
    folder = settings.runs_folder()
    if not folder.is_dir():
        return []
    paths = [path for path in folder.iterdir() if not path.name.startswith(".")]
    if by_name_alone():
        paths = [path for path in paths if not path.is_symlink()]
    return sorted(path.name for path in paths if _is_run(path))


def _is_run(path: Path) -> bool:
    """Whether a folder is a run's; one that this account may not look into counts as one."""
    try:
        return (path / "spec.json").is_file() or bool(RUN_ID.fullmatch(path.name) and path.is_dir())
    except PermissionError:
        return True


def find_run(run: str) -> RunDirectory:
    """The folder of a run; raises UnknownName, so that no path can be smuggled in as an id."""
    folder = RunDirectory(settings.runs_folder() / run)
    if not (RUN_ID.fullmatch(run) and folder.path.is_dir()) and run not in (known := run_ids()):
        raise UnknownName("run", run, known[::-1])
    return folder


def waiting() -> list[tuple[RunDirectory, dict[str, Any]]]:
    """The queued runs with their notes, in the queue's order."""
    queued: list[tuple[RunDirectory, dict[str, Any]]] = []
    for path in settings.runs_folder().glob("*/queued.json"):
        folder = RunDirectory(path.parent)
        # FileNotFoundError: started in the meantime; others: a damaged note, so a damaged run
        with suppress(OSError, DataError):
            if not folder.id.startswith(".") and path.is_file():
                queued.append((folder, folder.document(folder.queued, QUEUED)))
    return sorted(queued, key=lambda pair: pair[1]["queue_number"])


def make_run(
    document: Mapping[str, Any],
    cluster: str = "",
    complete: Callable[[RunDirectory], None] = lambda folder: None,
) -> RunDirectory:
    """A new run's folder with its ``spec.json``; the document gets the run's id and time.

    ``cluster``: where its work is done; ``complete`` adds what the folder holds besides. No list
    shows it before. Raises InputError where it cannot be written or the cohort was removed
    meanwhile.
    """
    runs = settings.runs_folder()
    with writing(runs):
        runs.mkdir(parents=True, exist_ok=True)
        while True:
            created = datetime.now(UTC)  # local time goes back by an hour in autumn
            # Names sort by age, also within a second: five digits are its microseconds.
            id = f"{created:%Y%m%d-%H%M%S}-{created.microsecond:05x}{secrets.randbelow(16):x}"
            final = runs / id
            if not final.exists():
                break
        with incoming(runs, settings.imports_lock()) as hidden:
            fresh = RunDirectory(hidden / id)
            fresh.path.mkdir()
            fresh.items.mkdir()
            fresh.lock.touch()
            document = {"run": id, "created": now(), **document}
            if written := document.pop("written", ""):
                fresh.written.write_text(written, encoding="utf-8")
            write_json(fresh.spec, document)
            if cluster:
                fresh.cluster_note.write_text(cluster, encoding="utf-8")
            fresh.note_person("started")
            complete(fresh)
            sync_folder(fresh.path)
            with exclusive(settings.imports_lock()):  # a removal that begins after sees the run
                data = Path(document["cohort"]["path"])
                if data.is_absolute() and not data.exists():
                    raise InputError(
                        f"cohort {data.name!r} was removed while the run was planned; choose "
                        "another one"
                    )
                audit.note("started", run=id, cohort=data.name)
                fresh.path.rename(final)
                sync_folder(runs)
        return RunDirectory(final)


def take_lock(folder: RunDirectory) -> Lock:
    """The run's lock; raises InputError where it cannot be taken."""
    with writing(folder.path):
        lock = Lock.take(folder.lock)
    if lock is None:
        raise InputError(f"run {folder.id} is running already; wait for it or cancel it")
    return lock
