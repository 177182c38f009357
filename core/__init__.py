"""Midchart's engine: what a language model misses in the middle of a patient's chart.

The floors, bottom up: the cellar (types, registry, errors, settings), the workshop of pure
tools (text, evidence, protocol, packing, embedding, stats), the closed studios (loaders,
synthetic, arms, readers, judges, store), the hall (run), and the door (api, the command line).
A room imports from lower floors only; pyproject.toml holds the contracts.
"""

__version__ = "0.1.0"
