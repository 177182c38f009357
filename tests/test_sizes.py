"""Sizes of the product: each excess is printed, and none grows."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from tests.sizes import lines, sizes, tracked

REACHED = {"a typed question on page Patient, files entered": 52}
"""What is more than a tenth above its limit, and the size that it may not exceed until it is met.
Lower a number with each change that makes the product lighter. A typed question enters 40 files;
where it takes longer than a minute, the page looks at the cohorts once more, which is about 50."""


@pytest.mark.slow
def test_sizes_are_within_their_limits_or_do_not_grow() -> None:
    """A tenth above a limit is allowed; what is above that is printed and held where it is."""
    # In a process of its own: page Patient computes more where others have loaded its models.
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        counted = pool.submit(sizes).result()
    for size in counted:
        if size.state:
            print(f"{size.what}: {size.now:,} of {size.limit:,}, {size.state}")
    above = {size.what: size.now for size in counted if size.state == "not met"}
    assert above.keys() <= REACHED.keys()
    assert not {what: now for what, now in above.items() if now > REACHED[what]}


def test_what_is_counted_is_there() -> None:
    assert lines(tracked("core")) > 10_000 and tracked("core", ".yaml", ".tsv")
