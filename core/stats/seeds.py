"""Random generators from a seed and names."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np


def seeded(seed: int, *names: str) -> np.random.Generator:
    """The generator of a name, the same in every process."""
    spelled = "".join(f"{len(name)}:{name}" for name in names)
    hashed = blake2b(spelled.encode("utf-8", "surrogatepass"), digest_size=8)
    return np.random.default_rng([seed, int.from_bytes(hashed.digest(), "big")])
