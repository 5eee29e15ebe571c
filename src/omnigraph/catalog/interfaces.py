"""What a node type gets from the interfaces it implements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from omnigraph.catalog.declarations import DeclaredProperty
from omnigraph.catalog.schema_mistakes import OwnerName, SchemaMistakes
from omnigraph.language.schema.schema_ast import NameRef

Properties = Mapping[str, DeclaredProperty]


def expand_interfaces(
    owner: OwnerName,
    own: Properties,
    implements: Sequence[NameRef],
    interfaces: Mapping[str, Properties],
    findings: SchemaMistakes,
) -> Properties:
    """The node's own properties and those its interfaces add.

    A property the node declares itself keeps the node's annotations and must have the interface's
    type. One it does not declare comes with the interface's annotations and constraints; if
    several interfaces bring it they must agree, so their order does not matter.
    """
    injected: dict[str, tuple[str, DeclaredProperty]] = {}
    for ref in _find_known(owner, implements, interfaces, findings):
        for name, offered in interfaces[ref.name].items():
            if name in own:
                _check_type(owner, own[name], ref, offered, findings)
            elif name in injected:
                first_interface, accepted = injected[name]
                merged = _check_agreement(owner, first_interface, accepted, ref, offered, findings)
                injected[name] = (first_interface, merged)
            else:
                injected[name] = (ref.name, _inject_property(offered, ref))
    return {**own, **{name: declared for name, (_, declared) in injected.items()}}


def _find_known(
    owner: OwnerName,
    implements: Sequence[NameRef],
    interfaces: Mapping[str, Properties],
    findings: SchemaMistakes,
) -> list[NameRef]:
    known: dict[str, NameRef] = {}
    for ref in implements:
        if ref.name not in interfaces:
            message = f"{owner} implements unknown interface '{ref.name}'"
            hint = findings.suggest(ref.name, interfaces)
            findings.error("S108", message, ref.span, hint=hint)
        elif ref.name in known:
            findings.warn("S191", f"{owner} names interface {ref.name} twice", ref.span)
        else:
            known[ref.name] = ref
    return list(known.values())


def _check_type(
    owner: OwnerName,
    own: DeclaredProperty,
    ref: NameRef,
    offered: DeclaredProperty,
    findings: SchemaMistakes,
) -> None:
    ours, theirs = own.property.type, offered.property.type
    if ours != theirs:
        where = f"{owner} property '{own.property.name}'"
        message = f"{where} has type {ours} but interface {ref.name} declares it as {theirs}"
        findings.error("S110", message, own.type_span)


def _inject_property(offered: DeclaredProperty, ref: NameRef) -> DeclaredProperty:
    # A clash of constraints is a mistake of this node, so it is shown where the node asks for them.
    return replace(
        offered,
        property=replace(offered.property, declared_directly=False),
        rules=tuple(replace(rule, span=ref.span) for rule in offered.rules),
    )


def _check_agreement(
    owner: OwnerName,
    first_interface: str,
    accepted: DeclaredProperty,
    ref: NameRef,
    offered: DeclaredProperty,
    findings: SchemaMistakes,
) -> DeclaredProperty:
    again = _inject_property(offered, ref)
    old_names = {accepted.renamed_from, again.renamed_from} - {None}
    if accepted != again or len(old_names) > 1:
        name = accepted.property.name
        message = (
            f"{owner} gets property '{name}' from interfaces {first_interface} and {ref.name} "
            "with incompatible property semantics"
        )
        hint = (
            f"declare '{name}' in {owner} to settle it" if _is_same_type(accepted, again) else None
        )
        findings.error("S111", message, ref.span, hint=hint)
    return replace(accepted, renamed_from=accepted.renamed_from or again.renamed_from)


def _is_same_type(left: DeclaredProperty, right: DeclaredProperty) -> bool:
    return left.property.type == right.property.type
