"""Factor graphs: exact inference as compiled programs, in any semiring. See docs/factors.md."""
from __future__ import annotations

from jitfuse.errors import ModelError as ModelError
from jitfuse.errors import TooLargeError as TooLargeError
from jitfuse.factors.chains import HiddenMarkovModel as HiddenMarkovModel
from jitfuse.factors.graph import FactorGraph as FactorGraph
from jitfuse.factors.reading import read_bif as read_bif
from jitfuse.factors.reading import read_uai as read_uai
from jitfuse.factors.report import Report as Report
from jitfuse.factors.semirings import Semiring as Semiring

__all__ = [
    "FactorGraph", "HiddenMarkovModel", "ModelError", "Report", "Semiring", "TooLargeError", "read_bif", "read_uai",
]
