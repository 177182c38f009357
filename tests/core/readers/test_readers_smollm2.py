"""The reader smollm2: its weights and tokens are those of the packaged file; loops are ended."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from midchart.core import weights
from midchart.core.protocol import parse
from midchart.core.readers import READERS
from midchart.core.readers.local_batches import repeated
from midchart.core.text.prompt import build_prompt, frame_of
from midchart.core.types import Kept, Selection, Sentence, Span

PROTOCOL = parse({"answer_tokens": 40})


@pytest.mark.parametrize(
    ("ids", "said_again"),
    [
        ([1, 2, 3] * 20, 57),  # all after the first
        ([5, 6, *([7, 8, 9, 10] * 9)], 32),
        ([1, *([0] * 12)], 0),  # 1,000,000,000,000 is a number
        (list(range(100)), 0),
        ([*range(60), *range(60)], 0),  # twice is no loop
        ([*range(40)] * 3, 80),
        ([], 0),
    ],
)
def test_a_loop_is_three_equal_pieces_of_some_length_at_the_end(ids, said_again):
    assert repeated(ids) == said_again


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIDCHART_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield READERS.build("smollm2", PROTOCOL, dtype="float32")


@pytest.mark.slow
def test_the_prepared_weights_are_those_of_the_packaged_file(reader):
    """Against the file itself, dequantised by the package gguf."""
    gguf, safetensors = importlib.import_module("gguf"), importlib.import_module("safetensors")
    file = weights.gguf_file(weights.SMOLLM2)
    packed = {tensor.name: tensor for tensor in gguf.GGUFReader(file).tensors}
    names = {
        "blk.3.ffn_down.weight": "model.layers.3.mlp.down_proj.weight",
        "token_embd.weight": "model.embed_tokens.weight",
        "blk.29.attn_v.weight": "model.layers.29.self_attn.v_proj.weight",
    }
    with safetensors.safe_open(reader.folder / "model.safetensors", "np") as prepared:
        for packed_name, name in names.items():
            tensor = packed[packed_name]
            expected = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            np.testing.assert_allclose(prepared.get_tensor(name), expected, atol=1e-3)


@pytest.mark.slow
def test_its_answer_by_its_own_template_is_that_of_transformers(reader):
    lines = ["Creatinine 1.8 mg/dL", "The patient denies chest pain.", "HbA1c 7.2 %"]
    entries = [
        Kept(Sentence(f"e{at}", Span(at, 0, len(line)), None, "note", line, 9), 1.0, "arm")
        for at, line in enumerate(lines)
    ]
    selection = Selection("p", "i", "bm25", tuple(entries), 27)
    frame = frame_of(reader)
    prompt = build_prompt(
        "What was the HbA1c?", selection, PROTOCOL, reader.window, reader.count_tokens, frame
    )
    assert prompt.text.endswith("<|im_start|>assistant\n")
    transformers = importlib.import_module("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(reader.folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(reader.folder, dtype="float32")
    ids = tokenizer(prompt.text, return_tensors="pt", add_special_tokens=False).input_ids
    written = model.generate(ids, do_sample=False, max_new_tokens=40)[0, ids.shape[1] :]
    answer = reader.read(prompt)
    assert answer.text == tokenizer.decode(written, skip_special_tokens=True).strip()
    assert answer.text and answer.prompt_tokens == ids.shape[1] == prompt.tokens
