"""Values made of nothing."""
from __future__ import annotations

from jitfuse.gradients.rule import constant

constant("zeros", "full", "extent", "arange", "constant")
