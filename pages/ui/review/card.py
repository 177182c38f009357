"""One answer to be judged, as HTML: question, reference, evidence, answer; nothing of its origin.

All of it is text of records or of models and is escaped by :func:`pages.ui.shared.marks.safe`.
"""

from __future__ import annotations

from collections.abc import Sequence

from pages.ui.shared import marks

CSS = """
.mc-review{display:grid;grid-template-columns:minmax(6.5rem,max-content) 1fr;gap:.5rem 1rem;
 font-size:1rem;line-height:1.5;margin:.2rem 0 .6rem}
.mc-review dt{opacity:.72;font-size:.86rem;padding-top:.12rem}
.mc-review dd{margin:0;overflow-wrap:anywhere;unicode-bidi:plaintext;white-space:pre-wrap}
.mc-review dd.mc-said{border:2px solid var(--mc-line);border-radius:4px;padding:.35rem .6rem}
.mc-review dd ul{margin:0;padding-inline-start:1.1rem}
@media (max-width:480px){.mc-review{grid-template-columns:1fr;gap:.1rem}
 .mc-review dd{margin-bottom:.5rem}}
"""
MOST_EVIDENCE = 12


def html(question: str, reference: str, evidence: Sequence[str], answer: str) -> str:
    """The card; evidence beyond a dozen sentences is counted."""
    shown = [f"<li>{marks.safe(text)}</li>" for text in evidence[:MOST_EVIDENCE]]
    if len(evidence) > MOST_EVIDENCE:
        shown.append(f"<li>and {len(evidence) - MOST_EVIDENCE:,} more</li>")
    lines = f"<ul>{''.join(shown)}</ul>" if shown else "not found in the record"
    rows = (
        f"<dt>Question</dt><dd>{marks.safe(question)}</dd>"
        f"<dt>Clinician's answer</dt><dd>{marks.safe(reference or 'none')}</dd>"
        f"<dt>Evidence</dt><dd>{lines}</dd>"
        f'<dt>Answer to judge</dt><dd class="mc-said">{marks.safe(answer) or "(empty)"}</dd>'
    )
    return f"<style>{CSS}</style>" + marks.block(f'<dl class="mc-review">{rows}</dl>')
