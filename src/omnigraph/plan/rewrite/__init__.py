"""The rules that improve a plan, one to a file, and the order they run in (`rewrite_rules`).

A rule takes a plan and gives back a plan that means the same; correctness never depends on one.
"""
