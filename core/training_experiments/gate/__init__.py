"""Gates in runs: trained on cohorts, evaluated variant by variant, and the default ones."""
