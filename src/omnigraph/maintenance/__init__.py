"""Making a graph smaller and faster without changing its rows, and checking it.

`optimize` merges fragments and builds indexes, `cleanup` removes what nothing needs any more,
`repair` accepts tables that something else moved, `verify` checks the integrity of a graph, and
`autopilot` decides when to do the first two. Every change of a table goes through the window all
writes go through; only cleanup deletes, and only what nothing can reach.
"""
