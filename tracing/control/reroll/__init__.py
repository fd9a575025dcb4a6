"""Long runs of equal steps in a trace, found and made loop steps again."""
