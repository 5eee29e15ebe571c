"""What became of a graph over time: comparing versions of it and bringing branches together.

Everything here computes and stages; `graph` publishes.
"""
