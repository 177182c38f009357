"""Ways to attend to a patient's events, one file each; a file's name is its attention's name.

The members are PyTorch modules, and PyTorch takes seconds to load: names and titles are read from
the files. What they share is in ``midchart.core.attention.base``.
"""

from __future__ import annotations

import re
from pathlib import Path

from midchart.core.interfaces import Attention
from midchart.core.registry import Registry


class Attentions(Registry[Attention]):
    """Name → attention, with titles that need no import."""

    def title(self, name: str) -> str:
        """The title of a member, read from its file."""
        text = Path(__path__[0], f"{name}.py").read_text(encoding="utf-8")
        declared = re.search(r'^    title(?:: \S+)? = "(.+)"$', text, re.MULTILINE)
        return declared[1] if declared else name


ATTENTIONS = Attentions("attention", "midchart.core.attention")
