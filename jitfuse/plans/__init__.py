"""Plans: how a primitive program becomes kernels and library calls."""
from __future__ import annotations

from jitfuse.plans.launch import Check, Launch
from jitfuse.plans.plan import AbstractPlan, HostCall, HostOperand, RuntimePlan, RuntimeStep

__all__ = ["AbstractPlan", "Check", "HostCall", "HostOperand", "Launch", "RuntimePlan", "RuntimeStep"]
