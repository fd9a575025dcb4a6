"""The kernel form, all that a backend sees: its stages, values, arguments and bytes, and its verifier."""
