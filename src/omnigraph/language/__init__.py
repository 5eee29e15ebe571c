"""Text to syntax tree, for the schema language and the query language.

Depends on no schema and does no I/O. Both languages share source text, lexer and token cursor; each
has its own tree, parser and printer, and `parse(print(tree)) == tree`.
"""
