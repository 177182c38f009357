"""``python -m tests.bench.peers [NAME …]``: our paths and released packages that do the same work.

Both sides are timed in one run, in turn, in processor seconds of one thread (``OMP_NUM_THREADS=1``
is set where it is not), at several sizes. ``ratio`` is the package's time by ours at the largest
size, ``exponent`` the slope of log time over log size. Results are compared before they are timed.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy and torch start their threads

import numpy as np

from midchart.core.bm25 import BM25Index
from midchart.core.cli import table
from midchart.core.stats.auroc import clustered_auroc
from midchart.core.stats.intervals import clustered_bootstrap
from midchart.core.text import words

ROUNDS = 5
Work = Callable[[], Any]


class Pair(NamedTuple):
    """A size, and the same work by a package and by us."""

    size: int
    package: Work
    ours: Work


class Peer(NamedTuple):
    """What is done, the package that does it too, and its sizes from the smallest on."""

    what: str
    distribution: str
    pairs: Callable[[], Sequence[Pair]]


def seconds(work: Work) -> float:
    """Processor seconds of one call, which is repeated until it takes 20 ms."""
    calls = 1
    while True:
        start = time.process_time()
        for _ in range(calls):
            work()
        took = time.process_time() - start
        if took > 0.02:
            return took / calls
        calls *= 4


def exponent(sizes: Sequence[int], times: Sequence[float]) -> float:
    """Slope of log time over log size."""
    x, y = np.log(sizes), np.log(times)
    return float(((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum())


def measure(peer: Peer) -> dict[str, Any]:
    """The row of a peer."""
    sizes: list[int] = []
    package: list[float] = []
    ours: list[float] = []
    for pair in peer.pairs():
        each: list[tuple[float, float]] = []
        for _ in range(ROUNDS):
            each.append((seconds(pair.package), seconds(pair.ours)))
        sizes.append(pair.size)
        package.append(statistics.median(one for one, _ in each))
        ours.append(statistics.median(one for _, one in each))
    return {
        "what": peer.what,
        "package": f"{peer.distribution} {version(peer.distribution)}",
        "size": sizes[-1],
        "package_ms": round(1e3 * package[-1], 3),
        "ours_ms": round(1e3 * ours[-1], 3),
        "ratio": round(package[-1] / ours[-1], 1),
        "package_exponent": round(exponent(sizes, package), 2),
        "exponent": round(exponent(sizes, ours), 2),
    }


# BM25: Zipf's words, as sentences of a record.

SENTENCES = (500, 2_000, 8_000)
ASKED = words("w3 w17 w90 w400 w1200 w17")


def _sentences(count: int) -> list[list[str]]:
    rng = np.random.default_rng(0)
    return [
        [f"w{rank}" for rank in rng.zipf(1.3, rng.integers(4, 20)).clip(max=5000)]
        for _ in range(count)
    ]


def _bm25s_query() -> list[Pair]:
    import bm25s

    pairs: list[Pair] = []
    for size in SENTENCES:
        corpus = _sentences(size)
        package = bm25s.BM25(k1=1.5, b=0.75, method="lucene")
        package.index(corpus, show_progress=False)
        index = BM25Index(corpus, "non_negative")
        asked = [word for word in ASKED if word in package.vocab_dict]
        # Lucene's score leaves out the factor k1 + 1.
        same = np.allclose(2.5 * package.get_scores(asked), index.scores(ASKED), rtol=1e-4)
        assert same, "the same scores"
        pairs.append(Pair(size, lambda t=package, a=asked: t.get_scores(a),
                          lambda i=index: i.scores(ASKED)))  # fmt: skip
    return pairs


def _bm25s_build() -> list[Pair]:
    import bm25s

    def package(corpus: list[list[str]]) -> None:
        bm25s.BM25(method="lucene").index(corpus, show_progress=False)

    return [
        Pair(size, lambda c=corpus: package(c), lambda c=corpus: BM25Index(c, "non_negative"))
        for size in SENTENCES
        for corpus in [_sentences(size)]
    ]


def _rank_bm25_query() -> list[Pair]:
    from rank_bm25 import BM25Okapi

    pairs: list[Pair] = []
    for size in SENTENCES:
        corpus = _sentences(size)
        package, index = BM25Okapi(corpus), BM25Index(corpus)
        pairs.append(Pair(size, lambda t=package: t.get_scores(ASKED),
                          lambda i=index: i.scores(ASKED)))  # fmt: skip
    return pairs


# Intervals by patient.

PATIENTS, RESAMPLES = (50, 200, 800), 2_000


def _shares(patients: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    member = np.repeat(np.arange(patients), rng.integers(1, 9, patients))
    return rng.integers(0, 2, len(member)).astype(float), member


def _scipy_bootstrap() -> list[Pair]:
    from scipy.stats import bootstrap

    pairs: list[Pair] = []
    for patients in PATIENTS:
        values, member = _shares(patients)
        right = np.bincount(member, weights=values)
        sizes = np.bincount(member).astype(float)
        bins = np.zeros(len(values), dtype=np.int64)

        def package(right: np.ndarray = right, sizes: np.ndarray = sizes) -> Any:
            return bootstrap(
                (right, sizes), lambda r, n, axis: r.sum(axis) / n.sum(axis), paired=True,
                n_resamples=RESAMPLES, method="percentile", rng=np.random.default_rng(0),
            ).confidence_interval  # fmt: skip

        def ours(
            values: np.ndarray = values, member: np.ndarray = member, bins: np.ndarray = bins
        ) -> Any:
            rng = np.random.default_rng(0)
            return clustered_bootstrap(values, member, bins, RESAMPLES, rng, bin_count=1)

        low, high = package()
        other = ours()
        assert math.isclose(low, other.low[0], abs_tol=0.02), "the same interval"
        assert math.isclose(high, other.high[0], abs_tol=0.02)
        pairs.append(Pair(patients, package, ours))
    return pairs


def _sklearn_auroc() -> list[Pair]:
    from sklearn.metrics import roc_auc_score

    resamples, pairs = 100, []
    for patients in PATIENTS:
        labels, member = _shares(patients)
        scores = np.random.default_rng(1).random(len(labels)) + 0.3 * labels
        rows = [np.flatnonzero(member == one) for one in range(patients)]

        def package(
            labels: np.ndarray = labels, scores: np.ndarray = scores, rows: list[Any] = rows
        ) -> Any:
            rng, areas = np.random.default_rng(0), []
            for _ in range(resamples):
                drawn = np.concatenate([rows[i] for i in rng.integers(0, len(rows), len(rows))])
                areas.append(roc_auc_score(labels[drawn], scores[drawn]))
            return np.percentile(areas, [2.5, 97.5])

        def ours(
            labels: np.ndarray = labels, scores: np.ndarray = scores, member: np.ndarray = member
        ) -> Any:
            rng = np.random.default_rng(0)
            return clustered_auroc(scores, labels, member, resamples, rng, widened=False)

        low, high = package()
        other = ours()
        assert math.isclose(low, other.low, abs_tol=0.05), "the same interval"
        assert math.isclose(high, other.high, abs_tol=0.05)
        pairs.append(Pair(patients, package, ours))
    return pairs


# Models.


def _entmax() -> list[Pair]:
    import torch
    from entmax import entmax15

    from midchart.core.attention.base import Entmax15Rows

    pairs: list[Pair] = []
    for width in (64, 256, 1024):
        scores = torch.randn(512, width, generator=torch.Generator().manual_seed(0))

        everything = torch.ones(512, width, dtype=torch.bool)

        def ours15(x: Any, everything: Any = everything) -> Any:
            return Entmax15Rows.apply(x, everything)

        def step(function: Callable[..., Any], scores: Any = scores) -> Any:
            x = scores.clone().requires_grad_()
            function(x).square().sum().backward()
            return x.grad

        assert torch.allclose(step(entmax15), step(ours15), atol=1e-4), "the same gradients"
        pairs.append(Pair(width, lambda s=step: s(entmax15), lambda s=step, o=ours15: s(o)))
    return pairs


def _minilm() -> list[Pair]:
    from sentence_transformers import SentenceTransformer

    from midchart.core.embedding.embedder import MiniLM
    from midchart.core.weights import MINILM, locate

    folder = locate(MINILM).folder
    package, ours = SentenceTransformer(str(folder), device="cpu"), MiniLM(folder)
    pairs: list[Pair] = []
    for count in (32, 128):
        texts = [" ".join(sentence) for sentence in _sentences(count)]
        one = package.encode(texts, normalize_embeddings=True)
        assert np.abs(one - ours.encode(texts)).max() < 1e-5, "the same vectors"
        pairs.append(Pair(count, lambda t=texts: package.encode(t), lambda t=texts: ours.encode(t)))
    return pairs


PEERS = {
    "bm25": Peer("BM25, a question, index built", "bm25s", _bm25s_query),
    "bm25_build": Peer("BM25, the index", "bm25s", _bm25s_build),
    "rank_bm25": Peer("BM25, a question, index built", "rank-bm25", _rank_bm25_query),
    "bootstrap": Peer(
        f"interval of a share by patient, {RESAMPLES:,} resamples", "scipy", _scipy_bootstrap
    ),
    "auroc": Peer("interval of an AUROC by patient, 100 resamples", "scikit-learn", _sklearn_auroc),
    "entmax": Peer("1.5-entmax of 512 rows, forward and backward", "entmax", _entmax),
    "minilm": Peer("MiniLM, vectors of sentences", "sentence-transformers", _minilm),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row a peer."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.peers", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *PEERS], metavar="NAME")
    names = parser.parse_args(arguments).names or list(PEERS)
    rows = [measure(PEERS[name]) for name in names]
    table(rows, list(rows[0]))


if __name__ == "__main__":
    main()
