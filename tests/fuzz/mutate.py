"""Seeded mutations of input files: of their bytes, and of the values in texts of any syntax.

Every function takes a ``numpy.random.Generator`` and content, and returns changed content; the same
generator gives the same bytes on every machine.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Rng = np.random.Generator
CANARY = "Zyxomma"
"""A word of each seed's record text; no message may contain it."""
MOST_BYTES = 8 << 20
"""Size of an input; the promised seconds are those of such inputs."""
TEXTS = (
    "", " ", "\x00", "a\x00b", "~nosuchuser/x", "n" * 256, "n" * 5000, "/" * 300, ".", "..",
    "../../etc/passwd", "/dev/zero", "-1", "0", "00", "-0", "1e999", "NaN", "-Infinity", "true",
    "null", "None", "1.5", "0x10", "1_000", "٣", "²", "9" * 20, "-" + "9" * 30, "9" * 5000,
    "1" + "0" * 4400, "0000-00-00", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00",
    "10000-01-01", "2020-02-30", "2020-01-01T00:00:00.123456789123Z", "31/12/2020 25:00",
    "\u202eabc", "\u200b", "\ufeff", "\U000e0041", "é" * 200, "|||" * 3000, "0:1-0", "[]", "{}",
    "9" * 25 + ":0-1", "=cmd|' /C calc'!A0", "%s%n", "{0.__class__}", "[" * 500 + "]" * 500, "[",
    "[" * 100_000, '{"a":' * 300 + "1" + "}" * 300, "]]>", "<!--", "&#0;", '"', "'", "\\", "`",
    "\r", "\n", "\t", "\r\n\r\n", "a\u2028b", "a\x85b", "http://[::1", "http://a:99999999/",
    "(a+)+$" * 20, "x " * 20_000, "\\ud800", "<a>" * 30_000, "<a>" * 300 + "</a>" * 300,
    '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>', '<?xml version="1.0" encoding="hex"?>',
)  # fmt: skip
"""What programs tend to fail on, whatever file it is in."""
BYTES = (
    b"", b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"\xc0\x80", b"\x1a", b"\x1f\x8b\x08", b"\xef\xbb\xbf",
    b"\n", b"\r", b"PK\x03\x04", b"PAR1", b"\x00" * 4096, b"[" * 100_000, b"<" * 5000, b'"',
)  # fmt: skip
_VALUE = re.compile(r'"(?:[^"\\\n]|\\.){0,200}"|[^\s,:;"<>={}\[\]|]{1,200}')
"""A value or name in JSON, XML, TOML and tables alike."""


def pick(rng: Rng, values: Sequence[Any]) -> Any:
    """One of the values."""
    return values[int(rng.integers(len(values)))]


def text(rng: Rng) -> str:
    """A text from :data:`TEXTS`, or random characters of any plane but the surrogates."""
    if rng.random() < 0.85:
        return pick(rng, TEXTS)
    codes = rng.integers(0, 0x2FFFF, int(rng.integers(1, 12)))
    return "".join(chr(int(c)) for c in codes if not 0xD800 <= c < 0xE000)


def _span(rng: Rng, length: int) -> tuple[int, int]:
    first, last = sorted(int(rng.integers(length + 1)) for _ in range(2))
    return first, min(last, first + 2000)


def of_bytes(rng: Rng, data: bytes) -> bytes:
    """One change that knows nothing of the syntax."""
    first, last = _span(rng, len(data))
    flipped = bytearray(data)
    for at in rng.integers(0, len(data), 4) if data else ():
        flipped[at] ^= 1 << int(rng.integers(8))
    changes: tuple[Callable[[], bytes], ...] = (
        lambda: data[:first],
        lambda: bytes(flipped),
        lambda: data[:first] + pick(rng, BYTES) + data[first:],
        lambda: data[:first] + data[last:],
        lambda: data[:last] + data[first:last] * int(rng.integers(1, 400)) + data[last:],
        lambda: data.decode("utf-8", "replace").encode(pick(rng, ("utf-16", "utf-32", "utf-7"))),
        lambda: data.replace(b"\n", pick(rng, (b"\r\n", b"\r", b"\n\n", b"\x0b"))),
        lambda: b"\n".join(data.split(b"\n")[i] for i in rng.permutation(data.count(b"\n") + 1)),
        lambda: pick(rng, BYTES),
    )
    return pick(rng, changes)()


def of_text(rng: Rng, data: bytes) -> bytes:
    """A value or name that is another one of the file, one of :data:`TEXTS`, twice or missing."""
    document = data.decode("utf-8", "replace")
    places = list(_VALUE.finditer(document))
    if not places:
        return of_bytes(rng, data)
    place, other = pick(rng, places), pick(rng, places).group()
    value = pick(rng, (text(rng), f'"{text(rng)}"', text(rng), other, "", place[0] * 2))
    if CANARY in value:
        value = "moved"
    changed = document[: place.start()] + value + document[place.end() :]
    return changed.encode("utf-8", "surrogatepass")


def change(rng: Rng, data: bytes) -> bytes:
    """A changed file: one to three of its values, or its bytes; a binary one by its bytes alone."""
    if b"\0" in data[:1000] or rng.random() < 0.25:
        return of_bytes(rng, data)[:MOST_BYTES]
    for _ in range(int(rng.integers(1, 4))):
        data = of_text(rng, data)
    return data[:MOST_BYTES]


def change_files(rng: Rng, files: dict[str, bytes]) -> dict[str, bytes]:
    """One or two of the files changed; at times one is missing or called otherwise."""
    files = dict(files)
    for _ in range(int(rng.integers(1, 3))):
        name = pick(rng, list(files))
        files[name] = change(rng, files[name])
    if rng.random() < 0.1:
        data = files.pop(pick(rng, list(files)))
        if rng.random() < 0.7:
            ending = pick(rng, (".json", ".xml", ".csv", ".tsv", ".txt", ".parquet", ""))
            files[f"x{int(rng.integers(9))}{ending}"] = data
    return files


NAMES = (
    "../out.csv", "/abs.csv", "a\\b.csv", "n" * 300 + ".csv", "a/" * 600 + "b.csv", "con", ".",
    "a\x01b.csv", "..", " ", "x/", "person.CSV", "~nosuchuser", "*.csv", "a[1].csv", "a'b.csv",
)  # fmt: skip


def zip_of(files: dict[str, bytes], rng: Rng | None = None) -> bytes:
    """A zip of files; with ``rng`` one that a careless or hostile program wrote."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            if rng is not None and rng.random() < 0.2:
                name = pick(rng, NAMES)
            info = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            if rng is not None and rng.random() < 0.1:
                info.external_attr = int(pick(rng, (0o120777, 0o060777, 0o010777))) << 16
            archive.writestr(info, data)
            if rng is not None and rng.random() < 0.1:
                archive.writestr(info, data)
    data = out.getvalue()
    return of_bytes(rng, data) if rng is not None and rng.random() < 0.4 else data
