"""Compressed input, read no further than it may expand to."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from omnigraph.errors import InputTooLarge
from omnigraph.pipeline.inputs import InputFile, open_filesystem, store_path
from omnigraph.settings import AwsSettings, InputSettings

_ALWAYS_BYTES = 64 << 20
"""So much is read whatever the ratio is: it does no harm, and little input may compress well."""


@contextmanager
def open_whole(file: InputFile, aws: AwsSettings, limits: InputSettings) -> Iterator[BinaryIO]:
    """A file to be read from start to end, decompressed.

    Raises:
        InputTooLarge: it expands to more than the limits allow; known only while it is read.
    """
    store, path = open_filesystem(file.place, aws), store_path(file.place)
    if file.compression is None:
        with store.open_input_stream(path) as stream:
            yield stream
        return
    with store.open_input_stream(path, compression=file.compression) as stream:
        yield _Limited(stream, file, limits)  # type: ignore[misc]  # what readers of it use


class _Limited(io.RawIOBase):
    """A stream that ends with an error where it has given too much."""

    def __init__(self, stream: BinaryIO, file: InputFile, limits: InputSettings) -> None:
        self._stream, self._file, self._limits = stream, file, limits
        self._given = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size) if size >= 0 else self._stream.read()
        self._given += len(data)
        require_allowed(self._given, self._file, self._limits)
        return data


def require_allowed(given: int, file: InputFile, limits: InputSettings) -> None:
    """Raise if a file that gave so many bytes gave more than its size and the limits allow."""
    most, ratio = limits.expanded_bytes, limits.expansion_ratio
    if most and given > most:
        raise InputTooLarge(
            file.name,
            f"expands to more than {most >> 20} MiB",
            InputSettings.variable("expanded_bytes"),
        )
    if ratio and given > max(_ALWAYS_BYTES, ratio * file.size):
        raise InputTooLarge(
            file.name,
            f"expands to more than {ratio} times its size",
            InputSettings.variable("expansion_ratio"),
        )
