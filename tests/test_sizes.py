"""Sizes of the product: each excess is printed, and a tenth of tolerance is allowed."""

from __future__ import annotations

import pytest

from tests.sizes import lines, sizes, tracked


@pytest.mark.slow
def test_sizes_are_within_their_limits() -> None:
    """A tenth of tolerance: fails above limit times 1.1; whatever is above its limit is printed."""
    counted = sizes()
    for size in counted:
        if size.state:
            print(f"{size.what}: {size.now:,} of {size.limit:,}, {size.state}")
    assert not [size.what for size in counted if size.state == "not met"]


def test_what_is_counted_is_there() -> None:
    assert lines(tracked("core")) > 10_000 and tracked("core", ".yaml", ".tsv")
