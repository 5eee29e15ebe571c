"""The main job, end to end: a literature graph, made up and left behind for its user.

It is loaded on Spark, asked, branched, looked back into and maintained, and every step says what it
does and how long it took. Run by `./dev demo`.
"""
