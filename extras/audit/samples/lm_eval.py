"""Sample format: lm-evaluation-harness (``samples_*.jsonl`` with ``results_*.json``)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from midchart.core.errors import DataError
from midchart.extras.audit.samples import SAMPLE_FORMATS
from midchart.extras.audit.samples.fields import (
    fields_of,
    id_of,
    last_question,
    messages_of,
    number_of,
    steps_of,
    text_of,
    texts_of,
    unpacked,
)
from midchart.extras.audit.samples.files import (
    Trouble,
    document,
    files_of,
    first_object,
    objects,
    place_name,
)
from midchart.extras.audit.samples.sample import Sample

_FILE = re.compile(r"samples_(?P<task>.+)_(?P<time>\d{4}-\d{2}-\d{2}T[\d.:-]+)\.jsonl(\.gz)?")


@SAMPLE_FORMATS.register("lm_eval")
class LmEvalSamples:
    """One sample a document and filter; model and task by the results and the file names."""

    name, title = "lm_eval", "samples of lm-evaluation-harness (--log_samples)"

    def recognises(self, path: Path) -> bool:
        """Whether a file, or the first such file of a folder, has the harness's columns."""
        files = _sample_files(path)
        if path.is_file() and not files:
            files = files_of(path, (".jsonl",))
        return bool(files) and {"doc_id", "doc", "arguments"} <= first_object(files[0]).keys()

    def samples(self, path: Path, trouble: Trouble) -> Iterator[Sample]:
        """The samples of a file, or of all such files in a folder."""
        for file in [path] if path.is_file() else _sample_files(path):
            name = place_name(file, path)
            named = _FILE.fullmatch(file.name)
            task = named["task"] if named else file.stem
            model = _model(file, named["time"] if named else "", trouble)
            for place, row in objects(file, name, trouble):
                sample = _sample(row, place, task, model)
                if sample is None:
                    reason = "has no prompt"
                    trouble(str(DataError(place, None, reason, "run with --log_samples")))
                else:
                    yield sample


def _sample_files(path: Path) -> list[Path]:
    return [file for file in files_of(path, (".jsonl",)) if _FILE.fullmatch(file.name)]


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


def _sample(row: dict[str, Any], place: str, task: str, model: str) -> Sample | None:
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


def _first(value: Any) -> Any:
    return cast("list[Any]", value)[0] if isinstance(value, list) and value else value


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
