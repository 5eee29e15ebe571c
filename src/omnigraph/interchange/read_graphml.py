"""GraphML files: nodes and edges as XML, with properties declared as keys.

Neo4j's export writes labels as attributes and as data. Others have one type of nodes and one of
edges; what they call `label` is a name to be shown, a property like any other.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnigraph.errors import BadRequest
from omnigraph.interchange.read_neo4j_csv import LABELS
from omnigraph.interchange.record_tables import RecordTables
from omnigraph.interchange.source_tables import SourceGraph

_PARSERS: Mapping[str, Callable[[str], object]] = {
    "boolean": lambda text: {"true": True, "false": False, "1": True, "0": False}[text.lower()],
    "int": int,
    "long": int,
    "float": float,
    "double": float,
}


@dataclass(frozen=True, slots=True)
class _Key:
    """A declared property."""

    name: str
    type: str
    applies: str
    default: str | None


def read_graphml(path: Path) -> SourceGraph:
    """The nodes and edges of a file, a table for each type."""
    reader = _GraphmlReader(path)
    try:
        for event, element in ET.iterparse(path, events=("start", "end")):
            reader.take(event, element)
    except ET.ParseError as error:
        raise BadRequest(f"cannot read {path} as GraphML: {error}") from error
    except OSError as error:
        raise BadRequest(f"cannot read {path}: {error.strerror or error}") from error
    return SourceGraph(reader.tables.list_tables(), tuple(reader.lost))


class _GraphmlReader:
    def __init__(self, path: Path) -> None:
        self.tables = RecordTables(str(path), str(path))
        self.lost: list[str] = []
        self._path = path
        self._keys: dict[str, _Key] = {}
        self._noted: set[str] = set()

    def take(self, event: str, element: ET.Element) -> None:
        kind = element.tag.rpartition("}")[2]
        if event == "start":
            if kind == "graph" and element.get("edgedefault") == "undirected":
                self._note("undirected edges keep the direction in which they are written")
            return
        match kind:
            case "key":
                self._add_key(element)
            case "node":
                self._add_node(element)
                element.clear()
            case "edge":
                self._add_edge(element)
                element.clear()
            case "hyperedge" | "port":
                self._note(f"{kind} elements have no counterpart")
            case _:
                pass

    def _note(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self.lost.append(f"{self._path.name}: {text}")

    def _add_key(self, element: ET.Element) -> None:
        found = next((one for one in element if one.tag.endswith("default")), None)
        default = None if found is None else (found.text or "")
        name = element.get("attr.name") or element.get("id") or ""
        kind = element.get("attr.type") or "string"
        key = _Key(name, kind.lower(), element.get("for") or "all", default)
        self._keys[element.get("id") or ""] = key

    def _add_node(self, element: ET.Element) -> None:
        properties = self._read_data(element, "node")
        labels = _split_labels(element.get("labels") or "")
        if labels:
            properties.pop(LABELS, None)
        if len(labels) > 1:
            properties[LABELS] = labels
        self.tables.add_node(labels[0] if labels else "Node", element.get("id") or "", properties)

    def _add_edge(self, element: ET.Element) -> None:
        properties = self._read_data(element, "edge")
        label = element.get("label")
        if label:
            properties.pop("label", None)
        ends = element.get("source") or "", element.get("target") or ""
        self.tables.add_edge(label or "Edge", ends, properties, element.get("id"))

    def _read_data(self, element: ET.Element, kind: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key in self._keys.values():
            if key.default is not None and key.applies in (kind, "all"):
                found[key.name] = self._parse(key, key.default)
        for data in element:
            if not data.tag.endswith("data"):
                continue
            key = self._keys.get(data.get("key") or "", _Key(data.get("key") or "", "", "", None))
            if len(data):
                self._note(f"{key.name or 'a key'} holds XML, not a value")
                continue
            found[key.name] = self._parse(key, data.text or "")
        return found

    def _parse(self, key: _Key, text: str) -> object:
        parse = _PARSERS.get(key.type)
        if parse is None:
            return text
        try:
            return parse(text.strip())
        except (ValueError, KeyError):
            raise BadRequest(
                f"cannot read {self._path} as GraphML: '{text}' is not a valid {key.type}, the "
                f"type declared for {key.name}"
            ) from None


def _split_labels(text: str) -> list[str]:
    return [one for one in text.strip(": ").split(":") if one]
