"""Question sets of a cohort: what every chart says, and what a reader made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from midchart.core import api, figures
from midchart.pages.ui import navigation, sign_in, state
from midchart.pages.ui.patient import controls
from midchart.pages.ui.patient import model as patient
from midchart.pages.ui.results import kit
from midchart.pages.ui.runs import panel, picker
from midchart.pages.ui.shared import marks, messages, tables
from midchart.pages.ui.shared.marks import for_screen, for_terminal
from midchart.pages.ui.shared.pickers import known_in_url, pick, pick_linked, pick_several
from midchart.pages.ui.sign_in import lacking
from midchart.pages.ui.state import cached

EXAMPLE = "Does the patient smoke?\nWhich allergies are documented?\nWhen was warfarin stopped?"
SLOW_ARMS = frozenset({"map_reduce", "llmlingua2", "oracle"})
"""Arms that are not offered: they need a reader, a download or marked evidence."""


@cached(lambda run: run["run"], entries=256)
def _asked(run: dict[str, Any]) -> tuple[str, ...]:
    """The question set that a run asks; none in a run of other questions."""
    return api.asked_questions(run["run"])


def runs_of(cohort: str) -> list[dict[str, Any]]:
    """The runs that ask a question set of this cohort's patients, newest first."""
    path = api.listed_path(api.open_data(cohort))
    return [run for run in state.runs(("answers",)) if run["data"] == path and _asked(run)]


def choose(cohort: str, runs: list[dict[str, Any]]) -> api.QuestionSet | None:
    """The question set chosen on this page; None where the cohort has none.

    ``runs``: those of the cohort (:func:`runs_of`).

    Saved sets come first, then those that only an imported run asks, under the run's id.
    """
    sets = {one.id: one for one in api.question_sets(cohort)}
    known = {one.questions for one in sets.values()}
    for run in runs:
        if run["imported"] and _asked(run) not in known:
            known.add(_asked(run))
            unsaved = api.QuestionSet(run["run"], run["name"], _asked(run), "", run["created"])
            sets[run["run"]] = unsaved
    names = ", ".join(one.name for one in sets.values()) or "none"
    known_in_url("set", sets, "question set", f"those of cohort {cohort}: {names}.")
    if not sets:
        return None
    with st.sidebar:
        titles = {id: f"{one.name} · {len(one.questions)} questions" for id, one in sets.items()}
        return sets[pick_linked("set", "Question set", titles, key="question_set")]


def drawer(cohort: str, chosen: api.QuestionSet, asked: bool) -> None:
    """The questions of the chosen set, the form that asks them again where they were ``asked``, and
    the one for a new set."""
    forms = st.expander(
        "Ask these questions again, or others", icon=":material/playlist_add:", on_change="rerun",
        key="set_drawer",
    )  # fmt: skip
    if not forms.open:
        return
    with forms:
        st.markdown("\n".join(f"{i}. {for_screen(q)}" for i, q in enumerate(chosen.questions, 1)))
        if asked:
            ask(cohort, chosen)
        if chosen.by:
            problem = lacking(api.save_question_set)
            st.caption(for_screen(f"Saved by {chosen.by} on {chosen.time[:10]}."))
            st.button(
                "Remove this set from the list", key="set_remove", icon=":material/delete:",
                on_click=panel.attempt, args=(api.withdraw_question_set, cohort, chosen.id),
                disabled=bool(problem),
                help=problem or "Its runs and answers stay.",
            )  # fmt: skip
        else:
            st.caption(for_screen(f"Not saved with the cohort; asked by run {chosen.id}."))
        st.divider()
        new_set(cohort)


def new_set(cohort: str) -> None:
    """The form for a new question set, or why the viewer cannot save one."""
    if problem := lacking(api.save_question_set):
        st.caption(problem)
        return
    st.write(
        "One question a line; or a file: text, JSON, or a table (TSV, CSV) with a column "
        "`question`. The set is saved with the cohort, in its private folder."
    )
    left, right = st.columns([3, 2])
    with left:
        typed = st.text_area(
            "Questions", key="set_typed", placeholder=EXAMPLE, height=160, persist_state="session"
        )
    with right:
        file = st.file_uploader(
            "or a file of questions", type=["txt", "tsv", "csv", "json"], key="set_file",
            max_upload_size=1,
        )  # fmt: skip
        name = st.text_input("Name of the set", key="set_name", max_chars=80)
    panel.refusal()
    st.button(
        "Save the question set", key="set_save", icon=":material/save:",
        disabled=not name.strip() or not (typed.strip() or file),
        on_click=_save, args=(cohort, name, file.getvalue() if file else typed),
    )  # fmt: skip


def _save(cohort: str, name: str, content: bytes | str) -> None:
    id = panel.attempt(lambda: api.save_question_set(cohort, name, api.read_questions(content)))
    if id is not None:
        st.session_state["question_set"] = id
        st.session_state["set_typed"] = st.session_state["set_name"] = ""


def ask(cohort: str, chosen: api.QuestionSet) -> None:
    """Start a run that asks every patient."""
    patients = len(api.open_data(cohort).records)
    arms = {n: title for n, title in state.installed("arm").items() if n not in SLOW_ARMS}
    readers = state.installed_readers()
    left, middle, right = st.columns([2, 2, 2], vertical_alignment="bottom")
    with left:
        names = st.multiselect(
            "Arms (each selects what the reader sees)", list(arms), default=["bm25"],
            format_func=arms.__getitem__, key="set_arms", persist_state="session",
        )  # fmt: skip
    with middle:
        reader = st.selectbox(
            "Reader", list(readers), format_func=readers.__getitem__, key="set_reader",
            persist_state="session",
        )  # fmt: skip
    answers = patients * len(chosen.questions) * len(names)
    with right:
        panel.button(
            f"Ask all {patients:,} patients ({answers:,} answers)", "set_ask", api.enqueue,
            _start, cohort, chosen, names, reader, disabled=not names, type="primary",
            icon=":material/play_arrow:",
        )  # fmt: skip
    st.caption("Nothing leaves this machine. Closing the page does not stop the run.")


def _start(cohort: str, chosen: api.QuestionSet, arms: list[str], reader: str) -> None:
    path = api.open_data(cohort).path
    spec = api.question_set_spec(path, chosen.name, chosen.questions, arms, reader)
    st.session_state["run"] = api.enqueue(spec)


PAGE = 50
"""Patients shown at a time."""
LONGEST, LONGEST_WORD = 96, 52
"""Characters of a chart's sentence in a cell, and of it and the reader's word where both are."""
SIGNS = {"failed": "!", "not asked yet": "…"}
"""State of a cell in which the reader neither answered nor found no answer → its sign."""
LOST = ("cut", "partly dropped", "dropped")
FILTERS = {
    "all patients": lambda cells: pd.Series(True, cells.index),
    "an answer of the reader": lambda cells: cells["state"] == "answered",
    "no answer of the reader": lambda cells: cells["state"].isin(
        ("found no answer", "heading alone")
    ),
    "evidence dropped or cut": lambda cells: cells["evidence"].isin(LOST),
    "evidence marked": lambda cells: cells["evidence"].notna(),
    "a failed answer": lambda cells: cells["state"] == "failed",
}
"""Filter → which cells satisfy it; a patient with one such cell is shown."""
BEHIND = {
    "answered": "an answer of the reader",
    **dict.fromkeys(("found no answer", "heading alone"), "no answer of the reader"),
    "failed": "a failed answer",
}
"""State → filter of the patients in it."""
MADE = api.View(
    "made", "What did the reader make of them?", "made",
    (api.Measure("count", "patients", "count"),), "stack", rows=("question",), across="state",
    opens=("number", "state"),
)  # fmt: skip


def _cells(run: dict[str, Any], label: str, reader: str) -> pd.DataFrame:
    data = api.run_cohort(run["run"]).path
    marked = repr([(one.id, one.annotations) for one in api.own_questions(data)])
    key = state.run_key(run, marked)
    cells = state.result(key, api.answer_cells, run["run"], label, reader)
    return pd.DataFrame(cells, dtype=object)


def section(cohort: str, chosen: api.QuestionSet, of_cohort: list[dict[str, Any]]) -> bool:
    """The answers of one of the set's runs (of those of the cohort), chosen in the sidebar; the
    form that asks it where there is none. Whether there is one."""
    runs = {run["run"]: run for run in of_cohort if _asked(run) == chosen.questions}
    titles = picker.titles(runs.values())
    there = f"this set's runs: {', '.join(titles.values()) or 'none'}."
    known_in_url("run", runs, "run of this question set", there)
    if not runs:
        st.write("This set has not been asked yet.")
        ask(cohort, chosen)
        return False
    with st.sidebar:
        run = runs[pick_linked("run", "Answers of", titles)]
        report = api.run_entries(run["run"])
        label = pick("Arm", report["labels"], "set_label")
        reader = pick("Reader of the answers", report["readers"], "set_answers_by")
    cells = _cells(run, label, reader)
    counts = api.answer_summary(cells.to_dict("records"), chosen.questions)
    answered = sum(row["answered"] for row in counts)
    messages.conclude(
        f"{api.counted(len(chosen.questions), 'question')} to each of "
        f"{api.counted(counts[0]['patients'], 'chart')}: to {answered:,} of {len(cells):,} the "
        f"reader gives an answer."
    )
    _table(cohort, run, cells, chosen.questions, label, reader)
    if state.active(run):
        st.info(
            "This run is not finished: results are partial and are read again when it ends.",
            icon=":material/hourglass_top:",
        )
    elif run["status"] != "done":
        panel.resume(run, "questions")
    st.header("What the reader made of them, by question", anchor=False)
    states = [
        {"question": f"{number + 1}. {row['question']}", "number": number, "state": one,
         "count": row[one]}
        for number, row in enumerate(counts)
        for one in (*SIGNS, "found no answer", "heading alone", "answered")
    ]  # fmt: skip
    present = {row["state"] for row in states if row["count"]}
    shown = [row for row in states if row["state"] in present]
    kit.draw_rows(run["run"], MADE, shown, opens=_open_question)
    if example := panel.example(run["run"]):
        st.caption(marks.sentence(example))
    return True


def _open_question(_: kit.Shown, __: api.View, key: Mapping[str, Any]) -> None:
    """List the patients behind a number of the figure."""
    st.session_state["set_columns"] = [str(key["number"])]
    st.session_state["set_filter"] = BEHIND.get(str(key.get("state")), "all patients")
    st.session_state["set_find"] = ""


@cached(
    lambda run, label, reader, rows: (*state.run_key(run, label, reader), *_places(rows)),
    entries=8,
    spinner="Reading the charts",
    shared=True,
)
def _sentences(
    run: dict[str, Any], label: str, reader: str, rows: list[dict[str, Any]]
) -> dict[tuple[str, int], dict[str, Any]]:
    """(record, question) → what the chart says of it (:func:`core.api.chart_sentences`)."""
    return dict(zip(_places(rows), api.chart_sentences(run["run"], rows), strict=True))


def _places(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, int]]:
    return [(row["record"], row["question"]) for row in rows]


def _table(
    cohort: str,
    run: dict[str, Any],
    cells: pd.DataFrame,
    questions: Sequence[str],
    label: str,
    reader: str,
) -> None:
    """Patients × questions: the best sentence of each chart, with the reader's word as a sign."""
    numbers = [str(i) for i in range(len(questions))]
    with st.sidebar:
        chosen = pick_several(
            "columns", "Questions shown", numbers,
            lambda i: f"{int(i) + 1}. {for_terminal(questions[int(i)])}", key="set_columns",
            placeholder="all",
        )  # fmt: skip
        columns = [int(i) for i in chosen or numbers]
        rule = pick_linked(
            "with", "Patients with", list(FILTERS), key="set_filter", unlinked="all patients"
        )
        words = st.text_input("Find in patient ids and answers", key="set_find", max_chars=200)
    shown = cells[cells["question"].isin(columns)]
    wanted = FILTERS[rule](shown)
    if words.strip():
        text = shown["record"].astype(str) + "\n" + shown["answer"].fillna("")
        wanted &= text.str.contains(words.strip(), case=False, regex=False)
    everyone = list(dict.fromkeys(shown["record"]))
    matching = set(shown.loc[wanted, "record"])
    records = [record for record in everyone if record in matching]
    if not records:
        st.info("No patient matches. Change the filters to see others.")
        return
    pages = -(-len(records) // PAGE)
    who, by = for_screen(api.title("reader", reader)), for_screen(api.title("arm", label))
    st.caption(
        f"Each cell: the sentence of the chart that {by} ranked best, with its date; it may not "
        f"answer. ● {who} quotes it, ◐ answers otherwise (its words below), ○ found no answer, "
        f"! failed. {len(records):,} of {len(everyone):,} patients"
        + (f", {PAGE} a page ({pages} pages)" if pages > 1 else "")
        + ". Select a cell to open the chart there."
    )
    number = 1
    if pages > 1:
        number = int(st.number_input("Page", 1, pages, key="set_page", width=130))
    on_page = records[(number - 1) * PAGE : number * PAGE]
    part = shown[shown["record"].isin(on_page)]
    rows = part.to_dict("records")
    ranked = _sentences(run, label, reader, rows)
    texts = [cell_text(row, ranked[row["record"], row["question"]]) for row in rows]

    def wide(values: list[str]) -> pd.DataFrame:
        by_question = part.assign(value=values).pivot(
            index="record", columns="question", values="value"
        )
        return by_question.reindex(on_page)[columns].rename(columns=lambda i: f"q{i + 1}")

    names = patient.names(api.open_data(cohort))
    frame = wide(texts).rename_axis(None, axis=1).reset_index(names="patient")
    frame["patient"] = [names.get(id, id) for id in on_page]
    faint = f"color: {figures.ink().faint}"
    looks = wide(["" if row["state"] == "answered" else faint for row in rows])
    looks = looks.reset_index(names="patient").assign(patient="")
    selected = st.dataframe(
        tables.visible_frame(frame).style.apply(lambda _: looks, axis=None),
        hide_index=True,
        column_config={
            "patient": st.column_config.TextColumn(pinned=True, width=96),
            **{
                f"q{i + 1}": st.column_config.TextColumn(
                    f"{i + 1}. {for_terminal(questions[i])}",
                    help=for_screen(questions[i]),
                    width=max(226, 910 // len(columns)),
                )
                for i in columns
            },
        },
        key=f"set_table_{run['run']}_{number}",
        on_select="rerun",
        selection_mode="single-cell",
        row_height=ROW,
        height=min(40 + ROW * len(frame), 660),
        alt="What the charts say, a row a patient and a column a question",
    )
    filtered = cells[cells["record"].isin(matching) & cells["question"].isin(columns)]
    sign_in.download_button(
        "CSV", f"{run['run']}-answers.csv", "text/csv",
        lambda: api.answers_csv(filtered.to_dict("records"), questions), type="tertiary",
        help="A row a patient and question, as filtered, all pages. It contains text of records.",
    )  # fmt: skip
    picked = selected["selection"]["cells"]
    if picked:
        row, column = picked[0]
        record = on_page[row]
        question = int(column.removeprefix("q")) - 1 if column != "patient" else columns[0]
        cell = part[(part["record"] == record) & (part["question"] == question)].iloc[0]
        best = ranked[record, question]["sentences"]
        event = best[0]["event"] if best else cell["event"]
        open_source(cohort, run, record, questions[question], event, label, reader)


ROW = 66
"""Pixels of a row: three lines. Streamlit wraps text in rows of more than 64."""


def cell_text(cell: Mapping[str, Any], chart: Mapping[str, Any]) -> str:
    """What a cell shows: the sentence of the chart that was ranked best with its date, after a sign
    for what the reader made of it; below, the words of a reader that answers otherwise, and that
    marked evidence was lost."""
    sign = SIGNS.get(cell["state"], "○")
    best = chart["sentences"][0] if chart["sentences"] else None
    words = [] if cell["evidence"] not in LOST else [f"✗ evidence {cell['evidence']}"]
    if cell["state"] == "answered":
        sign = "●" if best and cell["source"] == best["id"] else "◐"
        quoted = marks.shortened(str(cell["answer"]), LONGEST_WORD)
        words = [f"“{quoted}”", *words] if sign == "◐" else words
    first = f"no sentence of {chart['of']:,} was ranked"
    if best:
        first = marks.shortened(f"{best['day']} {best['text']}", LONGEST_WORD if words else LONGEST)
    return "\n".join(filter(None, (f"{sign} {first}", " · ".join(words))))


def open_source(
    cohort: str,
    run: dict[str, Any],
    record: str,
    question: str,
    event: Any,
    label: str,
    reader: str,
) -> None:
    """Open page Patient with the answer of a finished run, at its source where there is one."""
    opened = api.open_data(cohort)
    about = opened.records[record]
    known = {i.question: i for i in opened.instructions if i.record_id == record}
    instruction = known.get(question) or api.typed_question(about, question)
    st.session_state["patient_patient"] = record
    st.session_state["patient_question"] = instruction.id if question in known else controls.TYPED
    st.session_state["patient_typed"] = question
    arm = label.split(" ")[0]
    others = [name for name in patient.DEFAULT_ARMS if name != arm]
    st.session_state["patient_arms"] = [arm, *others][: patient.MOST_ARMS]
    of_run = run["status"] == "done" and question not in known
    st.session_state[controls.READER] = (
        f"{run['run']}:{reader}" if of_run else f":{reader.split(' ')[0]}"
    )
    if not pd.isna(event):
        patient.open_at(about, instruction, int(event))
    navigation.go("patient", cohort=cohort)
