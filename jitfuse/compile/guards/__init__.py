"""Which calls an entry takes: its guards as native tables, as checks in Python, and as texts for users."""
