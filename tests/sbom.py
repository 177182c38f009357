"""Software bill of materials of the application: CycloneDX 1.6 in JSON, from requirements.lock.

``python -m tests.sbom`` (``make sbom``) prints it. Each package has its version, package URL, the
SHA-256 of every file that the lock accepts, its licence where it is installed, and what it needs.
Specification: https://cyclonedx.org/docs/1.6/json/
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from midchart.core import __version__

ROOT = Path(__file__).parent.parent
_ENTRY = re.compile(
    r"(?m)^([\w.-]+)==([^ ;\\\n]+)(?: ; ([^\\\n]*?))?(?: \\)?\n((?:    --hash=.*\n)*)"
)


@dataclass(frozen=True)
class Pin:
    """A package of a lock or of a file of requirements: version, marker, SHA-256 of its files."""

    version: str
    marker: str = ""
    hashes: tuple[str, ...] = ()


def normal(name: str) -> str:
    """A package's name as PEP 503 has it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(file: Path) -> dict[str, Pin]:
    """Package → pin, of a lock or of a file of requirements."""
    return {
        normal(name): Pin(version, marker, tuple(re.findall(r"sha256:([0-9a-f]{64})", hashes)))
        for name, version, marker, hashes in _ENTRY.findall(file.read_text(encoding="utf-8"))
    }


def needs(name: str) -> list[str]:
    """What an installed package names as needed, extras aside; nothing for one not installed."""
    try:
        stated = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return []
    return sorted({normal(re.split(r"[^\w.-]", one)[0]) for one in stated if "extra ==" not in one})


def _licence(name: str) -> str:
    try:
        facts = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return ""
    stated = facts.get("License-Expression") or facts.get("License") or ""
    classifiers = [one for one in facts.get_all("Classifier") or [] if one.startswith("License")]
    named = classifiers[0].rpartition(":: ")[2] if classifiers else ""
    return stated if 0 < len(stated) < 60 and "\n" not in stated else named


def _component(name: str, pin: Pin) -> dict[str, Any]:
    purl = f"pkg:pypi/{name}@{pin.version}"
    licence = _licence(name)
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": pin.version,
        "purl": purl,
        **({"licenses": [{"license": {"name": licence}}]} if licence else {}),
        **(
            {"hashes": [{"alg": "SHA-256", "content": one} for one in pin.hashes]}
            if pin.hashes
            else {}
        ),
    }


def document(packages: Mapping[str, Pin]) -> dict[str, Any]:
    """The bill of materials of these packages; the same packages give the same document."""
    application = f"pkg:generic/midchart@{__version__}"
    references = {name: f"pkg:pypi/{name}@{pin.version}" for name, pin in packages.items()}
    direct = pins(ROOT / "requirements.txt")
    links = {application: direct} | {references[name]: needs(name) for name in packages}
    content = [_component(name, pin) for name, pin in sorted(packages.items())]
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    serial = "-".join(
        (digest[:8], digest[8:12], f"5{digest[13:16]}", f"8{digest[17:20]}", digest[20:32])
    )
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": application,
                "name": "midchart",
                "version": __version__,
            }
        },
        "components": content,
        "dependencies": [
            {"ref": ref, "dependsOn": [references[one] for one in named if one in references]}
            for ref, named in links.items()
        ],
    }


def application() -> dict[str, Pin]:
    """What `make app` installs: the lock, and what requirements.txt pins outside of it."""
    return pins(ROOT / "requirements.txt") | pins(ROOT / "requirements.lock")


if __name__ == "__main__":
    print(json.dumps(document(application()), indent=1))
