"""Runs: composed, watched and compared."""
