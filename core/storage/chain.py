"""A chained JSON Lines log whose end is known outside of its folder.

Each line holds the SHA-256 of the line before it (field ``previous``, the last of the line). The
anchor, a small file in another folder, holds the log's size, number of lines and the SHA-256 of the
last one, so that a removed newest line shows too. The anchor gets a line before the log does
(``intent``): after a kill in between, the next writer completes exactly that line. After an error,
for example on a full disk, log and anchor are as before, and the line is refused.

A log that does not end as its anchor says is broken, and stays so until :meth:`ChainedLog.accept`
writes a line with the SHA-256 of all bytes before it. Lines are appended meanwhile; each is linked
to what the anchor knows, so that the break stays visible.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from filelock import lock_descriptor

from midchart.core.errors import DataError, WorkFailed
from midchart.core.parsing import read_json
from midchart.core.regular_files import read_regular
from midchart.core.storage.files import open_private, replacing, sync_folder
from midchart.core.storage.jsonl import encode

PREVIOUS = "previous"
"""Field of a line: the SHA-256 of the line before it, without its newline; "" for the first."""
ACCEPTED = "accepted"
"""``event`` of the line that accepts all lines before it as they are."""
_LINK = re.compile(rb'"previous":"([0-9a-f]{64}|)"\}\n\Z')
_LINK_BYTES = 90
_ACCEPTS = b'"event":"accepted"'
_RETRIES = 50
_ANNOUNCED = "the anchor holds the line, and the next writer enters it"
_FOREIGN = "is no line of the log: it was added or damaged"
_NO_ANCHOR = "the log was moved, restored or begun by an earlier version"
_NO_PLACE = frozenset(
    (errno.EROFS, errno.EACCES, errno.EPERM, errno.EEXIST, errno.ENOTDIR, errno.ENOENT, errno.ELOOP)
)
"""Errors of a state folder that this account can never write."""
_NO_FILE = frozenset(
    (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENODEV, errno.ENXIO, errno.ELOOP, errno.EXDEV)
)
"""Errors of an anchor that is missing, or has something else in its place."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """The end of a log: its path, bytes, lines, SHA-256 of the last line, and the line that is
    about to be written ("": none)."""

    log: str
    size: int = 0
    lines: int = 0
    last: str = ""
    intent: str = ""

    def after(self, size: int, line: bytes) -> Anchor:
        """The anchor once ``line`` ends a log of ``size`` bytes."""
        return Anchor(self.log, size, self.lines + 1, _sha256(line))


@dataclass(slots=True)
class Scan:
    """A log as it is.

    ``unchained``: lines before the chain begins. ``accepted``: the last line that an acceptance
    covers (0: none). ``broken``: number and reason of the first line after it that is not as
    written. ``vouched``: bytes at which the lines begin that lead to the log's known end without a
    break or an acceptance (None: it does not end as known).
    """

    lines: int = 0
    unchained: int = 0
    accepted: int = 0
    size: int = 0
    last: str = ""
    content: str = ""
    broken: dict[str, Any] | None = None
    vouched: int | None = 0
    chained: bool = field(default=False, repr=False)

    def break_at(self, line: int, reason: str) -> None:
        """Enter a break; the first one is kept."""
        if self.broken is None:
            self.broken = {"line": line, "reason": reason}


def _sha256(line: bytes) -> str:
    return hashlib.sha256(line.rstrip(b"\n")).hexdigest()


def _scan(lines: Iterator[bytes]) -> Scan:
    """The state of a log by its lines alone."""
    scan, total = Scan(), hashlib.sha256()
    for number, line in enumerate(lines, 1):
        link = _LINK.search(line[-_LINK_BYTES:])
        linked = link is not None and link[1].decode() == scan.last
        if linked and _accepts(line, total.hexdigest()):
            scan.broken, scan.accepted, scan.vouched = None, number - 1, scan.size
        elif link is None and not scan.chained:
            scan.unchained += 1
        elif link is None:
            scan.break_at(number, _FOREIGN)
        elif not linked:
            place = f"line {number - 1}" if number > 1 else "an empty log"
            reason = f"does not hold the SHA-256 of the line before it ({place}): that line was "
            scan.break_at(number, f"{reason}changed, or lines were removed or added between them")
            scan.vouched = scan.size
        scan.chained = scan.chained or link is not None
        scan.lines, scan.size, scan.last = number, scan.size + len(line), _sha256(line)
        total.update(line)
    scan.content = total.hexdigest()
    return scan


def _accepts(line: bytes, content: str) -> bool:
    """Whether a line accepts lines with this SHA-256 before it."""
    if _ACCEPTS not in line:
        return False
    try:
        record = read_json(line, "log", 1)
    except DataError:
        return False
    return isinstance(record, dict) and record.get("content") == content


def _lines(file: int, size: int) -> Iterator[bytes]:
    """The lines of the first ``size`` bytes."""
    with os.fdopen(os.dup(file), "rb") as opened:
        opened.seek(0)
        while size > 0 and (line := opened.readline(size)):
            size -= len(line)
            yield line


class ChainedLog:
    """The log at ``path`` whose end is known to the file ``anchor``."""

    def __init__(self, path: Path, anchor: Path) -> None:
        self.path, self.anchor = path, anchor

    def append(self, line: Mapping[str, Any], anchored: bool = False) -> None:
        """Append one line that survives a power cut, or nothing; raises WorkFailed.

        Where there is no anchor and no place for one, the line is chained to the last one without
        it, and the log's end is unknown; ``anchored``: it is refused. Where there is an anchor, or
        its place is full or failed, it is refused in any case: one line without the anchor would
        break the log.
        """
        with self._locked() as file:
            there = True
            try:
                known = self._known()
                there = known is not None
                anchor = self._current(file, known)
                self._add(file, anchor, {**line, PREVIOUS: anchor.last})
            except OSError as error:
                if there or error.errno not in _NO_PLACE:
                    remedy = "free space there, or make it writable"
                    raise self._unwritten(error, remedy) from None
                if anchored:
                    raise self._unwritten(
                        error,
                        "without it nobody would know where the audit log ends; set MIDCHART_STATE "
                        "to a folder that can be written, outside of the data",
                    ) from None
                data = encode({**line, PREVIOUS: _scan(_lines(file, _size(file))).last})
                self._write(file, data)

    def accept(self, line: Mapping[str, Any]) -> None:
        """Append ``line``, which accepts all lines before it as they are; raises WorkFailed."""
        with self._locked() as file:
            try:
                self._accept(file, line)
            except OSError as error:
                raise self._unwritten(error, "make it writable") from None

    def verify(self) -> Scan:
        """The log as it is, compared with its anchor. Raises WorkFailed where it cannot be read."""
        for _ in range(_RETRIES):
            try:
                before = self._known()
                scan = self._compared(before)
                if self._known() == before:
                    return scan
            except OSError as error:
                place = error.filename or self.path
                raise WorkFailed(f"{place}: cannot be read ({error.strerror})") from None
        raise WorkFailed(f"{self.path}: other processes write it all the time; try again")

    def vouched_lines(self) -> tuple[Scan, list[dict[str, Any]]]:
        """The log as :meth:`verify` finds it, and the lines that lead to its known end without a
        break or an acceptance; raises WorkFailed."""
        scan = self.verify()
        if scan.vouched is None or not scan.lines:
            return scan, []
        with self._opened(os.O_RDONLY) as file:
            data = os.pread(file, scan.size - scan.vouched, scan.vouched)
        records = [read_json(line, self.path.name, 1) for line in data.splitlines()]
        return scan, [record for record in records if isinstance(record, dict)]

    # The log's file: a regular one, under its lock while it is written.

    @contextmanager
    def _opened(self, flags: int) -> Generator[int]:
        file = os.open(self.path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise OSError(errno.ENODEV, "not a regular file")
            yield file
        finally:
            os.close(file)

    @contextmanager
    def _locked(self) -> Generator[int]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._opened(os.O_RDWR | os.O_CREAT | os.O_APPEND) as file:
                lock_descriptor(file, poll_interval=0.001)
                yield file
        except OSError as error:
            raise WorkFailed(f"{self.path}: cannot be written ({error.strerror})") from None

    def _write(self, file: int, data: bytes) -> None:
        """Append bytes durably, or nothing; raises WorkFailed."""
        size = _size(file)
        if size and data != b"\n" and os.pread(file, 1, size - 1) != b"\n":
            self._write(file, b"\n")  # terminate an incomplete line
            size += 1
        try:
            _write_all(file, data)
            if not size:
                sync_folder(self.path.parent)
        except OSError as error:
            entered = "nothing was entered"
            try:
                os.ftruncate(file, size)
            except OSError:  # what stays is an incomplete line, or the line of the intent
                entered = _ANNOUNCED
            reason = f"cannot be written ({error.strerror}); {entered}"
            raise WorkFailed(f"{self.path}: {reason}") from None

    def _add(self, file: int, anchor: Anchor, line: Mapping[str, Any]) -> None:
        """Append a line: to the anchor as an intent, to the log, to the anchor as its end.

        Raises OSError where the anchor cannot be written, WorkFailed where the log cannot; then the
        log has no new line, and the anchor no intent.
        """
        data = encode(line)
        size = _size(file)
        if size and os.pread(file, 1, size - 1) != b"\n":
            self._write(file, b"\n")
            size += 1
        before = self._known()
        try:
            self._keep(replace(anchor, size=size, intent=data.decode()))
            self._write(file, data)
        except (OSError, WorkFailed):
            if _size(file) == size:
                try:
                    self._put_back(before)
                except OSError as error:
                    reason = f"cannot be written ({error.strerror}); {_ANNOUNCED}"
                    raise WorkFailed(f"{self.anchor}: {reason}") from None
            raise
        with suppress(OSError):  # the intent and the line in the log are the same evidence
            self._keep(anchor.after(size + len(data), data))

    def _accept(self, file: int, line: Mapping[str, Any]) -> None:
        size = _size(file)
        if size and os.pread(file, 1, size - 1) != b"\n":
            self._write(file, b"\n")
        scan = _scan(_lines(file, _size(file)))
        anchor = Anchor(str(self.path), scan.size, scan.lines, scan.last)
        facts = {"event": ACCEPTED, "lines": scan.lines, "content": scan.content}
        self._add(file, anchor, {**line, **facts, PREVIOUS: scan.last})

    # The anchor.

    def _unwritten(self, error: OSError, remedy: str) -> WorkFailed:
        reason = f"cannot be written ({error.strerror})"
        return WorkFailed(f"{self.anchor}: {reason}, and nothing was entered: {remedy}")

    def _known(self) -> Anchor | None:
        """What the anchor says; None where it is missing or no anchor. Raises OSError where it
        cannot be read, which may be temporary."""
        try:
            values = read_json(read_regular(self.anchor), self.anchor.name, 1)
            anchor = Anchor(**values)
        except (DataError, TypeError):
            return None
        except OSError as error:
            if error.errno in _NO_FILE:
                return None
            raise
        types = {name: type(value).__name__ for name, value in asdict(anchor).items()}
        right = types == {one.name: one.type for one in fields(Anchor)}
        return anchor if right and anchor.log == str(self.path) else None

    def _keep(self, anchor: Anchor) -> None:
        with replacing(self.anchor) as fresh:
            fresh.write_bytes(encode(asdict(anchor)))
        for left in self.anchor.parent.glob(f".{self.anchor.name}.*"):  # by a write that failed
            left.unlink(missing_ok=True)

    def _put_back(self, anchor: Anchor | None) -> None:
        """Make the anchor what it was before an intent that is given up, on a full disk too."""
        if self._known() == anchor:
            return
        if anchor is None:
            self.anchor.unlink(missing_ok=True)
            return
        try:
            self._keep(anchor)
        except OSError:  # shorter than what it has the place of, and filled up to it
            handle = open_private(self.anchor, os.O_RDWR)
            try:
                data = encode(asdict(anchor)).rstrip()
                os.pwrite(handle, data.ljust(_size(handle) - 1) + b"\n", 0)
                os.fsync(handle)
            finally:
                os.close(handle)

    def _current(self, file: int, anchor: Anchor | None) -> Anchor:
        """The anchor with which the next line is written; an intent is carried out first."""
        if anchor is None:
            return Anchor(str(self.path))
        intent = anchor.intent.encode()
        begun = _begun(file, anchor)
        if begun is None:
            return anchor
        if begun < len(intent):
            _write_all(file, intent[begun:])
        return anchor.after(anchor.size + len(intent), intent)

    def _compared(self, anchor: Anchor | None) -> Scan:
        if not os.path.lexists(self.path):
            scan = Scan()
        else:
            with self._opened(os.O_RDONLY) as file:
                limit = _size(file)
                if anchor is not None and (begun := _begun(file, anchor)) is not None:
                    line = anchor.intent.encode()
                    if begun == len(line):
                        anchor = anchor.after(anchor.size + len(line), line)
                    limit = anchor.size
                scan = _scan(_lines(file, limit))
        if scan.unchained > scan.accepted:
            scan.broken = {"line": 1, "reason": _FOREIGN}
        ends = (anchor.size, anchor.last) if anchor is not None else (0, "")
        if ends == (scan.size, scan.last):
            return scan
        if anchor is None:
            scan.break_at(scan.lines, f"has no anchor {self.anchor}: {_NO_ANCHOR}")
        else:
            scan.break_at(
                scan.lines,
                f"is not the last line that {self.anchor} knows, which is line {anchor.lines}: it "
                "was changed, or lines after it were removed or added",
            )
        scan.vouched = None
        return scan


def _write_all(file: int, data: bytes) -> None:
    """Append bytes durably; raises OSError, and then some of them may be there."""
    if os.write(file, data) < len(data):
        raise OSError(errno.ENOSPC, "the disk took only part of a line: is it full?")
    os.fsync(file)


def _size(file: int) -> int:
    return os.fstat(file).st_size


def _begun(file: int, anchor: Anchor) -> int | None:
    """How many bytes of an anchor's intent the log has; None without an intent, or where the log
    ends in other bytes."""
    intent = anchor.intent.encode()
    size = _size(file)
    if not intent or not anchor.size <= size <= anchor.size + len(intent):
        return None
    there = os.pread(file, len(intent), anchor.size)
    return len(there) if intent.startswith(there) else None
