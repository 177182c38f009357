"""Tables of questions and answers in the forms that people write."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midchart.core.errors import DataError
from midchart.extras.audit.samples.fields import chunks_of, messages_of, texts_of
from midchart.extras.audit.samples.open import format_of, read_samples
from midchart.extras.audit.samples.sample import Chunk, Message, Sample

RAGAS = {
    "user_input": "Which dose?",
    "retrieved_contexts": ["Warfarin 5 mg.", 'It\'s "stopped".'],
    "response": "5 mg",
    "ground_truth": "5 mg daily",
    "reference_contexts": ["Warfarin 5 mg."],
    "patient_id": "p1",
    "faithfulness": 0.5,
    "score_style": 1,
    "finish_reason": "max_tokens",
    "prompt_tokens": 40,
}


def read(path: Path) -> tuple[list[Sample], list[str]]:
    troubles: list[str] = []
    return list(read_samples(path, troubles.append)), troubles


def write(folder: Path, ending: str, row: dict) -> Path:
    path = folder / f"answers{ending}"
    if ending in (".csv", ".tsv"):  # as pandas writes lists
        pd.DataFrame([row]).to_csv(path, sep="\t" if ending == ".tsv" else ",", index=False)
    elif ending == ".parquet":
        pd.DataFrame([row]).to_parquet(path)
    elif ending == ".jsonl":
        path.write_text(json.dumps(row) + "\n")
    else:
        path.write_text(json.dumps([row] if ending == ".json" else row))
    return path


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet", ".jsonl", ".json"])
def test_a_table_of_ragas_is_the_same_sample_in_every_form(tmp_path, ending):
    path = write(tmp_path, ending, RAGAS)
    assert format_of(path).name == "table"
    (one,), troubles = read(path)
    assert troubles == []
    assert (one.question, one.answer, one.patient) == ("Which dose?", "5 mg", "p1")
    assert [step.name for step in one.steps] == ["retrieved"]
    assert [chunk.text for chunk in one.steps[0].chunks] == RAGAS["retrieved_contexts"]
    assert (one.reference, one.evidence) == (("5 mg daily",), ("Warfarin 5 mg.",))
    assert one.scores == {"faithfulness": 0.5, "score_style": 1.0}
    assert (one.ended, one.input_tokens, one.output_tokens) == ("length", 40, None)
    assert one.messages == () and one.context == ""


def test_a_prompt_is_text_or_messages_and_an_answer_may_end_it(tmp_path):
    path = tmp_path / "prompts.csv"
    turns = [{"role": "user", "content": "Which?"}, {"role": "assistant", "content": "This."}]
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["prompt", "context", "reranked"])
        rows.writerow(
            ["The chart. Which dose?", "The chart.", '[{"text": "a", "id": 7, "score": 2}]']
        )
        rows.writerow([json.dumps(turns), "", ""])
    (text, messages), troubles = read(path)
    assert troubles == []
    assert text.messages == (Message("user", "The chart. Which dose?"),)
    assert text.context == "The chart."
    assert text.steps[0].chunks == (Chunk("a", "7", 2.0),)
    assert messages.messages == (Message("user", "Which?"),) and messages.answer == "This."


def test_broken_rows_are_named_once_and_the_rest_loads(tmp_path):
    path = tmp_path / "answers.jsonl"
    good = json.dumps({"question": "Which?", "answer": "This."})
    path.write_text(f'{good}\n{{"question": \n[1]\n{{"answer": "x"}}\n{good}\n')
    rows, troubles = read(path)
    assert [one.place for one in rows] == ["answers.jsonl:1", "answers.jsonl:5"]
    assert [one.split(" ")[0] for one in troubles] == [f"answers.jsonl:{n}:" for n in (2, 3, 4)]


def test_an_id_that_is_there_again_gets_a_number(tmp_path):
    path = tmp_path / "answers.jsonl"
    ids = ["a", "a", "a (2)", "a"]
    path.write_text(
        "".join(json.dumps({"id": i, "question": "?", "answer": ""}) + "\n" for i in ids)
    )
    rows, _ = read(path)
    assert rows[0].id == "a" and len({one.id for one in rows}) == 4


def test_what_no_format_knows_is_refused_in_one_line(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    for path in (tmp_path / "x.csv", tmp_path / "absent.csv"):
        with pytest.raises(DataError):
            read(path)


def test_deep_and_long_values_cost_their_row(tmp_path):
    path = tmp_path / "answers.jsonl"
    deep = '{"question": "?", "answer": ' + "[" * 2000 + "]" * 2000 + "}"
    long = '{"question": "?", "answer": "y", "id": ' + "9" * 5000 + "}"
    path.write_text(f'{deep}\n{long}\n{{"question": "Which?", "answer": "This."}}\n')
    rows, troubles = read(path)
    assert [one.question for one in rows] == ["Which?"]
    assert len(troubles) == 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["text", "content", "role", "id", "score", "messages", "parts"]), inner
        )
    ),
    max_leaves=12,
)


@settings(max_examples=30)
@given(JSON)
def test_any_value_of_a_cell_is_read(value):
    assert all(isinstance(text, str) for text in texts_of(value))
    assert all(isinstance(chunk, Chunk) for chunk in chunks_of(value))
    assert all(isinstance(message, Message) for message in messages_of(value))


def test_apostrophes_quote_a_column_of_a_log_as_one_of_a_cohort(tmp_path):
    path = tmp_path / "answers.csv"
    path.write_text("question,answer\nWhich?,'it''s b'\nWhat?,'c'\n'Who' says?,'d'\n")
    samples, troubles = read(path)
    assert [(one.question, one.answer) for one in samples] == [
        ("Which?", "it's b"), ("What?", "c"), ("'Who' says?", "d"),
    ]  # fmt: skip
    assert troubles == []
