"""Statistics as plain functions on arrays, each with its source and an explicit generator.

Nothing here reads a file or knows what an arm is. A resampled p value is never 0; a share of
nothing is refused, not reported as 0.
"""
