"""Synthetic cohorts in the on-disk formats of the real ones, made from one seed.

No text or value comes from a patient. The same seed gives the same bytes on every machine.
"""
