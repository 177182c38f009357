"""Sizes of the product are within their limits, but for those that are listed as not met."""

from __future__ import annotations

from tests.sizes import NOT_MET, lines, sizes, tracked


def test_sizes_are_within_their_limits() -> None:
    above = {
        size.what: f"{size.now:,} of {size.limit:,}" for size in sizes() if size.now > size.limit
    }
    print("not met:", above)
    assert above.keys() <= NOT_MET


def test_what_is_counted_is_there() -> None:
    assert lines(tracked("core")) > 10_000 and tracked(".", ".yaml", ".tsv")
    assert len({size.what for size in sizes()}) == len(sizes())
