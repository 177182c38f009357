"""Where model weights are searched, and how missing and wrong weights are reported."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
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


def test_the_models_folder_has_priority_and_its_own_vector_cache(tiny, tmp_path):
    shutil.copytree(tiny, tmp_path / "models" / MINILM)
    assert weights.locate(MINILM).how == "models folder"
    embedder = Embedder()
    assert embedder.dim == 16 and embedder.embed(["fever", "x" * 99]).shape == (2, 16)
    assert embedder.id.split("@")[1] != weights.MODELS[MINILM].sha256[:16]
    assert [p.name for p in (tmp_path / "cache" / "embeddings").iterdir()] == [
        embedder.id.replace("@", "-")
    ]


def test_a_folder_without_weights_is_no_model(tmp_path):
    (tmp_path / "models" / MINILM).mkdir(parents=True)
    (tmp_path / "models" / MINILM / "config.json").write_text("{}")
    assert weights.locate(MINILM).how == "package"


def test_weights_in_the_hub_cache_are_used(tiny, tmp_path, monkeypatch):
    name = "nli-deberta-v3-small"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    repository = tmp_path / "hub" / "models--cross-encoder--nli-deberta-v3-small"
    shutil.copytree(tiny, repository / "snapshots" / "abc")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc")
    assert weights.locate(name).how == "hub cache"


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


def test_the_catalogue_lists_installed_and_missing_models(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    rows = {row["name"]: row for row in weights.catalogue()}
    assert rows[MINILM]["here"] and not rows[MINILM]["later"]
    absent = rows["ms-marco-MiniLM-L-6-v2"]
    assert (absent["here"], absent["how"], absent["later"]) == (False, "", False)
    assert absent["where"] == str(tmp_path / "models" / "ms-marco-MiniLM-L-6-v2")
    json.dumps(list(rows.values()))


def test_a_model_with_another_pooling_is_refused(tiny, tmp_path):
    folder = tmp_path / "cls"
    shutil.copytree(tiny, folder)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": false}')
    with pytest.raises(MissingModel, match="pool"):
        MiniLM(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "roberta"}, "not a BERT"),
        ({"hidden_act": "relu"}, "not a BERT"),
        ({"num_hidden_layers": 2}, r"hold no encoder\.layer\.1"),
    ],
)
def test_another_architecture_is_refused(tiny, tmp_path, change, message):
    folder = tmp_path / "other"
    shutil.copytree(tiny, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(MissingModel, match=message):
        MiniLM(folder)


@pytest.mark.parametrize("content", [None, b"", b"\x08\x00\x00\x00\x00\x00\x00\x00{}"])
def test_weights_that_cannot_be_read_are_refused(tiny, tmp_path, content):
    folder = tmp_path / "truncated"
    shutil.copytree(tiny, folder)
    (folder / "model.safetensors").unlink()
    if content is not None:
        (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(MissingModel, match="get the weights again"):
        MiniLM(folder)


def test_the_hidden_states_equal_those_of_transformers(tiny):
    import torch
    from transformers import BertModel

    tokens = torch.tensor([[101, 7, 8, 9, 102], [101, 7, 102, 0, 0]])
    mask = (tokens > 0).long()
    reference = BertModel.from_pretrained(tiny).eval()
    with torch.inference_mode():
        expected = reference(input_ids=tokens, attention_mask=mask).last_hidden_state
        states = MiniLM(tiny)._bert.hidden(tokens, mask)
    assert torch.allclose(states[mask.bool()], expected[mask.bool()], atol=1e-6)


def test_a_long_text_is_truncated_to_the_context_length(tiny):
    model = MiniLM(tiny)
    same = "word " * 30  # 32 positions less the two marks
    vectors = model.encode([same, same + "and much more after that"])
    assert np.abs(vectors[0] - vectors[1]).max() < 1e-6
