"""A package with a module that declares nothing."""
