"""Do these rows fit? One file for each kind of rule; each gives violations and changes nothing.

Every write path asks here: mutations, loads and merges. The kernels work on whole Arrow columns
and need nothing but what they are given, so they run on Spark executors as well.
"""
