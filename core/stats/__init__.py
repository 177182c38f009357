"""Statistics as plain functions on arrays, each with its source and an explicit generator.

Nothing here reads a file or knows what an arm is. A resampled p value is never 0; a share of
nothing is refused, not reported as 0.
"""

from __future__ import annotations

from core.stats.agreement import (
    ac1_of,
    cohen_kappa,
    fleiss_kappa,
    gwet_ac1,
    kappa_of,
    positive_agreement,
    positive_of,
    raw_agreement,
    raw_of,
    repeat_agreement,
)
from core.stats.auroc import auprc_floor, auroc_difference_floor, auroc_floor, clustered_auroc
from core.stats.clustered import (
    ClusteredBootstrap,
    cluster_totals,
    clustered_bootstrap,
    clustered_intervals,
    clustered_wilson,
)
from core.stats.crossed import FEWEST_SEEDS, CrossedBootstrap, crossed_bootstrap
from core.stats.delong import AreaTest, Placements, clustered_test, delong_test, placements
from core.stats.hanley_mcneil import hanley_mcneil, hanley_mcneil_se
from core.stats.intervals import (
    Interval,
    bootstrap_interval,
    bootstrap_proportion,
    newcombe_independent,
    wilson_interval,
)
from core.stats.multiple import benjamini_hochberg, holm_adjust
from core.stats.paired import CochranQ, cochran_q, mcnemar_exact, newcombe_paired
from core.stats.permutation import PermutationTest, permutation_test
from core.stats.power import connor_pairs, mcnemar_power, smallest_difference
from core.stats.ranking import Ranking, Thresholds, clustered_ranking, ranking_areas, thresholds
from core.stats.reported import (
    FEWEST_CLUSTERS,
    agreement_floors,
    clustered_newcombe,
    difference_floor,
    expanded_level,
    paired_floor,
    reported_interval,
    share_floor,
    share_interval,
)
from core.stats.within import WithinContrast, within_contrast

__all__ = [
    "FEWEST_CLUSTERS",
    "FEWEST_SEEDS",
    "AreaTest",
    "ClusteredBootstrap",
    "CochranQ",
    "CrossedBootstrap",
    "Interval",
    "PermutationTest",
    "Placements",
    "Ranking",
    "Thresholds",
    "WithinContrast",
    "ac1_of",
    "agreement_floors",
    "auprc_floor",
    "auroc_difference_floor",
    "auroc_floor",
    "benjamini_hochberg",
    "bootstrap_interval",
    "bootstrap_proportion",
    "cluster_totals",
    "clustered_auroc",
    "clustered_bootstrap",
    "clustered_intervals",
    "clustered_newcombe",
    "clustered_ranking",
    "clustered_test",
    "clustered_wilson",
    "cochran_q",
    "cohen_kappa",
    "connor_pairs",
    "crossed_bootstrap",
    "delong_test",
    "difference_floor",
    "expanded_level",
    "fleiss_kappa",
    "gwet_ac1",
    "hanley_mcneil",
    "hanley_mcneil_se",
    "holm_adjust",
    "kappa_of",
    "mcnemar_exact",
    "mcnemar_power",
    "newcombe_independent",
    "newcombe_paired",
    "paired_floor",
    "permutation_test",
    "placements",
    "positive_agreement",
    "positive_of",
    "ranking_areas",
    "raw_agreement",
    "raw_of",
    "repeat_agreement",
    "reported_interval",
    "share_floor",
    "share_interval",
    "smallest_difference",
    "thresholds",
    "wilson_interval",
    "within_contrast",
]
