"""Sample format: results of promptfoo (JSON of version 3 on, or JSON Lines)."""

from __future__ import annotations

from collections.abc import Iterator
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
    steps_of,
    text_of,
    texts_of,
)
from midchart.extras.audit.samples.files import (
    LINES,
    Trouble,
    files_of,
    head_of,
    listed,
    objects,
    place_name,
    suffix_of,
)
from midchart.extras.audit.samples.sample import Sample

_SUFFIXES = (".json", *LINES)


@SAMPLE_FORMATS.register("promptfoo")
class PromptfooSamples:
    """One sample a result: a test case with one prompt and one provider."""

    name, title = "promptfoo", "results of promptfoo (JSON, JSON Lines)"

    def recognises(self, path: Path) -> bool:
        """Whether a file's first bytes are those of promptfoo's results."""
        if path.is_dir():
            return any(self.recognises(file) for file in files_of(path, _SUFFIXES)[:20])
        if suffix_of(path) not in _SUFFIXES:
            return False
        head = head_of(path)
        return all(name in head for name in (b'"provider"', b'"prompt"')) and (
            b'"testIdx"' in head or b'"evalId"' in head or b'"gradingResult"' in head
        )

    def samples(self, path: Path, trouble: Trouble) -> Iterator[Sample]:
        """The results of a file, or of the files in a folder."""
        for file in files_of(path, _SUFFIXES):
            if path.is_dir() and not self.recognises(file):
                continue
            name = place_name(file, path)
            for place, row in objects(file, name, trouble):
                results: Any = row.get("results")
                if isinstance(results, dict):
                    results = cast("dict[str, Any]", results).get("results")
                if not isinstance(results, list):
                    yield from _sample(row, place, trouble)
                    continue
                for each, result in listed(cast("list[Any]", results), name, trouble):
                    yield from _sample(result, each, trouble)


def _sample(row: dict[str, Any], place: str, trouble: Trouble) -> Iterator[Sample]:
    """The sample of a result; none, and a trouble, where it has no prompt."""
    prompt, response, provider = (_object(row, n) for n in ("prompt", "response", "provider"))
    messages = messages_of(prompt.get("raw"))
    if not messages:
        reason, remedy = "has no prompt", "export the results again (promptfoo eval -o FILE)"
        trouble(str(DataError(place, None, reason, remedy)))
        return
    variables = fields_of(_object(row, "vars"))
    tokens = _object(response, "tokenUsage") or _object(row, "tokenUsage")
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
        scores={**scores, **numbers_of(_object(row, "namedScores"))},
        ended=ended_of(response.get("finishReason")),
        input_tokens=count_of(tokens.get("prompt")),
        output_tokens=count_of(tokens.get("completion")),
        cost_usd=number_of(row.get("cost")),
    )


def _object(row: dict[str, Any], name: str) -> dict[str, Any]:
    value = row.get(name)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
