"""Zip files from elsewhere: what is refused, in one line, and what is read."""

import gzip
import io
import json
import stat
import zipfile

import pytest

from midchart.core.errors import DataError
from midchart.core.storage.sources import Source, UntrustedZip


def packed(
    files: dict[str, bytes], mode: int = 0, method: int = zipfile.ZIP_DEFLATED
) -> io.BytesIO:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            info.external_attr, info.compress_type = mode << 16, method
            archive.writestr(info, content)
    return data


def patched(offset: int, value: int, **files: bytes) -> io.BytesIO:
    """A zip with one byte of its first central directory entry changed."""
    data = bytearray(packed(files).getvalue())
    data[data.index(b"PK\x01\x02") + offset] = value
    return io.BytesIO(bytes(data))


def corrupted(**files: bytes) -> io.BytesIO:
    data = bytearray(packed(files, method=zipfile.ZIP_STORED).getvalue())
    name, content = next(iter(files.items()))
    start = 30 + len(name)
    data[start : start + len(content)] = content[::-1]
    return io.BytesIO(bytes(data))


def contents(source: io.BytesIO, files: int = 10, size: int = 1 << 30) -> dict[str, bytes]:
    archive = UntrustedZip(source, "a.zip")
    sizes = archive.check(files, size)
    unpacked: dict[str, bytes] = {}
    for name in sizes:
        with archive.open(name) as file:
            unpacked[name] = b"".join(iter(lambda file=file: file.read(3), b""))
    return unpacked


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_files_are_read_in_parts(method: int) -> None:
    files = {"a.csv": b"one two three", "d/e.csv": b"", "b.csv": b"x" * 100}
    assert contents(packed({**files, "d/": b""}, method=method)) == files


HOSTILE = {
    "link": (packed({"a": b"/etc/passwd"}, stat.S_IFLNK | 0o777), "holds a link"),
    "pipe": (packed({"a": b""}, stat.S_IFIFO | 0o600), "special file"),
    "traversal": (packed({"d/../../a": b"x"}), "leads out"),
    "absolute": (packed({"/etc/a": b"x"}), "leads out"),
    "backslash": (packed({"..\\a": b"x"}), "refused|leads out"),
    "long": (packed({"n" * 241: b"x"}), "240 bytes"),
    "twice": (packed({"a": b"x", "./a": b"y"}), "twice"),
    "bomb": (packed({"a": b"0" * (8 << 20)}), "zip bomb"),
    "files": (packed({f"{i}": b"x" for i in range(11)}), "11 files, more than 10"),
    "encrypted": (patched(8, 1, a=b"x"), "encrypted"),
    "method": (patched(10, 9, a=b"x"), "method that is not read"),
    "bzip2": (packed({"a": b"x"}, method=zipfile.ZIP_BZIP2), "method that is not read"),
    "version": (patched(6, 99, a=b"x"), "later version of zip"),
    "corrupted": (corrupted(a=b"content"), "'a' damaged"),
    "truncated": (io.BytesIO(packed({"a": b"x" * 99}).getvalue()[:-30]), "is no zip"),
    "headless": (io.BytesIO(packed({"a": b"x" * 99}).getvalue()[20:]), "damaged"),
    "text": (io.BytesIO(b"person_id"), "is no zip"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_zips_are_refused_in_one_line(kind: str) -> None:
    source, reason = HOSTILE[kind]
    with pytest.raises(DataError, match=reason) as refused:
        contents(source)
    assert "\n" not in str(refused.value)


def test_a_file_of_a_zip_is_named_unpacked_and_read_as_one_on_disk(tmp_path) -> None:
    inside = {"in/T.csv.gz": gzip.compress(b"a"), "in/.b": b"", "__MACOSX/T.csv": b""}
    (tmp_path / "a.zip").write_bytes(packed(inside).getvalue())
    (file,) = Source.at(tmp_path / "a.zip").members()
    assert (file.name, file.stem, file.ending) == ("a.zip/in/T.csv.gz", "T", ".csv")
    with file.on_disk() as unpacked:
        assert file.content() == unpacked.content() == b"a"


def test_limits_hold_for_the_files_that_are_wanted() -> None:
    source = packed({"wanted": b"x" * 50, "other": b"x" * 5_000})
    with pytest.raises(DataError, match="unpacks to more than"):
        contents(source, size=100)
    archive = UntrustedZip(source, "a.zip")
    assert archive.check(10, 100, ["wanted"]) == {"wanted": 50}
    with pytest.raises(KeyError), archive.open("other"):
        pass


def test_a_file_that_declares_too_little_gives_no_more_than_that() -> None:
    data = bytearray(packed({"a": b"x" * 5_000}).getvalue())
    place = data.index(b"PK\x01\x02") + 24  # the uncompressed size
    data[place : place + 4] = (10).to_bytes(4, "little")
    with pytest.raises(DataError, match="damaged"):
        contents(io.BytesIO(bytes(data)))


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data[:5],
        lambda data: data + b"no part",
        lambda data: b"\0" + data,
        lambda data: data[:-8] + b"sums" + data[-4:],
    ],
)
def test_a_damaged_gzip_file_is_no_shorter_text(tmp_path, damage) -> None:
    data = damage(gzip.compress(b"one ") + gzip.compress(bytes(range(256))))
    (tmp_path / "a.gz").write_bytes(data)
    with pytest.raises(DataError, match="damaged or no gzip file"):
        Source.at(tmp_path / "a.gz").content()


def test_repetitive_text_of_records_is_read(tmp_path) -> None:
    row = "p1,2020-01-01 {:02d}:{:02d},heart rate,70,bpm\n"
    vitals = "".join(row.format(i // 60 % 24, i % 60) for i in range(200_000))
    observed = {"code": {"coding": [{"system": "http://loinc.org", "code": "8867-4"}] * 4}}
    resources = "".join(json.dumps({"id": str(i), **observed}, indent=16) for i in range(10_000))
    for text in (vitals.encode(), resources.encode()):
        file = tmp_path / "a.csv.gz"
        file.write_bytes(gzip.compress(text))
        assert Source.at(file).content() == text
        assert UntrustedZip(packed({"a": text}), "a.zip").check(1, 1 << 30) == {"a": len(text)}
