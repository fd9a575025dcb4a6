"""One fused function: the parts that it holds, and the way of a call through them (`jitfuse.function.pipeline`)."""
