"""Writes a record in the release dialect of MedAlign's event streams."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from core.synthetic.model import Encounter, Item, Patient


def _provider(index: int, specialty: str) -> dict[str, str]:
    """A provider's attributes; registries miss some, and then say "NULL"."""
    born = str(1951 + index * 7 % 39)
    return {
        "provider_id": str(6700000 + index),
        "gender": ("MALE", "FEMALE", "NULL")[index % 3],
        "speciality": specialty if index % 7 else "NULL",
        "year_of_birth": born if index % 4 else "NULL",
        "care_site_name": specialty.upper() if index % 5 else "NULL",
    }


def _attributes(pairs: dict[str, str]) -> str:
    return "".join(f" {name}={quoteattr(value)}" for name, value in pairs.items())


def _event(p: Patient, e: Encounter, item: Item, providers: list[dict[str, str]], site: str) -> str:
    pairs = {"type": item.type, "code": item.code, "name": item.name}
    pairs["visit_id"] = f"{int(p.id) % 10**6}{e.number:04d}"
    if item.note is not None:
        pairs["note_id"] = f"{int(p.id) % 10**6}{item.order:05d}"
    pairs["provider_id"] = providers[item.order % len(providers)]["provider_id"]
    if item.type in ("visit", "visit_detail", "note"):
        pairs["care_site_id"] = site
    if item.unit:
        pairs["unit"] = item.unit
    head = f"<event{_attributes(pairs)}"
    return f"{head}>{escape(item.text)}</event>" if item.text else f"{head}/>"


def lines(p: Patient, encounters: list[Encounter]) -> Iterator[str]:
    """The document, line by line; events keep the order that :func:`events.number` gave them."""
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f'<eventstream person_id="{p.id}">'
    for e in encounters:
        base = sum(ord(c) for c in e.specialty) % 90
        providers = [
            _provider(base + 17 * k + e.number % 3, e.specialty)
            for k in range(1 + len(e.items) % 3)
        ]
        site = str(520000 + base)
        yield "<encounter>"
        yield "<person>"
        yield f"<birthdate>{p.birth:%Y-%m-%d}</birthdate>"
        days = (e.start - p.birth).days
        yield f"<age><days>{days}</days><years>{p.age(e.start)}</years></age>"
        yield (
            f"<demographics><ethnicity>{escape(p.ethnicity)}</ethnicity>"
            f"<race>{escape(p.race)}</race><gender>{p.sex}</gender></demographics>"
        )
        yield f"<payerplan>{escape(p.payer)}</payerplan>"
        yield "</person>"
        yield (
            f'<caresites><caresite care_site_id="{site}" '
            f"care_site_name={quoteattr(e.specialty.upper())}/></caresites>"
        )
        yield "<providers>"
        for provider in providers:
            yield f"<provider{_attributes(provider)}/>"
        yield "</providers>"
        yield "<events>"
        stamp = ""
        for item in e.items:
            now = f"{item.when:%Y-%m-%d %H:%M}"
            if now != stamp:
                if stamp:
                    yield "</entry>"
                yield f'<entry timestamp="{now}">'
                stamp = now
            yield _event(p, e, item, providers, site)
        if stamp:
            yield "</entry>"
        yield "</events>"
        yield "</encounter>"
    yield "</eventstream>"


def write_record(path: Path, p: Patient, encounters: list[Encounter]) -> None:
    """Write one record as UTF-8 with ``\\n`` line ends."""
    with path.open("w", encoding="utf-8", newline="\n") as out:
        for line in lines(p, encounters):
            out.write(line + "\n")
