"""A whole EHRSHOT-sized training on a GPU, each attention, as a share of its computed floor.

``python -m core bench ehrshot_gpu_softmax`` (and the other attentions) on a machine with a GPU;
without one it says so in one line. Events are drawn; labels, lengths and vocabulary are of the
size of EHRSHOT's anemia. Two epochs are trained and evaluated on tuning; the second, with
everything warm, is the time of each of forty.

The floor is what the card cannot beat: the arithmetic of all sequences at its matrix rate, or
their traffic at its bandwidth, whichever takes longer, both measured in the same process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from core.attention import ATTENTIONS
from core.bench import BENCHES
from core.errors import InputError

if TYPE_CHECKING:
    from core.training_experiments.forecast.examples import Examples

LABELS = {"train": 70_501, "tuning": 56_224}
"""EHRSHOT's anemia."""
EVENTS, VOCABULARY, EPOCHS = 256, 20_000, 40
FLOP = 253e6
"""Multiplications and additions of one sequence, forward and backward."""
BYTES = 3.6e6
"""What the activations of one sequence move, forward and backward, in bfloat16."""
FORWARD = 1 / 3
"""The share of either that examining alone takes."""
ASK_S = 60.0


def drawn(train: int, tuning: int, events: int = EVENTS, vocabulary: int = VOCABULARY) -> Examples:
    """Examples of drawn tokens, half of which fill the window; labels hang on a token's count."""
    import numpy as np

    from core.training_experiments.forecast.examples import Examples, Part, Vocabulary

    rng = np.random.default_rng(0)
    parts: list[Part] = []
    at = 0
    for n in (train, tuning, 256):
        tokens = (vocabulary * rng.random((n, events)) ** 3).astype(np.int32).clip(2)
        lengths = rng.integers(1, 2 * events, n).clip(max=events)
        tokens[np.arange(events) < (events - lengths)[:, None]] = 0
        often = (tokens == 2).sum(1)
        label = (often > np.median(often)).astype(np.uint8)
        label[:2] = (0, 1)
        index = at + np.arange(n)
        parts.append(Part(tokens, label, index, index))
        at += n
    first = np.arange(vocabulary, dtype=np.int32)
    return Examples("anemia", Vocabulary(first, {}, vocabulary), *parts)


def seconds_of(name: str, examples: Examples, device: str, **shape: Any) -> float:
    """Seconds of the second of two epochs of training and examining on tuning."""
    from core.training_experiments.forecast.spec import Recipe
    from core.training_experiments.forecast.training import EncoderConfig, ForecastTrainer

    size, events = examples.vocabulary.size, examples.train.tokens.shape[1]
    config = EncoderConfig(size, name, {}, events, **shape)
    texts = tuple(f"code {i}" if i else "" for i in range(size))
    trainer = ForecastTrainer(examples, config, Recipe(epochs=2), "anemia?", texts, device)
    trainer.run()
    return trainer.history[-1].seconds


def card() -> tuple[float, float]:
    """Matrix rate in FLOP/s (bfloat16) and bandwidth in bytes/s of this machine's GPU."""
    import torch

    side = 8192
    a = torch.randn(side, side, device="cuda", dtype=torch.bfloat16)
    b = torch.empty(1 << 30, device="cuda", dtype=torch.uint8)
    c = torch.empty_like(b)
    return 2 * side**3 / _seconds(lambda: a @ a), 2 * len(b) / _seconds(lambda: c.copy_(b))


def _seconds(work: Callable[[], Any], rounds: int = 20) -> float:
    """Seconds of one call on the GPU, once warm."""
    import torch

    for _ in range(3):
        work()
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(rounds):
        work()
    torch.cuda.synchronize()
    return (time.perf_counter() - begun) / rounds


def floor_s(train: int, tuning: int, rate: float, bandwidth: float) -> float:
    """Seconds that a training of so many labels a pass takes at least on such a card."""
    passes = EPOCHS * (train + FORWARD * tuning)
    return passes * max(FLOP / rate, BYTES / bandwidth)


def full_training(name: str) -> dict[str, Any]:
    """An attention's training and its floor, measured; raises InputError without a GPU."""
    import torch

    if not torch.cuda.is_available():
        raise InputError(
            f"bench ehrshot_gpu_{name} measures a GPU, and none can be used here; run it on a "
            "machine with one (torch.cuda.is_available() must be true)"
        )
    taken = EPOCHS * seconds_of(name, drawn(LABELS["train"], LABELS["tuning"]), "cuda")
    floor = floor_s(LABELS["train"], LABELS["tuning"], *card())
    return {
        "name": f"ehrshot_gpu_{name}",
        "size": f"{EPOCHS} epochs of {LABELS['train']:,} × {EVENTS} events on "
        f"{torch.cuda.get_device_name()}; reference: the computed floor, ratio: its share",
        "reference_ms": round(1e3 * floor, 1),
        "fast_ms": round(1e3 * taken, 1),
        "ratio": round(floor / taken, 4),
        "ask": round(floor / ASK_S, 4),
        "reached": taken <= ASK_S,
    }


for _name in ATTENTIONS.names():
    BENCHES.register(f"ehrshot_gpu_{_name}")(partial(full_training, _name))
