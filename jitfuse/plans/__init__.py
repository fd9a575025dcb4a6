"""Plans: how a primitive program becomes kernels and library calls."""
from __future__ import annotations

from jitfuse.plans.launch import Check, Launch
from jitfuse.plans.plan import HostCall, HostOperand, PlanStep, ProgramPlan, RuntimePlan

__all__ = ["Check", "HostCall", "HostOperand", "Launch", "PlanStep", "ProgramPlan", "RuntimePlan"]
