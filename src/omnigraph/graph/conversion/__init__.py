"""Conversion of rows between the graph and other forms: input, tables, text and networks."""
