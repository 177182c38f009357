"""Markup as text: the narrative of CDA documents and HTML, one line a paragraph, item or row."""

from __future__ import annotations

import re

_BLOCKS = frozenset(
    ("p", "div", "br", "li", "tr", "table", "ul", "ol", "section", "h1", "h2", "h3", "h4", "h5")
)


def html_text(markup: str) -> str:
    """The text of an HTML fragment, one line a block; scripts and styles are left out."""
    import lxml.etree
    import lxml.html

    try:
        root = lxml.html.document_fromstring(markup)
    except (lxml.etree.ParserError, ValueError):
        return ""
    parts: list[str] = []
    for action, element in lxml.etree.iterwalk(root, events=("start", "end")):
        if not isinstance(element.tag, str) or element.tag in ("script", "style", "head"):
            parts.append((element.tail or "") if action == "end" else "")
            continue
        if action == "start":
            inside = element.text or ""
            parts.append(("\n" if element.tag in _BLOCKS else "") + inside)
        else:
            gap = "\n" if element.tag in _BLOCKS else " " if element.tag in ("td", "th") else ""
            parts.append(gap + (element.tail or ""))
    lines = (" ".join(line.split()) for line in "".join(parts).split("\n"))
    return re.sub(r"\n{2,}", "\n", "\n".join(lines)).strip()
