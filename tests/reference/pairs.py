"""Pairs scored the plain way: each pair alone through transformers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def outputs(folder: Path, pairs: Sequence[tuple[str, str]], longest: int) -> NDArray[np.float32]:
    """Logits of each pair by itself, float32 [n, labels]."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    rows = []
    with torch.inference_mode():
        for first, second in pairs:
            # As lists: a bare empty second text would be taken for none at all.
            read = tokenizer(
                [first], [second], truncation=True, max_length=longest, return_tensors="pt"
            )
            rows.append(model(**read).logits[0].numpy())
    return np.stack(rows)
