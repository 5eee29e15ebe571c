"""Embed texts: providers, the files pipeline, and vectors computed while rows are written."""
