"""The observed curve: verdict, figure, numbers, the questions behind a point, and all groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import urlencode

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from midchart.core import api
from midchart.core.errors import InputError, MidchartError
from midchart.pages.ui import navigation, state
from midchart.pages.ui.curve import charts, data, text
from midchart.pages.ui.curve.data import PickedCurve, Tables
from midchart.pages.ui.shared import (
    chart,
    conclusion,
    empty,
    figures,
    formats,
    marks,
    reading,
    tables,
)
from midchart.pages.ui.shared.cache import cached
from midchart.pages.ui.shared.marks import for_screen
from midchart.pages.ui.shared.pickers import pick_linked, segments, token

ALL = ""
"""The group that is all answers."""
NONE = "none"
ANYWHERE = "0-100"
"""The part of the record that is all of it."""
MOST_QUESTIONS = 500
"""Questions of a point that are listed."""
MOST_GROUPS = 12
"""Groups that are drawn; the table has them all."""
ABREAST = 3
POINT = "at"
"""Key of the open point in the session and in the URL: an option like 20-30."""
CSS = """
.mc-summary{border-collapse:collapse;width:100%;font-size:.86rem;line-height:1.4}
.mc-summary th,.mc-summary td{border-block-end:1px solid var(--mc-line);padding:.28rem .4rem;
 text-align:start;vertical-align:top;font-weight:450}
.mc-summary td{font-weight:600}
.mc-summary small{display:block;opacity:.78;font-weight:400;font-size:.78rem}
"""


def observed() -> None:
    """The curve of the model responses included in a cohort."""
    top = st.container()
    with st.sidebar:
        names = state.question_cohorts()
        if not names:
            no_questions()
            return
        name = state.pick_cohort() if len(names) > 1 else names[0]
        try:
            cohort = api.open_data(name)
        except MidchartError as error:
            st.error(for_screen(str(error)), title="This cohort cannot be read")
            return
        if not cohort.responses:
            _no_responses(name)
            return
        with top:
            if not reading.complete(name):
                st.caption(
                    f"The curve of {len(cohort.responses):,} model responses to "
                    f"{len(cohort.instructions):,} questions follows."
                )
                return
        key = api.cohort_key(cohort)
        figures.set_cohort(cohort)
        try:
            known = data.choices(key, cohort)
        except InputError as error:
            st.info(for_screen(str(error)))
            return
        choice = _pick_options()
        least = _pick_least(known["location_scores"])
        value = _pick_group(name, choice.by, known["strata"][choice.by])
    choice = replace(choice, least=least, value=value)
    if choice.position == text.AUTO:
        choice = replace(choice, position=known["position"]["used"])
    curve = data.one(key, cohort, choice)
    if curve.curve.empty:
        reason = "; ".join(curve.failures["reason"]) if len(curve.failures) else "no answer"
        st.info(f"No curve: {for_screen(reason)}.")
    else:
        first, below = _sentences(curve.text)
        conclusion.show(first, below[1:], top)
        _large_curve(name, key, cohort, choice, curve)
        with st.expander("What this rests on"):
            for line in (*below[:1], figures.source(), f"Position: {known['position']['words']}."):
                st.caption(for_screen(line))
    _location_errors(name, key, cohort, choice.position)
    _groups(name, key, choice, data.groups(key, cohort, choice))


def _sentences(text: str) -> tuple[str, list[str]]:
    """A verdict's first finding, and the rest; a warning of simulated answers is not the first."""
    first, _, rest = text.partition(". ")
    warning = first if first.startswith("Simulated") else ""
    if warning:
        first, _, rest = rest.partition(". ")
    return (f"{first}." if rest else first), [rest, f"{warning}." if warning else ""]


def no_questions() -> None:
    """The empty state where every cohort has labels to forecast and none has questions."""
    st.info(
        "No installed cohort has questions about its records. The demo cohort does; create it "
        "with `midchart demo`."
    )


def _no_responses(name: str) -> None:
    empty.state(
        "No responses in this cohort",
        f"The curve needs model responses with clinicians' verdicts, included in "
        f"**{for_screen(name)}**: its file `clinician-reviewed-model-responses.tsv`. "
        "Without them, use a needle run, which places a synthetic fact at every depth of the "
        "same record: select it at the left.",
    )


def _pick_options() -> PickedCurve:
    """The pickers of score, position, bins, evidence and stratum, in the URL by their names."""
    score = st.selectbox(
        "Score", list(text.SCORES), format_func=text.SCORES.__getitem__, key="score",
        bind="query-params", width=230,
        help=" ".join(f"{text.SCORES[k]}: {v}" for k, v in text.SCORE_HELP.items()),
    )  # fmt: skip
    return PickedCurve(
        score,
        segments(
            "Position", {text.AUTO: "Automatic", **text.POSITIONS}, "position",
            help="Order: index among all events of the record. Time: elapsed share of its time "
            "span. Tokens: share of its tokens before the evidence. The three are never combined. "
            "Automatic: tokens where the median record has few events, else order.",
        ),
        segments(
            "Parts", text.BINS, "bins",
            help="Bin edges are fixed parts of the record, not quantiles of the answers: the first "
            "tenth is 0–10 %.",
        ),
        segments(
            "Evidence", text.SNIPPETS, "snippets",
            help="Best piece: the position of an answer is that of the best-matching piece of its "
            "evidence. Every piece: the answer counts once at each located piece, so n counts "
            "positions.",
        ),
        segments("Groups by", text.STRATA, "by"),
    )  # fmt: skip


def _pick_least(scores: Sequence[float]) -> int:
    """The least location score in hundredths, with how many questions it excludes; not asked for
    where no evidence was located by its text."""
    if not scores:
        return 0

    def title(hundredths: int) -> str:
        excluded = sum(score < hundredths / 100 for score in scores)
        return text.LEAST[hundredths] + (f" (−{excluded:,})" if excluded else "")

    return segments(
        "Location score", {hundredths: title(hundredths) for hundredths in text.LEAST}, "least",
        help="Match of a question's evidence with its location: 1 is verbatim. A minimum score "
            "excludes questions located with a lower score; in brackets: how many of the "
            f"{len(scores):,} questions located by their text.",
    )  # fmt: skip


def _pick_group(cohort: str, by: str, values: Sequence[str]) -> str:
    """The group whose curve is drawn large. Its name comes from the cohort, so the URL has a
    token."""
    return pick_linked(
        "of",
        "Answers of",
        [ALL, *values],
        lambda value: value or f"every {text.STRATA[by].lower()}",
        key=f"curve_of_{by}",
        token=lambda value: token(cohort, f"{by}/{value}"),
        unlinked=ALL,
        width=230,
    )


def _facts(rows: text.Facts) -> None:
    """A table whose cells wrap: what, and its value with what to compare it with below."""
    cells = (tuple(for_screen(formats.unbroken(cell), html=True) for cell in row) for row in rows)
    inside = "".join(
        f'<tr><th scope="row">{what}</th><td>{value}<small>{note}</small></td></tr>'
        for what, value, note in cells
    )
    st.html(f"<style>{CSS}</style>" + marks.block(f'<table class="mc-summary">{inside}</table>'))


def _heading(title: str, simulated: bool) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if title:
            st.header(title, anchor=False, width="content")
        if simulated:
            st.badge(text.SIMULATED, color="orange", icon=":material/science:")


@cached(
    lambda key, choice, selected, dark, curve, paper: (key, choice, selected, dark),
    entries=64,
    shared=True,
)
def _figure(
    key: str,
    choice: PickedCurve,
    selected: int | None,
    dark: bool,
    curve: pd.DataFrame,
    paper: pd.DataFrame,
) -> tuple[chart.Drawing, str]:
    """The figure, and what it shows in words."""
    title = text.MEASURES[choice.score]
    figure = chart.style(charts.curve(curve, paper, title, selected))
    return chart.Drawing.of(figure), charts.curve_alt(curve, title)


@st.fragment
def _large_curve(
    name: str, key: str, cohort: api.Cohort, choice: PickedCurve, curve: Tables
) -> None:
    """The large curve with its numbers, and the questions behind the point that is open."""
    navigation.follow()
    title = text.MEASURES[choice.score]
    paper = data.published()
    if choice.score != "clinician" or choice.position != "order":
        paper = paper.head(0)
    stem = f"{name}-{choice.stem}" + (f"-{choice.by}-one" if choice.value else "")
    heading = f"{title[:1].upper()}{title[1:]} by position of the evidence"
    if choice.value or curve.simulated:
        _heading(f"{heading}: {for_screen(choice.value)}" if choice.value else "", curve.simulated)
    left, right = st.columns((3, 2), gap="medium")
    with left:
        selected = _open_bin(choice.bins)
        chart.show(
            *_figure(key, choice, selected, chart.dark(), curve.curve, paper),
            "curve_whole",
            opens=lambda bin, *_: open_point(int(bin), choice.bins),
        )
        st.caption(
            "Solid with markers: these answers; bars: 95 % interval, bootstrap of questions. "
            "Ribbon: 95 % of permutations of position over the same questions. "
            + (
                "Dashed: the paper's six models on MedAlign, 2,196 answers (its own intervals on "
                "hover). "
                if len(paper)
                else "The paper's curve is available for clinicians' verdicts by order of events "
                "only. "
            )
            + "Small numbers: n answers. Select a marker to see its questions."
            + (
                " A mean overlap between 0 and 100 %, not a share of correct answers."
                if choice.score in text.MEANS
                else ""
            )
        )
    with right:
        _facts(text.summary(curve.summary.iloc[0].to_dict()))
        tables.downloads(curve.summary, f"{stem}-summary")
    with st.expander("The curve as a table", expanded=False):
        tables.table(
            text.bin_table(curve.curve, paper),
            f"{stem}-curve",
            f"{title} in each bin of the record, with intervals, null band and n",
            columns={"%": st.column_config.NumberColumn(format="%.1f")},
            download=curve.curve,
            opens=lambda row, _: st.session_state.update(
                {POINT: _bin_names(choice.bins)[int(curve.curve["bin"].iloc[row])]}
            ),
        )
        st.caption(
            f"{text.wider(curve.curve)} The paper's curve, deciles by order of events:".lstrip()
        )
        tables.downloads(data.published(), "published-curve")
    _questions(name, key, cohort, choice)


def _location_errors(name: str, key: str, cohort: api.Cohort, position: str) -> None:
    """How many pieces of evidence are not in their record, and how often their place is wrong."""
    rows = data.locations(key, cohort, position)
    if not rows:
        return
    st.header("How the evidence was located", anchor=False)
    _facts(text.locations(rows))
    known = any(row["measure"].startswith("located by text") for row in rows)
    st.caption(
        "Errors of locating evidence by its text, compared with the exact spans in the cohort. "
        "The curve uses the exact spans. Expect errors of this size in cohorts without spans."
        if known
        else "This cohort has no exact spans, so the location error rate is unknown. To measure "
        "it on the demo: `midchart check demo --locator`."
    )
    tables.downloads(pd.DataFrame(rows), f"{name}-location-{position}")


# The questions behind a point


def _bin_names(bins: int) -> list[str]:
    """The parts of the record as options: 0-10, 10-20 … of deciles."""
    width = 100 // bins
    return [f"{low}-{low + width}" for low in range(0, 100, width)]


def _open_bin(bins: int) -> int | None:
    """The open point's bin; None where none is open."""
    name = st.session_state.get(POINT, st.query_params.get(POINT))
    names = _bin_names(bins)
    return names.index(name) if name in names else None


def open_point(bin: int, bins: int) -> None:
    """Open the point whose marker was selected."""
    if bin < bins:
        st.session_state[POINT] = _bin_names(bins)[bin]


def _open_group(by: str, value: str, bin: int | None = None, bins: int = 0) -> None:
    """Draw a group's curve large, and list its questions: of one point or all."""
    st.session_state[f"curve_of_{by}"] = value
    st.session_state[POINT] = ANYWHERE if bin is None else _bin_names(bins)[bin]


def _questions(name: str, key: str, cohort: api.Cohort, choice: PickedCurve) -> None:
    """The picker of a part of the record, and the table of its questions, without their text."""
    names = _bin_names(choice.bins)
    part = st.selectbox(
        "Questions with evidence at (%)", [NONE, *names, ANYWHERE], key=POINT,
        bind="query-params", width=260,
    )  # fmt: skip
    if part == NONE:
        return
    bin = None if part == ANYWHERE else names.index(part)
    rows = data.questions(key, cohort, choice, bin)
    if rows.empty:
        st.info("No answer has evidence in this part of the record.")
        return
    instructions = rows["instruction"].unique()
    count = len(instructions)
    listed = rows[rows["instruction"].isin(instructions[:MOST_QUESTIONS])]
    cut = f" The first {MOST_QUESTIONS:,} are listed; the download has all."
    of_group = f", {for_screen(choice.value)}" if choice.value else ""
    st.caption(
        f"{len(rows):,} answers to {count:,} question{'' if count == 1 else 's'} with evidence "
        f"at {part} %{of_group}.{cut if count > MOST_QUESTIONS else ''} Codes stand for a patient "
        "and a question of this cohort and mean nothing elsewhere. Click a row to open its record."
    )
    table = question_table(listed, name, choice.score)
    tables.table(
        table,
        f"{name}-{choice.stem}-at-{part}",
        f"Questions with their evidence at {part} per cent: position and each model's score",
        columns={
            "open": st.column_config.LinkColumn("record", display_text="Open", width="small"),
            "position": st.column_config.NumberColumn(format="%.1f %%"),
        },
        download=rows,
        height="content" if len(table) <= 12 else 460,
        opens=lambda row, _: _open_record(name, *table[["patient", "question"]].iloc[row]),
    )


def _open_record(cohort: str, patient: str, question: str) -> None:
    """Open page Patient on a question, by the codes of the table."""
    navigation.on_click("patient", cohort=cohort, patient=patient, question=question)


def question_table(rows: pd.DataFrame, cohort: str, score: str) -> pd.DataFrame:
    """Questions down, models to the right; each cell a verdict in a word, or an overlap.

    ``rows`` are the engine's: instruction, record, model, score, position.
    """
    places = ["record", "instruction", "position"]
    cells = rows.groupby([*places, "model"], sort=False)["score"].agg(list).unstack("model")
    cells = cells.map(lambda scores: _cell(scores, score)).reset_index()
    questions = [token(cohort, one) for one in cells["instruction"]]
    patients = [token(cohort, one) for one in cells["record"]]
    links = [
        "/patient?" + urlencode({"cohort": cohort, "patient": patient, "question": question})
        for patient, question in zip(patients, questions, strict=True)
    ]
    table = cells.drop(columns=places)
    for column, values in (
        ("position", 100 * cells["position"]),
        ("open", links),
        ("patient", patients),
        ("question", questions),
    ):
        table.insert(0, column, values)
    return table.sort_values("position", kind="stable")


def _cell(scores: Sequence[float] | float, score: str) -> str:
    """A model's answers to one question: one in a word, several counted."""
    if not isinstance(scores, list):
        return formats.NONE
    if score in text.MEANS:
        return formats.percent(sum(scores) / len(scores))
    correct = sum(value >= 0.5 for value in scores)
    if len(scores) > 1:
        return f"{correct} of {len(scores)} correct"
    return "✓ correct" if correct else "✗ incorrect"


# Groups


@cached(lambda dark: dark, entries=2, shared=True)
def _panel_layout(dark: bool) -> go.Figure:
    return chart.style(charts.panel_layout())


@cached(
    lambda key, choice, value, dark, rows: (key, replace(choice, value=""), value, dark),
    entries=200,
    shared=True,
)
def _panel(
    key: str, choice: PickedCurve, value: str, dark: bool, rows: pd.DataFrame
) -> tuple[chart.Drawing, str]:
    """A styled panel, and what it shows in words: building it costs more than anything else on the
    page."""
    alt = charts.curve_alt(rows, f"{text.MEASURES[choice.score]}, {value}")
    return chart.Drawing.of(charts.panel(rows, _panel_layout(dark).layout)), alt


def _groups(name: str, key: str, choice: PickedCurve, many: Tables) -> None:
    """A small curve each for the groups with the most answers, and the table of all."""
    by = text.STRATA[choice.by].lower()
    _heading(f"By {by}", many.simulated)
    if many.summary.empty:
        st.info(f"No {by} has an answer with this score and a position.")
        return
    summary = many.summary.sort_values("n", ascending=False, kind="stable")
    drawn = summary.head(MOST_GROUPS).to_dict("records")
    for number, row in enumerate(drawn):
        if number % ABREAST == 0:
            columns = st.columns(ABREAST, gap="medium")
        with columns[number % ABREAST]:
            value = row["value"]
            badge = f" :orange-badge[{text.SIMULATED}]" if row["simulated"] else ""
            st.markdown(f"**{for_screen(value)}** n = {row['n']:,}{badge}")
            rows = many.curve[many.curve["value"] == value]
            chart.show(
                *_panel(key, choice, value, chart.dark(), rows),
                f"curve_group_{number}",
                opens=lambda bin, *_, value=value: _open_group(
                    choice.by, value, int(bin), choice.bins
                ),
            )
    more = (
        f"The chart shows the {MOST_GROUPS} of {len(summary)} with the most answers; the table "
        f"has every {by}. "
    )
    st.caption(
        (more if len(summary) > MOST_GROUPS else "")
        + "All panels share the same axes: per cent by position in the record. Shaded: middle of "
        "the record. Ribbon: null distribution. Small numbers: n. Click a row of the table or a "
        "marker to draw that curve large and list its questions."
    )
    of_row = list(summary["value"])
    tables.table(
        text.group_table(summary, choice.by),
        f"{name}-{choice.stem}-by-{choice.by}",
        f"Each {by}: n, middle and edge, their difference with interval and p, gap",
        download=summary,
        opens=lambda row, _: _open_group(choice.by, of_row[row]),
    )
    if len(many.failures):
        without = ", ".join(for_screen(value) for value in many.failures["value"])
        st.caption(f"Without a curve, as no answer has both score and position: {without}.")
    st.caption(
        "The p values of groups are not adjusted for multiple comparisons. All points of these "
        "curves, with interval and null band:"
    )
    tables.downloads(many.curve, f"{name}-{choice.stem}-curves-by-{choice.by}")
