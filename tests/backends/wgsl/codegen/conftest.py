"""Puts the helpers of these tests on the import path: kernel forms and their oracle are shared with the CPU's tests."""
from __future__ import annotations

import sys
from pathlib import Path

here = Path(__file__).parent
sys.path[:0] = [str(here.parents[1] / "llvm" / "codegen"), str(here)]
