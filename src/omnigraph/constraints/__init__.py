"""Constraints: each family of rules returns its violations and changes nothing.

Every write path applies them: mutations, loads and merges. The kernels work on whole Arrow columns
and need nothing but what they are given, so they run on Spark executors as well.
"""
