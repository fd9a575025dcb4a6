"""Re-rolled loops: long runs of equal steps in a trace, found and made loop steps again."""
