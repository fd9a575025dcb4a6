"""Loops and branches as steps of the program: both branches computed, loops captured, iterations replicated."""
