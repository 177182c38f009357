"""Default gates of arms that are configured without one: trained on first use, then cached."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

from core import config as settings
from core.gate.checkpoint import CARD
from core.gate.cohort_training import PROTOCOL_FIELDS, UNIT_FIELDS, train_gate, train_plus_gate
from core.gate.plus.checkpoint import STEM as PLUS_STEM
from core.loaders.digest import content_digest
from core.loaders.open import open_cohort
from core.protocol import Protocol
from core.provenance import digest
from core.storage.lock import exclusive

GATE_VERSION, PLUS_VERSION = "gate-3", "plus-2"
"""Changed whenever a default gate would be trained to other weights."""


def default_gate(protocol: Protocol) -> Path:
    """The folder of the default gate of ``qccs``, trained if it does not exist.

    Without a demo cohort in the data folder the same cohort is generated in a temporary folder.
    """
    demo = _demo_cohort()

    def train(folder: Path) -> None:
        if demo is not None:
            train_gate(open_cohort(str(demo)), protocol, folder)
            return
        from core.synthetic.cohort import make_clinical
        from core.synthetic.letters import MIXED

        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "demo"
            make_clinical(path, 40, 300, 42, dress=MIXED)
            train_gate(open_cohort(str(path)), protocol, folder)

    return _once(default_gate_folder("qccs", protocol), CARD, train)


def default_plus(protocol: Protocol) -> Path:
    """The folder of the default gate of ``qccs_plus``, trained if it does not exist."""

    def train(folder: Path) -> None:
        from core.synthetic.cohort import make_clinical

        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "training"
            make_clinical(path, 160, 250, 9001)
            train_plus_gate(open_cohort(str(path)), protocol, folder, every_patient=True)

    return _once(default_gate_folder("qccs_plus", protocol), f"{PLUS_STEM}.json", train)


DEFAULT_GATES: Mapping[str, Callable[[Protocol], Path]] = {
    "qccs": default_gate,
    "qccs_plus": default_plus,
}
"""Arm → the folder of its default gate, trained on first use."""


def default_gate_folder(name: str, protocol: Protocol) -> Path:
    """The cache folder of the default gate of an arm of :data:`DEFAULT_GATES`."""
    if name == "qccs":
        demo = _demo_cohort()
        cohort = "made" if demo is None else _cohort_digest(demo)
        return _folder(protocol, PROTOCOL_FIELDS, GATE_VERSION, cohort)
    return _folder(protocol, UNIT_FIELDS, PLUS_VERSION)


def _folder(protocol: Protocol, fields: tuple[str, ...], version: str, *cohort: str) -> Path:
    values = repr([(name, getattr(protocol, name)) for name in fields])
    return settings.cache_folder() / "gates" / digest(version, values, *cohort)[:16]


def _once(folder: Path, card: str, train: Callable[[Path], None]) -> Path:
    """``folder``, after ``train`` has written its ``card``, in one process alone."""
    if not (folder / card).exists():
        with exclusive(folder.with_suffix(".lock")):
            if not (folder / card).exists():
                train(folder)
    return folder


def _demo_cohort() -> Path | None:
    path = settings.cohorts_folder() / "demo"
    return path if (path / "midchart.toml").is_file() else None


def _cohort_digest(path: Path) -> str:
    changed = tuple(sorted(p.stat().st_mtime_ns for p in path.rglob("*") if p.is_file()))
    return _digest_at(path, changed)


@lru_cache(maxsize=8)
def _digest_at(path: Path, changed: tuple[int, ...]) -> str:
    """The content hash of a cohort whose files were last changed at these times."""
    return content_digest(path)
