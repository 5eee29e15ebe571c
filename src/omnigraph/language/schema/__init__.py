"""The schema language, `.pg`: syntax tree, parser and printer."""
