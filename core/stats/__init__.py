"""Statistics as plain functions on arrays, each with its source and an explicit generator.

Nothing here reads a file or knows what an arm is. A resampled p value is never 0; a share of
nothing is refused, not reported as 0.
"""

from __future__ import annotations

from core.stats.agreement import (
    cohen_kappa,
    gwet_ac1,
    positive_agreement,
    raw_agreement,
)
from core.stats.clustered import ClusteredBootstrap, clustered_bootstrap
from core.stats.intervals import (
    Interval,
    bootstrap_interval,
    bootstrap_proportion,
    wilson_interval,
)
from core.stats.paired import holm_adjust, mcnemar_exact
from core.stats.permutation import PermutationTest, permutation_test

__all__ = [
    "ClusteredBootstrap",
    "Interval",
    "PermutationTest",
    "bootstrap_interval",
    "bootstrap_proportion",
    "clustered_bootstrap",
    "cohen_kappa",
    "gwet_ac1",
    "holm_adjust",
    "mcnemar_exact",
    "permutation_test",
    "positive_agreement",
    "raw_agreement",
    "wilson_interval",
]
