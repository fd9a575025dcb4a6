"""One fused function: its options, signatures, arguments, fallbacks and RNG states."""
