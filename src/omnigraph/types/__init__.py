"""Property types and the values they hold.

`property` is what a schema can say about a value and needs no Arrow; the other modules carry
values between JSON, Arrow and the canonical strings that ids are made of, whole columns at a time.
"""
