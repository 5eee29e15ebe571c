"""The pages `docs/generate.py` writes: a module for each family of pages."""
