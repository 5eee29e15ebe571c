"""Write files of the caller: whole or not at all, and never over changes by other processes."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from omnigraph.errors import AlreadyExists


def move_exclusively(finished: Path, target: Path) -> None:
    """Move a finished file to a name that does not exist yet.

    Raises:
        FileExistsError: the name exists.
    """
    try:
        target.hardlink_to(finished)  # unlike a move, it fails where there is a file
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
        finished.replace(target)
    else:
        finished.unlink()


class OutputFile:
    """An output file, with its state when the work for it began.

    A file that existed then may be replaced: the caller asked for that. A file created or changed
    since belongs to another process.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._seen = _identity(self.path)

    def put(self, finished: Path) -> None:
        """Make a finished file, in the same folder, the content.

        Raises:
            AlreadyExists: another process wrote there meanwhile; the finished file stays.
            OSError: it cannot be written.
        """
        if self.path.is_dir():  # a link to one could be replaced
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(self.path))
        try:
            if self._seen is None:
                move_exclusively(finished, self.path)
            elif self._seen == _identity(self.path):
                finished.replace(self.path)
            else:
                raise FileExistsError
        except FileExistsError:
            raise AlreadyExists(
                f"{self.path} was written concurrently by another process; nothing was changed"
            ) from None
        self._seen = _identity(self.path)


def output_file(given: str | Path | OutputFile) -> OutputFile:
    """Return an output file with its current state, unless the caller recorded one."""
    return given if isinstance(given, OutputFile) else OutputFile(given)


def _identity(path: Path) -> tuple[int, ...] | None:
    """Return the identity of a file: device, inode, size and time of the last write."""
    with suppress(OSError):
        found = path.lstat()
        return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
    return None
