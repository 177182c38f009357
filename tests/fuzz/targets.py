"""What is fuzzed: for each format its seeds, mutators, and the calls that read it."""

from __future__ import annotations

import dataclasses
import io
import json
import shutil
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import duckdb

from midchart.core import api
from midchart.core import config as settings
from midchart.core.egress.owners_list import owners_list
from midchart.core.runs.spec import read_spec
from midchart.core.storage.chain import Anchor
from midchart.core.storage.jsonl import encode
from tests.fuzz import seeds, structure
from tests.fuzz.call import Fault, check_report, command, safely
from tests.fuzz.mutate import (
    MOST_BYTES,
    NAMES,
    Rng,
    of_bytes,
    of_json,
    of_json_lines,
    of_parquet,
    of_toml,
    of_xml,
    pick,
    table_mutator,
    text,
    zip_of,
)
from tests.support.exports import sealed, zipped
from tests.support.run_helpers import finished_run, write_cohort

Files = seeds.Files
MUTATORS = {
    ".json": of_json, ".ndjson": of_json_lines, ".jsonl": of_json_lines, ".questions": of_json_lines, ".xml": of_xml,
    ".csv": table_mutator(","), ".tsv": table_mutator("\t"), ".toml": of_toml, ".parquet": of_parquet,
}  # fmt: skip
"""By a file's ending; others are changed as bytes."""


def change(rng: Rng, name: str, data: bytes) -> bytes:
    """A changed file: by its structure, then at times by its bytes; or by its bytes alone, as is
    one that is damaged already."""
    mutator = MUTATORS.get(Path(name).suffix, of_bytes)
    chance = rng.random()
    if chance < 0.8:
        try:
            data = mutator(rng, data)
        except (ValueError, RecursionError, OSError):  # OSError: Arrow's, of a damaged footer
            data = of_bytes(rng, data)
    return (of_bytes(rng, data) if chance > 0.7 else data)[:MOST_BYTES]


def change_files(rng: Rng, files: Files) -> Files:
    """One or two of the files changed; at times one is missing or called otherwise."""
    files = dict(files)
    for name in dict.fromkeys(pick(rng, list(files)) for _ in range(int(rng.integers(1, 3)))):
        files[name] = change(rng, name, files[name])
    if rng.random() < 0.05:
        name = pick(rng, list(files))
        data = files.pop(name)
        if rng.random() < 0.7:
            files[
                f"x{int(rng.integers(9))}{pick(rng, ('.json', '.xml', '.csv', '.tsv', '.txt', '.parquet', ''))}"
            ] = data
    return files


def write(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Files written into a folder; gives the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


# Cohorts.


def read_cohort(rng: Rng, place: Path) -> None:
    """Check a cohort, then ask a question about its first record."""
    status, printed = command("check", str(place), "--json")
    if status:
        return
    report = check_report(printed)
    if "labels" in report or not report["records"]:
        return
    cohort = api.open_data(str(place))
    record = next(iter(cohort.records))
    asked = cohort.instructions[0].id if cohort.instructions else "Which dose of warfarin?"
    read = safely(lambda: cohort.records[record])
    if (
        isinstance(read, Exception)
        or not asked.strip()
        or asked.startswith("-")
        or record.startswith("-")
    ):
        return
    arm = pick(rng, ("bm25", "recency", "full", "oracle"))
    command(
        "select", str(place), f"--record={record}", f"--question={asked}", f"--arm={arm}", "--json"
    )


def import_cohort(rng: Rng, folder: Path) -> None:
    """Import the folder, or a zip of it, list all cohorts and remove this one."""
    source: Any = folder
    if rng.random() < 0.5:
        files = {
            p.relative_to(folder).as_posix(): p.read_bytes()
            for p in folder.rglob("*")
            if p.is_file()
        }
        source = [("c.zip", io.BytesIO(zip_of(files, rng)))]
    name = pick(rng, ("ward", "ward", "ward", text(rng)))
    report = safely(api.import_cohort, name, source)
    if not isinstance(report, Exception):
        check_report(json.dumps(report, allow_nan=False))
        for card in api.cohorts():
            if card.problem:
                raise Fault(f"an imported cohort that cannot be listed: {card.problem[:200]!r}")
        safely(api.remove_cohort, report["name"])


@dataclass(frozen=True)
class Cohorts:
    """A format of cohorts: its seeds, each a function that gives files."""

    forms: Sequence[Callable[[], Files]]
    changed: Callable[[Rng, Files], Files] = change_files

    def run(self, rng: Rng, folder: Path) -> None:
        """One case."""
        form = pick(rng, self.forms)
        place = write(folder / "cohort", self.changed(rng, form()))
        (import_cohort if rng.random() < 0.25 else read_cohort)(rng, place)


def _in_zip(rng: Rng, files: Files) -> Files:
    return {"cohort.zip": zip_of(change_files(rng, files), rng), "q.tsv": files["q.tsv"]}


def _in_duckdb(rng: Rng, files: Files) -> Files:
    tables = change_files(rng, {n: d for n, d in files.items() if n.endswith(".parquet")})
    folder = write(settings.data_folder() / "duck", tables)
    try:
        with duckdb.connect(str(folder / "cdm.duckdb")) as base:
            for name in tables:
                try:
                    base.execute(
                        f'CREATE {pick(rng, ("TABLE", "TABLE", "VIEW"))} "{Path(name).stem}" AS '
                        f"SELECT * FROM read_parquet('{folder / name}')"
                    )
                except (duckdb.Error, ValueError):
                    continue
        data = (folder / "cdm.duckdb").read_bytes()
    finally:
        shutil.rmtree(folder)
    return {
        "cdm.duckdb": of_bytes(rng, data) if rng.random() < 0.3 else data,
        "q.tsv": files["q.tsv"],
    }


def _only(name: str) -> Callable[[Rng, Files], Files]:
    """A change of this file alone."""
    return lambda rng, files: {**files, name: change(rng, name, files[name])}


class Manifests(Cohorts):
    """Data-use tags."""

    def run(self, rng: Rng, folder: Path) -> None:
        """Read the tag, change it, and list the cohorts."""
        place = write(settings.cohorts_folder() / "fuzzed", self.changed(rng, seeds.squad()))
        try:
            read_cohort(rng, place)
            field = pick(rng, ("external_services_allowed", "training_allowed"))
            command(
                "data-use",
                str(place),
                field,
                pick(rng, ("yes", "no")),
                "--reason",
                "for the test of it",
                "--json",
            )
            safely(api.cohorts)
            safely(api.remove_cohort, "fuzzed")
        finally:
            shutil.rmtree(place, ignore_errors=True)


class Questions(Cohorts):
    """Questions that people keep with a cohort."""

    def run(self, rng: Rng, folder: Path) -> None:
        """Read them, add to them, export them."""
        place = str(write(folder / "cohort", self.changed(rng, seeds.kept_questions())))
        read_cohort(rng, Path(place))
        safely(api.own_questions, place)
        safely(api.questions_table, place)
        safely(api.marking_agreement, place)
        id = safely(
            api.keep_question,
            place,
            pick(rng, ("1", text(rng))),
            text(rng),
            pick(rng, ("ann", text(rng))),
        )
        id = id if isinstance(id, str) else pick(rng, ("own-1", text(rng)))
        safely(api.answer_question, place, id, text(rng), bool(rng.integers(2)))
        spans = [tuple(int(pick(rng, (0, 1, 5, -1, 10**30))) for _ in range(3)) for _ in range(3)]
        safely(api.mark_evidence, place, id, spans)
        safely(api.withdraw_question, place, id)


# Runs and specs.

RUN_SPEC: dict[str, Any] = {
    "name": "seed", "kind": "answers", "arms": ["bm25", "recency"], "readers": ["extractive"],
    "judges": ["exact"], "seed": 7, "protocol": {"resamples": 100},
}  # fmt: skip


@dataclass(frozen=True)
class SeedRun:
    """A finished run, kept outside the runs' folder, and what was made of it: ``intact``, the same
    under the id ``other``."""

    id: str
    other: str
    folder: Path
    intact: Path
    cohort: Path
    export: Path


@cache
def seed_run(data: Path) -> SeedRun:
    """The finished run that cases change copies of, made once in a process."""
    cohort = write_cohort(data / "cohorts" / "demo", records=2, events=8)
    run = finished_run({**RUN_SPEC, "data": str(cohort)})
    for card in api.review_cards(run, "ann")[:1]:
        api.add_review(run, "ann", card.key, "correct", 1.5)
    export = data / "seed.zip"
    api.export_run(run, export, False)
    folder, intact, other = data / "seed-run", data / "intact-run", f"{run[:-6]}{'f' * 6}"
    (data / "runs" / run).rename(folder)
    shutil.copytree(folder, intact)
    for name in ("spec.json", "done.json"):
        document = json.loads((intact / name).read_bytes())
        (intact / name).write_text(json.dumps({**document, "run": other}))
    return SeedRun(run, other, folder, intact, cohort, export)


def _restored(rng: Rng, seed: SeedRun) -> Path:
    """A copy of the seed's run in the runs' folder: finished, or as a killed worker leaves it."""
    place = settings.runs_folder() / seed.id
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(seed.folder, place)
    if rng.random() < 0.4:
        for table in sorted((place / "items").glob("*.parquet")):
            duckdb.sql(
                f"COPY (SELECT * FROM read_parquet('{table}')) TO '{table.with_suffix('.jsonl')}' (FORMAT json)"
            )
            table.unlink()
        (place / "done.json").unlink()
    return place


EXTRA_FILES = {
    "queued.json": b'{"place": 1, "wants": "cpu"}', "slot": b"cpu", "place": b"ray", "cancel": b"", "cancelled": b"",
    "imported.json": b'{"cohort": "same", "data": "demo", "imported": "2026-01-01", "by": "x", "with_text": false}',
    "gates.json": b'{"qccs": {"sha256": "0"}}', "log.txt": b"line\n", "judging/exact.jsonl": b'{"a": 1}\n',
    "items/answers.damaged.jsonl": b'{"line": 1, "reason": "x", "text": "y"}\n',
}  # fmt: skip


def run_folders(rng: Rng, folder: Path) -> None:
    """Everything that reads a run, on one with a damaged or foreign file next to an intact one."""
    seed = seed_run(settings.data_folder())
    place = _restored(rng, seed)
    reviews = settings.data_folder() / "reviews" / seed.id
    files = sorted(p for p in place.rglob("*") if p.is_file() and p.name != "lock")
    if rng.random() < 0.25:
        name = pick(rng, list(EXTRA_FILES))
        path = place / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(EXTRA_FILES[name])
    elif rng.random() < 0.1:
        path = reviews / "ann.jsonl"
    else:
        path = pick(rng, files)
    original = path.read_bytes()
    path.write_bytes(change(rng, path.name, original))
    if rng.random() < 0.3:
        other = pick(rng, files)
        other.unlink() if other != path and rng.random() < 0.3 else other.write_bytes(
            change(rng, other.name, other.read_bytes())
        )
    intact = seed.intact.rename(settings.runs_folder() / seed.other)
    try:
        status, printed = command("status", "--json")
        if status or seed.other not in (row["run"] for row in json.loads(printed)):
            raise Fault("an intact run is not listed")
        command("status", seed.id)
        safely(api.damaged_runs)
        command("report", seed.id, "--json")
        if rng.random() < 0.25:  # it takes as long as all other commands but the report
            pair = (seed.id, seed.other) if rng.random() < 0.5 else (seed.other, seed.id)
            command("compare", *pair, *(["--questions"] if rng.random() < 0.5 else []), "--json")
        command(
            "export",
            seed.id,
            "--out",
            str(folder / "x.zip"),
            "--html",
            str(folder / "x.html"),
            "--json",
        )
        safely(api.failed_items, seed.id)
        safely(api.log_tail, seed.id)
        for table in ("answers", "verdicts"):
            safely(api.rows, seed.id, table)
        safely(api.review_rows, seed.id)
        safely(api.review_cards, seed.id, "ann")
        safely(api.shared_cards, seed.id)
        safely(api.outcomes, seed.id, "extractive", "exact")
        command("cancel", seed.id)
    finally:
        shutil.rmtree(place, ignore_errors=True)
        intact.rename(seed.intact)
        if path.is_relative_to(reviews):
            path.write_bytes(original)


def run_imports(rng: Rng, folder: Path) -> None:
    """Exports of other installations; the changed ones often with a list of files that fits them."""
    seed = seed_run(settings.data_folder())
    with zipfile.ZipFile(seed.export) as archive:
        archive.extractall(folder / "x")
    files = sorted(p for p in (folder / "x").rglob("*") if p.is_file())
    for path in dict.fromkeys(pick(rng, files) for _ in range(int(rng.integers(1, 3)))):
        path.write_bytes(change(rng, path.name, path.read_bytes()))
    if rng.random() < 0.8 and not any(
        p.name == "manifest.json" and p.stat().st_size < 3 for p in files
    ):
        with suppress(ValueError, RecursionError, KeyError, TypeError, AttributeError):
            sealed(folder / "x")  # fails where the manifest itself was changed
    source = folder / "x"
    if rng.random() < 0.5:
        source = zipped(folder / "x", folder / "x.zip")
        if rng.random() < 0.3:
            source.write_bytes(of_bytes(rng, source.read_bytes()))
    status, _ = command("import", str(source), "--json")
    if not status:
        for run in api.status():
            command("status", run["run"])
            command("report", run["run"], "--json")
            safely(api.rows, run["run"], "answers")
            safely(api.review_rows, run["run"])
            shutil.rmtree(settings.runs_folder() / run["run"])
        shutil.rmtree(settings.data_folder() / "reviews", ignore_errors=True)
        seed_run.cache_clear() if not (settings.data_folder() / "seed-run").exists() else None


@cache
def _specs() -> tuple[bytes, ...]:
    root = settings.ROOT
    files = sorted(
        [*(root / "docs").glob("*.toml"), *(root / "tests" / "golden" / "specs").glob("*.toml")]
    )
    return tuple(path.read_bytes() for path in files)


def specs(rng: Rng, folder: Path) -> None:
    """Specs of every kind: read, and at times planned."""
    seed_run(settings.data_folder())  # the cohort "demo"
    data = change(rng, "spec.toml", pick(rng, _specs()))
    path = folder / "spec.toml"
    path.write_bytes(data)
    if rng.random() < 0.1:
        command("run", str(path), "--estimate", "--json")
        return
    spec = safely(read_spec, path)
    if not isinstance(spec, Exception):
        json.dumps(spec.options, default=str)
    table = safely(api.read_toml, data.decode("utf-8", "replace"))
    if isinstance(table, dict):
        written = safely(api.write_toml, table)
        if isinstance(written, str):
            safely(api.read_toml, written)


SECRETS = b"""ANTHROPIC_API_KEY = "sk-test"
MIDCHART_SERVED_KEY = "x"
MIDCHART_HOSTS = "llm.ward.org=MIDCHART_SERVED_KEY, other.org"
"""
AUDIT = "\n".join(
    json.dumps({"when": "2026-01-01", "who": "a", "event": "tag", "cohort": "c", "folder": "/c", "field": "training_allowed",
                "before": False, "after": True, "reason": "because of it", "previous": ""})
    for _ in range(3)
).encode()  # fmt: skip


def settings_files(rng: Rng, folder: Path) -> None:
    """The secrets file and the audit log."""
    secrets = settings.secrets_files()[0]
    secrets.write_bytes(change(rng, "s.toml", SECRETS))
    audit = settings.audit_file()
    audit.parent.mkdir(parents=True, exist_ok=True)
    audit.write_bytes(change(rng, "a.jsonl", AUDIT))
    anchor = settings.audit_anchor()
    if rng.random() < 0.5:
        anchor.parent.mkdir(parents=True, exist_ok=True)
        anchor.write_bytes(change(rng, "a.json", encode(asdict(Anchor(str(audit), len(AUDIT), 2)))))
    try:
        safely(settings.secret, "ANTHROPIC_API_KEY")
        safely(owners_list)
        command("audit", "--json")
        command("audit", "--verify", "--json")
        command("audit")
    finally:
        for path in (secrets, audit, anchor):
            path.unlink(missing_ok=True)


# The command line, and the functions that pages call with what a person typed.

NUMBERS = ("0", "1", "-1", "x", "", "1e9", "9" * 5000, "９", "nan", " 1", "1_0", "0x1")


def _argument(rng: Rng, valid: Sequence[str]) -> str:
    chance = rng.random()
    if chance < 0.45:
        return pick(rng, valid)
    if chance < 0.9:
        return text(rng)
    return pick(rng, (*NAMES, "\udcff", "a\udce9b", *NUMBERS))


def command_line(rng: Rng, folder: Path) -> None:
    """Every command with valid and bad arguments; those that work for minutes with bad ones only."""
    seed = seed_run(settings.data_folder())
    place = settings.runs_folder() / seed.id
    if not place.exists():
        shutil.copytree(seed.folder, place)
    spec = folder / "spec.toml"
    spec.write_text(f'name = "a"\nkind = "selection"\ndata = "{seed.cohort}"\narms = ["bm25"]\n')
    out = str(folder / "out")
    data, run = (str(seed.cohort), "demo", str(seed.cohort / "ehrs" / "1.xml")), (seed.id,)

    def bad() -> str:
        return pick(rng, ("-5", "x", "", "９" * 3, "9" * 5000, "1e3", "\udcff"))

    def a(*valid: str) -> str:
        return _argument(rng, valid)

    protocol = ("corrected", "published")
    calls: tuple[Callable[[], list[str]], ...] = (
        lambda: ["check", a(*data), "--protocol", a(*protocol)],
        lambda: ["check", a(*data), "--locator"],
        lambda: ["select", a(*data), "--record", a("1", "1.xml"), "--question", a("i00", "Which dose?"), "--arm",
                 a("bm25", "recency", "full", "oracle"), "--k", a("1", "20", "999999999"), "--protocol", a(*protocol)],
        lambda: ["demo", "--out", a(out), "--patients", bad()],
        lambda: ["demo", "--out", a(out), "--seed", bad()],
        lambda: ["demo", "--laboratory", a("x"), "--patients", bad()],
        lambda: ["train-gate", text(rng), "--out", a(out)],
        lambda: ["run", a(str(spec)), "--estimate", "--on", a("here", "ray", "ray://x:1")],
        lambda: ["run", text(rng), "--detach"],
        lambda: ["resume", text(rng), "--budget", a("1", "nan", "-1"), "--on", a("here")],
        lambda: ["data-use", a(*data), a("training_allowed"), a("yes", "no"), "--reason", a("a reason of words")],
        lambda: ["audit", *(["--verify"] if rng.random() < 0.5 else [])],
        lambda: ["cancel", a(*run)],
        lambda: ["status", a(*run)],
        lambda: ["report", a(*run), "--part", a("all", "test", "seen")],
        lambda: ["report", a(*run), "--csv", a(out)],
        lambda: ["compare", a(*run), a(*run), *(["--csv", a(out)] if rng.random() < 0.3 else [])],
        lambda: ["export", a(*run), "--out", a(out, out + ".zip"), *(["--html", a(out)] if rng.random() < 0.3 else [])],
        lambda: ["import", a(str(seed.export), out)],
        lambda: ["schema", a("answers", "needles")],
        lambda: ["models"],
        lambda: ["bench", text(rng)],
        lambda: [a("check", "run"), a("--json"), a("--help")],
    )  # fmt: skip
    arguments = pick(rng, calls)()
    if rng.random() < 0.4:
        arguments.append("--json")
    if rng.random() < 0.1:
        arguments.insert(int(rng.integers(len(arguments) + 1)), text(rng))
    # The operating system passes no NUL, and bytes that are not UTF-8 as lone surrogates.
    command(*(one.replace("\x00", "") for one in arguments))


ASKED = b"""["Which dose?", {"question": "When was it stopped?"}]"""


def page_calls(rng: Rng, folder: Path) -> None:
    """What pages pass on: names, paths, questions, options, TOML."""
    seed = seed_run(settings.data_folder())
    place = settings.runs_folder() / seed.id
    if not place.exists():
        shutil.copytree(seed.folder, place)
    cohort = api.open_data(str(seed.cohort))
    record = cohort.records["1"]
    value: Any = pick(
        rng,
        (
            text(rng),
            text(rng),
            "\ud800",
            None,
            -1,
            True,
            float("nan"),
            10**400,
            [],
            {},
            [text(rng)],
        ),
    )
    word = value if isinstance(value, str) else text(rng)
    selection = api.Selection(record.id, "q", "bm25", (), 0)
    calls: tuple[Callable[[], Any], ...] = (
        lambda: api.open_data(word),
        lambda: api.cohort_name(word),
        lambda: api.import_cohort(word, Path(word)),
        lambda: api.import_cohort("ward", [(word, io.BytesIO(b"x"))]),
        lambda: api.import_cohort(
            "ward",
            [("a.csv", io.BytesIO(b"patient_id,text\n1,x\n"))],
            allowed={"training_allowed": True},
            reason=word,
        ),
        lambda: api.remove_cohort(word),
        lambda: api.import_run(word),
        lambda: api.set_data_use(word, "training_allowed", True, word),
        lambda: api.parse(value),
        lambda: api.parse({"preset": value}),
        lambda: api.parse({pick(rng, [f.name for f in dataclasses.fields(api.Protocol)]): value}),
        lambda: api.read_toml(word),
        lambda: api.write_toml({word: value}),
        lambda: api.spec_schema(word),
        lambda: api.preflight(
            {**RUN_SPEC, "data": str(seed.cohort), pick(rng, list(RUN_SPEC)): value}
        ),
        lambda: api.preflight({**RUN_SPEC, "data": str(seed.cohort), word: value}),
        lambda: api.typed_question(record, word),
        lambda: api.select_report(str(seed.cohort), word, word, "bm25", 5, api.Protocol()),
        lambda: api.select_report(str(seed.cohort), "1", word or "x", word, 5, api.Protocol()),
        lambda: api.select(
            cohort, record, api.typed_question(record, word or "x"), "bm25", api.Protocol()
        ),
        lambda: api.ask(api.typed_question(record, word), selection, "extractive", api.Protocol()),
        lambda: api.reviewer_name(word),
        lambda: api.add_review(seed.id, word, word, "correct"),
        lambda: api.share_cards(seed.id, value),
        lambda: api.status(word),
        lambda: api.report(word),
        lambda: api.report(seed.id, word),
        lambda: api.rows(seed.id, word),
        lambda: api.item(seed.id, word),
        lambda: api.answer(seed.id, word),
        lambda: api.export_html(seed.id, word),
        lambda: api.compare_runs([seed.id, word]),
        lambda: api.keep_question(str(seed.cohort), word, word),
        lambda: api.keep_question(str(seed.cohort), "1", word, word),
        lambda: api.neutralise(word),
        lambda: api.read_questions(word),
        lambda: api.read_questions(change(rng, pick(rng, ("q.json", "q.tsv", "q.txt")), ASKED)),
        lambda: api.save_question_set(str(seed.cohort), word, [word, text(rng)]),
        lambda: api.withdraw_question_set(str(seed.cohort), word),
    )
    call = pick(rng, calls)
    if rng.random() < 0.7:
        safely(call)
        return
    role = pick(rng, api.ROLES)
    with api.acting_as(api.Person(f"{role}@ward.org", role)):
        read = safely(call)
        if str(settings.data_folder()) in str(read) and isinstance(read, Exception):
            raise Fault(f"a place of the server in a message to a {role}: {str(read)[:200]!r}")


# Logs of other systems.


LOGS = Path(__file__).parents[1] / "core/samples/logs"


@cache
def _logs() -> dict[str, Files]:
    """The files of each system's logs that need no package, without its README."""
    names = [p.name for p in LOGS.iterdir() if p.is_dir() and p.name != "inspect"]
    return {
        name: {
            path.relative_to(LOGS / name).as_posix(): path.read_bytes()
            for path in sorted((LOGS / name).rglob("*"))
            if path.is_file()
        }
        for name in sorted(names)
    }


def sample_logs(rng: Rng, folder: Path) -> None:
    """Import a changed log by its format or by the first that recognises it; report, remove it."""
    name = pick(rng, list(_logs()))
    place = write(folder / "log", change_files(rng, _logs()[name]))
    sample_format = pick(rng, ("", name, "table"))
    imported = safely(lambda: api.import_results(place, text(rng), sample_format))
    if not isinstance(imported, Exception):
        safely(lambda: json.dumps(api.report(imported["run"]), allow_nan=False))
        safely(lambda: api.remove_run(imported["run"]))


# Pieces of several valid files.

FORMATS: tuple[Callable[[], Files], ...] = (
    seeds.fhir_lines, seeds.fhir_bundle, seeds.squad, seeds.longhealth, seeds.archehr_qa,
    seeds.ehrnoteqa, seeds.medcalc, seeds.medalign, seeds.medalign_sample, seeds.ccda,
    seeds.omop_csv, seeds.omop_parquet, seeds.meds, seeds.ehrshot, seeds.notes, seeds.note_lines,
    seeds.note_files, seeds.kept_questions,
)  # fmt: skip
"""The seeds of every format of cohorts."""


@dataclass(frozen=True)
class Pieces:
    """Cohorts, logs of other systems and specs, changed by a mutation of :mod:`structure`."""

    mutation: Callable[[Rng, Files, Sequence[Callable[[], Files]]], Files]

    def run(self, rng: Rng, folder: Path) -> None:
        """One case: in eight of ten a cohort."""
        chance = rng.random()
        if chance < 0.8:
            Cohorts(FORMATS, self._changed).run(rng, folder)
        elif chance < 0.9:
            logs = [lambda name=name: _logs()[name] for name in _logs()]
            files = self.mutation(rng, pick(rng, list(_logs().values())), [*logs, *FORMATS])
            safely(api.import_results, write(folder / "log", files))
            for run in api.status():
                safely(api.remove_run, run["run"])
        else:
            forms = [lambda data=data: {"spec.toml": data} for data in _specs()]
            files = self.mutation(rng, pick(rng, forms)(), forms)
            safely(read_spec, write(folder, files) / "spec.toml")

    def _changed(self, rng: Rng, files: Files) -> Files:
        return self.mutation(rng, files, FORMATS)


TARGETS: dict[str, Callable[[Rng, Path], None]] = {
    "fhir": Cohorts((seeds.fhir_lines, seeds.fhir_lines, seeds.fhir_bundle)).run,
    "squad": Cohorts((seeds.squad,)).run,
    "longhealth": Cohorts((seeds.longhealth,)).run,
    "note_questions": Cohorts((seeds.archehr_qa, seeds.ehrnoteqa, seeds.medcalc)).run,
    "medalign": Cohorts((seeds.medalign, seeds.medalign_sample)).run,
    "ccda": Cohorts((seeds.ccda,)).run,
    "omop_csv": Cohorts((seeds.omop_csv,)).run,
    "omop_parquet": Cohorts((seeds.omop_parquet,)).run,
    "omop_duckdb": Cohorts((seeds.omop_parquet,), _in_duckdb).run,
    "omop_zip": Cohorts((seeds.omop_csv, seeds.omop_parquet), _in_zip).run,
    "meds": Cohorts((seeds.meds,)).run,
    "ehrshot": Cohorts((seeds.ehrshot,)).run,
    "notes": Cohorts((seeds.notes, seeds.note_lines, seeds.note_files)).run,
    "manifest": Manifests((seeds.squad,), _only("midchart.toml")).run,
    "questions": Questions((seeds.kept_questions,), _only("midchart.questions")).run,
    "sample_logs": sample_logs,
    "spec": specs,
    "run_folder": run_folders,
    "run_import": run_imports,
    "settings": settings_files,
    "command_line": command_line,
    "page_calls": page_calls,
    "swapped": Pieces(structure.swapped).run,
    "merged": Pieces(structure.merged).run,
    "truncated": Pieces(structure.truncated).run,
}
ON_A_RUN = ("spec", "run_folder", "run_import", "command_line", "page_calls")
"""Targets that need :func:`seed_run`."""
