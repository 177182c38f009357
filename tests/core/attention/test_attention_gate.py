"""The gate of event codes: scores equal the QCCS gate, frozen or joint, and its losses."""

from __future__ import annotations

import pytest
import torch

from midchart.core.attention.code_gate import CodeGate, gate_loss

QUESTION = "potassium hyperkalemia elevated potassium"
TEXTS = ["", "LOINC/2823-3", "Potassium [Moles/volume] in Serum", "x", "SNOMED/1"]


def gate():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return CodeGate(QUESTION, TEXTS)


def test_a_frozen_gate_takes_no_gradient_and_padding_is_0():
    frozen, codes = gate(), torch.tensor([[0, 3, 1], [2, 2, 0]], dtype=torch.int32)
    frozen.freeze()
    scores = frozen(codes)
    assert frozen.training and not scores.requires_grad
    frozen.eval()
    expected = frozen.logits(torch.tensor([3, 1, 2, 2])).sigmoid()
    torch.testing.assert_close(scores[codes > 0], expected)
    assert scores[0, 0] == scores[1, 2] == 0
    again = gate()
    again.load_state_dict(frozen.state_dict())
    again.joint = False
    assert torch.equal(again(codes), scores)


def test_a_joint_gate_learns_from_what_it_gates():
    joint, codes = gate().eval(), torch.tensor([[1, 2, 2, 0]])
    scores = joint(codes)
    assert scores[0, 1] == scores[0, 2] != scores[0, 0]
    scores.sum().backward()
    assert joint.model.embedding.weight.grad.abs().sum() > 0
    assert all(p.grad is not None for p in joint.parameters())


def test_losses_computed_by_hand():
    # One positive of four at p = .5: −log .5 = .693147; weight 3/1, (1 − .5)² = .25.
    logits, labels = torch.zeros(4), torch.tensor([1.0, 0, 0, 0])
    assert float(gate_loss(logits, labels, "bce")) == pytest.approx(0.693147, abs=1e-6)
    # (3 + 1 + 1 + 1)/4 · .25 · .693147 = .259930
    assert float(gate_loss(logits, labels, "focal")) == pytest.approx(0.259930, abs=1e-6)
    # 99 negatives a positive are capped at 20: (20 + 99)/100 · .25 · .693147 = .206211
    rare = torch.zeros(100).index_fill(0, torch.tensor([0]), 1.0)
    assert float(gate_loss(torch.zeros(100), rare, "focal")) == pytest.approx(0.206211, abs=1e-6)
    assert torch.isfinite(gate_loss(torch.tensor([90.0, -90.0]), torch.zeros(2), "focal"))
