"""Tiny models of the architectures the program uses, saved as the hub saves the real ones.

No weights can be fetched by a test, so a test makes a model of the same architecture with random
weights, saves it under a name the program looks for, and lets the program's own code load it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

CHAT_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEXTS = (
    "You are a clinical assistant. Based ONLY on the patient record below, answer the question "
    "briefly. PATIENT RECORD: QUESTION: system user assistant",
    "[2019-03-04] Patient takes metformin at a dose of 500 milligram twice daily. Glucose: 104 mg",
    "[2021-11-30] Hemoglobin A1c: 7.2 %. Started lisinopril 10 mg for hypertension. Follow-up.",
    "What dose of warfarin does the patient take? When was the last potassium measured? mmol/L",
    "Assessment and plan: continue atorvastatin, amlodipine and omeprazole; recheck creatinine.",
)
CHAT_TEMPLATE = (
    "{%- for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def qwen_tokenizer(vocabulary: int = 512) -> Any:
    """A byte-level BPE tokenizer of Qwen2's kind with its ChatML tokens, trained on a few lines."""
    from transformers import Qwen2Tokenizer

    trained = byte_tokenizer(vocabulary - len(CHAT_TOKENS), ())
    parts = json.loads(trained.to_str())["model"]
    vocab = dict(sorted(parts["vocab"].items(), key=lambda item: item[1]))
    for token in CHAT_TOKENS:
        vocab[token] = len(vocab)
    return Qwen2Tokenizer(
        vocab=vocab,
        merges=[tuple(merge) for merge in parts["merges"]],
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        extra_special_tokens=["<|im_start|>", "<|im_end|>"],
        chat_template=CHAT_TEMPLATE,
        model_max_length=131072,
    )


TRAINED = 280
"""Tokens that the model "short" of the readers' tests was "trained" on."""


def make_qwen(
    folder: Path,
    seed: int = 0,
    context: int = 32768,
    hidden: int = 64,
    layers: int = 2,
    shard: str = "64KB",
    talkative: float = 1.0,
    **changes: Any,
) -> Path:
    """A Qwen2.5 of two layers in ``folder``, in shards with an index like the real one.

    ``context`` is the longest text it was "trained" on (max_position_embeddings). Weights are
    wide enough that answers differ, and ``<|im_end|>`` is likely enough that they end at
    different lengths; ``talkative`` below 1 makes it rarer.
    """
    import torch
    from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM

    tokenizer = qwen_tokenizer()
    start, end = (tokenizer.convert_tokens_to_ids(token) for token in CHAT_TOKENS[1:])
    pad = tokenizer.convert_tokens_to_ids(CHAT_TOKENS[0])
    config = Qwen2Config(
        **{
            "vocab_size": len(tokenizer) + 8,  # rows beyond the tokenizer, as the real one has
            "hidden_size": hidden,
            "intermediate_size": 2 * hidden,
            "num_hidden_layers": layers,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": context,
            "initializer_range": 0.3,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0},
            "bos_token_id": pad,
            "eos_token_id": end,
            "dtype": "float32",
            **changes,
        }
    )
    random = torch.random.get_rng_state()
    try:
        torch.manual_seed(seed)
        model = Qwen2ForCausalLM(config)
    finally:
        torch.random.set_rng_state(random)
    with torch.no_grad():
        model.lm_head.weight[end] *= 3.0 * talkative
        model.lm_head.weight[[start, pad]] *= 0.1
        model.lm_head.weight[len(tokenizer) :] = 0.0
    # As Qwen2.5's own, sampling and all: a greedy reader must not follow it.
    model.generation_config = GenerationConfig(
        bos_token_id=pad,
        pad_token_id=pad,
        eos_token_id=[end, pad],
        do_sample=True,
        repetition_penalty=1.05,
        temperature=0.7,
        top_p=0.8,
        top_k=20,
    )
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder, max_shard_size=shard)
    tokenizer.save_pretrained(folder)
    return folder


def byte_tokenizer(vocabulary: int, special: Sequence[str]) -> Any:
    """A byte-level BPE tokenizer trained on a few lines."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXTS * 3, trainer)
    return tokenizer


def make_gemma(folder: Path, seed: int = 0) -> Path:
    """A Gemma 3 of two layers in ``folder``, the first of which sees only the last 16 tokens."""
    import torch
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig, PreTrainedTokenizerFast

    tokenizer = byte_tokenizer(500, ("<pad>", "<eos>", "<bos>"))
    config = Gemma3TextConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=1,
        head_dim=16,
        sliding_window=16,
        layer_types=["sliding_attention", "full_attention"],
        max_position_embeddings=32_768,
        initializer_range=0.3,
        tie_word_embeddings=False,  # else it repeats one token
        dtype="float32",
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        Gemma3ForCausalLM(config).save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<bos>", eos_token="<eos>", pad_token="<pad>"
    ).save_pretrained(folder)
    return folder


OTHER_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|start|>{{ message['role'] }}<|sep|>"
    "{{ message['content'] | trim }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant<|sep|>{% endif %}"
)
"""A chat template that is not ChatML."""


def make_other(
    folder: Path,
    model_type: str,
    template: str = OTHER_TEMPLATE,
    seed: int = 5,
    control: tuple[str, ...] = (),
) -> Path:
    """A chat model of two layers of another architecture in ``folder``, with its own template and
    more control tokens."""
    import torch
    from transformers import (
        AutoConfig,
        AutoModelForCausalLM,
        GenerationConfig,
        PreTrainedTokenizerFast,
    )

    tokenizer = byte_tokenizer(480, ("<pad>", "<bos>", "<|start|>", "<|sep|>", "<|end|>", *control))
    config = AutoConfig.for_model(
        model_type,
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=4096,
        initializer_range=0.3,
        tie_word_embeddings=False,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=4,
        dtype="float32",
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        model.lm_head.weight[4] *= 2.0
    model.generation_config = GenerationConfig(eos_token_id=4, pad_token_id=0, bos_token_id=1)
    model.save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<bos>",
        eos_token="<|end|>",
        pad_token="<pad>",
        chat_template=template,
    ).save_pretrained(folder)
    return folder


_GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def make_gguf(folder: Path, file: Path, template: str = OTHER_TEMPLATE) -> Path:
    """The Llama that :func:`make_other` wrote into ``folder`` as a GGUF file, in float32.

    ``template`` "" leaves the chat template out. llama.cpp rotates neighbouring rows of queries and
    keys, transformers the two halves of a head: rows are reordered as by llama.cpp's converter.
    """
    import gguf
    from safetensors.numpy import load_file

    config = json.loads((folder / "config.json").read_text())
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    vocabulary = sorted(tokenizer["model"]["vocab"], key=tokenizer["model"]["vocab"].__getitem__)
    special = {token["content"] for token in tokenizer["added_tokens"]}
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads["attn_q"])
    writer.add_head_count_kv(heads["attn_k"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_vocab_size(len(vocabulary))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(vocabulary)
    writer.add_token_types([3 if token in special else 1 for token in vocabulary])
    writer.add_token_merges([" ".join(merge) for merge in tokenizer["model"]["merges"]])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(4)
    writer.add_add_bos_token(False)
    if template:
        writer.add_chat_template(template)
    for name, values in load_file(folder / "model.safetensors").items():
        stem, layer = name.removesuffix(".weight"), ""
        if stem.startswith("model.layers."):
            number, _, stem = stem.removeprefix("model.layers.").partition(".")
            layer = f"blk.{number}."
        target = _GGUF_NAMES[stem]
        if target in heads:
            rows = values.reshape(heads[target], 2, -1, values.shape[1])
            values = rows.swapaxes(1, 2).reshape(values.shape)
        writer.add_tensor(f"{layer}{target}.weight", values.copy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file
