"""Torch programs as people write them, unchanged: the ground of benchmarks/torch_models.py and of tests."""
from __future__ import annotations

from torch_programs import networks, numerics, windows
from torch_programs.program import Program

PROGRAMS = (*networks.PROGRAMS, *numerics.PROGRAMS, *windows.PROGRAMS)

__all__ = ["PROGRAMS", "Program"]
