"""Random schemas that follow every rule."""

from __future__ import annotations

from hypothesis import strategies as st

from omnigraph.language.schema_ast import (
    AnnotationDecl,
    Cardinality,
    ConstraintClause,
    EdgeDecl,
    InterfaceDecl,
    NameRef,
    NodeDecl,
    PropertyDecl,
    RangeBounds,
    SchemaFile,
    SchemaLiteral,
)
from omnigraph.types.property import PropertyType, Scalar

COMPARABLE = [s for s in Scalar if s not in (Scalar.VECTOR, Scalar.BLOB)]
DEFAULTS = {
    Scalar.STRING: SchemaLiteral("string", "text"),
    Scalar.BOOL: SchemaLiteral("bool", "true"),
    Scalar.I32: SchemaLiteral("integer", "-7"),
    Scalar.I64: SchemaLiteral("integer", "-7"),
    Scalar.U32: SchemaLiteral("integer", "7"),
    Scalar.U64: SchemaLiteral("integer", "7"),
    Scalar.F32: SchemaLiteral("float", "0.5"),
    Scalar.F64: SchemaLiteral("integer", "1"),
    Scalar.DATE: SchemaLiteral("string", "2024-06-01"),
    Scalar.DATETIME: SchemaLiteral("string", "2024-06-01T12:00:00Z"),
}
PROPERTY_NAMES = [f"p{number}" for number in range(8)]
TITLE = PropertyDecl("title", PropertyType(Scalar.STRING))
VIBE = PropertyDecl(
    "vibe",
    PropertyType(Scalar.VECTOR, nullable=True, dimension=3),
    (AnnotationDecl("embed", SchemaLiteral("string", "title")),),
)
KEY = PropertyDecl("slug", PropertyType(Scalar.STRING), (AnnotationDecl("key"),))


@st.composite
def property_types(draw):
    scalar, nullable = draw(st.sampled_from([*COMPARABLE, Scalar.BLOB])), draw(st.booleans())
    if scalar is Scalar.STRING and draw(st.booleans()):
        return PropertyType(scalar, nullable=nullable, enum_values=("text", "word"))
    is_list = scalar is not Scalar.BLOB and draw(st.booleans())
    return PropertyType(scalar, nullable=nullable, is_list=is_list)


@st.composite
def draw_annotations(draw, type_):
    choices = [
        AnnotationDecl("description", SchemaLiteral("string", "what it is")),
        AnnotationDecl("rename_from", SchemaLiteral("string", "before")),
        AnnotationDecl("opaque", NameRef("value"), (("k", SchemaLiteral("integer", "1")),)),
    ]
    if type_.is_plain_scalar:
        choices += [
            AnnotationDecl("unique"),
            AnnotationDecl("index"),
            AnnotationDecl("default", DEFAULTS[type_.scalar]),
        ]
    return tuple(draw(st.lists(st.sampled_from(choices), unique_by=lambda a: a.name, max_size=4)))


@st.composite
def pools(draw):
    """One meaning for each property name, so that all interfaces agree."""
    pool = {}
    for name in PROPERTY_NAMES:
        type_ = draw(property_types())
        pool[name] = PropertyDecl(name, type_, draw(draw_annotations(type_)))
    return pool


@st.composite
def clauses(draw, properties, *, on_edge):
    plain = [name for name, type_ in properties.items() if type_.is_plain_scalar]
    columns = [*plain, *(["src", "dst"] if on_edge else [])]
    found = []
    if columns:
        for kind in draw(st.lists(st.sampled_from(["unique", "index"]), max_size=2)):
            members = draw(st.lists(st.sampled_from(columns), min_size=1, max_size=3))
            found.append(ConstraintClause(kind, tuple(NameRef(name) for name in members)))
    numbers = [name for name in plain if properties[name].is_numeric]
    if numbers and draw(st.booleans()):
        bounds = RangeBounds(draw(st.sampled_from([None, "-1", "0.5"])), "7")
        arguments = (NameRef(draw(st.sampled_from(numbers))), bounds)
        found.append(ConstraintClause("range", arguments))
    texts = [name for name in plain if properties[name].is_string]
    if texts and draw(st.booleans()):
        arguments = (NameRef(draw(st.sampled_from(texts))), SchemaLiteral("string", "^[a-z]*$"))
        found.append(ConstraintClause("check", arguments))
    return tuple(found)


@st.composite
def node_types(draw, name, pool, interfaces):
    implemented = draw(st.lists(st.sampled_from(interfaces), unique=True)) if interfaces else []
    chosen = draw(st.lists(st.sampled_from(PROPERTY_NAMES), unique=True, max_size=4))
    own = [pool[name] for name in chosen]
    if draw(st.booleans()):
        own += [TITLE, VIBE]
    if draw(st.booleans()):
        own.append(KEY)
    inherited = [p for interface in implemented for p in interface.properties]
    types = {p.name: p.type for p in (*inherited, *own)}
    body = (*own, *draw(clauses(types, on_edge=False)))
    refs = tuple(NameRef(interface.name) for interface in implemented)
    return NodeDecl(name, (), refs, body)


@st.composite
def edge_types(draw, name, pool, nodes):
    ends = [NameRef(draw(st.sampled_from(nodes)).name) for _ in range(2)]
    chosen = draw(st.lists(st.sampled_from(PROPERTY_NAMES), unique=True, max_size=3))
    own = [pool[name] for name in chosen]
    body = (*own, *draw(clauses({p.name: p.type for p in own}, on_edge=True)))
    card = draw(st.sampled_from([None, Cardinality(0, 1), Cardinality(2, None)]))
    return EdgeDecl(name, ends[0], ends[1], card, (), body)


@st.composite
def valid_schemas(draw):
    pool = draw(pools())
    interfaces = []
    for number in range(draw(st.integers(0, 3))):
        chosen = draw(st.lists(st.sampled_from(PROPERTY_NAMES), unique=True, max_size=4))
        interfaces.append(InterfaceDecl(f"I{number}", tuple(pool[name] for name in chosen)))
    nodes = [
        draw(node_types(f"N{number}", pool, interfaces))
        for number in range(draw(st.integers(0, 4)))
    ]
    edges = [
        draw(edge_types(f"E{number}", pool, nodes))
        for number in range(draw(st.integers(0, 3)) if nodes else 0)
    ]
    return SchemaFile((*interfaces, *nodes, *edges))


@st.composite
def reordered(draw, file):
    """Return the schema with its declarations, bodies and interfaces in another order."""
    declarations = []
    for decl in draw(st.permutations(file.declarations)):
        match decl:
            case InterfaceDecl():
                properties = tuple(draw(st.permutations(decl.properties)))
                declarations.append(InterfaceDecl(decl.name, properties))
            case NodeDecl():
                refs = tuple(draw(st.permutations(decl.implements)))
                body = tuple(draw(st.permutations(decl.body)))
                declarations.append(NodeDecl(decl.name, decl.annotations, refs, body))
            case EdgeDecl():
                body = tuple(draw(st.permutations(decl.body)))
                declarations.append(
                    EdgeDecl(
                        decl.name,
                        decl.from_type,
                        decl.to_type,
                        decl.cardinality,
                        decl.annotations,
                        body,
                    )
                )
    return SchemaFile(tuple(declarations))
