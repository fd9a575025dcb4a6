"""Analyses of a program that do not run it: its validity, its needs, the cost of planning it."""
