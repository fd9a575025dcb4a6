"""Existing NumPy programs, written as people write them: they run unchanged under `jf.fuse`.

Each file has programs of one subject and lists them; nothing here knows of jitfuse.
"""
from __future__ import annotations

from typing import Final

from numpy_programs import (
    algebra,
    classes,
    deciding,
    dynamic,
    elements,
    geometry,
    images,
    networks,
    physics,
    pivoting,
    sampling,
    scalars,
    searches,
    sequences,
    series,
    stencils,
)
from numpy_programs.program import Program

__all__ = ["PROGRAMS", "Program"]

PROGRAMS: Final = tuple(
    program
    for module in (algebra, stencils, physics, networks, dynamic, images, series, geometry, sequences, searches,
                   sampling, pivoting, deciding, scalars, elements, classes)
    for program in module.PROGRAMS
)
