"""Text and vector search of nodes, and fusion of two rankings.

Results depend on the rows only: they are the same with no index, with partial and with full index
coverage.
"""

from omnigraph.execution.search.search_cache import SearchCache as SearchCache
