"""Sizes and CRC-32 checksums of the files of a table, recorded when they are written.

Lance verifies only what it needs to decode a file: a flipped bit in a value is read as another
value. A writer on a local disk therefore appends a line for each file to `_checksums.log` of the
branch it belongs to. A line costs a few microseconds; a separate file would cost as much as the
other files of a small commit.

The log is derived. It is not synced, a file without a line is read like any other, and every line
carries a checksum of its own, which tells damage to the log from damage to a file. Object stores
check the data they store themselves; there is no log there.

CRC-32 detects every flipped bit and every burst of up to four bytes, and is the fastest
checksum in the standard library.
"""

from __future__ import annotations

import os
import re
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from omnigraph.storage.objects.local_store import SMALL_FILE_BYTES, open_file, read_small_file

LOG = "_checksums.log"
_NEW_LOG = "_checksums.log.new"
_CHUNK_BYTES = 1 << 20
_TAIL_BYTES = 1 << 12
_PART = rb"(?!\.\.?(?:/|$))[!-.0-~]+"
_BODY = re.compile(rb"(\d{1,19}) ([0-9a-f]{8}) (-1|\d{1,19}) (%b(?:/%b)*)" % (_PART, _PART))
"""One line of the log. The name becomes a path, so it must not lead out of the folder."""


@dataclass(frozen=True, slots=True)
class Checksum:
    """Size and checksum of one file; its name is relative to the folder of its branch."""

    name: str
    size: int
    crc: int
    version: int | None = None
    """The version a file describes; None for data files."""

    @classmethod
    def of(cls, name: str, content: bytes, version: int | None = None) -> Checksum:
        """Compute the checksum of a file that was read whole."""
        return cls(name, len(content), zlib.crc32(content), version)


class Damage(StrEnum):
    """A kind of damage of a file."""

    MISSING = "missing"
    LENGTH = "length"
    CONTENT = "content"
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class ChecksumLog:
    """The parsed checksum log of a branch."""

    files: Mapping[str, Checksum]
    damaged_lines: int = 0
    remarks: frozenset[bytes] = frozenset()
    """Valid lines that describe no file."""

    def below(self, folder: str) -> Sequence[Checksum]:
        """Return the checksums of the files in a folder, such as that of an index."""
        return self._by_folder.get(folder, ())

    def about(self, version: int) -> Sequence[Checksum]:
        """The file of a version and that of its transaction."""
        return self._by_version.get(version, ())

    @cached_property
    def _by_folder(self) -> Mapping[str, Sequence[Checksum]]:
        found: defaultdict[str, list[Checksum]] = defaultdict(list)
        for name, one in self.files.items():
            while name := name.rpartition("/")[0]:
                found[name].append(one)
        return found

    @cached_property
    def _by_version(self) -> Mapping[int, Sequence[Checksum]]:
        found: defaultdict[int, list[Checksum]] = defaultdict(list)
        for one in self.files.values():
            if one.version is not None:
                found[one.version].append(one)
        return found


class ChecksumLogs:
    """The logs of the branches of some tables, each read once."""

    def __init__(self) -> None:
        self._logs: dict[str, ChecksumLog] = {}

    def of(self, folder: str) -> ChecksumLog:
        if folder not in self._logs:
            self._logs[folder] = read_log(folder)
        return self._logs[folder]


def record_checksums(
    folder: str,
    names: Iterable[str],
    version: int | None = None,
    known: Iterable[Checksum] = (),
) -> None:
    """Record the checksums of files just written; those in `known` are not computed again.

    Errors are ignored: a file without a recorded checksum is read unchecked.
    """
    with suppress(OSError):
        add_checksums(folder, [*known, *(_sum(folder, name, version) for name in names)])


def add_checksums(folder: str, sums: Iterable[Checksum]) -> None:
    lines = b"".join(_line(one) for one in sums)
    if lines:
        _append(f"{folder}/{LOG}", lines)


def add_remark(folder: str, remark: bytes) -> None:
    """Append a remark about the branch itself, ignoring errors."""
    with suppress(OSError):
        _append(f"{folder}/{LOG}", _seal_line(remark))


def forget_files(folder: str, names: Collection[str]) -> None:
    """Blank the lines of files about to be removed, so that they are not reported as lost.

    The log does not grow by this, since files are removed to free a full disk. It is synced,
    because a removal that survives a power cut must not do so alone.
    """
    if not names:
        return
    with suppress(FileNotFoundError):
        descriptor = open_file(f"{folder}/{LOG}", os.O_RDWR)
        try:
            content = read_small_file(f"{folder}/{LOG}")
            for start, line in _lines_of(content, {name.encode() for name in names}):
                os.pwrite(descriptor, b"\n" * len(line), start)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _lines_of(content: bytes, names: Collection[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the lines about these files, each with its offset."""
    start = 0
    for line in content.split(b"\n"):
        if line.rpartition(b" ")[2] in names:
            yield start, line
        start += len(line) + 1


def read_log(folder: str) -> ChecksumLog:
    """Read all valid lines; an absent log is empty."""
    try:
        data = read_small_file(f"{folder}/{LOG}")
    except OSError:
        return ChecksumLog({})
    return _parse(data)


def read_last_lines(folder: str) -> ChecksumLog:
    """Read the last few dozen lines, at a cost independent of the length of the log."""
    try:
        descriptor = os.open(f"{folder}/{LOG}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ChecksumLog({})
    try:
        start = max(0, os.fstat(descriptor).st_size - _TAIL_BYTES)
        return _parse(os.pread(descriptor, _TAIL_BYTES, start))
    except OSError:
        return ChecksumLog({})
    finally:
        os.close(descriptor)


def shorten_log(folder: str) -> None:
    """Rewrite the log without files that no longer exist.

    A line appended concurrently may be lost, which leaves its file without a checksum. Lines about
    versions remain until they are removed: an absent file of a version is reported as lost.
    """
    path = f"{folder}/{LOG}"
    with suppress(FileNotFoundError):
        before = read_small_file(path)
        log = _parse(before)
        kept = [one for one in log.files.values() if _is_worth_keeping(folder, one)]
        after = b"".join((*map(_line, kept), *map(_seal_line, sorted(log.remarks))))
        if len(after) < sum(len(line) + 1 for line in before.split(b"\n") if line):
            _write(f"{folder}/{_NEW_LOG}", after, os.O_TRUNC)
            os.replace(f"{folder}/{_NEW_LOG}", path)


def find_damage(folder: str, expected: Checksum, *, whole: bool = True) -> Damage | None:
    """Compare a file with its checksum, or without `whole` only its length."""
    try:
        if os.stat(f"{folder}/{expected.name}").st_size != expected.size:
            return Damage.LENGTH
        if whole and _sum(folder, expected.name).crc != expected.crc:
            return Damage.CONTENT
    except (FileNotFoundError, NotADirectoryError):
        return Damage.MISSING
    except OSError:
        return Damage.UNREADABLE
    return None


def _is_worth_keeping(folder: str, one: Checksum) -> bool:
    return one.version is not None or os.path.lexists(f"{folder}/{one.name}")


def _sum(folder: str, name: str, version: int | None = None) -> Checksum:
    descriptor = os.open(f"{folder}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        size, crc, wanted = 0, 0, SMALL_FILE_BYTES  # enough for most files of a commit
        while chunk := os.read(descriptor, wanted):
            size, crc, wanted = size + len(chunk), zlib.crc32(chunk, crc), _CHUNK_BYTES
        return Checksum(name, size, crc, version)
    finally:
        os.close(descriptor)


def _append(path: str, lines: bytes) -> None:
    # A line that a full disk truncated must not spoil the next one.
    _write(path, b"\n" + lines, os.O_APPEND)


def _write(path: str, content: bytes, flags: int) -> None:
    descriptor = open_file(path, os.O_WRONLY | os.O_CREAT | flags)
    try:
        os.write(descriptor, content)
    finally:
        os.close(descriptor)


def _line(one: Checksum) -> bytes:
    version = -1 if one.version is None else one.version
    line = b"%d %08x %d %b" % (one.size, one.crc, version, one.name.encode())
    return _seal_line(line)


def _seal_line(line: bytes) -> bytes:
    return b"%08x %b\n" % (zlib.crc32(line), line)


def _is_whole(line: bytes) -> bool:
    check, _, body = line.partition(b" ")
    return check == b"%08x" % zlib.crc32(body)


def _parse(data: bytes) -> ChecksumLog:
    files: dict[str, Checksum] = {}
    remarks: set[bytes] = set()
    *_, cut = lines = data.split(b"\n")
    damaged = int(_is_whole(cut))  # all but the end of its last line is there
    for line in lines:
        if not line:
            continue
        if not _is_whole(line):
            damaged += 1
            continue
        body = line.partition(b" ")[2]
        found = _BODY.fullmatch(body)
        if found is None:
            remarks.add(body)
            continue
        size, crc, version, name = map(bytes.decode, found.groups())
        about = None if version == "-1" else int(version)
        files[name] = Checksum(name, int(size), int(crc, 16), about)
    return ChecksumLog(files, damaged, frozenset(remarks))
