"""Runs of kind ``audit``: where another system lost the evidence, read back from its log."""
