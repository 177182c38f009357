"""A prompt as a reader got it, on any page that shows one: whole, or cut in the middle and so told.

A prompt ends with the question and how it is to be answered; a cut that took its end would hide
what the reader was asked.
"""

from __future__ import annotations

from pages.ui.shared import marks

MOST = 20_000
"""Characters of a prompt shown."""

CSS = """
.mc-prompt{white-space:pre-wrap;unicode-bidi:plaintext;font-size:.8rem;line-height:1.45;
 border-inline-start:2px solid var(--mc-line);padding-inline-start:.7rem;overflow-wrap:anywhere}
.mc-prompt-cut{font-size:.85rem;font-weight:600;margin:.5rem 0}
"""


def html(text: str) -> str:
    """The prompt as HTML; of a very long one its head and its tail, and how much is between."""
    if len(text) > MOST:
        half = MOST // 2
        cut = len(text) - 2 * half
        body = (
            f"{marks.safe(text[:half])}</div>"
            f'<p class="mc-prompt-cut">… {cut:,} characters not shown …</p>'
            f'<div class="mc-prompt">{marks.safe(text[-half:])}'
        )
    else:
        body = marks.safe(text)
    return f"<style>{CSS}</style>" + marks.block(f'<div class="mc-prompt">{body}</div>')
