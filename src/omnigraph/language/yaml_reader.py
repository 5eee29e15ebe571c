"""Strict YAML: every value has a position, every error is reported, nothing is guessed.

Strings must be strings: `no` and `1` without quotes are a boolean and a number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from omnigraph.language.source import NOWHERE, Problems, SourceText, Span

_STR, _INT = "tag:yaml.org,2002:str", "tag:yaml.org,2002:int"
_BOOL, _TRUE = "tag:yaml.org,2002:bool", ("true", "yes", "on")
_KINDS = {MappingNode: "a mapping", SequenceNode: "a list", ScalarNode: "a single value"}


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the text, with its name in messages."""

    node: Node
    what: str

    @property
    def span(self) -> Span:
        start, end = self.node.start_mark.index, self.node.end_mark.index
        return Span(start, max(start + 1, end))


class YamlReader:
    """Reads values of one text and collects their errors."""

    def __init__(self, source: SourceText, stage: str) -> None:
        self.source = source
        self.problems = Problems(source, stage)

    def read(self, what: str) -> Value | None:
        """Read the whole document; None if it is empty or not YAML."""
        try:
            node = yaml.compose(self.source.text, yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            at = NOWHERE if mark is None else Span(mark.index, mark.index + 1)
            self.add("B100", f"the text is not YAML: {error.problem or error.context}", at)
            return None
        except yaml.reader.ReaderError as error:
            at = Span(int(error.position), int(error.position) + 1)
            self.add("B100", f"the text is not YAML: {error.reason}", at)
            return None
        except RecursionError:
            self.add("B100", "the text is nested too deeply", NOWHERE)
            return None
        if node is None:
            self.add("B101", f"{what} is empty", NOWHERE)
            return None
        return Value(node, what) if self._has_no_alias(node) else None

    def add(self, code: str, message: str, span: Span, *, hint: str | None = None) -> None:
        self.problems.add(code, message, span, hint=hint)

    def read_members(
        self, value: Value, required: Sequence[str], optional: Sequence[str] = ()
    ) -> dict[str, Value]:
        """Read the members of a mapping with known keys; unknown ones are errors."""
        found = self.read_entries(value)
        known = (*required, *optional)
        for name, (key, _) in found.items():
            if name not in known:
                close = get_close_matches(name, known, n=1)
                hint = f"did you mean `{close[0]}`?" if close else f"use {', '.join(known)}"
                self.add("B102", f"no such key '{name}' in {value.what}", key.span, hint=hint)
        for name in required:
            if name not in found and self.is_mapping(value):
                self.add("B104", f"{value.what} needs '{name}'", _start(value))
        return {name: one for name, (_, one) in found.items() if name in known}

    def read_entries(self, value: Value) -> Mapping[str, tuple[Value, Value]]:
        """Read the members of a mapping with arbitrary keys."""
        found: dict[str, tuple[Value, Value]] = {}
        if not self.is_mapping(value):
            self._report_kind(value, "a mapping")
            return found
        for key_node, node in value.node.value:
            key = Value(key_node, f"a key of {value.what}")
            name = self.read_text(key)
            if name is None:
                continue
            if name in found:
                self.add("B103", f"key '{name}' appears twice in {value.what}", key.span)
            found[name] = key, Value(node, f"'{name}'")
        return found

    def is_mapping(self, value: Value) -> bool:
        return isinstance(value.node, MappingNode)

    def read_items(self, value: Value, what: str) -> list[Value]:
        """Read the items of a list."""
        if not isinstance(value.node, SequenceNode):
            self._report_kind(value, "a list")
            return []
        return [Value(node, what) for node in value.node.value]

    def read_text(self, value: Value) -> str | None:
        """Read a text, without surrounding spaces."""
        if isinstance(value.node, ScalarNode):
            if value.node.tag == _STR:
                return str(value.node.value).strip()
            shown = str(value.node.value)
            if shown and value.node.tag.startswith("tag:yaml.org,2002:"):
                hint = f'put it in quotes: "{shown}"'
                self.add("B101", f"{value.what} must be a string", value.span, hint=hint)
                return None
        self._report_kind(value, "a text")
        return None

    def read_flag(self, value: Value) -> bool | None:
        """Read `true` or `false`."""
        if isinstance(value.node, ScalarNode) and value.node.tag == _BOOL:
            return str(value.node.value).lower() in _TRUE
        self.add("B101", f"{value.what} must be true or false", value.span)
        return None

    def is_text(self, value: Value) -> bool:
        return isinstance(value.node, ScalarNode)

    def is_list(self, value: Value) -> bool:
        return isinstance(value.node, SequenceNode)

    def has_items(self, value: Value) -> bool:
        """Return whether it is a list that is not empty, or no list."""
        return not self.is_list(value) or bool(value.node.value)

    def read_name(self, value: Value) -> str | None:
        """Read a text that is not blank."""
        found = self.read_text(value)
        if found == "":
            self.add("B110", f"{value.what} is blank", value.span)
            return None
        return found

    def read_names(self, value: Value, what: str) -> list[tuple[str, Value]]:
        """Read a list of distinct names that is not empty."""
        items = self.read_items(value, what)
        if not items and isinstance(value.node, SequenceNode):
            self.add("B111", f"{value.what} is empty", value.span)
        found: dict[str, Value] = {}
        for item in items:
            name = self.read_name(item)
            if name is None:
                continue
            if name in found:
                self.add("B112", f"'{name}' appears twice in {value.what}", item.span)
            found[name] = item
        return list(found.items())

    def check_version(self, value: Value, supported: int) -> None:
        """Report an unsupported version of the format."""
        is_number = isinstance(value.node, ScalarNode) and value.node.tag == _INT
        if not is_number or value.node.value != str(supported):
            self.add("B105", f"version must be {supported}", value.span)

    def _report_kind(self, value: Value, kind: str) -> None:
        given = _KINDS[type(value.node)]
        shown = "nothing" if given == "a single value" and not value.node.value else given
        self.add("B101", f"{value.what} must be {kind}, not {shown}", _start(value))

    def _has_no_alias(self, root: Node) -> bool:
        """Return whether no value is shared: aliases of aliases could expand to a huge tree."""
        seen: set[int] = set()
        waiting = [root]
        while waiting:
            node = waiting.pop()
            if id(node) in seen:
                self.add("B106", "anchors and aliases are not supported", Value(node, "").span)
                return False
            seen.add(id(node))
            children = node.value if not isinstance(node.value, str) else ()
            for child in children:
                waiting += child if isinstance(child, tuple) else (child,)
        return True


def _start(value: Value) -> Span:
    return Span(value.span.start, value.span.start + 1)
