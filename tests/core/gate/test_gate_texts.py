"""Text of the gate: n-grams, positive and negative examples, the split of patients."""

from __future__ import annotations

import dataclasses
from hashlib import blake2b
from itertools import permutations
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midchart.core.errors import InputError
from midchart.core.gate.checkpoint import Split, split_patients
from midchart.core.gate.examples import QuestionSentences, hashing_of, pairs, positives
from midchart.core.gate.ngrams import Hashing, bags, gram_ids, hasher
from midchart.core.protocol import PRESETS, Protocol

HASHINGS = [
    Hashing(name, n, salt=salt, characters=characters, ngrams=ngrams)
    for name, salt in (("blake2", 0), ("crc32", 0), ("salted", 0), ("salted", 7))
    for n, characters, ngrams in ((2, 0, 0), (3, 0, 0), (3, 500, 128), (4, 9, 3))
]
characters = st.one_of(
    st.characters(), st.sampled_from(["İ", "ẞ", "ﬁ", "\ud800", "\udc00", " ", "\n", "a", "é", "漢"])
)
texts = st.lists(st.text(characters, max_size=24), max_size=12)


@settings(deadline=None, max_examples=60)
@given(texts, st.sampled_from(HASHINGS))
def test_batched_n_grams_equal_one_text_at_a_time(texts: list[str], hashing: Hashing):
    grams = bags(hashing, texts)
    rows = np.arange(len(texts))[::-1]
    for matrix, order in ((grams, rows[::-1]), (grams[rows], rows)):
        assert matrix.shape == (len(texts), hashing.buckets)
        for i, row in enumerate(order):
            held = slice(matrix.indptr[i], matrix.indptr[i + 1])
            ids = matrix.indices[held].tolist()
            assert ids == gram_ids(hashing, texts[row])
            assert all(1 <= id < hashing.buckets for id in ids)
            assert not ids or matrix.data[held].sum() == pytest.approx(1)


def test_golden_ids():
    """1 + H(gram) mod 4999 for the grams "abc" and "bcd" of "ABCD", by hand."""

    def blake(gram: bytes, key: bytes = b"") -> int:
        digest = blake2b(gram, digest_size=8, key=key).digest()
        return 1 + int.from_bytes(digest, "little") % 4999

    assert gram_ids(Hashing(), "ABCD") == [blake(b"abc"), blake(b"bcd")]
    crc = [1 + crc32(gram) % 4999 for gram in (b"abc", b"bcd")]
    assert gram_ids(Hashing("crc32"), "ABCD") == crc
    # crc32(b"abc") is 0x352441C2 (the CRC of zip files): 891568578 mod 4999 + 1.
    assert crc[0] == 891568578 % 4999 + 1
    salted = [blake(gram, b"salt 5") for gram in (b"abc", b"bcd")]
    assert gram_ids(Hashing("salted", salt=5), "ABCD") == salted
    # The values themselves, so that no checkpoint is ever read with another hash by one name.
    assert gram_ids(Hashing(), "metformin") == METFORMIN
    assert hasher(Hashing())(b"met") == METFORMIN[0]


METFORMIN = [2456, 2453, 2290, 4437, 3874, 4445, 781]


def test_published_limits_of_a_text():
    long = "x" * 480 + "potassium was high"
    limited = Hashing(characters=500, ngrams=128)
    assert gram_ids(limited, long) == gram_ids(Hashing(), "x" * 130)
    assert gram_ids(Hashing(characters=500), long) == gram_ids(Hashing(), long[:500])


def test_the_hash_of_each_protocol():
    salted = dataclasses.replace(Protocol(), hash="salted", hash_salt=3)
    assert hashing_of(salted).salt == 0 and hashing_of(salted, scoring=True).salt == 3
    assert hashing_of(Protocol(), scoring=True) == hashing_of(Protocol())
    published = hashing_of(PRESETS["published"], scoring=True)
    assert (published.name, published.salt) == ("salted", PRESETS["published"].hash_salt)
    assert (published.characters, published.ngrams) == (500, 128)


SENTENCES = [
    "Admitted for chest pain.",
    "Metformin 500 mg was started.",
    "Sodium 141",
    "Takes metformin daily.",
    "Lungs clear.",
    "Metformin stopped.",
    "Metformin 500 mg was started.",
    "The premetformindrug was tried.",
]
ASKED = QuestionSentences("p", "What was started?", "It was metformin, 500 mg.", SENTENCES)


def drawn(asked: QuestionSentences, seed: int = 0, **faults: str):
    sample = pairs([asked], dataclasses.replace(Protocol(), **faults), np.random.default_rng(seed))
    return [
        (sample.sentences[s], int(y)) for s, y in zip(sample.sentence, sample.label, strict=True)
    ]


def test_positives_share_a_content_word_and_published_ones_are_the_first_substrings():
    assert positives(ASKED, "all") == [1, 3, 5, 6]
    assert positives(ASKED, "first_3") == [1, 3, 5]
    assert positives(dataclasses.replace(ASKED, sentences=SENTENCES[::-1]), "first_3") == [0, 1, 2]


def test_negatives_are_three_a_positive_and_never_the_text_of_one():
    sentences = [*SENTENCES, *(f"Pulse {i}" for i in range(40))]
    asked = dataclasses.replace(ASKED, sentences=sentences)
    rows = drawn(asked)
    assert [text for text, label in rows if label] == [sentences[i] for i in (1, 3, 5, 6)]
    others = [text for text, label in rows if not label]
    assert len(others) == 12 and len(set(others)) == 12
    assert not {sentences[i] for i in (1, 3, 5, 6)} & set(others)
    assert rows == drawn(asked) and rows != drawn(asked, seed=1)
    early = [text for text, y in drawn(asked, gate_negatives="earliest") if not y]
    assert early == [s for i, s in enumerate(sentences) if i not in (1, 3, 5, 6)][:12]
    few = drawn(asked, gate_positives="first_3")
    assert sum(y for _, y in few) == 3 and len(few) == 12


def test_a_question_without_a_positive_gives_no_training_example():
    assert not drawn(dataclasses.replace(ASKED, answer="No."))
    sample = pairs([], Protocol(), np.random.default_rng(0))
    assert len(sample) == 0 and sample.question.shape == sample.label.shape == (0,)


def test_the_split_depends_only_on_the_set_of_patients():
    ids = ["d", "a", "c", "b", "e"]
    one = split_patients(ids, 42)
    assert all(split_patients(order, 42) == one for order in permutations(ids))
    assert split_patients([*ids, *ids], 42) == one
    assert any(split_patients(ids, seed) != one for seed in range(5))


@given(st.integers(4, 300), st.integers(0, 2**32))
def test_a_split_divides_all_patients_into_three_disjoint_parts(n: int, seed: int):
    ids = [f"p{i}" for i in range(n)]
    split = split_patients(ids, seed)
    parts = [split.train, split.validation, split.test]
    assert all(parts) and sorted(id for part in parts for id in part) == sorted(ids)
    assert len(split.train) + len(split.validation) == min(max(round(0.7 * n), 3), n - 1)
    assert all(split.part_of(id) == "test" for id in split.test)
    assert split.part_of("stranger") == ""


def test_overlapping_splits_and_too_few_patients_are_refused():
    with pytest.raises(ValueError, match="two parts"):
        Split(("a", "b"), ("b",), ("c",))
    with pytest.raises(ValueError, match="two parts"):
        Split(("a", "a"), ("b",), ("c",))
    with pytest.raises(InputError, match="at least 4 patients"):
        split_patients(["a", "b", "c", "a"], 42)
