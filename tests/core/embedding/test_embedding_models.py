"""Where model weights are searched, and how missing and wrong weights are reported."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from midchart.core import weights
from midchart.core.embedding.embedder import Embedder, MiniLM
from midchart.core.errors import MissingModel, UnknownName
from midchart.core.weights import MINILM


@pytest.fixture(autouse=True)
def folders(monkeypatch, tmp_path):
    monkeypatch.setenv("MIDCHART_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MIDCHART_MODELS", str(tmp_path / "models"))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    """A BERT of MiniLM's architecture, 16 wide, saved in the hub's format."""
    import torch
    from transformers import BertConfig, BertModel

    folder = tmp_path_factory.mktemp("tiny")
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=30522, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=32,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder)
    packaged = weights.locate(MINILM).folder
    shutil.copy(packaged / "tokenizer.json", folder)
    return folder


def test_the_packaged_weights_equal_the_published_file():
    location = weights.locate(MINILM)
    assert location.how == "package"
    assert weights.fingerprint(location) == weights.MODELS[MINILM].sha256
    assert weights.problem(MINILM) == ""


def test_false_weights_in_the_package_are_refused(tiny, monkeypatch):
    monkeypatch.setattr(weights, "_package_folder", lambda package, inside: tiny)
    with pytest.raises(MissingModel, match=r"not the published file.*53aa51172d14"):
        Embedder()


def test_missing_weights_are_reported_with_size_path_and_command(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    message = weights.problem("Qwen2.5-7B-Instruct")
    place = tmp_path / "models" / "Qwen2.5-7B-Instruct"
    assert (
        f"{weights.MODELS['Qwen2.5-7B-Instruct'].size_mb:,} MB" in message and "\n" not in message
    )
    assert f"hf download Qwen/Qwen2.5-7B-Instruct --local-dir {place}" in message
    with pytest.raises(MissingModel):
        weights.locate("Qwen2.5-7B-Instruct")
    with pytest.raises(UnknownName, match="all-MiniLM-L6-v2"):
        weights.locate("all-MiniLM")


def test_the_hidden_states_equal_those_of_transformers(tiny):
    import torch
    from transformers import BertModel

    tokens = torch.tensor([[101, 7, 8, 9, 102], [101, 7, 102, 0, 0]])
    mask = (tokens > 0).long()
    reference = BertModel.from_pretrained(tiny).eval()
    with torch.inference_mode():
        expected = reference(input_ids=tokens, attention_mask=mask).last_hidden_state
        states = MiniLM(tiny).hidden(tokens, mask)
    assert torch.allclose(states[mask.bool()], expected[mask.bool()], atol=1e-6)
