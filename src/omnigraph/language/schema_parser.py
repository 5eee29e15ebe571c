"""Parse schema text to a syntax tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from omnigraph.language.lexer import Cursor, SyntaxStop, Token, TokenKind, suggest_closest, tokenize
from omnigraph.language.property_parser import (
    CONSTRAINT_WORDS,
    is_at_constraint,
    parse_annotation,
    parse_annotations,
    parse_cardinality,
    parse_constraint,
    parse_type,
)
from omnigraph.language.schema_ast import (
    AnnotationDecl,
    BodyItem,
    Declaration,
    EdgeDecl,
    InterfaceDecl,
    NameRef,
    NodeDecl,
    PropertyDecl,
    SchemaFile,
)
from omnigraph.language.source import Problems, SourceText, Span

KEYWORDS = ("interface", "node", "edge")
_TEXT_CUT_SHORT = frozenset({"P103", "P104", "P106"})
"""After this many errors the lexer returns no more tokens, so a missing one may be there."""


def parse_schema(source: SourceText) -> SchemaFile:
    """Parse a schema file.

    Raises:
        CompileError: with every syntax error of the text.
    """
    source.require_encodable()
    problems = Problems(source, "parse")
    tokens = tokenize(source, problems)
    cut_short = any(problem.code in _TEXT_CUT_SHORT for problem in problems.found)
    file = _SchemaParser(Cursor(tokens, problems)).file()
    if cut_short:
        end = len(source.text)
        problems.found[:] = [p for p in problems.found if p.start < end and p.code != "P143"]
    problems.raise_if_any()
    return file


def _hint_glued_keyword(word: str) -> str | None:
    """A hint for `nodePerson`: a keyword and a name written without a space."""
    for keyword in KEYWORDS:
        rest = word.removeprefix(keyword)
        if rest != word and rest[:1].isupper():
            return f"did you mean `{keyword} {rest}`?"
    return None


class _SchemaParser:
    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor

    # --- the file ----------------------------------------------------------------------------

    def file(self) -> SchemaFile:
        declarations: list[Declaration] = []
        while not self.cursor.at_end():
            start = self.cursor.position
            try:
                declarations.append(self._parse_declaration())
            except SyntaxStop:
                self._skip_to_declaration(start)
        return SchemaFile(tuple(declarations))

    def _parse_declaration(self) -> Declaration:
        word = self.cursor.token
        readers: dict[str, Callable[[Token], Declaration]] = {
            "interface": self._parse_interface,
            "node": self._parse_node,
            "edge": self._parse_edge,
        }
        try:
            if word.kind is not TokenKind.NAME or word.value not in readers:
                self._refuse_declaration()
            self.cursor.advance()
            return readers[word.value](word)
        except SyntaxStop:
            self._read_body_anyway(in_interface=word.value == "interface")
            raise

    def _refuse_declaration(self) -> NoReturn:
        token, hint = self.cursor.token, None
        if token.kind is TokenKind.NAME and len(token.value) <= 80:
            hint = _hint_glued_keyword(token.value) or suggest_closest(token.value, KEYWORDS)
        if token.kind is TokenKind.SYMBOL and token.value == ",":
            hint = "nothing is needed between declarations"
        message = f"expected `interface`, `node` or `edge`, found {token.describe()}"
        self.cursor.report("P130", message, token.span, hint=hint)
        raise SyntaxStop

    def _read_body_anyway(self, *, in_interface: bool) -> None:
        """Parse the body after an error in its header, to report further errors."""
        self.cursor.skip_until(lambda: self.cursor.at_symbol("{") or self._is_at_declaration())
        if self.cursor.at_symbol("{"):
            self._parse_body(in_interface=in_interface)

    def _skip_to_declaration(self, start: int) -> None:
        if self.cursor.position == start:
            self.cursor.advance()
        elif self.cursor.previous.value == "}":
            return  # after a body, at the next declaration
        self.cursor.skip_until(self._is_at_declaration)
        while self.cursor.accept_symbol("}"):
            self.cursor.skip_until(self._is_at_declaration)

    def _is_at_declaration(self) -> bool:
        # A property may be called `node`; then a colon follows and not a type name.
        cursor = self.cursor
        return (
            cursor.token.kind is TokenKind.NAME
            and cursor.token.value in KEYWORDS
            and cursor.peek().kind is TokenKind.TYPE_NAME
        )

    # --- declarations ------------------------------------------------------------------------

    def _parse_interface(self, word: Token) -> InterfaceDecl:
        name = self._parse_type_name("the name of the interface")
        for annotation in self._parse_header_annotations():
            message = "an interface takes no annotations"
            self.cursor.report("P146", message, annotation.span)
        self._refuse_implements("an interface does not implement another")
        body = self._parse_body(in_interface=True)
        properties = tuple(item for item in body if isinstance(item, PropertyDecl))
        return InterfaceDecl(name.name, properties, self._span_since(word), name.span)

    def _parse_node(self, word: Token) -> NodeDecl:
        name = self._parse_type_name("the name of the node type")
        annotations = self._parse_header_annotations()
        implements: tuple[NameRef, ...] = ()
        if self.cursor.accept_word("implements"):
            implements = self._parse_implements()
        for annotation in self._parse_header_annotations():
            message = "annotations come before `implements`"
            self.cursor.report("P146", message, annotation.span)
        body = self._parse_body()
        return NodeDecl(name.name, annotations, implements, body, self._span_since(word), name.span)

    def _parse_edge(self, word: Token) -> EdgeDecl:
        name = self._parse_type_name("the name of the edge type")
        self.cursor.expect_symbol(":", "after the name of the edge type")
        from_type = self._parse_type_name("the source type")
        self.cursor.expect_symbol("->", "between source and target type")
        to_type = self._parse_type_name("the target type")
        cardinality = parse_cardinality(self.cursor)
        annotations = self._parse_header_annotations()
        self._refuse_implements("only a node type implements interfaces")
        body = self._parse_body() if self.cursor.at_symbol("{") else ()
        span = self._span_since(word)
        return EdgeDecl(
            name.name, from_type, to_type, cardinality, annotations, body, span, name.span
        )

    def _span_since(self, word: Token) -> Span:
        return word.span.to(self.cursor.previous.span)

    def _parse_type_name(self, what: str) -> NameRef:
        token = self.cursor.token
        if token.kind is TokenKind.NAME and token.value[0] != "_" and token.value not in KEYWORDS:
            hint = f"write `{token.value[0].upper()}{token.value[1:40]}`"
            self.cursor.report("P147", "a type name starts in upper case", token.span, hint=hint)
        elif token.kind is not TokenKind.TYPE_NAME:
            self.cursor.fail(f"expected {what}")
        self.cursor.advance()
        return NameRef(token.value, token.span)

    def _parse_implements(self) -> tuple[NameRef, ...]:
        names = [self._parse_type_name("the name of an interface")]
        while self.cursor.accept_symbol(","):
            names.append(self._parse_type_name("the name of an interface"))
        return tuple(names)

    def _refuse_implements(self, message: str) -> None:
        word = self.cursor.token
        if self.cursor.accept_word("implements"):
            self.cursor.report("P146", message, word.span)
            self._parse_implements()

    def _parse_header_annotations(self) -> tuple[AnnotationDecl, ...]:
        annotations = list(parse_annotations(self.cursor))
        while is_at_constraint(self.cursor):
            clause = parse_constraint(self.cursor)
            self.cursor.report(
                "P140",
                f"`@{clause.kind}(…)` belongs in the body of the type",
                clause.span,
                hint=f"`{{ @{clause.kind}(…) }}`",
            )
            annotations.extend(parse_annotations(self.cursor))
        return tuple(annotations)

    # --- bodies ------------------------------------------------------------------------------

    def _parse_body(self, *, in_interface: bool = False) -> tuple[BodyItem, ...]:
        cursor = self.cursor
        opening = cursor.expect_symbol("{")
        items: list[BodyItem] = []
        while not cursor.accept_symbol("}"):
            if cursor.at_end() or self._is_at_declaration():
                before = "the end of the file" if cursor.at_end() else "the next declaration"
                cursor.report("P143", f"expected `}}` before {before}", opening.span)
                break
            item = self._parse_item_or_skip(in_interface=in_interface)
            if item is not None:
                items.append(item)
        return tuple(items)

    def _parse_item_or_skip(self, *, in_interface: bool) -> BodyItem | None:
        try:
            return self._parse_item(in_interface=in_interface)
        except SyntaxStop:
            self._skip_to_item()
            return None

    def _parse_item(self, *, in_interface: bool) -> BodyItem | None:
        cursor = self.cursor
        if cursor.at_symbol(","):
            hint = "nothing is needed between properties"
            cursor.report("P136", "unexpected `,` between properties", cursor.token.span, hint=hint)
            cursor.advance()
            return None
        if is_at_constraint(cursor):
            clause = parse_constraint(cursor)
            if in_interface:
                hint = f"on one property write `@{clause.kind}` without parentheses"
                message = "an interface has no constraints in its body"
                cursor.report("P141", message, clause.span, hint=hint)
            return clause
        if cursor.at_symbol("@"):
            self._refuse_annotation()
            return None
        return self._parse_property()

    def _refuse_annotation(self) -> None:
        annotation = parse_annotation(self.cursor)
        hint = None
        if annotation.name in CONSTRAINT_WORDS:
            hint = f"as a constraint it names its properties: `@{annotation.name}(…)`"
        message = f"`@{annotation.name}` must follow a property"
        self.cursor.report("P142", message, annotation.span, hint=hint)

    def _parse_property(self) -> PropertyDecl:
        cursor, name = self.cursor, self.cursor.token
        if name.kind is TokenKind.TYPE_NAME:
            hint = f"write `{name.value[0].lower()}{name.value[1:40]}`"
            cursor.report("P147", "a property name starts in lower case", name.span, hint=hint)
        elif name.kind is not TokenKind.NAME:
            cursor.fail("expected a property, a constraint or `}`")
        cursor.advance()
        if not cursor.at_symbol(":"):
            cursor.fail("expected `:` after the property name", hint="as in `name: String`")
        cursor.advance()
        type_, type_span = parse_type(cursor)
        annotations = parse_annotations(cursor)
        return PropertyDecl(name.value, type_, annotations, name.span, type_span)

    def _skip_to_item(self) -> None:
        """Skip to the next item, with the annotations of the invalid one."""
        cursor = self.cursor
        while True:
            cursor.skip_until(self._is_at_item)
            if not cursor.at_symbol("@") or is_at_constraint(cursor):
                return
            try:
                parse_annotation(cursor)
            except SyntaxStop:
                continue

    def _is_at_item(self) -> bool:
        cursor = self.cursor
        following = cursor.peek()
        names_property = (
            cursor.token.kind is TokenKind.NAME
            and following.kind is TokenKind.SYMBOL
            and following.value == ":"
        )
        return names_property or cursor.at_symbol("@") or self._is_at_declaration()
