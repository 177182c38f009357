"""Sample format: instance-level results of Every Eval Ever (JSON Lines of its schema 0.2 on).

https://github.com/evaleval/every_eval_ever. Its own package needs Python 3.12, so it is not used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from midchart.core.errors import DataError
from midchart.extras.audit.samples import SAMPLE_FORMATS
from midchart.extras.audit.samples.fields import (
    count_of,
    fields_of,
    id_of,
    last_question,
    messages_of,
    number_of,
    prompt_and_answer,
    steps_of,
    text_of,
    texts_of,
)
from midchart.extras.audit.samples.files import (
    LINES,
    Trouble,
    files_of,
    first_object,
    objects,
    place_name,
)
from midchart.extras.audit.samples.sample import Sample

_NEEDED = {"evaluation_id", "evaluation_name", "sample_id", "interaction_type", "evaluation"}


@SAMPLE_FORMATS.register("every_eval_ever")
class EveryEvalEverSamples:
    """One sample an instance; its results by several metrics, line after line, are its scores."""

    name, title = "every_eval_ever", "instances of Every Eval Ever (*_samples.jsonl)"

    def recognises(self, path: Path) -> bool:
        """Whether the first line of a file, or of a folder's first file, is an instance."""
        files = files_of(path, LINES)
        return bool(files) and first_object(files[0]).keys() >= _NEEDED

    def samples(self, path: Path, trouble: Trouble) -> Iterator[Sample]:
        """The instances of a file, or of all files in a folder."""
        for file in files_of(path, LINES):
            before: Sample | None = None
            for place, row in objects(file, place_name(file, path), trouble):
                if not row.keys() >= _NEEDED:
                    missing = ", ".join(sorted(_NEEDED - row.keys()))
                    trouble(str(DataError(place, None, f"lacks {missing}", "export it again")))
                    continue
                sample = _sample(row, place)
                if before is not None and before.id == sample.id:
                    before = replace(before, scores={**before.scores, **sample.scores})
                    continue
                if before is not None:
                    yield before
                before = sample
            if before is not None:
                yield before


def _sample(row: dict[str, Any], place: str) -> Sample:
    given_input, output, evaluation, tokens, metadata = (
        _object(row, name) for name in ("input", "output", "evaluation", "token_usage", "metadata")
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


def _object(row: dict[str, Any], name: str) -> dict[str, Any]:
    value = row.get(name)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _first(value: Any) -> Any:
    return cast("list[Any]", value)[0] if isinstance(value, list) and value else value
