"""Sample formats of evaluation programs: promptfoo, Every Eval Ever, lm-evaluation-harness, HELM.

https://github.com/evaleval/every_eval_ever has a package, which needs Python 3.12, so it is not
used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from midchart.core.errors import DataError
from midchart.core.storage.sources import Source
from midchart.extras.audit.samples import SAMPLE_FORMATS
from midchart.extras.audit.samples.fields import (
    at,
    first_at,
    id_of,
    messages_of,
    number_of,
    numbers_of,
    prompt_and_answer,
    sample_of,
    text_of,
    texts_of,
    unpacked,
)
from midchart.extras.audit.samples.files import (
    HEAD,
    LINES,
    FileFormat,
    Trouble,
    document,
    first_object,
    listed,
    objects,
    unreadable,
)
from midchart.extras.audit.samples.sample import Sample

Row = dict[str, Any]


@SAMPLE_FORMATS.register("promptfoo")
class PromptfooSamples(FileFormat):
    """One sample a result: a test case with one prompt and one provider."""

    name, title = "promptfoo", "results of promptfoo (JSON, JSON Lines)"
    suffixes: ClassVar = (".json", *LINES)

    def has(self, file: Source) -> bool:
        head = file.start(HEAD)
        return all(name in head for name in (b'"provider"', b'"prompt"')) and any(
            name in head for name in (b'"testIdx"', b'"evalId"', b'"gradingResult"')
        )

    def read(self, file: Source, trouble: Trouble) -> Iterator[Sample]:
        for place, row in objects(file, trouble):
            results = first_at(row, "results.results", "results")
            rows = (
                listed(results, file.name, trouble) if isinstance(results, list) else [(place, row)]
            )
            for each, result in rows:
                if messages := messages_of(at(result, "prompt.raw")):
                    yield _of_promptfoo(result, each, messages)
                else:
                    remedy = "export the results again (promptfoo eval -o FILE)"
                    trouble(unreadable(each, "has no prompt", remedy))


def _of_promptfoo(row: Row, place: str, messages: Any) -> Sample:
    template = id_of(row.get("promptId"))  # its label is its text by default
    tokens = first_at(row, "response.tokenUsage", "tokenUsage")
    passed = numbers_of({"pass": row.get("success"), "score": row.get("score")})
    return sample_of(
        id_of(row.get("id")) or place,
        place,
        row.get("vars"),
        messages,
        answer=at(row, "response.output"),
        model=first_at(row, "provider.label", "provider.id"),
        system=f"prompt {template[:8]}" if template else "",
        scores={**passed, **numbers_of(row.get("namedScores"))},
        ended=at(row, "response.finishReason"),
        input_tokens=at(tokens, "prompt"),
        output_tokens=at(tokens, "completion"),
        cost_usd=row.get("cost"),
    )


_INSTANCE = {"evaluation_id", "evaluation_name", "sample_id", "interaction_type", "evaluation"}


@SAMPLE_FORMATS.register("every_eval_ever")
class EveryEvalEverSamples(FileFormat):
    """One sample an instance; its results by several metrics, line after line, are its scores."""

    name, title = "every_eval_ever", "instances of Every Eval Ever (*_samples.jsonl)"
    suffixes: ClassVar = LINES

    def has(self, file: Source) -> bool:
        return first_object(file).keys() >= _INSTANCE

    def read(self, file: Source, trouble: Trouble) -> Iterator[Sample]:
        before: Sample | None = None
        for place, row in objects(file, trouble):
            if missing := ", ".join(sorted(_INSTANCE - row.keys())):
                trouble(unreadable(place, f"lacks {missing}", "export it again"))
                continue
            sample = _of_every_eval_ever(row, place)
            if before is not None and before.id == sample.id:
                sample = replace(before, scores={**before.scores, **sample.scores})
            elif before is not None:
                yield before
            before = sample
        if before is not None:
            yield before


def _of_every_eval_ever(row: Row, place: str) -> Sample:
    raw = at(row, "input.raw")
    messages, answer = prompt_and_answer(messages_of(row.get("messages")))
    if not messages:
        messages = messages_of(at(row, "input.formatted") or text_of(raw))
        answer = _first(at(row, "output.raw"))
    metric = id_of(row.get("evaluation_result_id")) or "score"
    return sample_of(
        f"{id_of(row.get('evaluation_id'))}/{id_of(row.get('sample_id'))}",
        place,
        row.get("metadata"),
        messages,
        question=raw,
        answer=answer,
        options=at(row, "input.choices"),
        reference=at(row, "input.reference"),
        model=row.get("model_id"),
        task=row.get("evaluation_name"),
        scores={metric: at(row, "evaluation.score")},
        input_tokens=at(row, "token_usage.input_tokens"),
        output_tokens=at(row, "token_usage.output_tokens"),
    )


_SAMPLES_FILE = re.compile(
    r"samples_(?P<task>.+)_(?P<time>\d{4}-\d{2}-\d{2}T[\d.:-]+)\.jsonl(\.gz)?"
)


@SAMPLE_FORMATS.register("lm_eval")
class LmEvalSamples(FileFormat):
    """One sample a document and filter; model and task by the results and the file names."""

    name, title = "lm_eval", "samples of lm-evaluation-harness (--log_samples)"
    suffixes: ClassVar = (".jsonl",)

    def has(self, file: Source) -> bool:
        return {"doc_id", "doc", "arguments"} <= first_object(file).keys()

    def read(self, file: Source, trouble: Trouble) -> Iterator[Sample]:
        named = _SAMPLES_FILE.fullmatch(file.own_name)
        # The model of the results file of the same time, else the name of the folder.
        model = file.parent.own_name
        results = file.parent.within(f"results_{named['time']}.json") if named else file
        if named and results.is_file():
            try:
                facts = document(results)
                model = id_of(first_at(facts, "model_name", "model_source")) or model
            except DataError as error:
                trouble(str(error))
        for place, row in objects(file, trouble):
            arguments = row.get("arguments")  # a list before version 0.4.5
            calls = list(arguments.values()) if isinstance(arguments, dict) else (
                arguments if isinstance(arguments, list) else []
            )  # fmt: skip
            if calls:
                task = named["task"] if named else file.stem
                yield _of_lm_eval(row, place, task, model, [_pair(call) for call in calls])
            else:
                trouble(unreadable(place, "has no prompt", "run with --log_samples"))


def _of_lm_eval(
    row: Row, place: str, task: str, model: str, pairs: list[tuple[Any, Any]]
) -> Sample:
    # Requests with a text as second argument rank continuations; the others generate an answer.
    ranked = [text.strip() for _, text in pairs if isinstance(text, str)]
    options = tuple(ranked) if len(ranked) == len(pairs) > 1 else ()
    wanted = row.get("target")
    chosen = number_of(wanted)
    if options and chosen is not None and 0 <= chosen < len(options):
        wanted = options[int(chosen)]
    filtered = id_of(row.get("filter"))
    suffix = f"/{filtered}" if filtered not in ("", "none") else ""
    metrics = row.get("metrics")
    names = metrics if isinstance(metrics, list) else []
    return sample_of(
        f"{model}/{task}/{id_of(row.get('doc_id')) or place}{suffix}",
        place,
        row.get("doc"),
        messages_of(unpacked(pairs[0][0])),
        answer=_ranked_first(row, options) if options else _first(row.get("filtered_resps")),
        options=options,
        reference=wanted,
        model=model,
        system=filtered if suffix else "",
        task=task,
        scores={name: row.get(name) for name in names if isinstance(name, str)},
    )


def _pair(call: Any) -> tuple[Any, Any]:
    """The arguments of a request: prompt, and generation options or the continuation."""
    if isinstance(call, dict):
        return at(call, "arg_0"), at(call, "arg_1")
    values = call if isinstance(call, list) else [call]
    return (values[0] if values else ""), (values[1] if len(values) > 1 else None)


def _ranked_first(row: Row, options: tuple[str, ...]) -> str:
    """The option of the highest log-likelihood; "" where these are not all there."""
    values = row.get("filtered_resps")
    listed_values = values if isinstance(values, list) else []
    known = [n for one in listed_values if (n := number_of(_first(one))) is not None]
    if not len(known) == len(listed_values) == len(options):
        return ""
    return options[known.index(max(known))]


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
class HelmSamples(FileFormat):
    """One sample a request state; statistics of an instance are its scores."""

    name, title = "helm", "run folder of HELM (scenario_state.json)"
    suffixes: ClassVar = (".json",)

    def has(self, file: Source) -> bool:
        return file.own_name == "scenario_state.json"

    def recognises(self, path: Path) -> bool:
        if path.is_dir():
            return any(path.rglob("scenario_state.json"))
        return self.has(Source.at(path))

    def read(self, file: Source, trouble: Trouble) -> Iterator[Sample]:
        state = document(file)
        states = at(state, "request_states")
        if not isinstance(states, list):
            raise DataError(file.name, None, "has no request_states", "run helm-run again")
        stats = _stats(file.parent.within("per_instance_stats.json"), trouble)
        model, run = at(state, "adapter_spec.model"), file.parent.own_name
        for place, one in listed(states, file.name, trouble):
            yield _of_helm(one, place, run, model, stats)


def _objects(value: Any) -> list[Row]:
    values = value if isinstance(value, list) else []
    return [one for one in values if isinstance(one, dict)]


def _stats(file: Source, trouble: Trouble) -> dict[_Key, dict[str, float]]:
    """The mean of each statistic by instance, trial and perturbation."""
    stats: dict[_Key, dict[str, float]] = {}
    try:
        if not file.is_file():
            raise DataError(file.name, None, "there is no such file", "copy the run's whole folder")
        rows = _objects(document(file))
    except DataError as error:
        trouble(str(error))
        return stats
    for one in rows:
        means = stats.setdefault(_key(one, one.get("instance_id"), one.get("perturbation")), {})
        pairs = {id_of(at(s, "name.name")): s.get("mean") for s in _objects(one.get("stats"))}
        means |= numbers_of(pairs)
    return stats


def _key(row: Row, instance: Any, perturbation: Any) -> _Key:
    trial = id_of(row.get("train_trial_index"))
    return id_of(instance), trial, id_of(at(perturbation, "name"))


def _of_helm(
    state: Row, place: str, run: str, model: Any, stats: Mapping[_Key, dict[str, float]]
) -> Sample:
    key = _key(state, at(state, "instance.id"), at(state, "instance.perturbation"))
    means = stats.get(key, {})
    completion = next(iter(_objects(at(state, "result.completions"))), {})
    references = _objects(at(state, "instance.references"))
    mapping = state.get("output_mapping")
    return sample_of(
        "/".join(filter(None, (run, *key))),
        place,
        at(state, "instance.extra_data"),
        messages_of(first_at(state, "request.messages", "request.prompt")),
        question=at(state, "instance.input.text"),
        answer=completion.get("text"),
        options=list(mapping.values()) if isinstance(mapping, dict) else None,
        reference=[
            text_of(at(one, "output.text"))
            for one in references
            if "correct" in texts_of(one.get("tags"))
        ],
        model=model or at(state, "request.model"),
        task=run.partition(":")[0],
        scores={
            name: mean
            for name, mean in means.items()
            if name
            and name not in _NO_SCORES
            and not name.startswith(("finish_reason", "num_", "inference_"))
        },
        ended=at(completion, "finish_reason.reason"),
        input_tokens=means.get("num_prompt_tokens"),
        output_tokens=means.get("num_output_tokens", means.get("num_completion_tokens")),
    )


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else value
