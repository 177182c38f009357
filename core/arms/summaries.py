"""Summaries of parts of a record by a reader, cached on disk.

A summary does not depend on the question it will serve, so other questions on the record and a
resumed run find it on disk. Its key is the reader's ``identity`` (what its answers depend on) and
the prompt. A reader without an ``identity`` is called again by every process.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path

from core import config as settings
from core.errors import WorkFailed
from core.interfaces import Reader, read_each
from core.protocol import Protocol
from core.storage.files import replacing
from core.types import Answer, Prompt

LOG = logging.getLogger("midchart.summaries")


@dataclass(frozen=True, slots=True)
class Summary:
    """A reader's summary, with its input and output tokens."""

    text: str
    prompt_tokens: int
    output_tokens: int


def _digest(*parts: str) -> str:
    spelled = "".join(f"{len(part)}:{part}" for part in parts)
    return blake2b(spelled.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class Summaries:
    """The summaries of one reader; ``asked`` counts the prompts that it read."""

    def __init__(self, reader: Reader, protocol: Protocol) -> None:
        self.reader, self.asked = reader, 0
        self._known: dict[str, Summary] = {}
        identity: str = getattr(reader, "identity", "")
        self._folder: Path | None = None
        if identity:
            digest = _digest(reader.name, identity, str(protocol.answer_tokens))
            self._folder = settings.cache_folder() / "summaries" / digest

    def of(self, prompts: Sequence[Prompt]) -> list[Summary]:
        """A summary for each prompt; equal prompts are asked once.

        Raises WorkFailed where the reader fails; what it wrote before is kept.
        """
        keys = [_digest(prompt.text) for prompt in prompts]
        missing = {
            key: prompt
            for key, prompt in zip(keys, prompts, strict=True)
            if key not in self._known and not self._find(key)
        }
        reason = "the reader gave none"
        todo = list(missing.items())
        with closing(read_each(self.reader, [prompt for _, prompt in todo])) as answers:
            for index, answer in answers:
                self.asked += 1
                if answer.status == "ok":
                    self._keep(todo[index][0], answer, todo[index][1])
                else:
                    reason = answer.reason or "no reason was given"
        lacking = sum(key not in self._known for key, _ in todo)
        if lacking:
            raise WorkFailed(f"{lacking} of {len(keys)} summaries failed: {reason}")
        return [self._known[key] for key in keys]

    def _keep(self, key: str, answer: Answer, prompt: Prompt) -> None:
        tokens = answer.prompt_tokens or prompt.tokens
        self._known[key] = Summary(answer.text.strip(), tokens, answer.output_tokens)
        if self._folder is not None:
            with replacing(self._folder / f"{key}.json") as fresh:
                fresh.write_text(json.dumps(asdict(self._known[key])), encoding="ascii")

    def _find(self, key: str) -> bool:
        """Whether the summary is on disk; if so, it is loaded."""
        path = self._folder / f"{key}.json" if self._folder is not None else None
        if path is None or not path.is_file():
            return False
        try:
            self._known[key] = Summary(**json.loads(path.read_text(encoding="ascii")))
        except (ValueError, TypeError):
            LOG.warning("%s is corrupt; the summary is requested again", path)
            return False
        return True
