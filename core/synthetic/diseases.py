"""The table of all long-term conditions the generator knows."""

from __future__ import annotations

from core.synthetic.diseases_heart import HEART
from core.synthetic.diseases_inner import INNER
from core.synthetic.diseases_more import OTHERS
from core.synthetic.model import Disease

DISEASES: dict[str, Disease] = {d.key: d for d in (*HEART, *INNER, *OTHERS)}
