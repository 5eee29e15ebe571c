"""Reading parts of `cluster.yaml`: what every reader of a part needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from omnigraph.cluster.cluster_config import FileRef
from omnigraph.cluster.cluster_layout import CONFIG_FILE
from omnigraph.cluster.cluster_report import ClusterReport
from omnigraph.cluster.resource_addresses import RESOURCE_NAME
from omnigraph.errors import Diagnostic
from omnigraph.language.source import SourceText
from omnigraph.language.yaml_reader import Value, YamlReader
from omnigraph.wire.graph_ids import is_graph_id

One = TypeVar("One")

_YAML_CODES = {"B103": "duplicate_yaml_key", "B105": "unsupported_cluster_config_version"}
"""What mistakes of YAML are called here; the others are `invalid_cluster_yaml`."""
_GRAPH_RULE = (
    "a graph: use 1 to 64 letters, digits and '-', and none of graphs, healthz, openapi, policies"
)
_RULE = "a resource: use letters, digits, '_' and '-', and start with a letter or '_'"


class ConfigValues:
    """The values of one `cluster.yaml`, and the mistakes in it so far."""

    def __init__(self, source: SourceText) -> None:
        self.yaml = YamlReader(source, "cluster")

    def add(self, code: str, message: str, value: Value, hint: str | None = None) -> None:
        self.yaml.add(code, message, value.span, hint=hint)

    def find_place(self, value: Value) -> str:
        """Where a value was written, as messages name it."""
        line, column = self.yaml.source.line_and_column(value.span.start)
        return f"{CONFIG_FILE}:{line}:{column}"

    def read_file(self, value: Value) -> FileRef | None:
        path = self.yaml.read_name(value)
        return None if path is None else FileRef(path, self.find_place(value))

    def read_resources(
        self, value: Value, read: Callable[[str, Value, Value], One], *, are_graphs: bool = False
    ) -> dict[str, One]:
        """The members of a mapping of resources; `read` gets the name, the key and the value."""
        found = {}
        for name, (key, member) in self.yaml.read_entries(value).items():
            if not (is_graph_id(name) if are_graphs else RESOURCE_NAME.fullmatch(name)):
                rule = _GRAPH_RULE if are_graphs else _RULE
                self.add("invalid_resource_id", f"'{name}' cannot be the id of {rule}", key)
            else:
                found[name] = read(name, key, member)
        return found

    def report_to(self, report: ClusterReport) -> None:
        """Hand the mistakes over in the order of the text."""
        for one in sorted(self.yaml.problems.found, key=lambda found: found.start):
            is_of_yaml = one.code[0] == "B" and one.code[1:].isdigit()
            code = _YAML_CODES.get(one.code, "invalid_cluster_yaml") if is_of_yaml else one.code
            report.add(code, show_place(one), describe_mistake(one))


def show_place(found: Diagnostic) -> str:
    """Where a mistake of a text is, as in `library.pg:3:7`."""
    return f"{found.source}:{found.line}:{found.column}"


def describe_mistake(found: Diagnostic) -> str:
    """A mistake of a text with its hint."""
    return f"{found.message}; {found.hint}" if found.hint else found.message
