"""Optimisers: `jf.optim`. Their steps are steps of the fused function's program, and run in training alone."""
from __future__ import annotations

from jitfuse.optim.adam import Adam, Adamax, AdamW, NAdam, RAdam
from jitfuse.optim.adaptive import Adadelta, Adafactor, Adagrad, RMSprop
from jitfuse.optim.audit import audit
from jitfuse.optim.averages import EMA
from jitfuse.optim.base import Optimizer
from jitfuse.optim.descent import ASGD, SGD, Lion, Muon, Rprop
from jitfuse.optim.lbfgs import LBFGS
from jitfuse.optim.schedules import Cosine, Exponential, Linear

__all__ = [
    "ASGD", "EMA", "LBFGS", "SGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Cosine",
    "Exponential", "Linear", "Lion", "Muon", "NAdam", "Optimizer", "RAdam", "RMSprop", "Rprop", "audit",
]


def __dir__() -> list[str]:
    return __all__
