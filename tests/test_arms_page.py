"""The Arms page by its behaviour: every view, its pickers, its states; no browser."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from core import api
from pages.ui import arms_words, charts_arms, charts_forest, results, state, theme
from tests import app_data

ROOT = Path(__file__).parent.parent
VIEWS = (
    "Overall",
    "By position",
    "Pairs",
    "Evidence",
    "Kinds",
    "Over k",
    "Judges",
    "Failures",
    "Costs",
    "Questions",
)
pytestmark = pytest.mark.xdist_group("app")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A data folder with a cohort and two finished runs; and their ids."""
    home = tmp_path_factory.mktemp("arms")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIDCHART_DATA", str(home / "data"))
        patch.setenv("MIDCHART_CACHE", str(home / "cache"))
        cohort = app_data.make_cohort(home / "data")
        kept = api.start(
            {"kind": "selection", "data": str(cohort), "arms": ["bm25", "recency"], "name": "kept"}
        )
        api.wait(kept)
        run = app_data.make_run(cohort)
    return home, run, kept


@pytest.fixture
def here(made, monkeypatch):
    """The made data folder, in force for this test; gives the id of the run of answers."""
    home, run, _ = made
    monkeypatch.setenv("MIDCHART_DATA", str(home / "data"))
    monkeypatch.setenv("MIDCHART_CACHE", str(home / "cache"))
    return run


def opened(**query: str) -> AppTest:
    """The page opened at an address."""
    app = AppTest.from_file(str(ROOT / "pages" / "arms.py"), default_timeout=60)
    for name, value in query.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception, [e.value for e in app.exception]
    return app


def words(app: AppTest) -> str:
    """Everything that the page says in words."""
    kinds = ("title", "header", "subheader", "markdown", "caption", "info", "error", "warning")
    said = [str(e.value) for kind in kinds for e in app.get(kind)]
    return "\n".join(said + [h.value for h in app.html])


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_opens_with_the_sentence_and_its_numbers(here, view):
    app = opened(run=here, view=view)
    assert 'class="mc-headline"' in words(app)
    assert "rule on words, not a clinician" in words(app)
    if view not in ("Over k", "Kinds"):
        assert app.dataframe
    assert "<script>alert" not in words(app)


def test_overall_has_a_figure_its_numbers_and_what_failed(here):
    app = opened(run=here)
    assert len(app.get("plotly_chart")) == 1
    frame = app.dataframe[0].value
    assert set(frame["arm"]) == {"full", "bm25", "bm25 · k=1", "recency"}
    assert {"95 %", "n", "refusals", "unparsed", "failed"} <= set(frame)
    assert list(frame["failed"]) == [1] * 4
    failed = app.dataframe[-1].value
    assert failed["reason"].str.contains("no reference answer").any()
    assert failed["count"].sum() == api.status(here)["failed"]


def test_by_position_tells_intervals_apart(here):
    app = opened(run=here, view="By position", measure="Evidence kept")
    frame = app.dataframe[0].value
    assert list(frame.columns[:2]) == ["arm", "0-10 · n 0"]
    assert frame["overall · n 1"][0] == "100 [21–100]", "1 of 1, Wilson"
    app.segmented_control(key="interval").set_value("percentile").run()
    assert app.dataframe[0].value["overall · n 1"][0] == "100 [100–100]"


def test_an_interval_by_patient_is_never_narrower_than_wilsons(here):
    app = opened(run=here)
    wilson = app.dataframe[0].value.set_index("arm")["95 %"]
    app.segmented_control(key="interval").set_value("patient").run()
    by_patient = app.dataframe[0].value.set_index("arm")["95 %"]
    for arm in wilson.index:
        (a, b), (c, d) = (map(int, said[arm].split("–")) for said in (wilson, by_patient))
        assert c <= a
        assert d >= b


def test_pairs_are_against_the_chosen_baseline(here):
    app = opened(run=here, view="Pairs")
    frame = app.dataframe[0].value
    assert list(frame["arm"]) == ["bm25", "bm25 · k=1", "recency"]
    assert (frame["p (Holm)"] >= frame["p"]).all()
    assert "full" in words(app)
    app.selectbox(key="baseline").set_value("bm25 k=1").run()
    assert not app.exception
    assert list(app.dataframe[0].value["arm"]) == ["full", "bm25", "recency"]
    assert "bm25 · k=1 (" in words(app), "the sentence is about the baseline chosen"
    assert "each other baseline looked at adds its own" in words(app)


def test_evidence_there_and_not_there(here):
    app = opened(run=here, view="Evidence")
    frame = app.dataframe[0].value
    assert [c.split(" · ")[0] for c in frame.columns] == [
        "arm",
        "in prompt",
        "not in prompt",
        "difference (points)",
    ]
    app.segmented_control(key="hit").set_value("lexical").run()
    assert "any one word of the reference" in words(app)


def test_judges_crosstab_adds_up_and_the_parted_answers_are_listed(here):
    app = opened(run=here, view="Judges")
    frame = app.dataframe[0].value
    cells = ["both right", "only token_overlap", "only exact", "both wrong"]
    assert (frame[cells].sum(axis=1) == frame["n"]).all()
    whole = frame.iloc[0]
    assert whole["arm"] == "all arms"
    parted = int(whole["only token_overlap"] + whole["only exact"])
    if parted:
        assert len(app.dataframe[1].value) == parted
    else:
        assert "part on no answer" in words(app)


def test_failures_are_kinds_refusals_and_an_example_to_read(here):
    app = opened(run=here, view="Failures")
    report = api.report(here)
    kinds = {r["kind"] for r in report["tables"]["failure_kinds"] if r["judge"] == "token_overlap"}
    assert kinds <= set(arms_failures_rules())
    assert "Refusals apart" in words(app)
    refused = next(d.value for d in app.dataframe if "right when answered" in d.value)
    assert (refused["refused"] + refused["answered"] == refused["n"]).all()


def arms_failures_rules() -> tuple[str, ...]:
    """The kinds that the page explains."""
    from pages.ui import arms_failures

    return tuple(arms_failures.RULES)


def test_the_page_explains_every_kind_of_failure_in_the_order_of_its_rule():
    from core.judges.failure import FAILURE_KINDS

    assert arms_failures_rules() == FAILURE_KINDS


def test_costs_are_told_in_a_sentence(here):
    app = opened(run=here, view="Costs")
    assert re.search(r"Readers answered \d+ times.*nothing was paid", words(app))


def test_questions_show_arms_abreast_with_text_escaped(here):
    app = opened(run=here, view="Questions", differ="false")
    frame = next(d.value for d in app.dataframe if "question" in d.value)
    assert len(frame) == 3
    app.selectbox(key="asked").select_index(0).run()
    html = "".join(h.value for h in app.html)
    assert frame["question"][0] in html
    assert "<script>alert" not in html
    assert "<img" not in html
    for value in (app.selectbox(key="asked").value, *app.selectbox(key="asked").options):
        assert re.fullmatch(r"[0-9a-f]{10}", value), "the address holds a token alone"


def test_dropped_evidence_is_marked_as_visibly_as_kept(here):
    app = opened(run=here, view="Questions", differ="false")
    frame = next(d.value for d in app.dataframe if "question" in d.value)
    row = list(frame["question"]).index("What did the colonoscopy show?")
    app.selectbox(key="asked").select_index(row).run()
    app.pills(key="abreast_").set_value(["full", "recency"]).run()
    html = "".join(h.value for h in app.html)
    assert 'class="mc-line mc-held"' in html
    assert 'class="mc-line mc-dropped"' in html
    assert "&lt;script&gt;alert(1)" in html
    assert html.count('class="mc-verdict') >= 4, "both judges of both arms"


def test_only_where_arms_differ(here):
    app = opened(run=here, view="Questions", differ="true")
    differing = {
        d["instruction"] for d in api.different_only(here) if d["judge"] == "token_overlap"
    }
    if differing:
        frame = next(d.value for d in app.dataframe if "question" in d.value)
        assert len(frame) == len(differing)
    else:
        assert "agree on every question" in words(app)


def test_a_run_that_judges_nothing_has_the_views_it_can_fill(made, here):
    app = opened(run=made[2])
    assert "keeps the evidence of" in words(app)
    assert app.segmented_control(key="view_kept").options == [
        "Overall",
        "By position",
        "Over k",
        "Costs",
    ]
    for view in ("By position", "Over k", "Costs"):
        app.segmented_control(key="view_kept").set_value(view).run()
        assert not app.exception


def test_an_unknown_run_in_the_address_falls_back(here):
    assert opened(run="nonsense").selectbox(key="run").value == here


def test_a_run_at_work_is_said_to_be_partial(here, monkeypatch):
    now = {**api.status(here), "status": "running", "done": 5}
    monkeypatch.setattr(api, "status", lambda run=None: [now] if run is None else now)
    assert "So far, on part of the run:" in words(opened())


def pair(label: str, difference: float, p: float, **more: object) -> dict[str, object]:
    return {
        "label": label,
        "reader": "r",
        "judge": "j",
        "n": 120,
        "difference": difference,
        "p_holm": p,
        **more,
    }


OVERALL = {
    "label": "full",
    "reader": "r",
    "judge": "j",
    "band": "overall",
    "n": 120,
    "patients": 40,
    "accuracy": 0.225,
    "wilson_low": 0.16,
    "wilson_high": 0.31,
    "unparsed": 0,
    "failed": 3,
}


def said(*pairs: dict[str, object]) -> str:
    tables = {"accuracy": [OVERALL], "paired": list(pairs)}
    return arms_words.headline(tables, "r", "j", "full")


def test_the_sentence_says_no_more_than_the_tests():
    assert said() == "full: 22 % right [16–31] of 120 questions."
    assert said(pair("bm25 k=1", 0.1, 0.06)) == (
        "bm25 · k=1 does not differ from full (22 % right) beyond chance."
    )
    assert said(pair("a", 0.1, 0.06), pair("b", -0.3, 1.0)) == (
        "None of 2 arms differs from full (22 % right) beyond chance."
    )
    assert said(pair("a", 0.1, 0.01), pair("b", -0.2, 0.05), pair("c", 0.3, 0.2)) == (
        "Against full (22 % right): a (+10 points) is better; b (−20 points) is worse; "
        "the other one does not differ beyond chance."
    )
    many = [pair(name, -0.1 - i / 100, 0.001) for i, name in enumerate("abcd")]
    assert said(*many) == (
        "Against full (22 % right): 4 arms (d −13 points the furthest) are worse."
    )
    assert arms_words.headline({}, "r", "j", "full") == (
        "No answer under full has been judged yet."
    )


def test_the_sentence_says_what_it_could_have_missed():
    row = {"reader": "r", "judge": "j", "n": 120, "comparisons": 12, "among_all": 0.1001}
    tables = {"accuracy": [OVERALL], "detectable": [row]}
    assert arms_words.size(tables, "r", "j") == (
        "120 questions of 40 patients; 12 comparisons, McNemar's exact test with Holm's "
        "adjustment. A true difference of 10 points or more would be found 4 times in 5; a smaller "
        "one may have been missed."
    )
    few = {**row, "n": 4, "comparisons": 1, "among_all": None}
    assert "no difference at all" in arms_words.size({**tables, "detectable": [few]}, "r", "j")
    assert arms_words.size({"accuracy": [OVERALL]}, "r", "j") == ""


def test_cautions_name_rules_faults_and_what_is_in_no_denominator():
    fault = {"reader": "r", "judge": "j", "fault": "question cut off"}
    tables = {
        "accuracy": [OVERALL],
        "faults": [{**fault, "struck": True, "n": 30}, {**fault, "struck": False, "n": 90}],
    }
    told = " ".join(arms_words.cautions(tables, "r", "j", "Exact (offline)"))
    assert "rule on words" in told
    assert "30 of 120 judged answers suffer a published fault: question cut off." in told
    assert "3 verdicts failed" in told
    assert arms_words.cautions({"accuracy": []}, "r", "j", "Claude") == []


def test_looks_are_stable_and_apart():
    looks = {(look.colour, look.symbol) for look in map(theme.look_of, theme.ORDER)}
    assert len(looks) == len(theme.ORDER), "no two arms share colour and marker"
    assert theme.look_of("bm25 · k=1").colour == theme.look_of("bm25").colour
    assert theme.look_of("bm25 · k=1").dash != theme.look_of("bm25").dash
    assert theme.look_of("random").symbol.endswith("-open")


@pytest.mark.parametrize(
    "labels",
    [
        ["bm25", "bm25_ranked", "mmr", "bm25_filtered"],
        ["bm25", "bm25 · k=1", "bm25 · k=3", "bm25 · k=5"],
        ["full", "recency", "random", "oracle"],
    ],
)
def test_four_arms_in_one_chart_share_neither_colour_nor_marker(labels):
    looks = theme.apart(labels)
    controls = [label for label in labels if label in theme.CONTROLS]
    colours = [looks[label].colour for label in labels if label not in controls]
    assert len(set(colours)) == len(colours)
    assert len({looks[label].symbol for label in labels}) == len(labels)
    assert len({looks[label].dash for label in labels}) == len(labels)
    assert looks[labels[0]] == theme.look_of(labels[0]), "the first keeps its own"


def test_a_forest_names_every_row_once_with_its_numbers(here):
    rows = results.where(
        results.frame_of(api.report(here), "accuracy"), band="overall", judge="token_overlap"
    )
    lines = charts_forest.shares(rows, "accuracy", "wilson_low", "wilson_high")
    assert [line.value for line in lines] == sorted((x.value for x in lines), reverse=True)
    figure = charts_forest.forest(lines, "accuracy")
    assert sum(len(trace.x) for trace in figure.data) == len(rows)
    ticks = figure.layout.yaxis.ticktext
    assert len(ticks) == len(rows)
    assert all(re.search(r"\d+ % \[\d+–\d+\] n \d", text) for text in ticks)
    hollow = [trace for trace in figure.data if trace.marker.symbol.endswith("-open")]
    assert [len(trace.x) for trace in hollow] == [1], "recency, the control"
    assert charts_forest.alt(lines, "accuracy").startswith("Forest plot of accuracy, 4 rows")


def test_a_forest_holds_hostile_labels_as_text():
    line = charts_forest.Line("<img src=x onerror=1>", 1.0, 0.0, 2.0, "<b>words</b>")
    figure = charts_forest.forest([line], "x")
    assert "<img" not in str(figure.layout.yaxis.ticktext)
    assert "<img" not in str(figure.data[0].text)


def test_names_at_line_ends_never_collide():
    assert charts_arms.spread([0.0, 1.0, 30.0], 6.0) == [0.0, 6.0, 30.0]


def test_numbers_in_words():
    assert results.plus(-2.04, 1) == "−2.0"
    assert results.plus(-0.04, 1) == "0.0"
    assert results.signed(0.1, 0.02, 0.18) == "+10 [+2 to +18]"
    assert results.signed(0.1, None, None) == "+10"
    assert [results.p_words(p) for p in (None, 0.0002, 0.0314, 1.0)] == [
        "no p",
        "p < .001",
        "p = .031",
        "p = 1",
    ]
    assert results.compact(3_140_000) == "3.1 million"


def test_n_stands_in_the_head_only_where_all_arms_have_it():
    frame = pd.DataFrame(
        {
            "label": ["a", "b", "a", "b"],
            "band": ["x", "x", "y", "y"],
            "n": [4, 4, 4, 3],
            "v": [0.5, 0.25, None, 1.0],
            "lo": [0.1] * 4,
            "hi": [0.9] * 4,
        }
    )
    wide = results.wide(frame, "band", "v", "lo", "hi")
    assert list(wide.columns) == ["arm", "x · n 4", "y"]
    assert list(wide["y"]) == ["–", "100 [10–90] n 3"]


def test_outcomes_are_read_without_text(here):
    run = next(r for r in state.runs() if r["run"] == here)
    frame = state.outcomes(run, "extractive", "exact")
    assert set(frame.columns) == {"instruction", "record", "band", "task_type", "label", "outcome"}
