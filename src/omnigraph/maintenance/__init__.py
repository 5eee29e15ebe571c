"""Making a graph smaller and faster without changing what it says, and looking after it.

`optimize` merges fragments and builds indexes, `cleanup` removes what nothing needs any more,
`repair` accepts tables that strangers moved, `verify` looks whether everything is in order, and
`autopilot` decides when to do the first two. Every change of a table goes through the window all
writes go through; only cleanup deletes, and only what nothing can reach.
"""
