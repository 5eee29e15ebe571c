"""The catalog: a schema, compiled and checked.

`build` turns a syntax tree into a draft without identities, `identify` gives it the identities of
the accepted schema, `codec` stores it as JSON. `evolution` plans the steps to another schema.
"""
