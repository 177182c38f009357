"""Attentions of the EHRSHOT encoder: a training step compared with the plain one, on a CPU.

A step is forward and backward of 64 sequences of 256 events, three quarters of them filled on
average, on one thread. The plain side makes every n×n map and every row of the last layer; both
have the same weights and no dropout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from core.bench import BENCHES, compare, reference

if TYPE_CHECKING:
    from torch import Tensor

    from core.training_experiments.forecast.training import Encoder

BATCH, EVENTS, VOCABULARY = 64, 256, 2000
MAP_BATCH = 16
"""Sequences of the map benches: bisection takes seconds even for these."""


def _batch() -> tuple[Tensor, Tensor, Tensor]:
    """Codes, mask and gate [batch, events]; half of the sequences fill the window."""
    import torch

    draw = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 2 * EVENTS, (BATCH, 1), generator=draw).clamp_max(EVENTS)
    mask = torch.arange(EVENTS) >= EVENTS - lengths
    codes = torch.randint(1, VOCABULARY, mask.shape, generator=draw) * mask
    return codes, mask, torch.rand(mask.shape, generator=draw)


def _encoder(name: str) -> Encoder:
    import torch

    from core.training_experiments.forecast.training import Encoder, EncoderConfig

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Encoder(EncoderConfig(VOCABULARY, name, dropout=0.0))


def _step(name: str, title: str) -> dict[str, Any]:
    """An encoder's step and the plain encoder's with the same weights."""
    from core.training.repeatable import one_thread

    plain, model = reference("encoder"), _encoder(name)
    codes, mask, gate = _batch()
    gates = (gate,) if model.attention.gated else ()

    def fast() -> None:
        model(codes, mask, *gates)[0].square().sum().backward()

    def slow() -> None:
        plain.logits(model, codes, mask, *gates).square().sum().backward()

    size = f"a step of {BATCH} × {EVENTS} events, 2 layers"
    with one_thread():
        return compare(title, size, slow, fast, ask=2, rounds=3)


@BENCHES.register("attention_differential")
def differential() -> dict[str, Any]:
    """Two fused calls and CLS's row alone in the last layer, and explicit maps throughout."""
    return _step("differential", "attention_differential")


@BENCHES.register("attention_gated")
def gated() -> dict[str, Any]:
    """The same with the values scaled by the gate in the place of a map's columns."""
    return _step("gated_differential", "attention_gated")


@BENCHES.register("attention_h2o")
def h2o() -> dict[str, Any]:
    """What is dropped is gone before the first layer, and is masked after computing."""
    return _step("h2o", "attention_h2o")


def _map(name: str) -> dict[str, Any]:
    """One attention, forward and backward, by the exact solution and by bisection."""
    import torch

    from core.attention import ATTENTIONS
    from core.attention.base import Shape
    from core.training.repeatable import one_thread

    plain = getattr(reference("attention"), name)
    module = ATTENTIONS.build(name, Shape())
    draw = torch.Generator().manual_seed(0)
    q, k, v = (
        torch.randn(MAP_BATCH, 4, 1 + EVENTS, 16, generator=draw).requires_grad_() for _ in range(3)
    )
    mask = torch.arange(1 + EVENTS) < torch.arange(EVENTS, 0, -EVENTS // MAP_BATCH)[:, None]
    with one_thread():
        return compare(
            f"attention_{name}",
            f"{MAP_BATCH} × 4 maps of {1 + EVENTS}², forward and backward; bisection of 50",
            lambda: plain(q, k, v, mask).square().sum().backward(),
            lambda: module(q, k, v, mask)[0].square().sum().backward(),
            ask=4,
            rounds=3,
        )


@BENCHES.register("attention_entmax15")
def entmax15() -> dict[str, Any]:
    """1.5-entmax to the last bits by Newton's steps, and by bisection."""
    return _map("entmax15")


@BENCHES.register("attention_sparsemax")
def sparsemax() -> dict[str, Any]:
    """Sparsemax the same way, and by bisection."""
    return _map("sparsemax")
