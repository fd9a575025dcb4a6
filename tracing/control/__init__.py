"""Python's loops and branches as steps: if-conversion, loop capture, vectorised loops, replication, re-rolling."""
