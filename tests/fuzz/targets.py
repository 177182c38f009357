"""What is fuzzed: for each format its seeds, and the calls that read it; and what each promises.

A call ends in a result or in one :class:`midchart.core.errors.MidchartError` of one short line
without text of records; any other exception is a fault.
"""

from __future__ import annotations

import io
import json
import traceback
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from midchart.core import api
from midchart.core import config as settings
from midchart.core.egress.owners_list import owners_list
from midchart.core.errors import MidchartError
from midchart.core.runs.spec import read_spec
from tests.fuzz import seeds
from tests.fuzz.mutate import CANARY, Rng, change, change_files, of_bytes, pick, text, zip_of
from tests.support.exports import sealed, zipped
from tests.support.run_helpers import finished_run, write_cohort

Files = seeds.Files
HIDDEN: set[str] = {CANARY}
"""Texts of the case's records, which no message may contain."""
LONGEST_MESSAGE = 2_000
"""Characters of one message: a line on a screen, not a page."""


class Fault(Exception):
    """The program broke a promise; the text says which."""


def check_message(message: str) -> None:
    """Raise Fault unless a message is one short line without record text that can be printed."""
    hidden = any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or c in "\u2028\u2029" for c in message)
    surrogates = any(0xD800 <= ord(c) < 0xE000 for c in message)
    if (
        hidden
        or surrogates
        or len(message) > LONGEST_MESSAGE
        or any(map(message.__contains__, HIDDEN))
    ):
        raise Fault(f"message of {len(message)} characters: {message[:200]!a}")


def safely(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """The result of a call, or the MidchartError it raises; raises Fault for any other error."""
    try:
        return function(*arguments, **options)
    except MidchartError as error:
        check_message(str(error))
        return error
    except Exception as error:
        step = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{type(error).__name__} at {step.filename}:{step.lineno}"
        raise Fault(f"{place}: {str(error)[:120]!r}") from error


def write(folder: Path, files: Files) -> Path:
    """Files written into a folder, but for one below another's name; gives the folder."""
    for name, data in files.items():
        path = folder / name
        if not any(above.is_file() for above in path.parents):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    return folder


def check_report(report: dict[str, Any]) -> None:
    """Raise Fault for a wrong message of a cohort's check."""
    json.dumps(report, allow_nan=False)
    for skip in report["skipped"]:
        check_message(f"{skip['file']}:{skip['line']}: {skip['reason']}")
    for warning in report["warnings"]:
        check_message(warning)


def read_cohort(rng: Rng, place: Path) -> None:
    """Check a cohort, then ask a question about its first record."""
    report = safely(api.check, str(place))
    if isinstance(report, MidchartError):
        return
    check_report(report)
    cohort = api.open_data(str(place))
    if "labels" in report or not report["records"]:
        return
    record = next(iter(cohort.records))
    asked = cohort.instructions[0].id if cohort.instructions else "Which dose of warfarin?"
    arm = pick(rng, ("bm25", "recency", "full", "oracle"))
    safely(api.select_report, str(place), record, asked, arm, 5, api.Protocol())


def import_cohort(rng: Rng, files: Files) -> None:
    """Import files or a zip of them, list all cohorts and remove this one."""
    packed = [("c.zip", zip_of(files, rng))] if rng.random() < 0.5 else list(files.items())
    source = [(name, io.BytesIO(data)) for name, data in packed]
    report = safely(api.import_cohort, pick(rng, ("ward", "ward", text(rng))), source)
    if isinstance(report, MidchartError):
        return
    check_report(report)
    for card in api.cohorts():
        if card.problem:
            raise Fault(f"an imported cohort that cannot be listed: {card.problem[:200]!r}")
    safely(api.remove_cohort, report["name"])


@dataclass(frozen=True)
class Cohorts:
    """Formats of cohorts, by the folders of their cases."""

    formats: tuple[str, ...]

    def __call__(self, rng: Rng, folder: Path) -> None:
        """One case."""
        seed, phrases = pick(rng, seeds.cases(*self.formats))
        HIDDEN.clear()
        HIDDEN.update((CANARY, *phrases))
        files = change_files(rng, seed)
        if rng.random() < 0.25:
            import_cohort(rng, files)
        else:
            read_cohort(rng, write(folder / "cohort", files))


def tags_and_questions(rng: Rng, folder: Path) -> None:
    """A cohort's data-use tag, and what people keep with it."""
    files = {**seeds.kept_questions(), "midchart.toml": seeds.MANIFEST}
    name = pick(rng, ("midchart.toml", "midchart.questions"))
    place = str(write(folder / "cohort", {**files, name: change(rng, files[name])}))
    read_cohort(rng, Path(place))
    safely(api.set_data_use, place, "training_allowed", True, "for the test of it")
    safely(api.own_questions, place)
    safely(api.questions_table, place)
    id = safely(api.keep_question, place, pick(rng, ("1", text(rng))), text(rng), text(rng))
    id = id if isinstance(id, str) else pick(rng, ("own-1", text(rng)))
    safely(api.answer_question, place, id, text(rng), True)
    spans = [tuple(int(pick(rng, (0, 1, 5, -1, 10**30))) for _ in range(3)) for _ in range(3)]
    safely(api.mark_evidence, place, id, spans)
    safely(api.withdraw_question, place, id)


RUN_SPEC: dict[str, Any] = {
    "name": "seed", "kind": "answers", "arms": ["bm25", "recency"], "readers": ["extractive"],
    "judges": ["exact"], "seed": 7, "protocol": {"resamples": 100},
}  # fmt: skip


@cache
def seed_export(data: Path) -> Path:
    """The export of a finished run, made once in a process; nothing else of the run stays."""
    cohort = write_cohort(data / "cohorts" / "demo", records=2, events=8)
    run = finished_run({**RUN_SPEC, "data": str(cohort)})
    for card in api.review_cards(run, "ann")[:1]:
        api.add_review(run, "ann", card.key, "correct", 1.5)
    api.export_run(run, data / "seed.zip", False)
    api.remove_run(run)
    return data / "seed.zip"


def run_imports(rng: Rng, folder: Path) -> None:
    """Exports of other installations; the changed ones often with a list of files that fits."""
    with zipfile.ZipFile(seed_export(settings.data_folder())) as archive:
        files = change_files(rng, {name: archive.read(name) for name in archive.namelist()})
    place = write(folder / "x", files)
    if rng.random() < 0.8:
        with suppress(Exception):  # fails where the manifest itself was changed
            sealed(place)
    source = zipped(place, folder / "x.zip") if rng.random() < 0.5 else place
    if source.is_file() and rng.random() < 0.3:
        source.write_bytes(of_bytes(rng, source.read_bytes()))
    imported = safely(api.import_run, source)
    if not isinstance(imported, MidchartError):
        run = imported["run"]
        for call in (api.status, api.report, api.review_rows, lambda one: api.rows(one, "answers")):
            safely(call, run)
        api.remove_run(run)


@cache
def _specs() -> tuple[bytes, ...]:
    root = settings.ROOT
    folders = (root / "docs", root / "tests" / "golden" / "specs")
    return tuple(path.read_bytes() for one in folders for path in sorted(one.glob("*.toml")))


def specs(rng: Rng, folder: Path) -> None:
    """Specs of every kind; secrets and the audit log."""
    data = change(rng, pick(rng, _specs()))
    safely(read_spec, write(folder, {"spec.toml": data}) / "spec.toml")
    table = safely(api.read_toml, data.decode("utf-8", "replace"))
    if isinstance(table, dict):
        written = safely(api.write_toml, table)
        if isinstance(written, str):
            safely(api.read_toml, written)
    secrets, audit = settings.secrets_files()[0], settings.audit_file()
    audit.parent.mkdir(parents=True, exist_ok=True)
    secrets.write_bytes(
        change(rng, b'MIDCHART_SERVED_KEY = "x"\nMIDCHART_HOSTS = "llm.ward.org=K"\n')
    )
    audit.write_bytes(change(rng, b'{"when":"2026-01-01","event":"tag","previous":""}\n' * 3))
    try:
        safely(settings.secret, "MIDCHART_SERVED_KEY")
        safely(owners_list)
        safely(api.audit_lines)
        safely(api.verify_audit)
    finally:
        secrets.unlink()
        audit.unlink()


def typed(rng: Rng, folder: Path) -> None:
    """What pages pass on: names, paths, questions, options, TOML; by the account or who signed in."""
    cohort, word = str(folder.parent / "data" / "cohorts" / "demo"), text(rng)
    seed_export(settings.data_folder())
    record = api.open_data(cohort).records["1"]
    calls: tuple[Callable[[], Any], ...] = (
        lambda: api.open_data(word),
        lambda: api.import_cohort(word, Path(word)),
        lambda: api.import_cohort("ward", [(word, io.BytesIO(b"x"))]),
        lambda: api.remove_cohort(word),
        lambda: api.import_run(word),
        lambda: api.set_data_use(word, "training_allowed", True, word),
        lambda: api.parse({word: word}),
        lambda: api.write_toml({word: word}),
        lambda: api.preflight({**RUN_SPEC, "data": cohort, pick(rng, list(RUN_SPEC)): word}),
        lambda: api.typed_question(record, word),
        lambda: api.select_report(cohort, pick(rng, ("1", word)), word, "bm25", 5, api.Protocol()),
        lambda: api.reviewer_name(word),
        lambda: api.report(word),
        lambda: api.export_html(word, word),
        lambda: api.read_questions(word),
        lambda: api.save_question_set(cohort, word, [word, text(rng)]),
    )
    role = pick(rng, ("", *api.ROLES))
    who = api.Person(f"{role}@ward.org", role) if role else api.account()
    with api.acting_as(who):
        safely(pick(rng, calls))


TARGETS: dict[str, Callable[[Rng, Path], None]] = {
    "fhir": Cohorts(("fhir",)),
    "questions of notes": Cohorts(("squad", "longhealth", "archehr_qa", "ehrnoteqa", "medcalc")),
    "xml": Cohorts(("medalign", "ccda")),
    "tables": Cohorts(("omop", "synthea_csv")),
    "coded events": Cohorts(("meds", "ehrshot")),
    "notes": Cohorts(("plain_notes", "hl7v2")),
    "refused": Cohorts(("refused", "reported")),
    "tags and questions": tags_and_questions,
    "run imports": run_imports,
    "specs and settings": specs,
    "typed": typed,
}
