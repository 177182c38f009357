"""Tiny Qwen2.5 models with random weights, in place of the real ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from midchart.core.readers import local_engine
from tests.support.tiny_models import TRAINED, make_qwen


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The models folder: the paper's reader, and one that was trained on few tokens."""
    folder = tmp_path_factory.mktemp("models")
    make_qwen(folder / "Qwen2.5-7B-Instruct")
    make_qwen(folder / "short", context=TRAINED, seed=3)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # small matrices on busy cores: more threads only wait
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIDCHART_MODELS", str(folder))
        patch.setenv("OMP_NUM_THREADS", "1")
        yield folder
    torch.set_num_threads(threads)
    local_engine._engine.cache_clear()
