"""Midchart's own small reader: a Qwen2 model of 4.7 million weights, trained here from nothing.

It learns to quote the line that answers, in synthetic training examples
(:mod:`core.synthetic.training_examples`), and is saved in the format of the Hugging Face hub, so
that the code for Qwen2.5 reads with it.
"""

from __future__ import annotations
