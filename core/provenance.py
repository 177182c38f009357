"""Provenance of a result: times, hashes of texts, files and the code, versions of packages."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from hashlib import blake2b, file_digest
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import midchart.core
from midchart.core import config as settings

if TYPE_CHECKING:
    from numpy.random import Generator

PACKAGES = (
    "accelerate",
    "anthropic",
    "duckdb",
    "httpx2",
    "numpy",
    "pandas",
    "pyarrow",
    "scikit-learn",
    "sentence-transformers",
    "tokenizers",
    "torch",
    "transformers",
)


def now() -> str:
    """The present moment, UTC, ISO 8601 with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def digest(*parts: str) -> str:
    """A short hash of parts that no other split of the same characters shares."""
    spelled = "".join([f"{len(part)}:{part}" for part in parts])
    return blake2b(spelled.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def seeded(seed: int, *names: str) -> Generator:
    """The random generator of a name, the same in every process."""
    from numpy.random import default_rng

    spelled = "".join(f"{len(name)}:{name}" for name in names)
    hashed = blake2b(spelled.encode("utf-8", "surrogatepass"), digest_size=8)
    return default_rng([seed, int.from_bytes(hashed.digest(), "big")])


def files_hash(files: Iterable[tuple[str, bytes]], size: int = 20, more: bytes = b"") -> str:
    """A hash in hex, of ``size`` bytes, of files by their names and the hashes of their content,
    and of ``more``."""
    total = blake2b(digest_size=size)
    for name, content in files:
        total.update(f"{len(name)}:{name}".encode("utf-8", "surrogateescape") + content)
    total.update(more)
    return total.hexdigest()


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hex; raises OSError."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()  # pyright: ignore[reportArgumentType]


@cache
def code_digest(*parts: str) -> str:
    """A hash of the engine's own source, or of its ``parts``: modules and packages of ``core``, as
    "bm25" and "text"."""
    core, files = settings.ROOT / "core", list[Path]()
    places = [core] if not parts else [core / part for part in parts]
    for place in places:
        inside = (p for p in place.rglob("*") if p.suffix in (".py", ".tsv"))
        files += sorted(inside) if place.is_dir() else [place.with_suffix(".py")]
    names = (path.relative_to(settings.ROOT).as_posix() for path in files)
    hashes = (blake2b(path.read_bytes(), digest_size=20).digest() for path in files)
    return files_hash(zip(names, hashes, strict=True), 10)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "absent"


@cache
def versions() -> dict[str, Any]:
    """Versions of the program, its code, Python and the packages that results depend on."""
    return {
        "midchart": midchart.core.__version__,
        "code": code_digest(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
    }
