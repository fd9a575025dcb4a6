"""Python's state as a trace observes it (loop counters, frames, `try` blocks, clocks), and printed traced values."""
