"""Text of cohorts and runs where Streamlit reads markdown: shown as it stands, never obeyed.

Names, facts of a patient, errors and labels come from files that somebody else wrote. Where they
stand in a caption, a message or a label they go through :func:`plain`; in HTML and in figures
through :func:`pages.ui.shared.marks.safe`. Lists (selectbox, multiselect), tables and ``st.text``
show text as it is and need neither.
"""

from __future__ import annotations

import re

from pages.ui.shared import marks

READ = frozenset("\\`*_{}[]()#+-.!|~>$:<&")
"""Characters that markdown, or what Streamlit adds to it, may read as more than themselves."""
_BREAK = re.compile(r"[\r\n]+")


def plain(text: str) -> str:
    """A text as one line of plain text inside markdown."""
    line = marks.visible(_BREAK.sub(" ", text))
    return "".join(f"\\{c}" if c in READ else c for c in line)


def looks_marked(text: str) -> bool:
    """Whether a text could become an image, a link, a formula or an icon where markdown is read.

    For choices whose words are in the address too and so cannot be escaped there.
    """
    return any(c in "[<$`:*\r\n" for c in text)
