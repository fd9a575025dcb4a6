"""Which calls an entry takes: its guards as native tables, as checks in Python, and as reasons in words."""
