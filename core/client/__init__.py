"""Calling a service that may be slow, busy, broken or hostile; no connection is opened here."""

from __future__ import annotations
