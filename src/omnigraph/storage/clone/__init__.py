"""Copying a graph from one address to another while it is written.

cut    which version of each branch is copied, such that together they make sense
plan   which versions of which tables these need, and which files
copy   the claim, the copying, and the order in which things become visible
"""

from omnigraph.storage.clone.copy import CloneResult as CloneResult
from omnigraph.storage.clone.copy import clone as clone
