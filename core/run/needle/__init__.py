"""Runs of kind needles: the cohort with needles in it, its items, rows, tables and contrast."""
