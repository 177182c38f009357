"""Needle runs: paired cells, a planted effect detected, none reported without one, resume."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from midchart.core.errors import InputError, SpecError
from midchart.core.experiments.needles.tables import (
    SERIES,
    contrasts,
    in_words,
    needle_items,
)
from midchart.core.loaders.open import open_cohort
from midchart.core.protocol import Protocol
from midchart.core.results.items import asked_of, rows
from midchart.core.results.report import report
from midchart.core.runs.experiment import EXPERIMENTS
from midchart.core.runs.plan import ComponentSpec
from midchart.core.runs.process import start
from midchart.core.runs.spec import parse_spec
from midchart.core.text import count_tokens, sentences
from midchart.core.text.prompt import line_text
from tests.support import needle_members
from tests.support.run_helpers import (
    finished_run,
    members_place,
    write_cohort,
)
from tests.support.stage2_rows import ARMS, plan

DEPTHS = list(range(0, 101, 10))
PROTOCOL = Protocol()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("needles")
    with members_place(folder, needle_members):
        yield folder


@pytest.fixture(scope="module")
def cohort(place: Path) -> Path:
    folder = write_cohort(place / "data" / "cohorts" / "tiny", records=4, events=28)
    lines = [
        f'<entry timestamp="2020-{m:02d}-{d:02d} 08:00"><event type="measurement" code="L/1" '
        f'name="Glucose">{90 + d}</event></entry>'
        for m in range(2, 6)
        for d in range(1, 26)
    ]
    for file in (folder / "ehrs").iterdir():
        text = file.read_text().replace("</events>", "".join(lines) + "</events>")
        file.write_text(text)
    (folder / "clinician-instruction-responses.tsv").unlink()  # needles bring their own questions
    return folder


def spec(cohort: Path, **changes: object) -> dict[str, object]:
    return {
        "name": "needles",
        "kind": "needles",
        "data": str(cohort),
        "readers": ["test_steady", "test_forgets"],
        "judges": ["exact"],
        "lengths": [400, 900],
        "distractors": [0, 2],
        "needles": 2,
        "patients": 4,
        "seed": 7,
        **changes,
    }


@pytest.fixture(scope="module")
def full_run(cohort: Path) -> str:
    run = finished_run(spec(cohort))
    return run


def test_cells_are_paired_and_every_prompt_holds_its_needle(full_run: str):
    tables = report(full_run)["tables"]
    heat = tables["heatmap"]
    assert len(heat) == 2 * 2 * 11 * 2
    assert all(row["n"] + row["unparsed"] == 8 for row in heat)
    assert all(row["in_prompt"] == 1.0 and row["question_survived"] == 1.0 for row in heat)
    assert all(row["wilson_low"] <= row["accuracy"] <= row["wilson_high"] for row in heat)
    answers = rows(full_run, "answers")
    series: dict[tuple[object, ...], list[dict[str, object]]] = {}
    for row in answers:
        name = (row["reader"], row["record"], row["needle"], row["length"], row["distractors"])
        series.setdefault(name, []).append(row)
    assert len(series) == 2 * 4 * 2 * 2 * 2
    for cell_rows in series.values():
        assert [row["depth"] for row in cell_rows] == DEPTHS
        asked = {str(row["prompt"]).partition("QUESTION: ")[2] for row in cell_rows}
        assert len(asked) == 1
        bodies = [
            sorted(x.partition("] ")[2] for x in str(r["prompt"]).split("\n")) for r in cell_rows
        ]
        assert all(body == bodies[0] for body in bodies)  # the same lines in another order
    by_need = {(r["record"], r["needle"], str(r["prompt"])[-150:].split("Q")[-1]) for r in answers}
    assert len(by_need) == 8  # one question a needle, at every length and with any distractors


def test_a_planted_effect_is_detected_and_none_without_it(full_run: str):
    tables = report(full_run)["tables"]
    steady, forgets = tables["contrast"]
    assert (steady["reader"], forgets["reader"]) == ("test_steady", "test_forgets")
    assert steady["series"] == forgets["series"] == 32 and steady["patients"] == 4
    assert 0 < steady["moving"] <= 32
    assert steady["p_holm"] > 0.05 > forgets["p_holm"]
    # Four patients: fewer than five give no interval.
    assert steady["ci_low"] is steady["ci_high"] is forgets["ci_low"] is None
    assert forgets["p_holm"] >= forgets["p"] and forgets["tests"] == 2
    none, effect = (row["text"] for row in tables["verdict"])
    assert "no difference between middle and edge was shown" in none and "no proof" in none
    assert "worse in the middle" in effect and "Every prompt held the needle" in effect
    depths = [row for row in tables["depths"] if row["reader"] == "test_forgets"]
    assert [row["depth"] for row in depths] == DEPTHS * 2
    assert {row["ci_low"] for row in depths} == {None}
    assert all(abs(row["reached"] - row["depth"] / 100) < 0.02 for row in depths)
    facts = {"dose": "medication", "lab": "laboratory", "date": "procedure",
             "negation": "social", "diagnosis": "diagnosis"}  # fmt: skip
    assert {row["fact"] for row in tables["facts"]} == {*facts}
    by_domain: dict[tuple[object, ...], list[int]] = {}
    for row in needle_items(full_run, judge="exact"):
        middle = 30 <= row["depth"] <= 70
        for band in ("all", "middle" if middle else "edge"):
            name = (row["reader"], facts[row["fact"]], row["distractors"], band)
            by_domain.setdefault(name, []).append(row["correct"])
    columns = ("reader", "domain", "distractors", "band")
    table = {tuple(row[c] for c in columns): row for row in tables["domains"]}
    assert {name: (row["n"], row["correct"]) for name, row in table.items()} == {
        name: (len(correct), sum(correct)) for name, correct in by_domain.items()
    }
    assert [row["haystack_tokens"] <= row["length"] for row in tables["lengths"]] == [True] * 8


def test_a_record_too_short_is_refused_for_that_length_and_reported(cohort: Path):
    run = finished_run(
        spec(
            cohort, readers=["test_steady"], lengths=[400, 50_000], depths=[50, 0], needles=1,
            patients=2,
        )
    )  # fmt: skip
    run_report = report(run)
    assert {row["length"] for row in run_report["tables"]["heatmap"]} == {400}
    cuts = {(row["record"], row["length"]): row for row in run_report["tables"]["cuts"]}
    assert len(cuts) == 4
    assert all(bool(row["reason"]) == (length == 50_000) for (_, length), row in cuts.items())
    assert any("2 at 50000 tokens" in warning for warning in run_report["warnings"])
    with pytest.raises(SpecError, match="can be used at any"):
        start(spec(cohort, lengths=[50_000]))


def test_unscored_items_bound_a_contrast_and_every_cell():
    """Eight patients, right at the edges and wrong in the middle; then half of them go
    unparsed, which could be the other way round, and no difference is claimed."""
    one, strict = (ComponentSpec(name, {}, name) for name in ("one", "strict"))
    run_plan = plan(arms=ARMS[:1], reader_entries=(one,), judge_entries=(strict,))
    items = [
        {"label": "bm25", "reader": "one", "judge": "strict", "record": f"p{p}", "needle": "0",
         "length": 400, "depth": depth, "distractors": 0, "correct": depth != 50,
         "outcome": "", "refusal": depth == 50, "evidence_in_prompt": True,
         "evidence_all_in_prompt": True,
         "question_survived": True, "ended": "stop"}
        for p in range(8) for depth in (0, 25, 50, 75, 100)
    ]  # fmt: skip
    ((sure, _),) = contrasts(items, run_plan)
    assert sure["difference"] == -1 == sure["bound_low"] == sure["bound_high"]
    assert sure["p_holm"] == sure["p_bound_holm"] <= 0.05 and sure["unscored"] == 0
    assert in_words(sure).count("unscored") == 0
    for row in items:
        if int(row["record"][1:]) >= 4:
            row |= {"correct": None, "outcome": "unparsed", "ended": "length"}
    ((contrast, _),) = contrasts(items, run_plan)
    assert (contrast["difference"], contrast["series"], contrast["unscored"]) == (-1, 4, 20)
    assert (contrast["bound_low"], contrast["bound_high"]) == (-1, 0)
    assert contrast["p_holm"] <= 0.05 < contrast["p_bound_holm"] == 1
    assert "no difference between middle and edge is claimed" in in_words(contrast)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"limit": 3}, "no limit"),
        ({"part": "test"}, "no part"),
        ({"lengths": []}, "'lengths'"),
        ({"lengths": [10]}, "equal to 100"),
        ({"lengths": [400, 400]}, "twice"),
        ({"depths": [101]}, "equal to 100"),
        ({"depths": [0.5]}, "valid integer"),
        ({"distractors": 2}, "valid list"),
        ({"distractors": [21]}, "equal to 20"),
        ({"needles": 0}, "'needles'"),
        ({"patients": True}, "'patients'"),
        ({"judges": []}, "at least 1"),
        ({"needle": 3}, "Did you mean needles"),
    ],
)
def test_an_invalid_field_is_named(cohort: Path, change: dict[str, object], says: str):
    with pytest.raises(InputError, match=says):
        parse_spec(spec(cohort, **change))


@pytest.fixture(scope="module")
def notes(place: Path) -> Path:
    """Six records of nine notes of 40 to 90 tokens; one question a note, one over two notes, and
    a note that repeats the evidence of another."""
    folder = place / "data" / "cohorts" / "notes"
    folder.mkdir(parents=True)
    lines, questions = [], ["instruction_id\tfilename\tquestion\tevidence\tclinician_response"]
    for p in range(6):
        texts = []
        for n in range(9):
            fact = f"Device {'abcdefghi'[n]}{p} has the serial number {1000 + 37 * n + p}."
            more = [
                f"Ward round {n} of patient {p}, part {i}: no change." for i in range(4 + n % 3)
            ]
            texts.append("\n".join([*more[:2], fact, *more[2:]]))
            asked = f"i{p}{n}\t{p}\tWhat serial number has device {'abcdefghi'[n]}{p}?"
            questions.append(f"{asked}\t{fact}\t{1000 + 37 * n + p}")
        texts[8] += f"\nDevice a{p} has the serial number {1000 + p}."
        questions.append(
            f"i{p}x\t{p}\tWhich devices?\tDevice b{p} has the serial number|||Device c{p} has\tb, c"
        )
        lines += [
            {"patient_id": str(p), "time": f"2020-01-{n + 1:02d}", "type": "note", "text": text}
            for n, text in enumerate(texts)
        ]
    (folder / "notes.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (folder / "questions.tsv").write_text("\n".join(questions))
    return folder


def moved(notes: Path, **changes: object) -> dict[str, object]:
    fields = {"moved": "note", "needles": 20, "patients": 9, "lengths": [300], "distractors": [5]}
    return {**spec(notes), **fields, **changes}


def test_a_moved_note_changes_its_place_alone(notes: Path):
    source = open_cohort(str(notes))
    parsed = parse_spec(moved(notes, lengths=[220, 300], distractors=[4, 5]))
    derived = EXPERIMENTS.build("needles").cohort(source, parsed)
    series: dict[tuple[object, ...], list[str]] = {}
    for id in derived.patient:
        site = derived.columns[id]
        series.setdefault(tuple(site[name] for name in SERIES), []).append(id)
    assert len(series) > 100
    drawn: dict[tuple[object, ...], set[str]] = {}
    for (record, needle, length, count), ids in series.items():
        originals = {event.time: event.text for event in source.records[record].events}
        bodies: set[tuple[str, ...]] = set()
        reached = []
        for id in ids:
            events, gold = derived.records[id].events, derived.gold[id]
            (span,) = gold.spans
            assert events[span.event].text == originals[events[span.event].time]
            assert events[span.event].text[span.start : span.end] == gold.snippets[0]
            rest = [event for event in events if event.order != span.event]
            assert [event.time for event in rest] == sorted(event.time for event in rest)
            assert all(originals[event.time].startswith(event.text) for event in rest)
            assert "\n".join(e.text for e in events).count(gold.snippets[0]) == 1
            assert len(rest) == count
            tokens = sum(
                count_tokens(line_text(s, PROTOCOL))
                for s in sentences(derived.records[id], PROTOCOL)
            )
            assert 0.9 * length <= tokens <= length
            bodies.add(tuple(sorted(event.text for event in events)))
            reached.append(derived.columns[id]["reached"])
            drawn[record, needle, length, count] = {str(event.time) for event in rest}
        assert len(bodies) == 1 and len(ids) == 5
        assert reached == sorted(set(reached)) and reached[0] == 0 and reached[-1] == 1
    for (record, needle, length, count), times in drawn.items():
        assert times <= drawn.get((record, needle, length, count + 1), times), "fewer are a part"


def test_moved_notes_are_reported_with_null_and_detectable_difference(notes: Path):
    run = finished_run(moved(notes))
    document = report(run)
    tables = document["tables"]
    questions = {one.id: one.question for one in asked_of(run).instructions}
    asked = {questions[row["instruction"]] for row in rows(run, "answers")}
    assert "Which devices?" not in asked and len(asked) > 20
    steady, forgets = tables["contrast"]
    assert forgets["difference"] < steady["difference"] and forgets["patients"] == 6
    assert steady["in_prompt_middle"] == steady["in_prompt_edge"] == 1.0
    assert "needle" not in tables["verdict"][0]["text"] + tables["verdict"][1]["text"]
    for row in tables["detectable"]:
        assert row["null_low"] < 0 < row["null_high"]
        assert 0 < row["alone"] <= row["among_all"] <= 1
    cuts = tables["cuts"]
    assert sum(cut["questions"] - cut["refused"] for cut in cuts) == steady["series"] == len(asked)
    assert any("date of the moved note is out of order" in text for text in document["warnings"])
