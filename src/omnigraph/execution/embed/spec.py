"""Which fields of which records are embedded into which target, as files say it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from omnigraph.errors import BadRequest
from omnigraph.types.problems import ValueRefused
from omnigraph.types.strict_json import parse_json

DEFAULT_OUTPUT = Path("build/seed.embedded.jsonl")


@dataclass(frozen=True, slots=True)
class EmbedTarget:
    """The field that gets the vector, and the fields its text is made of."""

    target: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EmbedSpec:
    """Which properties of which types make vectors, and how long these are."""

    dimension: int
    types: Mapping[str, EmbedTarget]


@dataclass(frozen=True, slots=True)
class SeedManifest:
    """Where records come from and go to, and how they are embedded on the way."""

    input: Path
    output: Path
    spec: EmbedSpec


def read_spec(path: Path) -> EmbedSpec:
    """The spec in a JSON file.

    Raises:
        BadRequest: the file cannot be read or does not hold a spec.
    """
    try:
        return _parse_spec(parse_json(_read(path)), str(path))
    except ValueRefused as refused:
        raise BadRequest(f"{path}: {refused.reason}") from None


def parse_spec(value: Mapping[str, object]) -> EmbedSpec:
    """The spec given as the content of its file."""
    return _parse_spec(dict(value), "the spec")


def read_manifest(path: Path) -> SeedManifest:
    """The manifest in a YAML or JSON file; its paths start from the folder of the file.

    Raises:
        BadRequest: the file cannot be read or does not hold a manifest.
    """
    import yaml  # noqa: PLC0415  # only this needs it, and it is slow to load

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


def _parse_spec(value: object, place: str) -> EmbedSpec:
    found = _parse_mapping(value, place, ("dimension", "types"))
    dimension = found.get("dimension")
    if not isinstance(dimension, int) or isinstance(dimension, bool) or dimension < 1:
        raise BadRequest(f"{place}: dimension must be a positive whole number")
    types = _parse_mapping(found.get("types"), f"{place}: types")
    if not types:
        raise BadRequest(f"{place}: types names no type")
    return EmbedSpec(
        dimension,
        {name: _parse_target(value, f"{place}: types.{name}") for name, value in types.items()},
    )


def _parse_target(value: object, place: str) -> EmbedTarget:
    found = _parse_mapping(value, place, ("target", "fields"))
    target, fields = found.get("target"), found.get("fields")
    if not isinstance(target, str) or not target:
        raise BadRequest(f"{place}: target must be the name of a field")
    if not isinstance(fields, list) or not fields:
        raise BadRequest(f"{place}: fields must be a list of names")
    if not all(isinstance(field, str) and field for field in fields):
        raise BadRequest(f"{place}: fields must be a list of names")
    return EmbedTarget(target, tuple(fields))


def _parse_text(manifest: Mapping[str, object], section: str, name: str, path: Path) -> str | None:
    """A path that the manifest may name."""
    members = _parse_mapping(manifest.get(section) or {}, f"{path}: {section}")
    value = members.get(name)
    if value is not None and (not isinstance(value, str) or not value):
        raise BadRequest(f"{path}: {section}.{name} must be a path")
    return value


def _parse_mapping(
    value: object, place: str, known: tuple[str, ...] | None = None
) -> Mapping[str, object]:
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise BadRequest(f"{place}: expected names with values")
    unknown = sorted(value.keys() - set(known)) if known is not None else []
    if unknown:
        raise BadRequest(f"{place}: there is no '{unknown[0]}' here")
    return value


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadRequest(f"cannot read {path}: {error.strerror}") from None
