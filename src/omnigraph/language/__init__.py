"""Text to syntax tree, for the schema language and the query language.

Knows no schema and does no I/O. Both languages share the source text, the lexer and the token
cursor; each has its own tree, parser and printer, and `parse(print(tree)) == tree`.
"""
