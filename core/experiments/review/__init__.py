"""People as judges: answers without their arm, in an order of their own, and agreement."""

from __future__ import annotations
