"""What Python sees of traced data: protocols, its state while a trace runs (counters, frames, clocks), and texts."""
