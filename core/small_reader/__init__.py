"""Midchart's own small reader: a Qwen2 model of 4.7 million weights, trained here from nothing.

It learns to quote the line that answers, in lessons (:mod:`core.synthetic.lessons`), and is saved
in the hub's format, so that the program's own code for Qwen2.5 reads with it.
"""

from __future__ import annotations
