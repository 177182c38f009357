"""A slow server asked by eight calls at a time, and by one after another."""

from __future__ import annotations

from typing import Any

from core.bench import BENCHES, compare, reference
from core.protocol import Protocol
from core.readers import READERS
from core.text.prompt import HEAD, MIDDLE, TAIL
from core.types import Prompt

DELAY_S = 0.05
PROMPTS = 32


@BENCHES.register("served")
def served() -> dict[str, Any]:
    """The served reader, with its retries and its guard, beside a plain loop of requests."""
    plain = reference("served")
    texts = [
        f"{HEAD}[2020-01-02] Patient takes lisinopril {i} mg{MIDDLE}What dose of lisinopril?{TAIL}"
        for i in range(PROMPTS)
    ]
    prompts = [Prompt(text, "What dose of lisinopril?", (), 40) for text in texts]
    with plain.slow_server(DELAY_S) as server:
        reader: Any = READERS.build(
            "served", Protocol(), url=f"{server.url}/v1", model="tiny", window=4096
        )
        return compare(
            "served",
            f"{PROMPTS} prompts, {1e3 * DELAY_S:.0f} ms each, 8 at a time",
            lambda: plain.one_by_one(server.url, texts, 128),
            lambda: list(reader.read_many(prompts)),
            ask=4,
            rounds=3,
        )
