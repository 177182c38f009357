"""The GPU benchmark: refused without a GPU, left out of a run of all, correct at a small size."""

from __future__ import annotations

import pytest
import torch

from midchart.core.errors import InputError
from tests import bench
from tests.bench import networks

without = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")


@without
@pytest.mark.parametrize("name", [name for name in bench.BENCHES.names() if "_gpu_" in name])
def test_without_a_gpu_it_refuses_in_one_line(name: str) -> None:
    with pytest.raises(InputError, match="measures a GPU, and none") as error:
        bench.bench([name], lambda _: None)
    assert "\n" not in str(error.value)


def test_a_run_of_all_leaves_it_out_where_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    monkeypatch.setattr(bench.BENCHES, "get", lambda name: begun.append(name) or dict)
    monkeypatch.setenv("MIDCHART_GPUS", "")
    bench.bench([], lambda _: None)
    assert "attention_h2o" in begun and not [name for name in begun if "_gpu_" in name]
    begun.clear()
    monkeypatch.setenv("MIDCHART_GPUS", "0")
    bench.bench([], lambda _: None)
    assert "ehrshot_gpu_h2o" in begun


def test_the_same_code_trains_at_a_small_size_on_a_processor() -> None:
    sample = networks.drawn(64, 32, events=8, vocabulary=50)
    assert (sample.train.tokens != 0).any(axis=1).all() and sample.train.tokens.max() < 50
    seconds = networks.seconds_of("gated_differential", sample, "cpu", dim=16, heads=2)
    assert 0 < seconds < 60


def test_the_floor_is_the_slower_of_arithmetic_and_traffic() -> None:
    # 40 · (3 + 1) passes of 253 MFLOP at 253 GFLOP/s: 160 · 1 ms.
    assert networks.floor_s(3, 3, 253e9, 1e15) == pytest.approx(0.16)
    # The same passes of 3.6 MB at 1.8 GB/s: 160 · 2 ms.
    assert networks.floor_s(3, 3, 253e12, 1.8e9) == pytest.approx(0.32)
