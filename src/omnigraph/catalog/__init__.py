"""The catalog: a schema, compiled and checked.

`build` compiles a syntax tree to a draft without identities, `assign_identities` gives it those of
the accepted schema, `codec` stores it as JSON. `evolution` plans the migration to another schema.
"""
