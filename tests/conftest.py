"""What holds for all tests: no clock decides about an example, and garbage is looked for among a
test's own objects only.

Streamlit collects garbage after every run of a page and statsmodels after every correction, each
time through all that torch and its like have ever loaded: up to a second a time on a busy machine.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# A busy machine fails neither an example for its time nor a strategy for its pace.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


@pytest.fixture(scope="session", autouse=True)
def collection_is_whole_at_the_end() -> Iterator[None]:
    """Nothing stays set aside when the process ends."""
    yield
    gc.unfreeze()


@pytest.fixture(scope="module", autouse=True)
def loaded_is_no_garbage(collection_is_whole_at_the_end: None) -> None:
    """What is alive when a file's tests begin is set aside from collection (it still ends as it
    does without: by its last reference)."""
    gc.collect()
    gc.freeze()
