"""Benchmarks: what our graph costs as a ratio to a named peer or to the bare library below it.

A suite (`suites/`) asks one question and names the systems (`systems/`) that answer it, on data
from `generators/`. Every sample is a fresh process on a fresh folder, answers are compared before
times, and every headline is a ratio. `docs/internals/benchmarks.md` is the guide.
"""
