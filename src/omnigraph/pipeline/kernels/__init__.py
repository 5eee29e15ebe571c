"""Kernels that run on executors: pure functions from plain data to plain data.

A kernel gets the specification its stage shares and one task of it. It may read any pinned table
and write new files; it never moves a version, so running it twice harms nothing.
"""
