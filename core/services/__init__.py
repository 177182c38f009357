"""What the front door hands on: cohorts, questions, training, what is here. See core/api.py."""

from __future__ import annotations
