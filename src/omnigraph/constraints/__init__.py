"""Constraints: functions of rows and look-ups that return violations and change nothing.

Every write path calls them: mutations, loads, merges, migrations and data sources. They work on
whole Arrow columns and need nothing but what they are given, so that executors can run them.
"""
