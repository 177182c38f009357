"""Sample format: logs of Inspect AI (``.eval`` and ``.json``), read by its own package."""

from __future__ import annotations

import importlib
import importlib.util
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from midchart.core.errors import DataError, missing_package
from midchart.core.storage.files import temporary_folder
from midchart.core.storage.sources import Source, UntrustedZip
from midchart.extras.audit.samples import SAMPLE_FORMATS
from midchart.extras.audit.samples.fields import (
    last_question,
    messages_of,
    number_of,
    prompt_and_answer,
    sample_of,
)
from midchart.extras.audit.samples.files import (
    LARGEST_DOCUMENT,
    FileFormat,
    Trouble,
)
from midchart.extras.audit.samples.sample import Message, Sample

_MOST_MEMBERS = 500_000
_MOST_UNPACKED = 64 << 30
_LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
"""Inspect's values of scores: correct, incorrect, partial and no answer."""


@SAMPLE_FORMATS.register("inspect")
class InspectSamples(FileFormat):
    """A log, or the logs in a folder; one sample a question, epoch and log."""

    name, title = "inspect", "log of Inspect AI (.eval, .json)"

    suffixes: ClassVar = (".eval", ".json")

    def has(self, file: Source) -> bool:
        head = file.start(1 << 12)
        if file.ending == ".eval":
            return head.startswith(b"PK")
        return b'"eval"' in head and b'"version"' in head and b'"status"' in head

    def read(self, file: Source, trouble: Trouble) -> Iterator[Sample]:
        """Raises MissingModel where the package ``inspect_ai`` is not installed."""
        if importlib.util.find_spec("inspect_ai") is None:
            raise missing_package("inspect-ai", "inspect")
        with temporary_folder() as folder:
            yield from _log_samples(_private_copy(file, folder), file.name, trouble)


def _private_copy(log: Source, folder: Path) -> Path:
    """A copy, held to limits, of a log that another package opens by its name; raises DataError."""
    path, name = folder / f"log{log.ending}", log.name
    with log.open() as file, path.open("xb") as copy:
        shutil.copyfileobj(file, copy)
    if path.suffix == ".json" and path.stat().st_size > LARGEST_DOCUMENT:
        raise DataError(name, None, f"has more than {LARGEST_DOCUMENT >> 20} MB", "split it")
    if path.suffix == ".eval":
        with path.open("rb") as packed:
            sizes = UntrustedZip(packed, name).check(_MOST_MEMBERS, _MOST_UNPACKED)
        if max(sizes.values(), default=0) > LARGEST_DOCUMENT:
            limit = f"holds a file of more than {LARGEST_DOCUMENT >> 20} MB"
            raise DataError(name, None, limit, "log without images or large attachments")
    return path


def _log_samples(path: Path, name: str, trouble: Trouble) -> Iterator[Sample]:
    log: Any = importlib.import_module("inspect_ai.log")
    remedy = "open it with `inspect view`, or export it again"
    try:
        header: Any = log.read_eval_log(str(path), header_only=True)
        if path.suffix == ".json":
            read = iter(log.read_eval_log(str(path), resolve_attachments=True).samples or ())
            header_samples = None
        else:
            header_samples = log.read_eval_log_sample_summaries(str(path))
            read = iter(())
    except Exception as error:  # noqa: BLE001 - another package's reader; named in one line
        raise DataError(name, None, f"cannot be read ({type(error).__name__})", remedy) from None
    if header_samples is None:
        for sample in read:
            yield _sample(sample, header, f"{name}: sample {sample.id} epoch {sample.epoch}")
        return
    # Sample by sample: a log may be larger than memory, and one that is damaged costs itself.
    for summary in header_samples:
        place = f"{name}: sample {summary.id} epoch {summary.epoch}"
        try:
            sample = log.read_eval_log_sample(
                str(path), id=summary.id, epoch=summary.epoch, resolve_attachments=True
            )
        except Exception as error:  # noqa: BLE001 - as above
            reason = f"cannot be read ({type(error).__name__})"
            trouble(str(DataError(place, None, reason, remedy)))
            continue
        yield _sample(sample, header, place)


def _sample(sample: Any, header: Any, place: str) -> Sample:
    prompt, _ = prompt_and_answer(_messages(sample.messages))
    asked = sample.input if isinstance(sample.input, str) else _messages(sample.input)
    prompt = prompt or (messages_of(asked) if isinstance(asked, str) else asked)
    output = sample.output
    choice = output.choices[0] if output and output.choices else None
    usage = (sample.model_usage or {}).get(header.eval.model) or (output and output.usage)
    return sample_of(
        f"{header.eval.run_id}/{header.eval.task_id}/{sample.id}/{sample.epoch}",
        place,
        sample.metadata,
        prompt,
        question=asked if isinstance(asked, str) else last_question(asked),
        answer=choice.message.text if choice else "",
        options=sample.choices,
        reference=sample.target,
        model=header.eval.model,
        task=header.eval.task,
        scores=_scores(sample.scores or {}),
        ended=choice.stop_reason if choice else "",
        input_tokens=getattr(usage, "input_tokens", None),
        output_tokens=getattr(usage, "output_tokens", None),
        cost_usd=getattr(usage, "total_cost", None),
    )


def _messages(messages: Any) -> tuple[Message, ...]:
    return tuple(Message(one.role, one.text) for one in messages)


def _scores(scores: Mapping[str, Any]) -> dict[str, float]:
    """Values by scorer, those of a scorer with several by ``scorer/name``."""
    numbers: dict[str, float] = {}
    for name, score in scores.items():
        parts = score.value if isinstance(score.value, dict) else {"": score.value}
        for part, value in parts.items():
            known = _LETTERS.get(value) if isinstance(value, str) else None
            number = number_of(value) if known is None else known
            if number is not None:
                numbers[f"{name}/{part}" if part else name] = number
    return numbers
