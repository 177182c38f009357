"""Services behind :mod:`midchart.core.api`: cohorts, questions, components, training, exports."""

from __future__ import annotations
