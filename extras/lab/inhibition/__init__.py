"""Runs of kind inhibition: what a spec may say, the work, its rows, tables and verdict."""
