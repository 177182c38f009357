"""Midchart's engine: what a language model misses in the middle of a patient's chart.

A package imports only from lower layers; ``docs/architecture.md`` has the map and
``pyproject.toml`` the import contracts. What a process writes that imports it only its owner can
read: files have mode 0600, folders 0700.
"""

import os

__version__ = "0.1.0"

ORDINARY_UMASK = os.umask(0o077)
"""The umask that the process was started with; exports to a place that a person names have it."""
