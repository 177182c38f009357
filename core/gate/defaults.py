"""Default gates of arms that are configured without one: that of ``qccs`` is trained on first use
and cached, that of ``qccs_plus`` is part of the program."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

from core import config as settings
from core.gate.checkpoint import CARD
from core.gate.cohort_training import PROTOCOL_FIELDS, train_gate
from core.loaders.digest import content_digest
from core.loaders.open import open_cohort
from core.protocol import Protocol
from core.provenance import digest
from core.storage.lock import exclusive

GATE_VERSION = "gate-3"
"""Changed whenever the default gate of ``qccs`` would be trained to other weights."""
PLUS_SHIPPED = Path(__file__).parent / "plus" / "shipped"
"""The default gate of ``qccs_plus``, under every protocol; docs/log.md says how it was trained."""


def default_gate(protocol: Protocol) -> Path:
    """The folder of the default gate of ``qccs``, trained if it does not exist.

    Without a demo cohort in the data folder the same cohort is generated in a temporary folder.
    """
    folder = default_gate_folder("qccs", protocol)
    if (folder / CARD).exists():
        return folder
    with exclusive(folder.with_suffix(".lock")), tempfile.TemporaryDirectory() as place:
        if not (folder / CARD).exists():  # another process may have trained it meanwhile
            demo = _demo_cohort()
            if demo is None:
                from core.synthetic.cohort import make_clinical
                from core.synthetic.letters import MIXED

                demo = Path(place) / "demo"
                make_clinical(demo, 40, 300, 42, dress=MIXED)
            train_gate(open_cohort(str(demo)), protocol, folder)
    return folder


DEFAULT_GATES: Mapping[str, Callable[[Protocol], Path]] = {
    "qccs": default_gate,
    "qccs_plus": lambda protocol: PLUS_SHIPPED,
}
"""Arm → the folder of its default gate, trained on first use where it has to be."""


def default_gate_folder(name: str, protocol: Protocol) -> Path:
    """The folder of the default gate of an arm of :data:`DEFAULT_GATES`."""
    if name == "qccs_plus":
        return PLUS_SHIPPED
    demo = _demo_cohort()
    cohort = "made" if demo is None else _cohort_digest(demo)
    values = repr([(field, getattr(protocol, field)) for field in PROTOCOL_FIELDS])
    return settings.cache_folder() / "gates" / digest(GATE_VERSION, values, cohort)[:16]


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
