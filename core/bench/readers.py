"""Readers: concurrent calls of a slow server, and batches of the qwen reader."""

from __future__ import annotations

import importlib
import tempfile
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

from core.bench import BENCHES, compare, reference
from core.errors import WorkFailed
from core.protocol import Protocol
from core.readers import READERS
from core.readers.local_batches import Ids
from core.text.prompt import HEAD, MIDDLE, TAIL
from core.types import Prompt

DELAY_S = 0.05
PROMPTS = 32
NEW = 40
ARMS, QUESTIONS, LINES, RECORD = 7, 4, 20, 100


@BENCHES.register("served")
def served() -> dict[str, Any]:
    """The served reader, with retries and egress checks, compared with a plain loop of requests."""
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


def _prompts() -> list[str]:
    """The prompts of seven arms and four questions about one record."""
    lines = [f"[2019-{i % 12 + 1:02d}-04] Glucose: {80 + 7 * i % 90} mg" for i in range(RECORD)]
    prompts: list[str] = []
    for q in range(QUESTIONS):
        question = f"What was the glucose on day {q}?"
        for arm in range(ARMS):
            shown = lines if arm == 0 else lines[(arm * 7 + q * 3) :: 2][: LINES + arm]
            prompts.append(HEAD + "\n".join(shown) + MIDDLE + question + TAIL)
    return prompts


@BENCHES.register("qwen")
def qwen() -> dict[str, Any]:
    """transformers' generation prompt by prompt, and the reader's batches, with equal answers.

    Seven arms ask four questions about one record: six with some twenty lines each, and ``full``
    with all of it, so that its four prompts share their opening. Weights are random.
    """
    plain = reference("qwen")
    tiny = importlib.import_module("tests.support.tiny_models")
    import torch

    from core.readers.local_engine import Engine, GenerationConfig

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # small matrices: more threads wait for one another, on either side
    with tempfile.TemporaryDirectory() as place, redirect_stderr(StringIO()):
        folder = Path(place)
        tiny.make_qwen(folder, hidden=256, layers=4, talkative=0.0)
        model, tokenizer = plain.load(folder)
        engine = Engine(folder, "float32")
    texts = _prompts()
    ids: list[Ids] = [tokenizer(text, return_tensors="np").input_ids[0] for text in texts]
    options = GenerationConfig(
        NEW, frozenset(tokenizer.convert_tokens_to_ids(list(tiny.CHAT_TOKENS)))
    )

    def fast() -> list[str]:
        responses = dict(engine.read(ids, options))
        outputs = (list(responses[i].ids) for i in range(len(ids)))
        return [tokenizer.decode(output, skip_special_tokens=True).strip() for output in outputs]

    def slow() -> list[str]:
        return plain.answers(model, tokenizer, texts, NEW)

    try:
        if fast() != slow():
            raise WorkFailed("the reader's answers are not those of one prompt after another")
        tokens = sum(len(one) for one in ids)
        size = f"{len(ids)} prompts, {tokens:,} tokens, {NEW} new each"
        return compare("qwen", size, slow, fast, ask=3, rounds=3)
    finally:
        torch.set_num_threads(threads)
