"""The query language, `.gq`: syntax tree, parser and printer."""
