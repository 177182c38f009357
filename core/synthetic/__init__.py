"""Synthetic cohorts in the on-disk formats of the real ones, made from one seed.

No patient stands behind any of it. The same seed gives the same bytes on every machine.
"""
