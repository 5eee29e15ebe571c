"""Random syntax trees of the schema language: well formed, though they need not mean anything."""

from __future__ import annotations

from hypothesis import strategies as st

from omnigraph.language.property_parser import CONSTRAINT_WORDS, MAX_CARDINALITY
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
from omnigraph.types.property import MAX_VECTOR_DIMENSION, PropertyType, Scalar

WORDS = ["node", "edge", "interface", "implements", "enum", "true", "null", "key", "range", "model"]
type_names = st.from_regex(r"[A-Z][A-Za-z0-9_]{0,6}", fullmatch=True)
names = st.sampled_from(WORDS) | st.from_regex(r"[a-z_][A-Za-z0-9_]{0,6}", fullmatch=True)
texts = st.text(st.characters(codec="utf-8"), max_size=12)
integers = st.from_regex(r"-?[0-9]{1,25}", fullmatch=True)
floats = st.from_regex(r"-?[0-9]{1,6}\.[0-9]{1,6}", fullmatch=True)
exponents = st.from_regex(r"-?[0-9]{1,6}(\.[0-9]{1,6})?[eE][+-]?[0-9]{1,3}", fullmatch=True)
enum_values = st.from_regex(r"[A-Za-z0-9_-]{1,8}", fullmatch=True)
cardinalities = st.integers(0, MAX_CARDINALITY)

literals = st.one_of(
    st.builds(SchemaLiteral, st.just("string"), texts),
    st.builds(SchemaLiteral, st.just("integer"), integers),
    st.builds(SchemaLiteral, st.just("float"), floats | exponents),
    st.builds(SchemaLiteral, st.just("bool"), st.sampled_from(["true", "false"])),
)
refs = st.builds(NameRef, names.filter(lambda name: name not in ("true", "false")))
type_refs = st.builds(NameRef, type_names)
plain_scalars = [s for s in Scalar if s not in (Scalar.VECTOR, Scalar.BLOB)]

types = st.one_of(
    st.builds(PropertyType, st.sampled_from([*plain_scalars, Scalar.BLOB]), nullable=st.booleans()),
    st.builds(
        PropertyType, st.sampled_from(plain_scalars), nullable=st.booleans(), is_list=st.just(True)
    ),
    st.builds(
        PropertyType,
        st.just(Scalar.STRING),
        nullable=st.booleans(),
        enum_values=st.sets(enum_values, min_size=1, max_size=5).map(lambda v: tuple(sorted(v))),
    ),
    st.builds(
        PropertyType,
        st.just(Scalar.VECTOR),
        nullable=st.booleans(),
        dimension=st.integers(1, MAX_VECTOR_DIMENSION),
    ),
)


@st.composite
def draw_annotation(draw):
    name = draw(names.filter(lambda name: name != "card"))
    # With parentheses these words are constraints, so as annotations they have none.
    if name in CONSTRAINT_WORDS or draw(st.booleans()):
        return AnnotationDecl(name)
    keywords = draw(st.lists(st.tuples(names, literals), max_size=2))
    return AnnotationDecl(name, draw(literals | refs), tuple(keywords))


@st.composite
def bounds(draw):
    low = draw(st.none() | integers | floats)
    high = draw(integers | floats if low is None else st.none() | integers | floats)
    return RangeBounds(low, high)


annotation_lists = st.lists(draw_annotation(), max_size=3).map(tuple)
properties = st.builds(PropertyDecl, names, types, annotation_lists)
clauses = st.builds(
    ConstraintClause,
    st.sampled_from(sorted(CONSTRAINT_WORDS)),
    st.lists(bounds() | literals | refs, min_size=1, max_size=3).map(tuple),
)
bodies = st.lists(properties | clauses, max_size=4).map(tuple)
declarations = st.one_of(
    st.builds(InterfaceDecl, type_names, st.lists(properties, max_size=3).map(tuple)),
    st.builds(
        NodeDecl,
        type_names,
        annotation_lists,
        st.lists(type_refs, max_size=2).map(tuple),
        bodies,
    ),
    st.builds(
        EdgeDecl,
        type_names,
        type_refs,
        type_refs,
        st.none() | st.builds(Cardinality, cardinalities, st.none() | cardinalities),
        annotation_lists,
        bodies,
    ),
)
schema_files = st.builds(SchemaFile, st.lists(declarations, max_size=4).map(tuple))
