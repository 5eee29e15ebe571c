"""Annotations of types and properties: allowed positions and arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from omnigraph.catalog.catalog import Annotation, TypeKind
from omnigraph.catalog.declarations import OwnerName, SchemaProblems
from omnigraph.language import schema_ast

ON_COLUMNS = ("key", "unique", "index", "embed")
_ONCE = frozenset({*ON_COLUMNS, "description", "instruction", "rename_from", "default", "merge"})
_STRUCTURED = frozenset({*ON_COLUMNS, "rename_from", "default"})
"""Annotations that become fields of the catalog; all others are stored as written."""
_TEXTS = ("description", "instruction")
_KNOWN = (*sorted(_ONCE), "range", "check", "card")


def index_annotations(
    annotations: Sequence[schema_ast.AnnotationDecl], where: str, findings: SchemaProblems
) -> Mapping[str, schema_ast.AnnotationDecl]:
    """Index annotations by name after the checks common to all positions; the first one counts."""
    by_name: dict[str, schema_ast.AnnotationDecl] = {}
    for annotation in annotations:
        name = annotation.name
        if name in by_name and name in _ONCE:
            message = f"duplicate annotation `@{name}` on {where}"
            findings.error("S123", message, annotation.span)
        by_name.setdefault(name, annotation)
        _check_keywords(annotation, where, findings)
        _check_spelling(annotation, where, findings)
    for name in _TEXTS:
        if name in by_name and not get_argument_text(by_name[name]).strip():
            message = f"`@{name}` on {where} needs a text that is not empty"
            findings.error("S125", message, by_name[name].span)
    _refuse_bare_constraints(by_name, where, findings)
    return by_name


def _check_keywords(
    annotation: schema_ast.AnnotationDecl, where: str, findings: SchemaProblems
) -> None:
    seen: set[str] = set()
    for keyword, literal in annotation.keywords:
        if keyword in seen:
            message = f"duplicate keyword '{keyword}' in `@{annotation.name}` on {where}"
            findings.error("S124", message, literal.span)
        seen.add(keyword)


def _check_spelling(
    annotation: schema_ast.AnnotationDecl, where: str, findings: SchemaProblems
) -> None:
    name = annotation.name
    if name in _KNOWN:
        return
    hint = findings.suggest(name, _KNOWN)
    if hint is not None:
        message = f"unknown annotation `@{name}` on {where} has no effect"
        findings.warn("S190", message, annotation.span, hint=hint)


def _refuse_bare_constraints(
    by_name: Mapping[str, schema_ast.AnnotationDecl], where: str, findings: SchemaProblems
) -> None:
    for name, code, needed in (("range", "S157", "bounds"), ("check", "S158", "pattern")):
        if name in by_name:
            message = f"`@{name}` on {where} requires property name and {needed}"
            findings.error(code, message, by_name[name].span)


def get_argument_text(annotation: schema_ast.AnnotationDecl) -> str:
    """Return the text of the value in parentheses; empty if there is none."""
    match annotation.argument:
        case None:
            return ""
        case schema_ast.NameRef(name=name):
            return name
        case schema_ast.SchemaLiteral(text=text):
            return text


def rename_hint(
    by_name: Mapping[str, schema_ast.AnnotationDecl], where: str, findings: SchemaProblems
) -> str | None:
    """Return the name in `@rename_from`, if present."""
    annotation = by_name.get("rename_from")
    if annotation is None:
        return None
    old_name = get_argument_text(annotation)
    if not old_name.strip() or annotation.keywords:
        message = f"`@rename_from` on {where} takes exactly one name that is not empty"
        findings.error("S127", message, annotation.span)
        return None
    return old_name


def sort_metadata_annotations(
    annotations: Sequence[schema_ast.AnnotationDecl],
) -> tuple[Annotation, ...]:
    """List the metadata annotations in an order independent of the text."""
    kept = [
        Annotation(
            a.name,
            None if a.argument is None else get_argument_text(a),
            tuple(sorted((keyword, literal.text) for keyword, literal in a.keywords)),
        )
        for a in annotations
        if a.name not in _STRUCTURED
    ]
    return tuple(sorted(kept, key=lambda a: (a.name, a.value is not None, a.value, a.keywords)))


def read_type_annotations(
    owner: OwnerName, annotations: Sequence[schema_ast.AnnotationDecl], findings: SchemaProblems
) -> tuple[tuple[Annotation, ...], str | None]:
    """Return the metadata of a node type or edge type, and its former name."""
    by_name = index_annotations(annotations, str(owner), findings)
    for name in ON_COLUMNS:
        if name in by_name:
            _refuse_on_type(owner, by_name[name], findings)
    if "default" in by_name:
        message = f"`@default` on {owner} is only supported on properties"
        findings.error("S128", message, by_name["default"].span)
    if "merge" in by_name:
        _check_merge(owner, by_name["merge"], findings)
    return sort_metadata_annotations(annotations), rename_hint(by_name, str(owner), findings)


def _check_merge(
    owner: OwnerName, annotation: schema_ast.AnnotationDecl, findings: SchemaProblems
) -> None:
    if get_argument_text(annotation) != "entity" or annotation.keywords:
        message = f"`@merge` on {owner} takes exactly the word `entity`"
        hint = "`@merge(entity)` merges whole rows; without it, merges work by property"
        findings.error("S129", message, annotation.span, hint=hint)


def _refuse_on_type(
    owner: OwnerName, annotation: schema_ast.AnnotationDecl, findings: SchemaProblems
) -> None:
    name = annotation.name
    if owner.kind is TypeKind.NODE:
        allowed = "only supported on node properties or as body constraint"
        findings.error("S120", f"`@{name}` on {owner} is {allowed}", annotation.span)
        return
    hint = None
    if name in ("unique", "index"):
        hint = f"in the body of the edge: `{{ @{name}(src, dst) }}`"
    findings.error(
        "S121", f"`@{name}` on {owner} is not supported on edges", annotation.span, hint=hint
    )
