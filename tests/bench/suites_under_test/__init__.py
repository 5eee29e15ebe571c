"""Suites over the systems under test, found as real suites are."""
