"""Turning texts into vectors: the providers that do it, and the pipeline over files of records."""
