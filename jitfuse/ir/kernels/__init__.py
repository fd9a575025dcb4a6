"""The kernel form, the only thing that a backend sees: its stages, values, arguments and bytes, and its verifier."""
