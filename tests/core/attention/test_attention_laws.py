"""Properties of every attention variant: mask, gradients, determinism, sums, no NaN."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from midchart.core.attention import ATTENTIONS
from midchart.core.attention.base import Shape
from midchart.core.errors import UnknownName
from tests.support.attentions import NAMES, VARIANTS, build_module, call, gradients, inputs


@pytest.mark.slow
def test_the_family_is_the_papers_and_listing_it_loads_no_torch():
    code = (
        "import sys; from midchart.core.attention import ATTENTIONS; print(*ATTENTIONS.names());"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names, loaded = done.stdout.splitlines()
    assert names.split() == sorted(NAMES)
    assert loaded == "False"
    with pytest.raises(UnknownName, match="sparsemax"):
        ATTENTIONS.build("sparsmax", Shape())


@pytest.mark.parametrize("variant", VARIANTS)
def test_padding_changes_nothing(variant):
    module, tensors = build_module(variant), inputs()
    before, weights = call(module, tensors, need_weights=True)
    other = tensors | {"k": tensors["k"].clone(), "v": tensors["v"].clone()}
    hidden = ~tensors["mask"][:, None, :, None]
    other["k"] = torch.where(hidden, 50 * torch.randn_like(other["k"]), other["k"])
    other["v"] = torch.where(hidden, 50 * torch.randn_like(other["v"]), other["v"])
    for need in (True, False):
        torch.testing.assert_close(call(module, other, need_weights=need)[0], before)
    assert (weights.masked_select(~tensors["mask"][:, None, None, :]) == 0).all()


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_shorter_sequence_gives_what_padding_it_gives(variant):
    module, tensors = build_module(variant), inputs(lengths=(5, 5, 5))
    short = {
        name: x[:, :5] if x.dim() == 2 else x[:, :, :5]
        for name, x in tensors.items()
        if name != "q"
    } | {"q": tensors["q"]}
    torch.testing.assert_close(call(module, tensors)[0], call(module, short)[0])


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("queries", [7, 1])
def test_fast_path_and_reference_path_agree_with_every_gradient(variant, queries):
    module, tensors = build_module(variant), inputs(queries=queries)
    fast, readable = (gradients(module, tensors, need_weights=need) for need in (False, True))
    assert fast.keys() == readable.keys() >= {"q", "k", "v"}
    for name in fast:
        torch.testing.assert_close(fast[name], readable[name], rtol=1e-9, atol=1e-11)
    assert all(fast[name].abs().max() > 1e-6 for name in ("q", "k", "v"))


@pytest.mark.parametrize("variant", [name for name in VARIANTS if name != "h2o"])
@pytest.mark.parametrize("need", [False, True])
def test_masks_and_gates_may_differ_by_query(variant, need):
    module, tensors = build_module(variant), inputs()
    wide = tensors | {
        name: tensors[name][:, None].expand(-1, 7, -1) for name in ("mask", "gate")
    }  # the same for all who look
    for name, gradient in gradients(module, wide, need_weights=need).items():
        expected = gradients(module, tensors, need_weights=need)[name]
        if name == "gate":
            gradient = gradient.sum(1)
        torch.testing.assert_close(gradient, expected, rtol=1e-9, atol=1e-11)
    causal = wide["mask"] & torch.ones(7, 7, dtype=torch.bool).tril()
    draw = torch.Generator().manual_seed(3)
    per_query = wide | {"mask": causal, "gate": torch.rand(3, 7, 7, generator=draw).double()}
    fast, readable = (gradients(module, per_query, need_weights=w) for w in (False, True))
    for name in fast:
        torch.testing.assert_close(fast[name], readable[name], rtol=1e-9, atol=1e-11)
    _, weights = call(module, per_query, need_weights=True)
    assert (weights.masked_select(~causal[:, None].expand_as(weights)) == 0).all()


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("need", [False, True])
def test_gradients_equal_finite_differences(variant, need):
    module, tensors = build_module(variant), inputs(lengths=(4, 3), time=4, queries=2)
    names = ["q", "k", "v"] + (["gate"] if module.gated else [])
    parameters_by_name = dict(module.named_parameters())

    def run(*leaves):
        moved = tensors | dict(zip(names, leaves, strict=False))
        options = {n: moved[n] for n in ("gate",) if module.gated} | {"norms": moved["norms"]}
        arguments = tuple(moved[n] for n in ("q", "k", "v", "mask"))
        parameters = dict(zip(parameters_by_name, leaves[len(names) :], strict=True))
        return torch.func.functional_call(
            module, parameters, arguments, {**options, "need_weights": need}
        )[0]

    leaves = [tensors[n].clone().requires_grad_() for n in names] + list(
        parameters_by_name.values()
    )
    assert torch.autograd.gradcheck(run, leaves, atol=1e-6, fast_mode=False)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("need", [False, True])
def test_a_sequence_of_padding_alone_gives_zero_and_no_nan(variant, need):
    module, tensors = build_module(variant), inputs(lengths=(7, 0, 3))
    computed = gradients(module, tensors, need_weights=need)
    assert all(torch.isfinite(x).all() for x in computed.values())
    assert (computed["out"][1] == 0).all() and (computed["q"][1] == 0).all()
    assert computed["out"][0].abs().max() > 0


@pytest.mark.parametrize("variant", VARIANTS)
def test_half_precision_is_near_and_half_precision(variant):
    tensors = inputs(time=70, lengths=(70, 40, 1), dtype=torch.float32)
    out, _ = call(build_module(variant, torch.float32), tensors)
    half = {n: x.bfloat16() if x.is_floating_point() else x for n, x in tensors.items()}
    half["norms"] = tensors["norms"]  # else ties decide what H2O keeps
    half_out, weights = call(build_module(variant, torch.bfloat16), half, need_weights=True)
    assert half_out.dtype == weights.dtype == torch.bfloat16
    torch.testing.assert_close(half_out.float(), out, rtol=0.1, atol=0.1)


@pytest.mark.parametrize("variant", VARIANTS)
def test_weights_are_returned_on_request_and_sum_to_one_less_lambda(variant):
    module, tensors = build_module(variant), inputs()
    assert call(module, tensors)[1] is None
    _, weights = call(module, tensors, need_weights=True)
    assert weights.shape == (3, 2, 7, 7)
    total = weights.sum(-1)
    if "differential" not in variant:
        assert (weights >= 0).all()
        torch.testing.assert_close(total, torch.ones_like(total))
    elif not module.gated:
        torch.testing.assert_close(
            total, (1 - module.strength()).expand_as(total[..., None])[..., 0]
        )
    else:
        assert (total < 1).all() == bool((module.strength() > 0).all())
