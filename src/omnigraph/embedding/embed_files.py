"""Embed the records of JSON lines files as a spec declares, resumable after a failure."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np

from omnigraph.embedding.embedder import Embedder
from omnigraph.embedding.local_embedder import LocalEmbedder
from omnigraph.embedding.text_vectors import TEXTS_PER_REQUEST, Answers, Pace, embed_texts
from omnigraph.errors import BadRequest
from omnigraph.output_files import OutputFile
from omnigraph.progress import working
from omnigraph.result import Result
from omnigraph.types.json_value import parse_json
from omnigraph.types.row_problems import ValueRefused

DEFAULT_OUTPUT = Path("build/seed.embedded.jsonl")


@dataclass(frozen=True, slots=True)
class EmbedTarget:
    """The vector field, and the fields its text is built from."""

    target: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EmbedSpec:
    """The types and properties that vectors are computed from, and the dimension."""

    dimension: int
    types: Mapping[str, EmbedTarget]


@dataclass(frozen=True, slots=True)
class SeedManifest:
    """A request to embed the records of one file into another."""

    input: Path
    output: Path
    spec: EmbedSpec


def read_spec(path: Path) -> EmbedSpec:
    """Read a spec from a JSON file.

    Raises:
        BadRequest: the file cannot be read or is not a spec.
    """
    try:
        return _parse_spec(parse_json(_read(path)), str(path))
    except ValueRefused as refused:
        raise BadRequest(f"{path}: {refused.reason}") from None


def parse_spec(value: Mapping[str, object]) -> EmbedSpec:
    """Parse the content of a spec file."""
    return _parse_spec(dict(value), "the spec")


def read_manifest(path: Path) -> SeedManifest:
    """Read a manifest in YAML or JSON; its paths are relative to the folder of the file.

    Raises:
        BadRequest: the file cannot be read or is not a manifest.
    """
    import yaml  # noqa: PLC0415  # an optional, slow import

    try:
        document = yaml.safe_load(_read(path))
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise BadRequest(f"{path}: not YAML: {reason}") from None
    found = _parse_mapping(document, str(path))
    source = _parse_text(found, "sources", "raw_seed", path) or _parse_text(
        found, "seed", "data", path
    )
    if source is None:
        raise BadRequest(f"{path}: sources.raw_seed says where the records are; it is missing")
    output = _parse_text(found, "artifacts", "embedded_seed", path)
    return SeedManifest(
        input=path.parent / source,
        output=path.parent / (output or DEFAULT_OUTPUT),
        spec=_parse_spec(found.get("embeddings"), f"{path}: embeddings"),
    )


def _parse_spec(value: object, position: str) -> EmbedSpec:
    found = _parse_mapping(value, position, ("dimension", "types"))
    dimension = found.get("dimension")
    if not isinstance(dimension, int) or isinstance(dimension, bool) or dimension < 1:
        raise BadRequest(f"{position}: dimension must be a positive whole number")
    types = _parse_mapping(found.get("types"), f"{position}: types")
    if not types:
        raise BadRequest(f"{position}: 'types' is empty; name a type")
    return EmbedSpec(
        dimension,
        {name: _parse_target(value, f"{position}: types.{name}") for name, value in types.items()},
    )


def _parse_target(value: object, position: str) -> EmbedTarget:
    found = _parse_mapping(value, position, ("target", "fields"))
    target, fields = found.get("target"), found.get("fields")
    if not isinstance(target, str) or not target:
        raise BadRequest(f"{position}: target must be the name of a field")
    if not isinstance(fields, list) or not fields:
        raise BadRequest(f"{position}: fields must be a list of names")
    if not all(isinstance(field, str) and field for field in fields):
        raise BadRequest(f"{position}: fields must be a list of names")
    return EmbedTarget(target, tuple(fields))


def _parse_text(manifest: Mapping[str, object], section: str, name: str, path: Path) -> str | None:
    """Return an optional path of the manifest."""
    members = _parse_mapping(manifest.get(section) or {}, f"{path}: {section}")
    value = members.get(name)
    if value is not None and (not isinstance(value, str) or not value):
        raise BadRequest(f"{path}: {section}.{name} must be a path")
    return value


def _parse_mapping(
    value: object, position: str, known: tuple[str, ...] | None = None
) -> Mapping[str, object]:
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise BadRequest(f"{position}: expected names with values")
    unknown = sorted(value.keys() - set(known)) if known is not None else []
    if unknown:
        raise BadRequest(f"{position}: unknown key '{unknown[0]}'")
    return value


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadRequest(f"cannot read {path}: {error.strerror}") from None


_LINES_AT_ONCE = 256
_LINES_OF_TASK = 512


class EmbedMode(StrEnum):
    """Treatment of the selected records."""

    FILL_MISSING = "fill_missing"
    """Embed records whose target is absent, null or empty."""
    REEMBED_SELECTED = "reembed_selected"
    """Embed every selected record."""
    REEMBED_ALL = "reembed_all"
    CLEAN = "clean"
    """Remove the target."""


@dataclass(frozen=True, slots=True)
class RecordSelector:
    """Records, of one type or of any, with this value of a field."""

    type: str | None
    field: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LineRange:
    """A range of whole lines of a file: their bytes, and the number of the first line."""

    start: int
    end: int
    first_line: int


@dataclass(frozen=True, slots=True)
class EmbedRequest:
    """Records to embed; by default every record of a type in the spec."""

    input: Path
    output: Path
    spec: EmbedSpec
    types: tuple[str, ...] = ()
    selectors: tuple[RecordSelector, ...] = ()
    is_clean: bool = False
    is_reembed_all: bool = False
    is_resumable: bool = False
    """Retain partial output when the run fails, and continue from that of an earlier run."""
    lines: LineRange | None = None
    """The part of the input that is read; None for all of it."""

    @property
    def mode(self) -> EmbedMode:
        if self.is_clean:
            return EmbedMode.CLEAN
        if self.is_reembed_all:
            return EmbedMode.REEMBED_ALL
        return EmbedMode.REEMBED_SELECTED if self.selectors else EmbedMode.FILL_MISSING


class EmbedSummary(Result, frozen=True):
    """Counts of a run; the model is None where nothing could be embedded."""

    input: str
    output: str
    records: int
    selected_records: int
    embedded_records: int
    cleaned_records: int
    mode: EmbedMode
    dimension: int
    model: str | None


def parse_selector(text: str) -> RecordSelector:
    """Parse a selector written `[Type:]field=value`.

    Raises:
        BadRequest: the text has another form.
    """
    name, equals, value = text.partition("=")
    type_name, colon, field = name.rpartition(":")
    if not equals or not field or (colon and not type_name):
        raise BadRequest(f"a selection must be written [Type:]field=value, not '{text}'")
    return RecordSelector(type_name or None, field, value)


def embed_file(
    request: EmbedRequest,
    embedder: Embedder | None,
    *,
    pace: Pace | None = None,
    answers: Answers | None = None,
) -> EmbedSummary:
    """Write the output file and return the counts; cleaning needs no embedder.

    The output appears whole or not at all, and may be the input itself.

    Args:
        request: The files, and the records to embed.
        embedder: Computes the vectors.
        pace: The rate at which texts are sent.
        answers: Stores each answer, so that texts are sent in batches.

    Raises:
        BadRequest: the request does not fit its spec, or a line of the input is not a record.
        EmbeddingFailed: the provider failed.
    """
    check_request(request)
    output = OutputFile(request.output)
    run = _FileRun(request, embedder, pace, answers)
    partial = _PartialOutput(request, None if embedder is None else embedder.model)
    is_done = False
    try:
        request.output.parent.mkdir(parents=True, exist_ok=True)
        with partial.begin() as file:
            for index, line in enumerate(run.lines(partial.lines())):
                if index >= partial.count:
                    file.write(line + b"\n")
            file.flush()
            os.fsync(file.fileno())
        output.put(partial.scratch)
        is_done = True
    except OSError as error:
        raise BadRequest(f"cannot write {request.output}: {error.strerror}") from None
    finally:
        partial.end(is_done=is_done)
    return run.summary()


class _PartialOutput:
    """The partial output of a run, stored next to its output, and that of an earlier run.

    Each input line makes one output line, so a later run continues after the existing lines if
    these are of the same request on the same input.
    """

    def __init__(self, request: EmbedRequest, model: str | None) -> None:
        self._request, self._model = request, model
        self.scratch = request.output.with_name(f"{request.output.name}.tmp")
        self._mark = request.output.with_name(f"{request.output.name}.tmp.sum")
        self.count = 0
        """The number of lines that an earlier run wrote."""

    def begin(self) -> BinaryIO:
        """Open the file for writing, positioned behind the complete lines of an earlier run."""
        if not self._request.is_resumable:
            return self.scratch.open("wb")
        identity = self._find_identity()
        is_mine = self._mark.exists() and self._mark.read_text() == identity
        if not (is_mine and self.scratch.exists()):
            self._mark.write_text(identity)
            return self.scratch.open("wb")
        file = self.scratch.open("r+b")
        whole = 0
        for line in file:
            if line.endswith(b"\n"):
                self.count, whole = self.count + 1, whole + len(line)
        # What follows the last whole line was being written when the run ended.
        file.seek(whole)
        file.truncate()
        return file

    def lines(self) -> Iterator[bytes]:
        """Yield the lines that an earlier run wrote."""
        if not self.count:
            return
        with self.scratch.open("rb") as file:
            for line in islice(file, self.count):
                yield line.rstrip(b"\n")

    def end(self, *, is_done: bool) -> None:
        if is_done or not self._request.is_resumable:
            self.scratch.unlink(missing_ok=True)
            self._mark.unlink(missing_ok=True)

    def _find_identity(self) -> str:
        request = self._request
        digest = hashlib.sha256()
        try:
            with request.input.open("rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
        except OSError as error:
            raise BadRequest(f"cannot read {request.input}: {error.strerror}") from None
        asked = (request.spec, request.types, request.selectors, request.mode, self._model)
        digest.update(repr(asked).encode())
        return digest.hexdigest()


def check_request(request: EmbedRequest) -> None:
    """Raise unless the request fits its spec."""
    if request.is_clean and request.is_reembed_all:
        raise BadRequest("records can be cleaned or embedded again, not both")
    named = [*request.types, *(s.type for s in request.selectors if s.type is not None)]
    for name in named:
        if name not in request.spec.types:
            known = ", ".join(sorted(request.spec.types))
            raise BadRequest(f"the spec does not mention type '{name}'; its types are {known}")


@dataclass(frozen=True, slots=True)
class _PendingText:
    """A record and the text whose vector it receives."""

    number: int
    record: Mapping[str, object]
    data: dict[str, object]
    target: str
    text: str

    def line(self, vector: Sequence[float]) -> bytes:
        # The shortest digits that single precision reads back as the same number.
        self.data[self.target] = [float(str(np.float32(value))) for value in vector]
        return _write_record(self.record)


class _FileRun:
    """One pass over the input, counting."""

    def __init__(
        self,
        request: EmbedRequest,
        embedder: Embedder | None,
        pace: Pace | None,
        answers: Answers | None,
    ) -> None:
        self._request, self._embedder = request, embedder
        self._pace, self._answers = pace or Pace(), answers
        self._mode = request.mode
        self._records = self._selected = self._embedded = self._cleaned = 0

    def summary(self) -> EmbedSummary:
        return EmbedSummary(
            input=str(self._request.input),
            output=str(self._request.output),
            records=self._records,
            selected_records=self._selected,
            embedded_records=self._embedded,
            cleaned_records=self._cleaned,
            mode=self._mode,
            dimension=self._request.spec.dimension,
            model=None if self._embedder is None else self._embedder.model,
        )

    def lines(self, made: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the lines of the output; the line of an unchanged record is copied.

        `made` are the first lines, from an earlier run.
        """
        with working("embedding", unit="records") as work:
            for some in _split_into_batches(_read_lines(self._request), self._embed_lines()):
                begun = [self._begin(number, line, next(made, None)) for number, line in some]
                yield from self._finish(begun)
                work.advance(len(some))

    def _embed_lines(self) -> int:
        # An answer of a provider costs money: it is stored, or its line is written at once.
        if self._answers is not None:
            return _LINES_OF_TASK
        is_free = isinstance(self._embedder, LocalEmbedder) and self._pace.per_minute is None
        return _LINES_AT_ONCE if is_free else 1

    def _begin(self, number: int, line: bytes, made: bytes | None) -> bytes | _PendingText:
        self._records += 1
        with self._at(number):
            return self._render_line(number, line, made)

    def _finish(self, begun: Sequence[bytes | _PendingText]) -> Iterator[bytes]:
        vectors = self._embed_texts([one.text for one in begun if isinstance(one, _PendingText)])
        for one in begun:
            if isinstance(one, bytes):
                yield one
            else:
                with self._at(one.number):
                    line = one.line(vectors[one.text])
                self._embedded += 1
                yield line

    def _embed_texts(self, texts: Sequence[str]) -> Mapping[str, list[float]]:
        if not texts:
            return {}
        assert self._embedder is not None, "only cleaning goes without an embedder"
        dimension, size = self._request.spec.dimension, TEXTS_PER_REQUEST
        if isinstance(self._embedder, LocalEmbedder):
            size = _LINES_AT_ONCE
        return embed_texts(self._embedder, texts, dimension, self._answers, self._pace, size)

    @contextmanager
    def _at(self, number: int) -> Iterator[None]:
        """Report an invalid line with its number."""
        try:
            yield
        except (ValueRefused, ValueError) as problem:
            raise BadRequest(f"{self._request.input}:{number}: {problem}") from None

    def _render_line(self, number: int, line: bytes, made: bytes | None) -> bytes | _PendingText:
        record = parse_json(line)
        if not isinstance(record, dict):
            raise ValueError("a record is a JSON object")
        type_name = record.get("type")
        if not isinstance(type_name, str):
            return line
        data = record.get("data")
        if not isinstance(data, dict):
            raise ValueError(f"a record of type '{type_name}' has its fields in an object 'data'")
        target = self._request.spec.types.get(type_name)
        if target is None or not self._is_selected(type_name, data):
            return line
        self._selected += 1
        if made is not None:
            if made != line:
                self._embedded += self._mode is not EmbedMode.CLEAN
                self._cleaned += self._mode is EmbedMode.CLEAN
            return made
        if self._mode is EmbedMode.CLEAN:
            return self._write_without(record, data, target) if target.target in data else line
        if self._mode is EmbedMode.FILL_MISSING and data.get(target.target) not in (None, []):
            return line
        text = build_embed_text(type_name, data, target.fields)
        return _PendingText(number, record, data, target.target, text)

    def _is_selected(self, type_name: str, data: Mapping[str, object]) -> bool:
        request = self._request
        if request.types and type_name not in request.types:
            return False
        return not request.selectors or any(
            selector.type in (None, type_name)
            and selector.field in data
            and render_field(data[selector.field]) == selector.value
            for selector in request.selectors
        )

    def _write_without(
        self, record: Mapping[str, object], data: dict[str, object], target: EmbedTarget
    ) -> bytes:
        del data[target.target]
        self._cleaned += 1
        return _write_record(record)


def build_embed_text(type_name: str, data: Mapping[str, object], fields: Sequence[str]) -> str:
    """Build the text of a record: its type, then each field that is not blank, one per line."""
    values = ((field, render_field(data.get(field))) for field in fields)
    return "\n".join(
        [f"type: {type_name}", *(f"{field}: {text}" for field, text in values if text)]
    )


def render_field(value: object) -> str:
    """Render the value of a field as text."""
    match value:
        case None:
            return ""
        case str():
            return value.strip()
        case bool():
            return "true" if value else "false"
        case list():
            return ", ".join(render_field(item) for item in value)
        case dict():
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        case _:
            return str(value)


def _read_lines(request: EmbedRequest) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that hold a record, with their numbers in the file, which start at 1."""
    part = request.lines
    try:
        with request.input.open("rb") as file:
            file.seek(0 if part is None else part.start)
            for number, line in enumerate(file, 1 if part is None else part.first_line):
                if line.strip():
                    yield number, line.rstrip(b"\r\n")
                if part is not None and file.tell() >= part.end:
                    return
    except OSError as error:
        raise BadRequest(f"cannot read {request.input}: {error.strerror}") from None


def _split_into_batches(
    lines: Iterable[tuple[int, bytes]], size: int
) -> Iterator[Sequence[tuple[int, bytes]]]:
    rest = iter(lines)
    while batch := list(islice(rest, size)):
        yield batch


def _write_record(record: Mapping[str, object]) -> bytes:
    try:
        text = json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        raise ValueError("a number is too large for JSON") from None
    return text.encode()
