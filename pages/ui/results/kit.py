"""A page of results: the run, what it shows, and one of its views as a figure with its table.

It draws any experiment from what that declares (:mod:`midchart.core.runs.declared`), those of
plug-ins included. A page adds only what its kind alone has, as :class:`Extra` views.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from midchart.core import api, figures
from midchart.pages.ui import navigation, state
from midchart.pages.ui.runs import panel, picker
from midchart.pages.ui.shared import chart, marks, messages, tables
from midchart.pages.ui.shared.marks import for_screen
from midchart.pages.ui.shared.pickers import pick, pick_linked
from midchart.pages.ui.state import cached

ASIDE = ("reader", "judge", "label", "task")
"""Columns chosen in the sidebar, once for all views of a page that have them."""


@dataclass(frozen=True)
class Shown:
    """What a page of results shows: the run, its report, and what was chosen.

    ``tables`` are the report's, with comparisons against the chosen ``baseline``. ``chosen``:
    column → value.
    """

    run: dict[str, Any]
    report: dict[str, Any]
    tables: Mapping[str, Sequence[Mapping[str, Any]]]
    chosen: Mapping[str, Any] = field(default_factory=dict)
    baseline: str = ""

    @property
    def reader(self) -> str:
        return str(self.chosen.get("reader") or "")

    @property
    def judge(self) -> str:
        return str(self.chosen.get("judge") or "")


@dataclass(frozen=True)
class Extra:
    """A view that a page draws itself: its address, its title as a question, and what draws it."""

    name: str
    title: str
    draw: Callable[[Shown], object]


Opens = Callable[[Shown, api.View, Mapping[str, Any]], object]
"""Opens what is behind a value of a view, by the columns that the view opens by."""
Behind = Mapping[str, Mapping[str, Any]]
"""Column of a table's row → what a click on its cell opens by; "": on any other cell."""


def page(
    kinds: tuple[str, ...],
    key: str,
    extras: Callable[[Shown], Sequence[Extra]] | None = None,
    opens: Opens | None = None,
) -> Shown | None:
    """Draw the results of a run of these ``kinds``, of which there is one; ``key``: the page's.

    Returns what is shown, None where nothing is yet. ``extras``: the page's own views, after the
    declared ones; ``opens``: what a click on a value does where the view says that it opens. It
    leads to one of the ``extras`` where the page has any: of a run without, nothing opens.
    """
    with navigation.readable("This run cannot be read"):
        shown = _chosen(*_opened(kinds, key))
        items = shown.report["items"]
        if not items["done"]:
            if items["failed"] and not state.active(shown.run):
                st.info("Every item of this run failed; the reasons are listed below.")
                panel.failures(shown.report)
            else:
                st.info("No item is complete yet. Results appear here as items finish.")
            return None
        stated = _stated(shown)
        top = st.container()
        by_page = extras(shown) if extras else ()
        _view(shown, by_page, None if extras and not by_page else opens, stated, top)
        _more(shown, stated)
        return shown
    return None


def _opened(kinds: tuple[str, ...], key: str) -> tuple[dict[str, Any], dict[str, Any]]:
    with st.sidebar:
        run = picker.pick_run(kinds=kinds)
    assert run is not None, "the page shows its empty state where there is no run"
    report = state.report(run)
    chart.set_source(run, report, run["run"] in state.included())
    if state.active(run):
        st.info("This run is running: results are partial.", icon=":material/hourglass_top:")
    elif run["status"] != "done":
        panel.resume(run, key)
    return run, report


def _chosen(run: dict[str, Any], report: dict[str, Any]) -> Shown:
    """Choices in the sidebar: reader, judge, arm or task where views ask for them, and the
    baseline of comparisons."""
    views = api.views_of(report)
    chosen: dict[str, Any] = {}
    baseline, against = "", report["tables"]
    with st.sidebar:
        for column in ASIDE:
            asking = [view for view in views if column in view.choose]
            values = list(
                dict.fromkeys(
                    row[column]
                    for view in asking
                    for row in api.rows_of(report["tables"], view, {})
                    if row.get(column) not in (None, "")
                )
            )
            if column == "judge":  # the primary one first
                values.sort(key=lambda name: name != report["primary_judge"])
            if values:
                chosen[column] = _pick(column, values, column)
        labels = list(dict.fromkeys(row["label"] for row in report["tables"].get("accuracy") or ()))
        if report["tables"].get("paired") and len(labels) > 1:
            baseline = pick_linked(
                "baseline", "Baseline", tables.titles("arm", labels), unlinked=labels[0],
                help="All other arms are compared with this one on the same questions.",
            )  # fmt: skip
            if baseline != labels[0]:
                against = {**against, **state.of_run(run, api.compared, baseline)}
    return Shown(run, report, against, chosen, baseline)


def _pick(column: str, values: Sequence[Any], key: str, **extra: Any) -> Any:
    """One value of a column; the URL holds it, the page its title."""
    texts = {str(value): value for value in values}
    titles = {text: api.in_words(column, value) for text, value in texts.items()}
    if len(texts) < 2:
        return next(iter(texts.values()))
    words = tables.COLUMNS.get(column, column.replace("_", " "))
    label = f"{words[:1].upper()}{words[1:]}"
    return texts[pick_linked(key, label, titles, unlinked=next(iter(texts)), **extra)]


def _stated(shown: Shown) -> api.Conclusion:
    """What the run shows, by the primary judge; nothing before it has finished."""
    if shown.report["status"] != "done":
        return api.Conclusion()
    wanted = {name: value for name, value in shown.chosen.items() if value}
    if shown.baseline:
        wanted["baseline"] = shown.baseline
    return api.conclusion_of({**shown.report, "tables": shown.tables}, **wanted)


BETTER = {"more": "Higher is better.", "less": "Lower is better.", "": ""}


def _view(
    shown: Shown,
    extras: Sequence[Extra],
    opens: Opens | None,
    stated: api.Conclusion,
    top: DeltaGenerator,
) -> None:
    """The picker of a view, and that view; ``top``: where its headline is."""
    views = {view.name: view for view in api.views_of({**shown.report, "tables": shown.tables})}
    by_page = {extra.name: extra for extra in extras}
    titles = {name: one.title for name, one in (*views.items(), *by_page.items())}
    if not titles:
        st.info("This run has no results for any question yet.")
        return
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="kit_line"):
        name = pick_linked(
            "view", "Question", titles, unlinked=next(iter(titles)), width=330,
            label_visibility="collapsed",
        )  # fmt: skip
        if name in views:
            view = views[name]
            fixed, measure = _line(shown, view)
    concludes = [one.name for one in views.values() if one.concludes] or [next(iter(views), "")]
    first = ""
    if name in views and name not in concludes and measure is not None:
        rows = api.rows_of(shown.tables, view, fixed)
        first = api.view_headline(api.values(rows, view, measure), view, measure, rows)
    variants = tables.choices(tables.frame_of(shown.tables, "inhibition"), "variant")
    headline = first or tables.with_titles("variant", variants, stated.headline)
    report, items = shown.report, shown.report["items"]
    below = [f"On {report['origin']}.", report["judge_agreement"]["words"]] if headline else []
    if report["status"] != "done":  # its figures still change
        partial_of = f"Partial: {items['done']:,} of {items['planned']:,} items."
        headline, below = "", [f"{partial_of} A run has no conclusion before it has finished."]
    messages.conclude(headline, below, top)
    if name in by_page:
        by_page[name].draw(shown)
        return
    draw(shown, view, measure, fixed, opens)


def _line(shown: Shown, view: api.View) -> tuple[dict[str, Any], api.Measure | None]:
    """The choices of a view next to its picker: what is measured, and of what."""
    fixed = {column: value for column, value in shown.chosen.items() if column in view.choose}
    for column in view.choose:
        known = api.options(shown.tables, view, fixed)[column]
        if column in ASIDE or not known:
            continue
        fixed[column] = _pick(column, known, f"of_{column}", width=230)
    rows = api.rows_of(shown.tables, view, fixed)
    return fixed, pick_measure(api.known_measures(rows, view))


def pick_measure(
    measures: Sequence[api.Measure], label: str = "Measure", key: str = "measure"
) -> api.Measure | None:
    """One of the measures of a view; None where there is none."""
    by_column = {one.column: one for one in measures}
    titles = {column: one.title for column, one in by_column.items()}
    return by_column.get(pick(label, list(titles), key, titles))


@cached(
    lambda estimates, view, measure: (repr((estimates, view, measure)), figures.dark()),
    entries=48,
    shared=True,
)
def _drawn(
    estimates: Sequence[Any], view: api.View, measure: api.Measure
) -> tuple[chart.Drawing, str] | None:
    """A view's figure, and what it shows in words; None for a view without one."""
    figure = api.figure(estimates, view, measure)
    if figure is None:
        return None
    return chart.Drawing.of(figure), api.figure_alt(estimates, view, measure)


def draw_rows(
    stem: str,
    view: api.View,
    rows: Sequence[Mapping[str, Any]],
    measure: api.Measure | None = None,
    opens: Opens | None = None,
) -> None:
    """:func:`draw` of rows that are of no run's report, by the view's first measure where none is
    named; ``stem``: of the names of files."""
    of = {view.table: rows}
    shown = Shown({"run": stem}, {"tables": of}, of)
    draw(shown, view, measure or next(iter(view.measures), None), {}, opens)


def draw(
    shown: Shown,
    view: api.View,
    measure: api.Measure | None,
    fixed: Mapping[str, Any],
    opens: Opens | None = None,
) -> None:
    """A view's figure, its table and how to read them."""
    rows = api.rows_of(shown.tables, view, fixed)
    if not rows:
        st.info("This run has nothing on that for what is chosen.")
        return
    estimates = api.values(rows, view, measure) if measure else []
    behind = partial(opens, shown, view) if opens and view.opens else None
    numbers = st.container()
    if measure and (drawn := _drawn(estimates, view, measure)) is not None:
        picture, numbers = st.tabs(TABS)
        with picture:
            chart.show(
                *drawn, f"kit_{view.name}",
                opens=(lambda number, *_: behind(estimates[int(number)].opens)) if behind else None,
            )  # fmt: skip
    frame, cells = table_of(rows, view, measure, estimates)
    with numbers:
        tables.table(
            frame,
            f"{shown.run['run']}-{view.name}",
            view.title,
            download=tables.frame_of({"tables": {view.table: rows}}, view.table),
            opens=(lambda row, column: behind(cells[row].get(column, cells[row][""])))
            if behind
            else None,
        )
    methods = dict.fromkeys(one.method for one in estimates if one.method)
    parts = [
        view.about,
        measure.help if measure else "",
        BETTER[measure.better] if measure else "",
        f"95 % intervals {', else '.join(methods)}." if methods else "",
        "Click a number or a marker to see what is behind it." if behind else "",
    ]
    st.caption(for_screen(" ".join(filter(None, parts))))


TABS = ("Figure", "Table")


def table_of(
    rows: Sequence[Mapping[str, Any]],
    view: api.View,
    measure: api.Measure | None,
    estimates: Sequence[api.Value],
) -> tuple[pd.DataFrame, list[Behind]]:
    """The table of a view as it is read, and by what each of its rows opens."""
    if measure is None:
        opens = [{"": {column: row.get(column) for column in view.opens}} for row in rows]
        return tables.shown(pd.DataFrame(rows)), opens
    row_head = " and ".join(tables.COLUMNS.get(one, one.replace("_", " ")) for one in view.rows)
    places = {one.x for one in estimates}
    one_a_cell = len({(one.row, one.x) for one in estimates}) == len(estimates)
    if view.across and len(places) <= MOST_COLUMNS and one_a_cell:
        texts = [{"row": one.row, "x": one.x, "text": _in_a_cell(one)} for one in estimates]
        wide = pd.DataFrame(texts).pivot_table(
            index="row", columns="x", values="text", aggfunc="first", sort=False
        )
        wide = wide[api.in_order([one.x for one in estimates])].rename(
            columns=partial(api.in_words, view.across)
        )
        cells = [_cells(view, [one for one in estimates if one.row == row]) for row in wide.index]
        return wide.rename_axis(row_head or "series").reset_index().rename_axis(columns=None), cells
    columns = tuple(estimates[0].key) if estimates else ()
    row_of = {tuple(row.get(name) for name in columns): row for row in reversed(rows)}
    by_key = [(one, row_of[tuple(one.key.values())]) for one in estimates]
    frame = pd.DataFrame(
        [
            {
                row_head: one.row,
                **({view.across.replace("_", " "): one.x} if view.across else {}),
                measure.title: one.text,
                "n": one.n or None,
                **({"patients": one.clusters} if one.clusters is not None else {}),
                **({"chance": api.shown(one.chance, one.unit)} if one.chance == one.chance else {}),
                **{
                    tables.COLUMNS.get(name, name.replace("_", " ")): _cell(name, row.get(name))
                    for name in view.more
                },
            }
            for one, row in by_key
        ]
    ).dropna(axis=1, how="all")
    return frame, [{"": one.opens} for one, _ in by_key]


def _in_a_cell(one: api.Value) -> str:
    text = f"{one.text} n {one.n:,}" if one.n else one.text
    return text if one.chance != one.chance else f"{text} chance {api.shown(one.chance, one.unit)}"


def _cells(view: api.View, estimates: Sequence[api.Value]) -> Behind:
    """By what the cells of a row open: each by its own value, the row's name by what all share."""
    shared = {
        name: value
        for name, value in estimates[0].opens.items()
        if name != view.across and all(one.opens[name] == value for one in estimates)
    }
    return {"": shared, **{api.in_words(view.across, one.x): one.opens for one in estimates}}


MOST_COLUMNS = 12
"""Places along the x axis up to which they are columns of the table; more are rows."""
SHARES = ("share", "recall", "any_piece", "accuracy", "prevalence", "in_prompt", "middle", "edge")
"""Parts of the names of columns that hold shares in [0, 1]."""


def _cell(name: str, value: Any) -> Any:
    if isinstance(value, float) and not marks.missing(value):
        if any(part in name for part in SHARES):
            return marks.percent(value)
        return marks.p_number(value) if name.endswith("_p") else round(value, 3)
    if isinstance(value, bool):
        return api.in_words(name, value)
    return value


def _more(shown: Shown, stated: api.Conclusion) -> None:
    """One drawer: the run's line, what else its conclusion rests on, warnings, failed items and the
    sentences for a paper."""
    report = shown.report
    with st.expander("About this run: what it rests on, warnings, methods"):
        panel.line(shown.run, report)
        for text in stated.details:
            st.caption(for_screen(text))
        labels = tables.choices(tables.frame_of(shown.tables, "recall"), "label")
        panel.notes([line for line in report["warnings"] if not line.startswith("part = ")], labels)
        if report["items"]["failed"]:
            panel.failures(report)
        # Its block of text brings a script of 1.5 MB: only who asks for it loads that.
        paper = st.expander("The sentences for a paper", on_change="rerun", key="paper_sentences")
        if paper.open:
            paper.code(api.methods(shown.run["run"]), language=None, wrap_lines=True)
