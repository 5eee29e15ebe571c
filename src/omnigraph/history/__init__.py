"""The history of a graph: comparing its versions and merging its branches.

Everything here computes and stages; transactions of `storage` publish.
"""
