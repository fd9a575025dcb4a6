"""Programs as Python source that runs on NumPy alone. Read `module.export` first."""
from __future__ import annotations

from jitfuse.exporting.module import export

__all__ = ["export"]
