"""Runs of kind forecast: what a spec may say, the work, its rows, tables and verdict."""
