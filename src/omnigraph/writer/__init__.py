"""The write path: changes, and the driver that makes them visible."""
