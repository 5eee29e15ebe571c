"""Embed texts: providers, and the pipeline over files of records."""
