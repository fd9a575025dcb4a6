"""NumPy's random generators in a trace: RNG calls are steps that move a state of the program."""
