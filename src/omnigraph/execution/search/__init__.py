"""Search of nodes by text and by vector, and the fusion of two rankings.

Every answer is a function of the rows alone: the same with no index, with one that covers some of
the rows, and with one that covers all.
"""

from omnigraph.execution.search.search_cache import SearchCache as SearchCache
