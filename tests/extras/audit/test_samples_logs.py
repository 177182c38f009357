"""Logs that other systems wrote: their samples, and the figures that the systems printed."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from statistics import fmean

import pytest

from midchart.core.errors import MissingModel
from midchart.extras.audit.samples.open import format_of, read_samples
from midchart.extras.audit.samples.sample import Message, Sample

LOGS = Path(__file__).with_name("logs")
needs_inspect = pytest.mark.skipif(
    importlib.util.find_spec("inspect_ai") is None, reason="inspect-ai is not installed"
)


def samples(path: Path) -> list[Sample]:
    """All samples of a log without troubles."""
    troubles: list[str] = []
    read = list(read_samples(path, troubles.append))
    assert troubles == []
    return read


def mean(read: list[Sample], model: str, score: str) -> float:
    return fmean(one.scores[score] for one in read if one.model == model)


@needs_inspect
@pytest.mark.parametrize("ending", [".eval", ".json"])
def test_scores_of_inspect_are_those_that_it_printed(tmp_path, ending):
    from inspect_ai.log import read_eval_log, write_eval_log

    folder = LOGS / "inspect"
    if ending == ".json":
        for file in folder.glob("*.eval"):
            write_eval_log(read_eval_log(str(file)), str(tmp_path / f"{file.stem}.json"))
        folder = tmp_path
    read = samples(folder)
    assert len(read) == 12 and len({one.id for one in read}) == 12
    assert mean(read, "mockllm/model-a", "includes") == pytest.approx(0.6666666666666666)
    assert mean(read, "mockllm/model-b", "includes") == pytest.approx(0.3333333333333333)
    first, last = read[0], read[5]
    assert first.question == "What dose of warfarin was given in May?"
    assert first.messages == (
        Message("system", "Answer from the chart."),
        Message("user", f"Warfarin 5 mg daily from May 3.\n\nQuestion: {first.question}"),
    )
    assert (first.answer, first.reference, first.patient) == ("It was 5 mg.", ("5 mg",), "p1")
    assert (first.input_tokens, first.output_tokens, first.task) == (20, 3, "ward")
    assert (first.ended, last.ended, last.answer) == ("stop", "length", "Her daughter is")


@needs_inspect
def test_a_damaged_log_of_inspect_is_named_and_the_others_load(tmp_path):
    (tmp_path / "a.eval").write_bytes((LOGS / "inspect/model_a.eval").read_bytes())
    (tmp_path / "b.eval").write_bytes((LOGS / "inspect/model_b.eval").read_bytes()[:9_000])
    troubles: list[str] = []
    read = list(read_samples(tmp_path, troubles.append))
    assert len(read) == 6
    assert len(troubles) == 1 and troubles[0].startswith("b.eval: is damaged")


def test_without_its_package_a_log_of_inspect_says_how_to_get_it(monkeypatch):
    find = importlib.util.find_spec
    absent = lambda name, *rest: None if name == "inspect_ai" else find(name, *rest)  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", absent)
    with pytest.raises(MissingModel, match="pip install inspect-ai"):
        list(read_samples(LOGS / "inspect", print))


@pytest.mark.parametrize("file", ["spans.jsonl", "otlp.json", "phoenix.parquet"])
def test_traces_have_stages_prompt_and_patient_in_every_form(file):
    assert format_of(LOGS / "openinference" / file).name == "openinference"
    first, second = samples(LOGS / "openinference" / file)
    assert first.question == "What dose of warfarin was given in May?"
    assert (first.answer, first.model, first.ended) == ("5 mg daily.", "echo-1", "stop")
    assert (first.input_tokens, first.output_tokens) == (31, 4)
    assert [one.role for one in first.messages] == ["system", "user"]
    assert first.messages[1].text.startswith("Warfarin stopped on June 9.\nAllergy")
    assert [step.name for step in first.steps] == ["retrieved", "reranked"]
    assert [chunk.identifier for chunk in first.steps[0].chunks] == ["n1", "n2", "n3"]
    assert [chunk.identifier for chunk in first.steps[1].chunks] == ["n3", "n2"]
    assert first.steps[0].chunks[1].score == pytest.approx(0.9)
    assert [step.name for step in second.steps] == ["retrieved"]
    assert (first.patient, second.patient) == ("p1", "p2"), "metadata goes before the session"


def test_spans_of_the_genai_conventions_are_read(tmp_path):
    message = {"role": "user", "parts": [{"type": "text", "content": "Which dose?"}]}
    answer = {
        "role": "assistant",
        "parts": [{"type": "text", "content": "5 mg"}],
        "finish_reason": "length",
    }
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.response.model": "m-2",
        "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "Be brief."}]),
        "gen_ai.input.messages": json.dumps([message]),
        "gen_ai.output.messages": json.dumps([answer]),
        "gen_ai.usage.input_tokens": 12,
        "gen_ai.usage.output_tokens": 2,
        "gen_ai.conversation.id": "c1",
    }
    span = {"name": "chat m", "traceId": "t", "spanId": "s", "attributes": attributes}
    (tmp_path / "spans.jsonl").write_text(json.dumps(span) + "\n")
    (one,) = samples(tmp_path / "spans.jsonl")
    assert one.messages == (Message("system", "Be brief."), Message("user", "Which dose?"))
    assert (one.question, one.answer, one.model, one.ended) == (
        "Which dose?",
        "5 mg",
        "m-2",
        "length",
    )
    assert (one.input_tokens, one.output_tokens, one.patient) == (12, 2, "c1")


def span(id: str, parent: str | None, kind: str, second: int, **attributes) -> dict:
    """A span of the trace "t"; its name is its kind, or ``named``."""
    named = attributes.pop("named", kind.lower())
    return {
        "name": named,
        "context": {"trace_id": "t", "span_id": id},
        "parent_id": parent,
        "start_time": f"2026-01-01T00:00:{second:02}Z",
        "attributes": {"openinference.span.kind": kind}
        | {name.replace("__", "."): value for name, value in attributes.items()},
    }


def asked(id: str, parent: str | None, second: int, question: str, answer: str, **more) -> list:
    """The spans of a question: a chain with a retriever and a model below it."""
    documents = {"retrieval__documents__0__document__content": f"text for {question}"}
    messages = {
        "llm__input_messages__0__message__role": "user",
        "llm__input_messages__0__message__content": f"text for {question}",
        "llm__output_messages__0__message__content": answer,
    }
    return [
        span(id, parent, "CHAIN", second, input__value=question, named="answer", **more),
        span(f"{id}-r", id, "RETRIEVER", second + 1, input__value=question, **documents),
        span(f"{id}-m", id, "LLM", second + 2, **messages),
    ]


def written(tmp_path: Path, spans: list) -> list:
    (tmp_path / "spans.jsonl").write_text("\n".join(map(json.dumps, spans)))
    return samples(tmp_path / "spans.jsonl")


LOOP = [
    *asked("a", "root", 1, "Which dose?", "5 mg", metadata='{"patient_id": "p1"}'),
    *asked("b", "root", 5, "Which allergy?", "Penicillin", patient__id="p2"),
]


@pytest.mark.parametrize(
    "above",
    [
        [span("root", None, "CHAIN", 0, named="evaluate")],
        [span("root", None, "CHAIN", 0, input__value=json.dumps(["Which dose?", "And?"]))],
        [span("root", None, "CHAIN", 0, input__value="the questions of May")],
        [],  # the span above them has not ended, and is not exported
    ],
)
def test_each_question_of_a_loop_in_one_trace_is_a_sample(tmp_path, above):
    first, second = written(tmp_path, [*above, *LOOP])
    assert (first.question, first.answer, first.patient) == ("Which dose?", "5 mg", "p1")
    assert (second.question, second.answer, second.patient) == (
        "Which allergy?", "Penicillin", "p2",
    )  # fmt: skip
    assert [len(one.steps) for one in (first, second)] == [1, 1]


def test_a_loop_over_patients_with_one_question_names_each_of_them(tmp_path):
    spans = [span("root", None, "CHAIN", 0, named="all")]
    for number, patient in enumerate(("p1", "p2")):
        spans.append(span(patient, "root", "CHAIN", 10 * number, named="patient", mrn=patient))
        spans += asked(f"{patient}-a", patient, 10 * number + 1, "Which dose?", "5 mg")
        spans += asked(f"{patient}-b", patient, 10 * number + 5, "Which drug?", "Warfarin")
    read = written(tmp_path, spans)
    assert [(one.patient, one.question) for one in read] == [
        ("p1", "Which dose?"), ("p1", "Which drug?"), ("p2", "Which dose?"), ("p2", "Which drug?"),
    ]  # fmt: skip
    assert len({one.id for one in read}) == 4


def test_parts_of_a_question_and_rounds_of_retrieval_are_one_sample(tmp_path):
    root = span("root", None, "CHAIN", 0, input__value="Which drugs?", output__value="Both.")
    parts = [
        *asked("a", "root", 1, "Which dose?", "5 mg"), *asked("b", "root", 5, "Which drug?", "W"),
    ]  # fmt: skip
    last = span("z", "root", "LLM", 9, llm__output_messages__0__message__content="Both.")
    [one] = written(tmp_path, [root, *parts, last])
    assert (one.question, one.answer) == ("Which drugs?", "Both.")
    assert [step.name for step in one.steps] == ["retrieved", "retrieved"]


def test_a_check_after_the_answer_is_not_taken_for_it(tmp_path):
    spans = asked("a", None, 1, "Which dose?", "5 mg", output__value='{"reply": ["5 mg"]}')
    check = {
        "llm__input_messages__0__message__content": "Is this grounded? 5 mg",
        "llm__output_messages__0__message__content": "yes",
    }
    [one] = written(tmp_path, [*spans, span("c", "a", "LLM", 9, **check)])
    assert one.answer == "5 mg"
    assert one.messages == (Message("user", "text for Which dose?"),)


def reranked(id: str, second: int, *texts: str) -> dict:
    names = (f"reranker__output_documents__{i}__document__content" for i in range(len(texts)))
    return span(id, "a", "RERANKER", second, **dict(zip(names, texts, strict=True)))


def test_rerankers_in_a_row_are_one_and_those_of_two_rounds_are_put_together(tmp_path):
    spans = asked("a", None, 1, "Which dose?", "5 mg")[:2]
    again = span(
        "r2", "a", "RETRIEVER", 6, retrieval__documents__0__document__content="second round"
    )
    rounds = [reranked("k1", 3, "one", "two"), reranked("k2", 4, "two"), again,
              reranked("k3", 7, "three")]  # fmt: skip
    [one] = written(tmp_path, [*spans, *rounds])
    assert [step.name for step in one.steps] == ["retrieved", "retrieved", "reranked"]
    assert [chunk.text for chunk in one.steps[-1].chunks] == ["two", "three"]


def test_what_a_reranker_was_given_stands_for_a_retrieval_without_a_span(tmp_path):
    documents = {"reranker__input_documents__0__document__content": "one",
                 "reranker__output_documents__0__document__content": "one"}  # fmt: skip
    [one] = written(
        tmp_path, [span("a", None, "RERANKER", 1, reranker__query="Dose?", **documents)]
    )
    assert [step.name for step in one.steps] == ["retrieved", "reranked"]


@pytest.mark.parametrize(
    "attributes",
    [
        {"patient_id": "p7"},
        {"ehr__patient__id": "p7"},
        {"metadata": '{"ward": "B2", "patient": {"mrn": "p7"}}'},
        {"metadata": '{"subject": {"reference": "p7"}}'},
        {"input__value": '{"question": "Which dose?", "patient_id": "p7"}'},
        {"llm__prompt_template__variables": '{"patient_id": "p7", "context": "text"}'},
        {"retrieval__documents__0__document__metadata": '{"patient_id": "p7", "page": 3}'},
        {"session__id": "p7", "user__id": "dr-x"},
        {"session__id": "s1", "metadata__chart": "a text\nof lines", "metadata__mrn": "p7"},
    ],
)
def test_the_patient_is_read_wherever_a_program_names_one(tmp_path, attributes):
    texts = {"input__value": "Which dose?", "retrieval__documents__0__document__content": "5 mg"}
    [one] = written(tmp_path, [span("a", None, "RETRIEVER", 1, **{**texts, **attributes})])
    assert (one.question, one.patient) == ("Which dose?", "p7")


def test_documents_of_two_patients_name_none(tmp_path):
    documents = {
        f"retrieval__documents__{i}__document__metadata": json.dumps({"patient_id": f"p{i}"})
        for i in range(2)
    }
    [one] = written(tmp_path, [span("a", None, "RETRIEVER", 1, input__value="Dose?", **documents)])
    assert one.patient == ""


def test_printed_documents_are_read_between_other_lines(tmp_path):
    spans = [json.dumps(one, indent=4) for one in asked("a", None, 1, "Which dose?", "5 mg")]
    text = "\n".join(["Loading the model", spans[0], *spans[1:], "{", '    "cut": ', "done"])
    (tmp_path / "output.log").write_text(text)
    troubles: list[str] = []
    [one] = read_samples(tmp_path / "output.log", troubles.append)
    assert (one.question, one.answer) == ("Which dose?", "5 mg")
    assert len(troubles) == 1 and troubles[0].startswith("output.log: has 4 lines")


def test_a_deep_chain_of_spans_is_read(tmp_path):
    chain = [span(f"{i}", f"{i - 1}" if i else None, "CHAIN", 0) for i in range(1_000)]
    [one] = written(tmp_path, [*chain, *asked("a", "999", 1, "Which dose?", "5 mg")])
    assert one.answer == "5 mg"


def test_scores_of_lm_eval_are_those_that_it_printed():
    read = samples(LOGS / "lm_eval")
    results = json.loads(next((LOGS / "lm_eval").glob("results_*.json")).read_text())["results"]
    for task, metric in (("ward", "exact_match"), ("ward_choice", "acc")):
        scores = [one.scores[metric] for one in read if one.task == task]
        assert len(scores) == 6
        assert fmean(scores) == pytest.approx(results[task][f"{metric},none"])
    first = read[0]
    assert first.question == "What dose of warfarin was given in May?"
    assert (first.patient, first.answer, first.reference) == ("p1", "5 mg", ("5 mg",))
    assert first.messages[0].text.endswith(
        "Question: What dose of warfarin was given in May?\nAnswer:"
    )
    choice = next(one for one in read if one.task == "ward_choice")
    assert (choice.options, choice.answer, choice.reference) == (
        ("5 mg", "2 mg"),
        "5 mg",
        ("5 mg",),
    )


@pytest.mark.parametrize("tags", [7, {"correct": 1}, "incorrect"])
def test_tags_of_helm_that_are_no_list_of_texts_mark_no_reference(tmp_path: Path, tags: object):
    folder = tmp_path / "helm"
    shutil.copytree(LOGS / "helm", folder)
    file = folder / "simple_mcqa/scenario_state.json"
    state = json.loads(file.read_text())
    for one in state["request_states"]:
        for reference in one["instance"]["references"]:
            reference["tags"] = tags
    file.write_text(json.dumps(state))
    read = samples(folder)
    assert read and all(one.reference == () for one in read)


def test_scores_of_helm_are_those_of_its_stats():
    read = samples(LOGS / "helm")
    stats = json.loads((LOGS / "helm/simple_mcqa/stats.json").read_text())
    means = {stat["name"]["name"]: stat.get("mean") for stat in stats}
    assert len(read) == 4
    for metric in ("exact_match", "quasi_exact_match"):
        assert fmean(one.scores[metric] for one in read) == pytest.approx(means[metric])
    assert fmean(one.input_tokens or 0 for one in read) == pytest.approx(means["num_prompt_tokens"])
    assert "num_references" not in read[0].scores
    assert read[0].question == "Is 70 even or odd?" and read[0].messages[0].text.endswith("Answer:")
    assert (read[0].model, read[0].task) == ("simple/model1", "simple_mcqa")


@pytest.mark.parametrize("file", ["results.json", "results.jsonl"])
def test_the_pass_rate_of_promptfoo_is_what_it_printed(file):
    read = samples(LOGS / "promptfoo" / file)
    assert len(read) == 8
    assert mean(read, "short", "pass") == 0.5 and mean(read, "other", "pass") == 1.0
    assert sum(one.scores["pass"] for one in read) == 6, "6 passed (75.00%)"
    assert sum(one.input_tokens or 0 for one in read) == 72
    assert sum(one.output_tokens or 0 for one in read) == 36
    assert (read[1].ended, read[1].cost_usd, read[1].patient) == ("length", 0.002, "p1")
    assert read[0].context == "Warfarin 5 mg daily from May 3."


def test_instances_of_every_eval_ever_are_samples():
    read = samples(LOGS / "every_eval_ever")
    assert mean(read, "ward/mock", "acc") == pytest.approx(4 / 6)
    assert read[0].answer == "5 mg" and read[0].options == ("5 mg", "2 mg")


@pytest.mark.parametrize(
    "name", ["lm_eval", "helm", "promptfoo", "every_eval_ever", "openinference", "inspect"]
)
def test_each_log_is_recognised_by_its_own_format(name):
    assert format_of(LOGS / name).name == name


@pytest.mark.parametrize(
    "file",
    ["promptfoo/results.jsonl", "every_eval_ever/ward_samples.jsonl", "openinference/spans.jsonl"],
)
def test_a_broken_line_is_named_and_the_rest_loads(tmp_path, file):
    lines = (LOGS / file).read_text().splitlines()
    (tmp_path / "log.jsonl").write_text("\n".join([*lines[:1], lines[1][:50], "7", *lines[1:]]))
    troubles: list[str] = []
    read = list(read_samples(tmp_path / "log.jsonl", troubles.append))
    assert len(read) == len(samples(LOGS / file))
    assert [one.split(" ")[0] for one in troubles] == ["log.jsonl:2:", "log.jsonl:3:"]
