"""What Python observes of traced data, and what of Python's state a trace observes: counters, frames, printed texts."""
