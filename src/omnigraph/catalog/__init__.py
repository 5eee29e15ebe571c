"""What a graph may contain: the schema, compiled and checked.

`build` turns a syntax tree into a draft without identities, `identify` gives it the identities of
the accepted schema, `evolve` plans the way from one schema to the next, `codec` keeps it as JSON.
"""
