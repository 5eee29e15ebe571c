"""The policies of `cluster.yaml`, and what each is bound to."""

from __future__ import annotations

from collections.abc import Collection

from omnigraph.cluster.cluster_config import PolicyDeclaration
from omnigraph.cluster.config_values import ConfigValues
from omnigraph.cluster.resource_addresses import CLUSTER_SCOPE, graph_address
from omnigraph.language.yaml_reader import Value

_GRAPH = "graph."


class PolicyReader:
    def __init__(self, values: ConfigValues, graphs: Collection[str]) -> None:
        self._values, self._yaml, self._graphs = values, values.yaml, graphs
        self._bound: dict[str, str] = {}

    def read_policies(self, value: Value) -> dict[str, PolicyDeclaration]:
        return self._values.read_resources(value, self._read_policy)

    def _read_policy(self, name: str, key: Value, value: Value) -> PolicyDeclaration:
        what = f"policy '{name}'"
        members = self._yaml.read_members(Value(value.node, what), ("file",), ("applies_to",))
        bound: list[tuple[str, Value]] = []
        if "applies_to" in members:
            items = self._yaml.read_items(members["applies_to"], "a graph")
            found = [(self._read_scope(one), one) for one in items]
            bound = [(scope, one) for scope, one in found if scope is not None]
        if "applies_to" not in members or not self._yaml.has_items(members["applies_to"]):
            message = f"{what} needs 'applies_to': the cluster, or graphs"
            self._values.add("policy_missing_applies_to", message, key)
        scopes = {scope for scope, _ in bound}
        if CLUSTER_SCOPE in scopes and len(scopes) > 1:
            message = f"{what} is bound to the cluster and to graphs; use a bundle for each"
            self._values.add("policy_mixed_binding_kinds", message, members["applies_to"])
        for scope, item in bound:
            self._bind(name, scope, item)
        return PolicyDeclaration(
            name,
            self._values.find_place(key),
            self._values.read_file(members["file"]) if "file" in members else None,
            tuple(sorted(scopes)),
        )

    def _bind(self, name: str, scope: str, item: Value) -> None:
        other = self._bound.setdefault(scope, name)
        if other != name:
            message = f"'{scope}' is bound to policy '{other}' already"
            self._values.add("duplicate_policy_binding", message, item)

    def _read_scope(self, value: Value) -> str | None:
        text = self._yaml.read_name(value)
        if text is None or text == CLUSTER_SCOPE:
            return text
        graph_id = text.removeprefix(_GRAPH)
        if "." in graph_id:
            message = f"'{text}' is neither a graph nor the cluster"
            self._values.add("wrong_kind_reference", message, value)
            return None
        if graph_id not in self._graphs:
            self._values.add("dangling_graph_reference", f"there is no graph '{graph_id}'", value)
            return None
        return graph_address(graph_id)
