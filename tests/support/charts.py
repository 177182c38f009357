"""A record with one event a day."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

from midchart.core.types import Event, Record

START = datetime(2015, 1, 1)


def chart(*texts: str, kind: str = "observation", digest: str = "") -> Record:
    """One event a text; other texts or another kind are another record."""
    events = tuple(
        Event(i, START + timedelta(days=i), kind, text=text) for i, text in enumerate(texts)
    )
    return Record("p1", events, digest or json.dumps([kind, texts]))
