"""What an event is called: its code, or its code with the range its value lies in.

Every name comes from the training part alone. Codes that it hardly holds share one token, and the
edges of a code's ranges are quantiles of its values there, so that a potassium of 6.1 is another
word than one of 4.0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PADDING, UNKNOWN = 0, 1
LEAST = 5
"""Events of a code in the training part, below which it is unknown."""
RANGES = 10
"""Most ranges of a code's values."""
PER_RANGE = 20
"""Values of a code for each range it is cut into, at least."""

Codes = NDArray[np.int32]
Values = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Token ids of codes and, where ``edges`` are given, of their ranges.

    ``first``: int32 [codes + 1], the token of each code without a value; ranges follow it.
    ``edges``: code → inner edges, float32 ascending; a value on an edge is of the range above.
    ``size``: number of tokens, padding and unknown included.
    """

    first: NDArray[np.int32]
    edges: dict[int, Values]
    size: int

    @property
    def with_values(self) -> bool:
        """Whether any token tells ranges apart."""
        return bool(self.edges)

    def tokens(self, codes: Codes, values: Values) -> NDArray[np.int32]:
        """Tokens [n, length] of events; 0 stays 0. ``values`` nan where an event has none."""
        known = codes < len(self.first)
        found = np.where(known, self.first[np.where(known, codes, 0)], UNKNOWN).astype(np.int32)
        flat, code, value = found.reshape(-1), codes.reshape(-1), values.reshape(-1)
        if not self.edges:
            return found
        valued = np.flatnonzero(np.isfinite(value) & (code > 0))
        valued = valued[np.argsort(code[valued], kind="stable")]
        which, starts = np.unique(code[valued], return_index=True)
        for one, rows in zip(which.tolist(), np.split(valued, starts[1:]), strict=True):
            edges = self.edges.get(one)
            if edges is not None:
                flat[rows] += 1 + np.searchsorted(edges, value[rows], "right").astype(np.int32)
        return found

    def code_of(self) -> NDArray[np.int32]:
        """The code of each token, int32 [size]; 0 for padding and unknown."""
        found = np.zeros(self.size, np.int32)
        named = np.flatnonzero(self.first > UNKNOWN)
        order = named[np.argsort(self.first[named], kind="stable")]
        ends = np.append(self.first[order][1:], self.size)
        for code, begin, end in zip(order, self.first[order], ends, strict=True):
            found[begin:end] = code
        return found


def learn_vocabulary(codes: Codes, values: Values, with_values: bool) -> Vocabulary:
    """The vocabulary of training sequences [n, length]; code 0 is padding.

    Windows of one patient overlap, so an event counts once for each window that holds it.
    """
    counts = np.bincount(codes.reshape(-1))
    first = np.full(len(counts), UNKNOWN, np.int32)
    first[0] = PADDING
    edges = _edges(codes.reshape(-1), values.reshape(-1)) if with_values else {}
    at = UNKNOWN + 1
    # The most frequent first, so that ids say how common a token is.
    order = np.argsort(-counts[1:], kind="stable") + 1
    for code in order.tolist():
        if counts[code] < LEAST:
            break
        first[code] = at
        at += 1
        if code in edges:
            at += len(edges[code]) + 1
    kept = {code: found for code, found in edges.items() if first[code] > UNKNOWN}
    return Vocabulary(first, kept, at)


def _edges(code: Codes, value: Values) -> dict[int, Values]:
    valued = np.flatnonzero(np.isfinite(value) & (code > 0))
    valued = valued[np.argsort(code[valued], kind="stable")]
    which, starts = np.unique(code[valued], return_index=True)
    found: dict[int, Values] = {}
    for one, rows in zip(which.tolist(), np.split(value[valued], starts[1:]), strict=True):
        ranges = min(RANGES, len(rows) // PER_RANGE)
        if ranges > 1:
            inner = np.quantile(rows, np.arange(1, ranges) / ranges).astype(np.float32)
            edges = np.unique(inner)
            # A constant value tells nothing.
            if rows.min() < rows.max():
                found[one] = edges
    return found
