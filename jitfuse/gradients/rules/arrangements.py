"""Rearrangements: differentiated as the views, joins and masks that they are made of."""
from __future__ import annotations

from jitfuse.gradients.rule import composite
from jitfuse.gradients.rules import views  # noqa: F401  # has the rule of `diagonal`

composite("roll", "stack", "tile", "repeat", "pad", "tril", "triu", "diag")
