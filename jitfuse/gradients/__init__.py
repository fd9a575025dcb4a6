"""Derivatives: programs into programs with more steps, by a rule for each operator.

Owns the rules (`jitfuse.gradients.rules`) and the two modes (`jitfuse.gradients.modes`, `jitfuse.gradients.programs`).
Does not own what users call (`jitfuse.derivatives`), nor how a traced function becomes a program
(`jitfuse.tracing.control.derivatives`).
"""
