"""Sample format: run folders of HELM (``scenario_state.json``, ``per_instance_stats.json``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from midchart.core.errors import DataError
from midchart.extras.audit.samples import SAMPLE_FORMATS
from midchart.extras.audit.samples.fields import (
    count_of,
    ended_of,
    fields_of,
    id_of,
    messages_of,
    number_of,
    text_of,
    texts_of,
)
from midchart.extras.audit.samples.files import Trouble, document, files_of, listed, place_name
from midchart.extras.audit.samples.sample import Sample

STATE, STATS = "scenario_state.json", "per_instance_stats.json"
_MEASURED = frozenset({
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
        return path.name == STATE

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
            stats = _stats(file.with_name(STATS), place_name(file.with_name(STATS), path), trouble)
            adapter = _members(state.get("adapter_spec"))
            for place, one in listed(cast("list[Any]", states), name, trouble):
                yield _sample(one, place, file.parent.name, adapter, stats)


def _states(path: Path) -> list[Path]:
    return [file for file in files_of(path, (".json",)) if file.name == STATE]


def _members(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


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


def _sample(
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
        scores={name: mean for name, mean in means.items() if name and name not in _MEASURED
                and not name.startswith(("finish_reason", "num_", "inference_"))},
        ended=ended_of(_members(completion.get("finish_reason")).get("reason")),
        input_tokens=count_of(means.get("num_prompt_tokens")),
        output_tokens=count_of(means.get("num_output_tokens", means.get("num_completion_tokens"))),
    )  # fmt: skip
