"""Stopping a process before an exact change of the file system, from any thread or library.

The writes that the code reports are made of many smaller ones: a branch of a table is a folder and
then a reference, a version is written beside its place and then linked. Here the kernel asks us
before every system call that changes a file below a folder. The process we watch installs a filter
(`install`), and the owner of the listener answers (`supervise`). A filter can also refuse calls for
good (`refuse_links`). Linux on x86-64 only.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import select
import signal
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

WRITES = {"write": 1, "pwrite64": 18, "writev": 20, "pwritev": 296, "ftruncate": 77}
"""Calls whose first argument is an open file."""
NAMED = {"rename": 82, "mkdir": 83, "rmdir": 84, "link": 86, "unlink": 87, "truncate": 76}
"""Calls whose first argument is a path."""
NAMED_AT = {"mkdirat": 258, "unlinkat": 263, "renameat": 264, "linkat": 265, "renameat2": 316}
"""Calls whose first two arguments are a folder and a path in it."""
OPENAT = 257

_NAMES = {number: name for calls in (WRITES, NAMED, NAMED_AT) for name, number in calls.items()}
_NAMES[OPENAT] = "create"

_SECCOMP, _SET_MODE_FILTER = 317, 1
_TSYNC, _NEW_LISTENER, _TSYNC_ESRCH = 1, 8, 16
_NO_NEW_PRIVILEGES = 38
_ALLOW, _ASK, _FAIL_WITH = 0x7FFF0000, 0x7FC00000, 0x00050000
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_CONTINUE = 1
_AT_FDCWD = -100

_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_NUMBER_AT, _FLAGS_AT = 0, 16 + 2 * 8


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def is_supported() -> bool:
    actions = Path("/proc/sys/kernel/seccomp/actions_avail")
    return (
        platform.machine() == "x86_64" and actions.exists() and "user_notif" in actions.read_text()
    )


def install() -> int:
    """The listener called, from now on, before this process changes any file."""
    return _install(_filter(), _TSYNC | _NEW_LISTENER | _TSYNC_ESRCH)


def refuse_links() -> None:
    """Let this process find, from now on, that no file system it uses has hard links."""
    lines = [
        (_LOAD, 0, 0, _NUMBER_AT),
        (_EQUAL, 2, 0, NAMED["link"]),
        (_EQUAL, 1, 0, NAMED_AT["linkat"]),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _FAIL_WITH | errno.EPERM),
    ]
    _install(_packed(lines), _TSYNC)


def _install(code: bytes, flags: int) -> int:
    program = _Program(len(code) // 8, code)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    listener = libc.syscall(_SECCOMP, _SET_MODE_FILTER, flags, ctypes.byref(program))
    if listener < 0:
        raise OSError(ctypes.get_errno(), "the kernel does not take the filter")
    return int(listener)


def _packed(lines: Iterable[tuple[int, int, int, int]]) -> bytes:
    return b"".join(struct.pack("HBBI", *line) for line in lines)


def _filter() -> bytes:
    numbers = sorted(_NAMES.keys() - {OPENAT})
    lines = [(_LOAD, 0, 0, _NUMBER_AT)]
    # Each comparison jumps over the ones that follow it, to the line that asks.
    after_openat = 3
    lines += [
        (_EQUAL, len(numbers) - 1 - at + after_openat + 1, 0, number)
        for at, number in enumerate(numbers)
    ]
    lines += [
        (_EQUAL, 0, 2, OPENAT),
        (_LOAD, 0, 0, _FLAGS_AT),
        (_ANY_BIT, 1, 0, os.O_CREAT | os.O_TRUNC),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ASK),
    ]
    return _packed(lines)


def supervise(listener: int, root: str, after: int | None) -> list[tuple[str, str]]:
    """Answer until the process ends; kill it before its change number `after` + 1 below root."""
    changes: list[tuple[str, str]] = []
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    while True:
        (_, event) = poll.poll()[0]
        if not event & select.POLLIN:
            return changes
        request = bytearray(80)
        try:
            fcntl.ioctl(listener, _RECEIVE, request)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR):
                continue  # the thread that asked is gone
            raise
        id, pid, _, number = struct.unpack_from("QIIi", request)
        arguments = struct.unpack_from("6Q", request, 32)
        path = _path(pid, number, arguments)
        if path.startswith(root):
            if after is not None and len(changes) >= after:
                with suppress(ProcessLookupError):  # another thread of it asked before
                    os.kill(pid, signal.SIGKILL)
                continue
            changes.append((_NAMES[number], path))
        try:
            fcntl.ioctl(listener, _SEND, struct.pack("QqiI", id, 0, 0, _CONTINUE))
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise


def _path(pid: int, number: int, arguments: tuple[int, ...]) -> str:
    """The file of a call; empty if unknown."""
    try:
        name = _NAMES[number]
        if name in WRITES:
            return _open_file(pid, arguments[0])
        if name in NAMED:
            return _text(pid, arguments[0])
        path = _text(pid, arguments[1])
        folder = ctypes.c_int(arguments[0]).value
        if path.startswith("/") or folder == _AT_FDCWD:
            return path
        return f"{_open_file(pid, folder)}/{path}"
    except OSError:
        return ""


def _open_file(pid: int, descriptor: int) -> str:
    return str(Path(f"/proc/{pid}/fd/{descriptor}").readlink())


def _text(pid: int, address: int) -> str:
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        memory.seek(address)
        return memory.read(4096).split(b"\0", 1)[0].decode(errors="replace")
