"""Each attention variant equals its reference, its neutral parameters and figures computed by
hand."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from midchart.core.attention import ATTENTIONS
from midchart.core.attention.base import Shape, threshold
from midchart.core.attention.differential import start_of
from midchart.core.attention.h2o import heaviest
from tests.reference import attention as plain
from tests.support.attentions import VARIANTS, build_module, call, gradients, inputs

SHAPE = Shape(2, 8, 1)


def plainly(variant, module, tensors):
    """The reference's output for a module's own parameters."""
    name, options = VARIANTS[variant]
    q, k, v, mask = (tensors[n] for n in ("q", "k", "v", "mask"))
    if name == "h2o":
        return plain.h2o(q, k, v, mask, tensors["norms"], module.share)
    if name == "gated_softmax":
        return plain.gated_softmax(q, k, v, mask, tensors["gate"])
    if "differential" not in name:
        return getattr(plain, name)(q, k, v, mask)
    g = tensors["gate"] if module.gated else None
    g = 1 - g if options.get("sign") == "1-g" else g
    weight = module.norm.weight if module.norm is not None else None
    start = options.get("lambda_init", start_of(1))
    return plain.differential(q, k, v, mask, module.lambda_vectors, start, weight, g)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("queries", [9, 1])
def test_each_variant_equals_its_reference_with_every_gradient(variant, queries):
    module, tensors = build_module(variant), inputs((9, 6, 3), 9, queries)
    names = ["q", "k", "v"] + (["gate"] if module.gated else [])
    leaves = {name: tensors[name].clone().requires_grad_() for name in names}
    out = plainly(variant, module, tensors | leaves)
    mix = torch.randn(out.shape, generator=torch.Generator().manual_seed(2), dtype=out.dtype)
    wanted = leaves | dict(module.named_parameters())
    expected = torch.autograd.grad((out * mix).sum(), list(wanted.values()))
    fast = gradients(module, tensors)
    torch.testing.assert_close(fast["out"], out.detach(), rtol=1e-7, atol=1e-9)
    for name, gradient in zip(wanted, expected, strict=True):
        torch.testing.assert_close(fast[name], gradient, rtol=1e-6, atol=1e-8, msg=name)


def test_the_vectorised_reference_equals_the_readable_one():
    module, tensors = build_module("gated_differential"), inputs()
    q, k, v, mask = (tensors[n] for n in ("q", "k", "v", "mask"))
    options = (module.lambda_vectors, module.lambda_init, module.norm.weight, tensors["gate"])
    torch.testing.assert_close(
        plain.differential_at_once(q, k, v, mask, *options),
        plain.differential(q, k, v, mask, *options),
    )


def build(name, **options):
    return ATTENTIONS.build(name, SHAPE, **options).double()


def halves(tensors):
    """Inputs whose second halves of q and k are 0, and the softmax of the first by itself."""
    cut = {n: tensors[n].clone() for n in ("q", "k")}
    for x in cut.values():
        x[..., 4:] = 0
    # softmax scales by 1/√8, a half by 1/√4
    return plain.softmax(cut["q"] * math.sqrt(2), cut["k"], tensors["v"], tensors["mask"])


def test_differential_with_lambda_0_and_no_norm_is_softmax_of_the_first_halves():
    tensors, module = inputs(), build("differential", lambda_init=0.0, norm=False)
    torch.nn.init.zeros_(module.lambda_vectors)
    assert float(module.strength().detach()) == 0  # e⁰ − e⁰ + 0
    torch.testing.assert_close(call(module, tensors)[0], halves(tensors))


@pytest.mark.parametrize("sign", ["g", "1-g"])
def test_gates_of_0_and_1_give_no_or_full_differential_attention(sign):
    tensors, gated = inputs(), build("gated_differential", sign=sign)
    ungated = build("differential")
    ungated.load_state_dict(gated.state_dict())
    ends = torch.zeros_like(tensors["gate"]), torch.ones_like(tensors["gate"])
    off, on = ends if sign == "g" else ends[::-1]
    assert gated.neutral_gate == float(on[0, 0])
    torch.testing.assert_close(
        call(gated, tensors | {"gate": on})[0], call(ungated, tensors)[0], rtol=0, atol=0
    )
    none = build("gated_differential", sign=sign, norm=False)
    torch.testing.assert_close(call(none, tensors | {"gate": off})[0], halves(tensors))


def test_the_published_sign_subtracts_more_from_a_relevant_key():
    tensors = inputs((7,))
    gate = torch.zeros_like(tensors["gate"])
    gate[:, 2] = 1
    taken = {
        sign: call(
            build("gated_differential", sign=sign), tensors | {"gate": gate}, need_weights=True
        )[1]
        for sign in ("g", "1-g")
    }
    with torch.no_grad():
        assert (taken["g"][..., 2] < taken["1-g"][..., 2]).all()
        assert (taken["g"][..., 3] > taken["1-g"][..., 3]).all()
    with pytest.raises(ValueError, match="Valid: g, 1-g"):
        build("gated_differential", sign="h")


norms = st.lists(st.tuples(st.integers(0, 4).map(float), st.booleans()), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(norms, st.sampled_from([0.1, 0.3, 0.5, 0.9, 1.0]), st.integers(0, 1))
def test_h2o_selects_the_positions_of_a_plain_sort(rows, share, lead):
    sizes, there = [n for n, _ in rows], [t for _, t in rows]
    chosen = heaviest(torch.tensor([sizes]), torch.tensor([there]), share, lead, padding=False)
    assert chosen[0].tolist() == plain.h2o_mask(sizes, there, share, lead)


def test_h2o_rounds_up_keeps_cls_and_breaks_ties_to_the_earlier():
    sizes = torch.tensor([[0.0, 2, 5, 2, 2, 9, 9, 9]])
    there = torch.tensor([[True, True, True, True, True, True, False, False]])
    # Five events: ⌈2.5⌉ = 3, of norms 9, 5 and the earliest 2.
    chosen = heaviest(sizes, there, 0.5, 1, padding=False)
    assert chosen[0].nonzero()[:, 0].tolist() == [0, 1, 2, 5]
    # Published: max(1, ⌊3.5⌋) of all seven places, padding (of norm 0 whatever it is) last.
    chosen = heaviest(sizes, there, 0.5, 1, padding=True)
    assert chosen[0].nonzero()[:, 0].tolist() == [0, 1, 2, 5]


@pytest.mark.parametrize("tensors", [inputs(), inputs(queries=1)])
def test_h2o_that_keeps_all_is_softmax(tensors):
    expected = call(build_module("softmax"), tensors)[0]
    torch.testing.assert_close(call(build("h2o", share=1.0), tensors)[0], expected)
    torch.testing.assert_close(call(build("h2o"), tensors | {"norms": None})[0], expected)
    with pytest.raises(ValueError, match="more than 0"):
        build("h2o", share=0.0)


def weights_of(name, *rows):
    """The weights of one query on keys whose scores are ``rows``."""
    q = torch.ones(len(rows), 1, 1, 1, dtype=torch.float64)
    k = torch.tensor(rows, dtype=torch.float64)[:, None, :, None]
    mask = torch.ones(len(rows), len(rows[0]), dtype=torch.bool)
    module = ATTENTIONS.build(name, Shape(1, 1))
    return module(q, k, k, mask, need_weights=True)[1][:, 0, 0].tolist()


def test_sparse_maps_computed_by_hand():
    # τ = (1 + .5 − 1)/2 = .25 leaves .75 and .25; −1 is under it.
    assert weights_of("sparsemax", [1.0, 0.5, -1.0]) == [[0.75, 0.25, 0.0]]
    # [z/2 − τ]²: .8² + .6² = 1 and .8 − .6 = .4/2, so z = .4 and 0; 2 apart, one takes all.
    weights = weights_of("entmax15", [0.4, 0.0, -3.0], [2.0, 0.0, 0.0])
    assert weights[0] == pytest.approx([0.64, 0.36, 0.0], abs=1e-12)
    assert weights[1] == pytest.approx([1.0, 0.0, 0.0], abs=1e-12) and weights[0][2] == 0


@pytest.mark.parametrize("name", ["entmax15", "sparsemax"])
def test_sparse_maps_sum_to_1_with_exact_zeros_at_any_size_of_scores(name):
    module, tensors = (
        build_module(name, torch.float32),
        inputs(dtype=torch.float32, time=40, lengths=(40, 9)),
    )
    for size in (1e-3, 1.0, 30.0, 1e6):
        grown = tensors | {"q": tensors["q"] * size}
        _, weights = call(module, grown, need_weights=True)
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 40))
        assert (weights >= 0).all()
        zeros = (weights[0] == 0).float().mean()
        assert zeros == 0 if size == 1e-3 else zeros > 0.2
        assert all(torch.isfinite(x).all() for x in gradients(module, grown).values())


rows_of = st.lists(
    st.one_of(st.floats(-4, 0), st.sampled_from([0.0, -1.0, -0.5, -1e-9, -4.0])),
    min_size=1,
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(rows_of, st.sampled_from([1, 2]))
def test_the_threshold_leaves_a_sum_of_1(row, power):
    rows = torch.tensor([[*row, 0.0]], dtype=torch.float64)
    left = (rows - threshold(rows, power)).clamp_min(0).pow(power)
    # The sort takes the root of a difference: half of the digits where the root is near 0.
    assert float(left.sum()) == pytest.approx(1, abs=1e-12 if power == 1 else 1e-7)
