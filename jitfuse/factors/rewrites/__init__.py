"""Rewrites of register programs that keep results: each takes a program and returns one."""
