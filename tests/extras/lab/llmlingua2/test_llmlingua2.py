"""LLMLingua-2 equals its reference implementation, keeps words complete and reports what
remains."""

from __future__ import annotations

import random
from datetime import timedelta
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midchart.core.arms import ARMS
from midchart.core.protocol import Protocol, parse
from midchart.core.text.prompt import body
from midchart.core.types import Budget, Instruction, Record
from midchart.extras.lab.llmlingua2 import MODEL, Compressor, chunk_edges
from tests.reference import llmlingua2 as plain
from tests.support.charts import START, chart
from tests.support.compressors import WORDS, xlm_roberta

QUESTION = Instruction("i1", "p1", "What dose?")


@pytest.fixture(scope="module", autouse=True)
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("llmlingua2")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIDCHART_CACHE", str(folder / "cache"))
        patch.setenv("MIDCHART_MODELS", str(folder / "models"))
        yield xlm_roberta(folder / "models" / MODEL)


def texts_of(n: int, seed: int = 0) -> list[str]:
    lot = random.Random(seed)
    extra = ["8.1", "12/03/2014", "mg/dL.", "(start)", "glucose:", "hypertension", "e\u0301t\u00e9"]
    return [" ".join(lot.choices([*WORDS, *extra], k=lot.randint(1, 12))) for _ in range(n)]


def compress(record: Record, protocol=None, budget: Budget | None = None, **options):
    arm = ARMS.build("llmlingua2", protocol or Protocol(), **options)
    return arm.select(record, QUESTION, budget or Budget())


def facts(selection) -> dict[str, int]:
    return {name: int(value) for name, value in selection.trace if value.isdigit()}


def test_compression_equals_the_reference(model):
    texts = [*texts_of(60), "x" * 200, "a " * 150]
    probabilities, chunk = Compressor().probabilities([text.split() for text in texts])
    expected = plain.keep_probabilities(model, texts, 64)
    flat = np.array([p for of_text in expected for p in of_text])
    np.testing.assert_allclose(probabilities, flat, atol=2e-6)
    assert chunk[-1] > 10 and np.all(np.diff(chunk) >= 0)
    # Rounding may move a word across the threshold only where the reference is as near to it.
    selection = compress(chart(*texts, kind="note"), parse({"unit": "event"}), words=300)
    compressed = " ".join(body(line) for line in selection.lines).split()
    wanted = " ".join(plain.compress(texts, expected, 300)).split()
    assert len(compressed) == len(wanted) == 300
    assert sum(a != b for a, b in zip(compressed, wanted, strict=True)) == 0


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=6), max_size=12),
    st.integers(1, 12),
)
def test_chunks_lose_nothing_and_end_with_sentences_where_they_can(shape, room):
    """``shape``: for each sentence the tokens of each of its words."""
    sentence = np.array(
        [s for s, sizes in enumerate(shape) for n in sizes for _ in range(n)], dtype=int
    )
    word = np.array(
        [w for w, n in enumerate(n for sizes in shape for n in sizes) for _ in range(n)], dtype=int
    )
    edges = chunk_edges(sentence, word, room).tolist()
    assert edges[0] == 0 and edges[-1] == len(word) and edges == sorted(set(edges))
    for begin, end in pairwise(edges):
        assert end - begin <= room
        if end == len(word):
            continue
        if sentence[end] == sentence[end - 1]:  # cut inside a sentence: it began this chunk
            assert sentence[begin] == sentence[end] or begin == end - 1
            if word[end] == word[end - 1]:
                assert word[begin] == word[end]


def test_a_long_record_is_compressed_to_the_word_limit_with_dates():
    texts = texts_of(300)
    record = chart(*texts)
    selection = compress(record, words=150)
    assert sum(len(body(line).split()) for line in selection.lines) == 150
    assert facts(selection)["words kept"] == 150
    assert facts(selection)["words read"] == sum(len(t.split()) for t in texts)
    for sentence, line in zip(selection.kept, selection.lines, strict=True):
        assert sentence.sentence.id == line.sentence_id
        assert line.text.startswith(f"[{sentence.sentence.time.date()}] ")
        shown = " ".join(texts[s.event][s.start : s.end] for s in line.shown)
        assert shown.split() == body(line).split()
        assert 0 < sentence.score < 1
    words = {word for text in texts for word in text.split()}
    assert all(word in words for line in selection.lines for word in body(line).split())
    more = compress(record, words=151)
    one, other = (
        {(s.event, i) for line in x.lines for s in line.shown for i in range(s.start, s.end)}
        for x in (selection, more)
    )
    assert one < other


def test_the_published_variant_reads_only_the_first_characters():
    texts = texts_of(100)
    limit = 1500
    selection = compress(chart(*texts), parse({"llmlingua_characters": limit}))
    complete = "\n".join(f"[{(START + timedelta(days=i)).date()}] {t}" for i, t in enumerate(texts))
    seen = complete[:limit]
    last = int(selection.lines[-1].sentence_id[1:])
    compressed = "\n".join(line.text for line in selection.lines)
    assert seen.startswith(compressed) and len(seen) - len(compressed) < 25
    assert last < 99 and facts(selection)["words read"] < sum(len(t.split()) for t in texts)
    everything = compress(chart(*texts), parse({"llmlingua_characters": 10**6}))
    assert everything.lines == compress(chart(*texts)).lines


def test_the_packages_threshold_keeps_the_same_share_of_every_chunk():
    record = chart(*texts_of(300))
    by_chunk = compress(record, parse({"llmlingua_threshold": "chunk"}), words=300)
    by_record = compress(record, words=300)
    assert by_chunk.lines != by_record.lines
    arm = ARMS.build("llmlingua2", parse({"llmlingua_threshold": "chunk"}), words=300)
    from midchart.core.arms.base import candidates

    words = arm._read(candidates(record, None, Protocol()))
    wanted = arm._wanted(words)
    share = 300 / len(words.text)
    for chunk in range(words.chunk[-1] + 1):
        inside = words.chunk == chunk
        assert abs(wanted[inside].sum() - share * inside.sum()) <= 0.5
        if wanted[inside].any() and not wanted[inside].all():
            probabilities = words.probability[inside & wanted]
            assert probabilities.min() >= words.probability[inside & ~wanted].max()
    assert abs(facts(by_chunk)["words kept"] - 300) <= words.chunk[-1] / 2


class OneTokenAWord:
    """In place of GPT-3.5's tokenizer, by which the package weighs words: it is fetched."""

    def encode(self, text: str) -> list[str]:
        return [text]


def test_compression_equals_the_authors_package(model, monkeypatch):
    """Where a text is one chunk and no word holds a punctuation mark, the two are one method.

    The package (0.2.2) puts BERT's marks around an XLM-RoBERTa's chunk, which that model reads as
    ``<unk>``; here it is told which model it has.
    """
    why = "the authors' package is not here: pip install --no-deps -r docs/optional/llmlingua.txt"
    for name in ("nltk", "tiktoken", "llmlingua"):
        pytest.importorskip(name, reason=why)
    import tiktoken
    from llmlingua import PromptCompressor, prompt_compressor

    monkeypatch.setattr(tiktoken, "encoding_for_model", lambda name: OneTokenAWord())
    package = PromptCompressor(str(model), device_map="cpu", use_llmlingua2=True)
    package.max_seq_len = 64  # this model's
    dataset = partial(prompt_compressor.TokenClfDataset, model_name="xlm-roberta-large")
    monkeypatch.setattr(prompt_compressor, "TokenClfDataset", dataset)
    word_probabilities, heard = package._PromptCompressor__token_prob_to_word_prob, []
    package._PromptCompressor__token_prob_to_word_prob = lambda probabilities, convert_mode: (
        heard.append(word_probabilities(probabilities, convert_mode)) or heard[-1]
    )
    lot = random.Random(1)
    for _ in range(8):
        text = " ".join(lot.choices([*WORDS, "81", "glucose", "hypertension"], k=10))
        ours, _ = Compressor().probabilities([text.split()])
        for rate in (0.2, 0.5, 0.8):
            compressed = package.compress_prompt(
                [text], rate=rate, return_word_label=True, word_sep="\n", label_sep="\t"
            )
            rows = [row.split("\t") for row in compressed["fn_labeled_original_prompt"].split("\n")]
            assert [word for word, _ in rows] == text.split()
            np.testing.assert_allclose(heard[-1], ours, atol=2e-6)
            # The package keeps what is above this percentile of its chunk.
            least = np.percentile(ours, int(100 * (1 - rate) + 1))
            assert [label == "1" for _, label in rows] == (ours > least).tolist()
