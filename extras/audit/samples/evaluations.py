"""Sample formats of evaluation programs: promptfoo, Every Eval Ever, lm-evaluation-harness, HELM.

https://github.com/evaleval/every_eval_ever has a package, which needs Python 3.12, so it is not
used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from midchart.core.errors import DataError
from midchart.extras.audit.samples import SAMPLE_FORMATS
from midchart.extras.audit.samples.fields import (
    count_of,
    ended_of,
    fields_of,
    id_of,
    last_question,
    messages_of,
    number_of,
    numbers_of,
    prompt_and_answer,
    steps_of,
    text_of,
    texts_of,
    unpacked,
)
from midchart.extras.audit.samples.files import (
    LINES,
    Trouble,
    document,
    files_of,
    first_object,
    head_of,
    listed,
    objects,
    place_name,
    suffix_of,
)
from midchart.extras.audit.samples.sample import Sample

_PROMPTFOO = (".json", *LINES)


@SAMPLE_FORMATS.register("promptfoo")
class PromptfooSamples:
    """One sample a result: a test case with one prompt and one provider."""

    name, title = "promptfoo", "results of promptfoo (JSON, JSON Lines)"

    def recognises(self, path: Path) -> bool:
        """Whether a file's first bytes are those of promptfoo's results."""
        if path.is_dir():
            return any(self.recognises(file) for file in files_of(path, _PROMPTFOO)[:20])
        if suffix_of(path) not in _PROMPTFOO:
            return False
        head = head_of(path)
        return all(name in head for name in (b'"provider"', b'"prompt"')) and (
            b'"testIdx"' in head or b'"evalId"' in head or b'"gradingResult"' in head
        )

    def samples(self, path: Path, trouble: Trouble) -> Iterator[Sample]:
        """The results of a file, or of the files in a folder."""
        for file in files_of(path, _PROMPTFOO):
            if path.is_dir() and not self.recognises(file):
                continue
            name = place_name(file, path)
            for place, row in objects(file, name, trouble):
                results: Any = row.get("results")
                if isinstance(results, dict):
                    results = cast("dict[str, Any]", results).get("results")
                if not isinstance(results, list):
                    yield from _promptfoo_sample(row, place, trouble)
                    continue
                for each, result in listed(cast("list[Any]", results), name, trouble):
                    yield from _promptfoo_sample(result, each, trouble)


def _promptfoo_sample(row: dict[str, Any], place: str, trouble: Trouble) -> Iterator[Sample]:
    """The sample of a result; none, and a trouble, where it has no prompt."""
    prompt, response, provider = (_member(row, n) for n in ("prompt", "response", "provider"))
    messages = messages_of(prompt.get("raw"))
    if not messages:
        reason, remedy = "has no prompt", "export the results again (promptfoo eval -o FILE)"
        trouble(str(DataError(place, None, reason, remedy)))
        return
    variables = fields_of(_member(row, "vars"))
    tokens = _member(response, "tokenUsage") or _member(row, "tokenUsage")
    template = id_of(row.get("promptId"))  # its label is its text by default
    scores = numbers_of({"pass": row.get("success"), "score": row.get("score")})
    yield Sample(
        id=id_of(row.get("id")) or place,
        place=place,
        question=text_of(variables.get("question")) or last_question(messages),
        answer=text_of(response.get("output")),
        patient=id_of(variables.get("patient")),
        messages=messages,
        context=text_of(variables.get("context")),
        steps=steps_of(variables),
        reference=texts_of(variables.get("reference")),
        evidence=texts_of(variables.get("evidence")),
        model=id_of(provider.get("label")) or id_of(provider.get("id")),
        system=f"prompt {template[:8]}" if template else "",
        scores={**scores, **numbers_of(_member(row, "namedScores"))},
        ended=ended_of(response.get("finishReason")),
        input_tokens=count_of(tokens.get("prompt")),
        output_tokens=count_of(tokens.get("completion")),
        cost_usd=number_of(row.get("cost")),
    )


_INSTANCE = {"evaluation_id", "evaluation_name", "sample_id", "interaction_type", "evaluation"}


@SAMPLE_FORMATS.register("every_eval_ever")
class EveryEvalEverSamples:
    """One sample an instance; its results by several metrics, line after line, are its scores."""

    name, title = "every_eval_ever", "instances of Every Eval Ever (*_samples.jsonl)"

    def recognises(self, path: Path) -> bool:
        """Whether the first line of a file, or of a folder's first file, is an instance."""
        files = files_of(path, LINES)
        return bool(files) and first_object(files[0]).keys() >= _INSTANCE

    def samples(self, path: Path, trouble: Trouble) -> Iterator[Sample]:
        """The instances of a file, or of all files in a folder."""
        for file in files_of(path, LINES):
            before: Sample | None = None
            for place, row in objects(file, place_name(file, path), trouble):
                if not row.keys() >= _INSTANCE:
                    missing = ", ".join(sorted(_INSTANCE - row.keys()))
                    trouble(str(DataError(place, None, f"lacks {missing}", "export it again")))
                    continue
                sample = _every_eval_ever_sample(row, place)
                if before is not None and before.id == sample.id:
                    before = replace(before, scores={**before.scores, **sample.scores})
                    continue
                if before is not None:
                    yield before
                before = sample
            if before is not None:
                yield before


def _every_eval_ever_sample(row: dict[str, Any], place: str) -> Sample:
    given_input, output, evaluation, tokens, metadata = (
        _member(row, name) for name in ("input", "output", "evaluation", "token_usage", "metadata")
    )
    facts = fields_of(metadata)
    raw = text_of(given_input.get("raw"))
    messages, answer = prompt_and_answer(messages_of(row.get("messages")))
    if not messages:
        messages = messages_of(given_input.get("formatted") or raw)
        answer = text_of(_first(output.get("raw")))
    metric = id_of(row.get("evaluation_result_id")) or "score"
    score = number_of(evaluation.get("score"))
    return Sample(
        id=f"{id_of(row.get('evaluation_id'))}/{id_of(row.get('sample_id'))}",
        place=place,
        question=text_of(facts.get("question")) or raw or last_question(messages),
        answer=answer,
        patient=id_of(facts.get("patient")),
        messages=messages,
        context=text_of(facts.get("context")),
        steps=steps_of(facts),
        options=texts_of(given_input.get("choices")),
        reference=texts_of(given_input.get("reference")),
        evidence=texts_of(facts.get("evidence")),
        model=id_of(row.get("model_id")),
        task=id_of(row.get("evaluation_name")),
        scores={} if score is None else {metric: score},
        input_tokens=count_of(tokens.get("input_tokens")),
        output_tokens=count_of(tokens.get("output_tokens")),
    )


_SAMPLES_FILE = re.compile(
    r"samples_(?P<task>.+)_(?P<time>\d{4}-\d{2}-\d{2}T[\d.:-]+)\.jsonl(\.gz)?"
)


@SAMPLE_FORMATS.register("lm_eval")
class LmEvalSamples:
    """One sample a document and filter; model and task by the results and the file names."""

    name, title = "lm_eval", "samples of lm-evaluation-harness (--log_samples)"

    def recognises(self, path: Path) -> bool:
        """Whether a file, or the first such file of a folder, has the harness's columns."""
        files = _lm_eval_files(path)
        if path.is_file() and not files:
            files = files_of(path, (".jsonl",))
        return bool(files) and {"doc_id", "doc", "arguments"} <= first_object(files[0]).keys()

    def samples(self, path: Path, trouble: Trouble) -> Iterator[Sample]:
        """The samples of a file, or of all such files in a folder."""
        for file in [path] if path.is_file() else _lm_eval_files(path):
            name = place_name(file, path)
            named = _SAMPLES_FILE.fullmatch(file.name)
            task = named["task"] if named else file.stem
            model = _model(file, named["time"] if named else "", trouble)
            for place, row in objects(file, name, trouble):
                sample = _lm_eval_sample(row, place, task, model)
                if sample is None:
                    reason = "has no prompt"
                    trouble(str(DataError(place, None, reason, "run with --log_samples")))
                else:
                    yield sample


def _lm_eval_files(path: Path) -> list[Path]:
    return [file for file in files_of(path, (".jsonl",)) if _SAMPLES_FILE.fullmatch(file.name)]


def _model(file: Path, time: str, trouble: Trouble) -> str:
    """The model of the results file of the same time, else the name of the folder."""
    results = file.parent / f"results_{time}.json"
    if time and results.is_file():
        try:
            value = document(results, results.name)
        except DataError as error:
            trouble(str(error))
        else:
            facts = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
            stated = id_of(facts.get("model_name"))
            return stated or id_of(facts.get("model_source")) or file.parent.name
    return file.parent.name


def _lm_eval_sample(row: dict[str, Any], place: str, task: str, model: str) -> Sample | None:
    arguments = row.get("arguments")
    calls = list(cast("dict[str, Any]", arguments).values()) if isinstance(arguments, dict) else []
    if isinstance(arguments, list):  # before version 0.4.5
        calls = cast("list[Any]", arguments)
    pairs = [_pair(call) for call in calls]
    if not pairs:
        return None
    messages = messages_of(unpacked(pairs[0][0]))
    document_fields = fields_of(cast("dict[str, Any]", row["doc"])) if isinstance(
        row.get("doc"), dict
    ) else {}  # fmt: skip
    # Requests with a text as second argument rank continuations; the others generate an answer.
    ranked = [text.strip() for _, text in pairs if isinstance(text, str)]
    options = tuple(ranked) if len(ranked) == len(pairs) > 1 else ()
    names = row.get("metrics")
    metrics = cast("list[Any]", names) if isinstance(names, list) else []
    scores = {
        m: n for m in metrics if isinstance(m, str) and (n := number_of(row.get(m))) is not None
    }
    wanted = row.get("target")
    chosen = number_of(wanted)
    if options and chosen is not None and 0 <= chosen < len(options):
        wanted = options[int(chosen)]
    filtered = id_of(row.get("filter"))
    suffix = f"/{filtered}" if filtered not in ("", "none") else ""
    return Sample(
        id=f"{model}/{task}/{id_of(row.get('doc_id')) or place}{suffix}",
        place=place,
        question=text_of(document_fields.get("question")) or last_question(messages),
        answer=_ranked_first(row, options)
        if options
        else text_of(_first(row.get("filtered_resps"))),
        patient=id_of(document_fields.get("patient")),
        messages=messages,
        context=text_of(document_fields.get("context")),
        steps=steps_of(document_fields),
        options=options,
        reference=texts_of(wanted),
        evidence=texts_of(document_fields.get("evidence")),
        model=model,
        system=filtered if suffix else "",
        task=task,
        scores=scores,
    )


def _pair(call: Any) -> tuple[Any, Any]:
    """The arguments of a request: prompt, and generation options or the continuation."""
    if isinstance(call, dict):
        members = cast("dict[str, Any]", call)
        return members.get("arg_0"), members.get("arg_1")
    values = cast("list[Any]", call) if isinstance(call, list) else [call]
    return (values[0] if values else ""), (values[1] if len(values) > 1 else None)


def _ranked_first(row: dict[str, Any], options: tuple[str, ...]) -> str:
    """The option of the highest log-likelihood; "" where these are not all there."""
    values = row.get("filtered_resps")
    likelihoods = [
        number_of(_first(one))
        for one in (cast("list[Any]", values) if isinstance(values, list) else [])
    ]
    known = [one for one in likelihoods if one is not None]
    if len(known) != len(options) or len(likelihoods) != len(options):
        return ""
    return options[known.index(max(known))]


_STATE, _STATS = "scenario_state.json", "per_instance_stats.json"
_NO_SCORES = frozenset({
    *("num_references", "num_train_trials", "num_prompt_tokens", "num_completion_tokens"),
    *("num_output_tokens", "num_train_instances", "num_completions", "num_bytes"),
    *("num_perplexity_tokens", "num_instances", "prompt_truncated", "batch_size", "logprob"),
    *("training_co2_cost", "training_energy_cost", "inference_runtime", "max_prob"),
    *("inference_denoised_runtime", "inference_idealized_runtime", "logprob_per_byte"),
    *("bits_per_byte", "perplexity", "predicted_index"),
})  # fmt: skip
"""HELM's statistics that measure the run and not the answer, and those of which less is better."""
_Key = tuple[str, str, str]


@SAMPLE_FORMATS.register("helm")
class HelmSamples:
    """One sample a request state; statistics of an instance are its scores."""

    name, title = "helm", "run folder of HELM (scenario_state.json)"

    def recognises(self, path: Path) -> bool:
        """Whether it is, or holds, a run's folder."""
        if path.is_dir():
            return bool(_states(path))
        return path.name == _STATE

    def samples(self, path: Path, trouble: Trouble) -> Iterator[Sample]:
        """The samples of each run's folder."""
        for file in [path] if path.is_file() else _states(path):
            name = place_name(file, path)
            try:
                value = document(file, name)
            except DataError as error:
                trouble(str(error))
                continue
            state = _members(value)
            states = state.get("request_states")
            if not isinstance(states, list):
                reason = "has no request_states"
                trouble(str(DataError(name, None, reason, "run helm-run again")))
                continue
            stats = _stats(
                file.with_name(_STATS), place_name(file.with_name(_STATS), path), trouble
            )
            adapter = _members(state.get("adapter_spec"))
            for place, one in listed(cast("list[Any]", states), name, trouble):
                yield _helm_sample(one, place, file.parent.name, adapter, stats)


def _states(path: Path) -> list[Path]:
    return [file for file in files_of(path, (".json",)) if file.name == _STATE]


def _objects(value: Any) -> list[dict[str, Any]]:
    return [_members(one) for one in cast("list[Any]", value)] if isinstance(value, list) else []


def _stats(path: Path, name: str, trouble: Trouble) -> dict[_Key, dict[str, float]]:
    """The mean of each statistic by instance, trial and perturbation."""
    if not path.is_file():
        trouble(str(DataError(name, None, "there is no such file", "copy the run's whole folder")))
        return {}
    try:
        value = document(path, name)
    except DataError as error:
        trouble(str(error))
        return {}
    stats: dict[_Key, dict[str, float]] = {}
    for one in _objects(value):
        means = stats.setdefault(_key(one, one.get("instance_id"), one.get("perturbation")), {})
        for stat in _objects(one.get("stats")):
            label = _members(stat.get("name"))
            mean = number_of(stat.get("mean"))
            if mean is not None:
                means[id_of(label.get("name"))] = mean
    return stats


def _key(row: Mapping[str, Any], instance: Any, perturbation: Any) -> _Key:
    stated = id_of(_members(perturbation).get("name"))
    return id_of(instance), id_of(row.get("train_trial_index")), stated


def _helm_sample(
    state: dict[str, Any],
    place: str,
    run: str,
    adapter: Mapping[str, Any],
    stats: Mapping[_Key, dict[str, float]],
) -> Sample:
    instance, request, result = (
        _members(state.get(name)) for name in ("instance", "request", "result")
    )
    key = _key(state, instance.get("id"), instance.get("perturbation"))
    means = stats.get(key, {})
    completion = next(iter(_objects(result.get("completions"))), {})
    references = _objects(instance.get("references"))
    correct = [one for one in references if "correct" in texts_of(one.get("tags"))]
    facts = fields_of(_members(instance.get("extra_data")))
    mapping = _members(state.get("output_mapping"))
    task = run.partition(":")[0]
    model = id_of(adapter.get("model")) or id_of(request.get("model"))
    return Sample(
        id="/".join(filter(None, (run, *key))),
        place=place,
        question=text_of(_members(instance.get("input")).get("text")),
        answer=text_of(completion.get("text")),
        patient=id_of(facts.get("patient")),
        messages=messages_of(request.get("messages") or request.get("prompt")),
        context=text_of(facts.get("context")),
        options=tuple(text_of(one) for one in mapping.values()),
        reference=tuple(text_of(_members(one.get("output")).get("text")) for one in correct),
        model=model,
        task=task,
        scores={name: mean for name, mean in means.items() if name and name not in _NO_SCORES
                and not name.startswith(("finish_reason", "num_", "inference_"))},
        ended=ended_of(_members(completion.get("finish_reason")).get("reason")),
        input_tokens=count_of(means.get("num_prompt_tokens")),
        output_tokens=count_of(means.get("num_output_tokens", means.get("num_completion_tokens"))),
    )  # fmt: skip


def _members(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _member(row: dict[str, Any], name: str) -> dict[str, Any]:
    return _members(row.get(name))


def _first(value: Any) -> Any:
    return cast("list[Any]", value)[0] if isinstance(value, list) and value else value
