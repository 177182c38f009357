"""Simulations that docs/power.md reports: coverage of intervals, and power of tests."""
