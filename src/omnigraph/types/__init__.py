"""Property types and the values they hold.

`property` describes the type of a value and needs no Arrow; the other modules convert values
between JSON, Arrow and the canonical strings of ids, whole columns at a time.
"""
