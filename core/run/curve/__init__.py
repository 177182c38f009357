"""Runs of kind curve: rows, scores and tables."""
