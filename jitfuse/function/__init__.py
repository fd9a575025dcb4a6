"""One fused function: its options, its signatures, its arguments on the way in, the random generators it moves on."""
