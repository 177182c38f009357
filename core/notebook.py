"""Midchart in a notebook or script: twelve functions, tables in and out.

A cohort is a name in the data folder, a path (folder or record file), or what :func:`open` gives. A
question is a text, or the id of one of the cohort's own. Tables are pandas frames. Permissions are
those of the command line.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from midchart.core import api
from midchart.core.errors import InputError, UnknownName
from midchart.core.types import Cohort, Instruction

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

__all__ = [
    "ask", "claims", "compare", "curve", "demo", "dropped", "export", "figure", "open", "report",
    "run", "select",
]  # fmt: skip


def demo(patients: int | None = None, folder: str | Path | None = None) -> str:
    """Make the synthetic demo cohort where it is not there yet, and say how to name it.

    ``patients``: their number (default 40). ``folder``: where (default: ``demo`` in the data
    folder, which also gets the included runs). Raises InputError where it cannot be written.
    """
    if folder is not None:
        api.prepare_demo(folder, patients)
        return str(folder)
    if patients is not None:
        raise InputError("demo: name a folder for a cohort of another size")
    api.prepare_first_start()
    return "demo"


def open(data: str | Path | Cohort) -> Cohort:
    """A cohort: ``records`` by id, ``instructions`` (its questions), ``gold`` (their answers and
    evidence), ``responses`` and ``skipped``. Raises DataError, UnknownName."""
    return data if isinstance(data, Cohort) else api.open_data(data)


def select(
    data: str | Path | Cohort,
    record: str,
    question: str,
    arm: str = "bm25",
    k: int | None = None,
    protocol: str = "corrected",
) -> pd.DataFrame:
    """What an arm keeps of a record for a question, in the order of the prompt.

    Columns ``id, event, time, kind, text, score, kept_by`` ("arm", "recency" or "both"). ``k``:
    units kept (default: the protocol's); ``protocol``: "corrected" or "published".
    """
    path, rules = open(data).path, api.parse(protocol)
    selected = api.select_report(path, record, question, arm, k, rules)["sentences"]
    return _frame(selected, ["id", "event", "time", "kind", "text", "score", "kept_by"])


def dropped(
    data: str | Path | Cohort,
    record: str,
    question: str,
    arm: str = "bm25",
    k: int | None = None,
    protocol: str = "corrected",
) -> pd.DataFrame:
    """The evidence of a question of the cohort: each sentence that holds some, and whether the arm
    kept it. Arguments as of :func:`select`.

    Columns ``id, time, text, kept``. Raises InputError for a question whose evidence is not known.
    """
    cohort, rules = open(data), api.parse(protocol)
    instruction = _instruction(cohort, record, question)
    gold = api.gold_under(cohort, rules).gold.get(instruction.id)
    if gold is None or not gold.spans:
        raise InputError(
            f"the evidence of this question on record {record} is not known; questions with "
            "evidence are those of the cohort"
        )
    chart = cohort.records[record]
    selection = api.select(cohort, chart, instruction, arm, rules, k)
    ids = {one.sentence.id for one in selection.kept}
    evidence = api.gold_ids(chart, gold, rules)
    rows = [(s.id, s.time, s.text, s.id in ids) for s in api.sentences(chart, rules)]
    return _frame([row for row in rows if row[0] in evidence], ["id", "time", "text", "kept"])


def ask(
    data: str | Path | Cohort,
    record: str,
    question: str,
    arm: str = "bm25",
    reader: str = "",
    k: int | None = None,
    protocol: str = "corrected",
    **options: Any,
) -> pd.DataFrame:
    """A reader's answer from what an arm keeps, one row.

    Columns ``answer, source`` (the lines of the record that the reader names), ``ended``,
    ``reason`` (why it failed), ``reader, arm, prompt_tokens, cut`` (whether context was cut from
    the prompt) and ``prompt``. ``reader``: default the installed one that errs least on the
    included checks; ``options``: its own. Raises MissingModel, UnknownName, SpecError.
    """
    cohort, rules = open(data), api.parse(protocol)
    chart = cohort.records[record]
    instruction = _instruction(cohort, record, question, typed=True)
    name = reader or api.default_reader()
    selection = api.select(cohort, chart, instruction, arm, rules, k)
    prompt, answer = api.ask(instruction, selection, name, rules, options)
    lines = {line.sentence_id: line.text for line in prompt.context}
    row = {
        "answer": answer.text,
        "source": "\n".join(lines[id] for id in answer.sources if id in lines),
        "ended": answer.ended,
        "reason": answer.reason,
        "reader": api.title("reader", name),
        "arm": api.title("arm", arm),
        "prompt_tokens": prompt.tokens,
        "cut": api.was_cut(prompt),
        "prompt": prompt.text,
    }
    return _frame([row])


def run(spec: str | Path | Mapping[str, Any], wait: bool = True) -> str:
    """Start a run and give its id: a spec's file, a preset's name ("demo", "stage1", …), or the
    spec as a mapping. ``wait``: until it has ended; raises SpecError, InputError."""
    if isinstance(spec, str) and not os.path.isfile(spec):  # noqa: PTH113 - no path is no file
        presets = {one.name: one.text for one in api.presets()}
        if spec not in presets:
            raise UnknownName("spec", spec, presets)
        spec = api.read_toml(presets[spec])
    started = api.start(spec)
    if wait:
        api.wait(started)
    return started


def report(run: str, table: str = "", part: str = "") -> dict[str, pd.DataFrame] | pd.DataFrame:
    """A run's tables by name, or one ``table``; ``part``: patients "test", "seen" or "all".

    What the run shows is ``report(run)["conclusion"]``, a row a sentence. Raises UnknownName.
    """
    document = api.report(run, part)
    frames = {name: _frame(rows) for name, rows in document["tables"].items()}
    shown = document.get("conclusion") or {"headline": "", "details": ()}
    sentences = [one for one in (shown["headline"], *shown["details"]) if one]
    frames["conclusion"] = _frame([{"text": one} for one in sentences], ["text"])
    if not table:
        return frames
    if table not in frames:
        raise UnknownName("table of this run", table, frames)
    return frames[table]


def compare(*runs: str) -> pd.DataFrame:
    """Two or more runs, the first as the baseline: for each arm, reader and judge that both have
    the paired difference with its interval by patient and adjusted p."""
    return _frame(api.compare_runs(runs)["results"])


def curve(data: str | Path | Cohort, **options: Any) -> pd.DataFrame:
    """Accuracy of a cohort's model responses by position of their evidence, a row a bin.

    Columns are those of the table ``curve`` (docs/guide.md): ``low, high, accuracy, ci_low,
    ci_high, null_low, null_high, n, clusters``. ``options``: ``score, position, bins, stratum``.
    """
    return _frame(api.curve(open(data), **options)["curve"])


def claims(data: str = "demo", reader: str = "") -> pd.DataFrame:
    """The paper's main claims with its figures, this installation's under either protocol where
    they were run on the cohort with ``reader``, and a verdict by a stated rule."""
    reader = reader or api.default_reader()
    published, corrected, others = api.paper_runs(data, reader)
    judge = api.report(corrected)["primary_judge"] if corrected else ""
    return _frame(api.paper_claims(published, corrected, judge, others))


def figure(run: str, view: str = "", measure: str = "", **chosen: Any) -> go.Figure:
    """The figure of a run that its page shows: a Plotly figure.

    ``view``: its name (default: the first with a figure). ``measure``: a column that the view
    measures. ``chosen``: values of columns, such as ``judge="exact"``; else the first. Raises
    UnknownName, and InputError where nothing is drawn.
    """
    document = api.report(run)
    views = {one.name: one for one in api.views_of(document) if one.figure != "none"}
    if view and view not in views:
        raise UnknownName("view with a figure of this run", view, views)
    declared = views[view] if view else next(iter(views.values()), None)
    if declared is None:
        raise InputError(f"run {run} has no figure")
    fixed = dict(chosen)
    for column, known in api.options(document["tables"], declared, fixed).items():
        if column in chosen and chosen[column] not in known:
            raise UnknownName(column, str(chosen[column]), map(str, known))
        if known:
            fixed.setdefault(column, known[0])
    rows = api.rows_of(document["tables"], declared, fixed)
    measures = {one.column: one for one in api.known_measures(rows, declared)}
    if measure and measure not in measures:
        raise UnknownName(f"measure of the view {declared.name}", measure, measures)
    used = measures[measure] if measure else next(iter(measures.values()), None)
    drawn = None if used is None else api.figure(api.values(rows, declared, used), declared, used)
    if drawn is None:
        raise InputError(f"run {run} has nothing to draw in the view {declared.name}")
    return drawn


def export(run: str, out: str | Path | None = None) -> Path:
    """Write a finished run, with its tables, as a zip (default: ``RUN.zip`` here), for another
    installation. Text of records is left out unless they are synthetic."""
    return Path(str(api.export_run(run, out)["file"]))


def _frame(rows: Any, columns: Any = None) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(list(rows), columns=columns)


def _instruction(cohort: Cohort, record: str, question: str, typed: bool = False) -> Instruction:
    """A question of a record, by its text or id; a ``typed`` one need not be the cohort's."""
    asked = [one for one in cohort.instructions if one.record_id == record]
    for one in asked:
        if question in (one.question, one.id):
            return one
    if not typed:
        raise InputError(
            f"record {record} has no question of this text or id; it has {len(asked)} questions "
            "(open(...).instructions)"
        )
    return api.typed_question(cohort.records[record], question)
