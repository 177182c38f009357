"""The included demo cohorts: another one needs the generator, a damaged archive is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from midchart.core import api, config
from midchart.core.errors import DataError, InputError
from midchart.core.services import cohorts


@pytest.mark.parametrize("options", [{"patients": 2}, {"seed": 7}, {"kind": "meds"}])
def test_without_the_generator_one_line_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, object]
):
    monkeypatch.setattr(cohorts, "entry_points", lambda **_: ())
    assert api.prepare_demo(tmp_path / "letters", kind="letters")["patients"] == 10
    with pytest.raises(InputError, match=r"midchart\.extras\.lab, which makes others, is not"):
        api.prepare_demo(tmp_path / "other", **options)
    assert not (tmp_path / "other").exists()


def test_a_damaged_archive_is_refused_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    data = shutil.copytree(config.ROOT / "data" / "demo", tmp_path / "data" / "demo")
    packed = bytearray((data / "demo-letters.tar.xz").read_bytes())
    packed[50_000] ^= 1
    (data / "demo-letters.tar.xz").write_bytes(packed)
    monkeypatch.setattr(config, "ROOT", tmp_path)
    with pytest.raises(DataError, match=r"demo-letters\.tar\.xz.*is damaged"):
        api.prepare_demo(tmp_path / "out", kind="letters")
    assert not (tmp_path / "out").exists()
