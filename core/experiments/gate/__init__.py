"""Gates in runs: trained on cohorts, examined variant by variant, and the default ones."""

from __future__ import annotations
