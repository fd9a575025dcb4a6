"""Tracing: from a Python function on arrays to a scheduled program."""
