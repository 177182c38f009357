"""Tokens and batches of training examples: the tokenizer, encoded examples, losses of a batch.

An integer up to 999, a year, the decimals of a number (".35") and a part of a date ("-07") are one
token each, so a value is copied in one or two steps; so is each word of a real drug's or test's
name. It is saved as a fast tokenizer of the hub, with Qwen2's special tokens and ChatML template.

Each question attends to the record and itself, at the positions it would have alone: one pass over
the record serves all questions, and each is read exactly as the reader will be asked it.
"""

from __future__ import annotations

import json
import math
import re
import threading
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from midchart.core.storage.files import replacing
from midchart.core.synthetic.training_examples import TrainingExample

END, PAD = "<|im_end|>", "<|endoftext|>"
BRACKET = "]"
"""Ends a line's date."""
_SPECIAL = (PAD, "<|im_start|>", END)
_TEMPLATE = (
    "{%- for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_PIECES = (
    r"\n\[|(?<![\d.])(?:19|20)\d{2}(?!\d)|-\d{2}(?!\d)|\.\d{1,2}(?!\d)|\d{1,3}"
    r"| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+"
)
"""Pre-tokenization; a space belongs to the word or mark after it, never to a number."""
_DATE_PART = re.compile(r"(?:19|20)\d{2}|-\d{2}")
_DIGITS = re.compile(r"\d+")

_Ids = NDArray[np.int64]


def _numbers() -> list[str]:
    integers = [str(n) for n in range(1000)] + [f"{n:02d}" for n in range(10)]
    years = [str(y) for y in range(1900, 2040)]
    parts = [f"-{n:02d}" for n in range(100)]
    decimals = [f".{n}" for n in range(10)] + [f".{n:02d}" for n in range(100)]
    return [*integers, *years, *parts, *decimals]


def _texts(examples: Iterable[TrainingExample]) -> Iterator[str]:
    for example in examples:
        for asked in example.asked:
            yield _DIGITS.sub("", example.ending(asked.question) + " " + asked.answer)
        yield _DIGITS.sub("", example.opening)


def train_tokenizer(
    examples: Iterable[TrainingExample], words: int, names: Iterable[str] = ()
) -> Any:
    """A ``tokenizers.Tokenizer`` with ``words`` subwords of the examples' texts, and a token for
    each of ``names`` (words in lower case)."""
    from tokenizers import (
        AddedToken,
        Regex,
        Tokenizer,
        decoders,
        models,
        normalizers,
        pre_tokenizers,
        trainers,
    )

    def pipeline(model: Any) -> Any:
        pipeline_tokenizer = Tokenizer(model)
        pipeline_tokenizer.normalizer = normalizers.Sequence(
            [normalizers.NFC(), normalizers.Lowercase()]
        )
        pipeline_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(_PIECES), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        pipeline_tokenizer.decoder = decoders.ByteLevel()
        return pipeline_tokenizer

    learned = pipeline(models.BPE())
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=words, initial_alphabet=alphabet, show_progress=False)
    learned.train_from_iterator(_texts(examples), trainer)
    parts = json.loads(learned.to_str())["model"]
    vocabulary: dict[str, int] = dict(sorted(parts["vocab"].items(), key=lambda item: item[1]))
    cut: Any = learned.pre_tokenizer
    named = (cut.pre_tokenize_str(start + name)[0][0] for name in names for start in (" ", ""))
    for word in (*_numbers(), *named):
        vocabulary.setdefault(word, len(vocabulary))
    merges = [tuple(merge) for merge in parts["merges"]]
    # Tokens are looked up before merges, or numbers would need merges.
    tokenizer = pipeline(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=True))
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in _SPECIAL])
    return tokenizer


def rarity(tokenizer: Any, examples: Iterable[TrainingExample]) -> NDArray[np.float64]:
    """Rarity of each token in lines and questions of examples [vocabulary], in standard deviations
    over the tokens of the texts."""
    texts_with = np.zeros(tokenizer.get_vocab_size())
    total, texts = np.zeros_like(texts_with), 0
    for example in examples:
        for text in (*example.lines, *(f" {one.question}" for one in example.asked)):
            tokens = ids(tokenizer, text)
            np.add.at(total, tokens, 1.0)
            texts_with[np.unique(tokens)] += 1
            texts += 1
    rare = -np.log((texts_with + 1) / (texts + 1))
    share = total / total.sum()
    mean = float((share * rare).sum())
    spread = math.sqrt(float((share * (rare - mean) ** 2).sum()))
    # Clipped, or tokens in no text would dominate.
    return np.clip((rare - mean) / spread, -2.0, 2.0)


def dates_of(tokenizer: Any) -> NDArray[np.bool_]:
    """Which tokens are parts of a date at the start of a line [vocabulary]: a year, "-07"."""
    is_date = np.zeros(tokenizer.get_vocab_size(), dtype=np.bool_)
    for token, number in tokenizer.get_vocab().items():
        is_date[number] = bool(_DATE_PART.fullmatch(token))
    return is_date


def save_tokenizer(tokenizer: Any, folder: Path, window: int) -> None:
    """Save a tokenizer as the hub does: ``tokenizer.json`` and ``tokenizer_config.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "pad_token": PAD,
        "additional_special_tokens": ["<|im_start|>", END],
        "chat_template": _TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "model_max_length": window,
    }
    with replacing(folder / "tokenizer.json") as fresh:
        fresh.write_text(tokenizer.to_str(pretty=False), encoding="utf-8")
    with replacing(folder / "tokenizer_config.json") as fresh:
        fresh.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def ids(tokenizer: Any, text: str) -> _Ids:
    """Token ids of ``text``, as the reader encodes a prompt."""
    return np.array(tokenizer.encode(text, add_special_tokens=False).ids, dtype=np.int64)


def answer_ids(tokenizer: Any, written: str) -> _Ids:
    """The target output (:func:`midchart.core.text.prompt.written`) and the end token."""
    return np.append(ids(tokenizer, written), tokenizer.token_to_id(END))


_EVIDENCE_LAYER = 2
"""The layer whose first heads are guided to the line that answers."""
_LINE_START_LAYER = 1
"""The layer whose second and third heads are guided to the start of a token's line: its first word,
and the end of its date."""
EVIDENCE_HEADS, _LINE_START_HEADS = 4, 2
"""Number of guided heads of each."""
_SAMPLED = 192
"""Most tokens of a record at which the line-start heads are evaluated."""
DATE = 5
"""Tokens of a line up to the end of its date."""
BEGINNING = DATE + 3
"""First tokens of an answer, which identify its line; the others follow from them."""
_ROWS = 4
"""Rows into which the questions are packed, so that fewer keys are masked."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """A training example in tokens.

    ``opening`` [p]. Of the questions, packed into rows of similar length: ``tokens`` [r, t],
    ``block`` [r, t] (number of the question, -1 for padding) and ``place`` [r, t] (position).
    ``asked`` [a] are flat indices into the rows at which ``wanted`` [a] are to be predicted, and
    ``of`` [a] their questions. ``line`` [p] is the record's line of a token of the opening (-1:
    none), ``evidence`` [q] the line that answers (-1: none does).
    """

    opening: _Ids
    tokens: _Ids
    block: _Ids
    place: _Ids
    asked: _Ids
    wanted: _Ids
    of: _Ids
    line: _Ids
    evidence: _Ids

    @property
    def size(self) -> int:
        """Number of tokens."""
        return len(self.opening) + int((self.block >= 0).sum())


def encode(tokenizer: Any, example: TrainingExample, full_answers: int | None = None) -> Encoded:
    """A training example in tokens.

    Of questions from number ``full_answers`` on (default: of none) only an answer's beginning is
    predicted: finding the line takes more training than continuing it.
    """
    opening, line = _opening(tokenizer, example)
    both: list[tuple[_Ids, _Ids]] = []
    for number, one in enumerate(example.asked):
        answer = answer_ids(tokenizer, example.written(number))
        if full_answers is not None and number >= full_answers:
            answer = answer[: BEGINNING + 1]
        both.append((ids(tokenizer, example.ending(one.question)), answer))
    rows: list[list[int]] = [[] for _ in range(min(_ROWS, len(both)))]
    long = [0] * len(rows)
    # The longest first, each to the row that is shortest.
    for number in sorted(range(len(both)), key=lambda i: -sum(map(len, both[i]))):
        row = min(range(len(rows)), key=long.__getitem__)
        rows[row].append(number)
        long[row] += len(both[number][0]) + len(both[number][1]) - 1
    shape = (len(rows), max(long))
    tokens, block = np.zeros(shape, np.int64), np.full(shape, -1, np.int64)
    place = np.zeros(shape, np.int64)
    asked: list[_Ids] = []
    wanted: list[_Ids] = []
    of: list[_Ids] = []
    for row, numbers in enumerate(rows):
        at = 0
        for number in numbers:
            ending, answer = both[number]
            # The end token is predicted, never read.
            read = np.concatenate([ending, answer[:-1]])
            columns = slice(at, at + len(read))
            tokens[row, columns], block[row, columns] = read, number
            place[row, columns] = len(opening) + np.arange(len(read))
            asked.append(row * shape[1] + at + len(ending) - 1 + np.arange(len(answer)))
            wanted.append(answer)
            of.append(np.full(len(answer), number))
            at += len(read)
    predicted = (np.concatenate(asked), np.concatenate(wanted), np.concatenate(of))
    evidence = np.array([-1 if one.line is None else one.line for one in example.asked])
    return Encoded(opening, tokens, block, place, *predicted, line, evidence)


def _opening(tokenizer: Any, example: TrainingExample) -> tuple[_Ids, _Ids]:
    """The opening in tokens, and the line of each."""
    encoded = tokenizer.encode(example.opening, add_special_tokens=False)
    ends = np.cumsum([len(line) + 1 for line in example.lines])
    begins = len(example.opening) - (ends[-1] - 1)
    at = np.array([end for _, end in encoded.offsets]) - begins
    line = np.where(at > 0, np.searchsorted(ends, at), -1)
    return np.array(encoded.ids, dtype=np.int64), line.astype(np.int64)


@dataclass(frozen=True, slots=True)
class Predicted:
    """``logits`` [a, vocabulary] at the asked positions; ``evidence`` [heads, a], the log attention
    of the evidence heads there to the answering line, or to the text before the record where no
    line answers; ``line_start`` [heads, s], the log attention of the line-start heads, at some
    tokens of the record's lines, to the line's first word and to the end of its date."""

    logits: Tensor
    evidence: Tensor
    line_start: Tensor


class _AttentionInputs:
    """The last inputs of two layers' attentions, per thread."""

    def __init__(self, model: Any) -> None:
        self._here = threading.local()
        for layer in (_LINE_START_LAYER, _EVIDENCE_LAYER):
            attention = model.model.layers[layer].self_attn
            attention.register_forward_pre_hook(self._cache_hook(layer), with_kwargs=True)

    def _cache_hook(self, layer: int) -> Any:
        def keep(_: Any, args: tuple[Any, ...], options: dict[str, Any]) -> None:
            setattr(self._here, str(layer), options)

        return keep

    def of(self, layer: int) -> dict[str, Any]:
        return getattr(self._here, str(layer))


_INPUTS: weakref.WeakKeyDictionary[Any, _AttentionInputs] = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()


def predict(model: Any, example: Encoded) -> Predicted:
    """The network's predictions of the answers' tokens, and the attention of its guided heads."""
    from transformers import DynamicCache

    with _LOCK:
        if model not in _INPUTS:
            _INPUTS[model] = _AttentionInputs(model)
    inputs = _INPUTS[model]
    cache: Any = DynamicCache(config=model.config)
    inner = model.model
    _read(inner, torch.from_numpy(example.opening)[None], cache)
    line_start = _line_start_attention(
        inner.layers[_LINE_START_LAYER].self_attn, inputs.of(_LINE_START_LAYER), cache, example
    )
    block = torch.from_numpy(example.block)
    (r, t), p = block.shape, len(example.opening)
    for layer in cache.layers:
        # Every row reads after the same record.
        layer.keys, layer.values = (x.expand(r, -1, -1, -1) for x in (layer.keys, layer.values))
    same_block = (block[:, :, None] == block[:, None]) & torch.ones(t, t, dtype=torch.bool).tril()
    seen = torch.cat([torch.ones(r, t, p, dtype=torch.bool), same_block], dim=2)[:, None]
    mask = torch.zeros(r, 1, t, p + t).masked_fill(~seen, torch.finfo(torch.float32).min)
    hidden = inner(
        torch.from_numpy(example.tokens),
        attention_mask=mask,
        position_ids=torch.from_numpy(example.place),
        past_key_values=cache,
        use_cache=True,
    ).last_hidden_state
    logits = model.lm_head(hidden.flatten(0, 1)[torch.from_numpy(example.asked)])
    keys = cache.layers[_EVIDENCE_LAYER].keys[0, :EVIDENCE_HEADS, :p]
    attention = inner.layers[_EVIDENCE_LAYER].self_attn
    return Predicted(
        logits,
        _evidence_attention(attention, inputs.of(_EVIDENCE_LAYER), keys, example),
        line_start,
    )


def _read(inner: Any, tokens: Tensor, cache: Any) -> None:
    """Put a record [1, p] into the cache; of the last layer only keys and values are computed."""
    from transformers.models.qwen2.modeling_qwen2 import apply_rotary_pos_emb

    places = torch.arange(tokens.shape[1])[None]
    hidden = inner.embed_tokens(tokens)
    turns = inner.rotary_emb(hidden, places)
    layer_arguments = {
        "position_ids": places,
        "past_key_values": cache,
        "position_embeddings": turns,
    }
    *others, last = inner.layers
    for layer in others:
        hidden = layer(hidden, attention_mask=None, use_cache=True, **layer_arguments)
    hidden, attention = last.input_layernorm(hidden), last.self_attn
    key, value = (
        projection(hidden).unflatten(-1, (-1, attention.head_dim)).transpose(1, 2)
        for projection in (attention.k_proj, attention.v_proj)
    )
    _, key = apply_rotary_pos_emb(key, key, *turns)
    cache.update(key, value, attention.layer_idx)


def beginnings(example: Encoded) -> NDArray[np.int64]:
    """Which of the asked positions are an answer's first tokens [b]."""
    every = np.arange(len(example.of))
    starts = np.flatnonzero(np.diff(example.of, prepend=-1))
    return np.flatnonzero(every - starts[np.searchsorted(starts, every, "right") - 1] < BEGINNING)


def _queries(attention: Any, layer_inputs: dict[str, Any], places: Tensor, heads: slice) -> Tensor:
    """Queries of some heads at flat indices [heads, places, width of a head]."""
    wide = attention.head_dim
    rows = slice(heads.start * wide, heads.stop * wide)
    states = layer_inputs["hidden_states"].flatten(0, 1)[places]
    cos, sin = (x.flatten(0, 1)[places] for x in layer_inputs["position_embeddings"])
    query = F.linear(states, attention.q_proj.weight[rows], attention.q_proj.bias[rows])
    query = query.unflatten(1, (-1, wide)).transpose(0, 1)
    turned = torch.cat([-query[..., wide // 2 :], query[..., : wide // 2]], dim=-1)
    return (query * cos + turned * sin) / math.sqrt(wide)


def _line_start_attention(
    attention: Any, layer_inputs: dict[str, Any], cache: Any, example: Encoded
) -> Tensor:
    """Log attention of the line-start heads to the start of a token's line [heads, s]."""
    where = np.arange(len(example.opening))
    # A line begins with its bracket, year, month and day, and the bracket that ends them.
    begins = np.flatnonzero(np.diff(example.line, prepend=-1))
    begin = begins[np.searchsorted(begins, where, "right") - 1]
    inside = np.flatnonzero((example.line >= 0) & (where - begin > DATE))
    inside = inside[:: max(1, len(inside) // _SAMPLED)]
    heads = slice(1, 1 + _LINE_START_HEADS)
    keys = cache.layers[_LINE_START_LAYER].keys[0, heads]
    places = torch.from_numpy(inside)
    scores = _queries(attention, layer_inputs, places, heads) @ keys.transpose(1, 2)
    ahead = torch.from_numpy(where)[None] > places[:, None]
    attended = F.log_softmax(scores.float().masked_fill(ahead, -math.inf), dim=-1)
    targets = torch.from_numpy(np.stack([begin[inside] + DATE, begin[inside] + DATE - 1]))
    return attended.gather(2, targets[..., None])[..., 0]


def _evidence_attention(
    attention: Any, layer_inputs: dict[str, Any], keys: Tensor, example: Encoded
) -> Tensor:
    """Log attention of the evidence heads to the answering lines [heads, a]."""
    places = torch.from_numpy(example.asked)
    scores = _queries(attention, layer_inputs, places, slice(0, EVIDENCE_HEADS)) @ keys.transpose(
        1, 2
    )
    line = torch.from_numpy(example.line)
    wanted = torch.from_numpy(example.evidence[example.of])
    other = line[None] != wanted[:, None]
    return F.log_softmax(scores.float(), dim=-1).masked_fill(other, -math.inf).logsumexp(-1)


def right_answers(logits: Tensor, example: Encoded) -> list[bool]:
    """For each question whether the most probable token is the wanted one at every position."""
    hit = logits.argmax(-1).numpy() == example.wanted
    return [bool(hit[example.of == question].all()) for question in np.unique(example.of)]
