"""Provenance of a result: times, hashes of texts, files and the code, versions of packages."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from functools import cache
from hashlib import blake2b, file_digest
from importlib import metadata
from typing import TYPE_CHECKING, Any, BinaryIO

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


def add_file(total: Any, name: str, file: BinaryIO) -> None:
    """Add a file's name and a hash of its content to a hash; raises OSError."""
    total.update(f"{len(name)}:{name}".encode("utf-8", "surrogateescape"))
    read: Any = file
    total.update(file_digest(read, lambda: blake2b(digest_size=20)).digest())


@cache
def code_digest(*parts: str) -> str:
    """A hash of the engine's own source, or of its ``parts``: modules and packages of ``core``, as
    "bm25" and "text"."""
    core, total = settings.ROOT / "core", blake2b(digest_size=10)
    places = [core] if not parts else [core / part for part in parts]
    for place in places:
        files = (
            sorted(p for p in place.rglob("*") if p.suffix in (".py", ".tsv"))
            if place.is_dir()
            else [place.with_suffix(".py")]
        )
        for path in files:
            with path.open("rb") as file:
                add_file(total, path.relative_to(settings.ROOT).as_posix(), file)
    return total.hexdigest()


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
