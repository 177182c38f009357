"""The encoder equals its reference for every attention; variants differ in the attention only."""

from __future__ import annotations

import pytest
import torch

from midchart.core.attention import ATTENTIONS
from midchart.core.training_experiments.forecast.training import Encoder, EncoderConfig
from tests.reference import encoder as plain
from tests.support.attentions import NAMES

TIME = 12


def encoder(name, dtype=torch.float64, **more):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Encoder(EncoderConfig(30, name, positions=TIME, **more)).to(dtype)


def batch(lengths=(12, 7, 1), time=TIME):
    draw = torch.Generator().manual_seed(3)
    mask = torch.arange(time) >= time - torch.tensor(lengths)[:, None]
    codes = torch.randint(1, 30, mask.shape, generator=draw, dtype=torch.int32) * mask
    gate = torch.rand(mask.shape, generator=draw, dtype=torch.float64)
    return codes, mask, gate


def gradients(model, out):
    mix = torch.tensor([1.0, -2.0, 0.7], dtype=out.dtype)
    named = dict(model.named_parameters())
    gradient = torch.autograd.grad((out * mix).sum(), list(named.values()))
    return dict(zip(named, gradient, strict=True))


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("name", NAMES)
def test_the_encoder_equals_the_reference_with_every_gradient(name, norm):
    model = encoder(name, norm=norm).eval()
    codes, mask, gate = batch()
    gate = gate if model.attention.gated else None
    out, maps = model(codes, mask, gate)
    assert maps == ()
    expected = plain.logits(model, codes, mask, gate)
    torch.testing.assert_close(out, expected, rtol=1e-7, atol=1e-9)
    fast, slow = gradients(model, out), gradients(model, expected)
    for key in fast:
        torch.testing.assert_close(fast[key], slow[key], rtol=1e-6, atol=1e-8, msg=key)


@pytest.mark.parametrize("name", NAMES)
def test_requesting_attention_maps_does_not_change_forecasts(name):
    model = encoder(name).eval()
    codes, mask, gate = batch()
    gate = gate if model.attention.gated else None
    out, maps = model(codes, mask, gate, need_weights=True)
    torch.testing.assert_close(out, model(codes, mask, gate)[0])
    assert [tuple(m.shape) for m in maps] == [(3, 4, 13, 13)] * 2
    assert all((m[:, :, :, 1:].movedim(-1, 1)[~mask] == 0).all() for m in maps)
    if name == "h2o":  # CLS, and 6 of 12, 4 of 7, 1 of 1
        assert (maps[0] > 0).any(2).sum(-1)[:, 0].tolist() == [7, 5, 2]


def test_variants_of_one_seed_share_all_but_the_attention():
    states = {name: encoder(name).state_dict() for name in NAMES}
    for name, state in states.items():
        shared = {key: x for key, x in state.items() if ".attention." not in key}
        in_attention = sum(x.numel() for key, x in state.items() if ".attention." in key)
        # two layers of 4 λ vectors of 8 and a norm of 16
        assert in_attention == (2 * (4 * 8 + 16) if "differential" in name else 0)
        assert all(torch.equal(x, states["softmax"][key]) for key, x in shared.items())


@pytest.mark.parametrize("name", ATTENTIONS.names())
def test_a_patient_without_events_has_a_forecast(name):
    model = encoder(name).eval()
    codes, mask, gate = batch((3, 0, 2))
    out, _ = model(codes, mask, gate if model.attention.gated else None)
    assert torch.isfinite(out).all()
    assert all(torch.isfinite(x).all() for x in gradients(model, out).values())
