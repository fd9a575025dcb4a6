"""NumPy's random generators: their numbers do not depend on anything that is differentiated."""
from __future__ import annotations

from jitfuse.gradients.rule import constant

constant("generator_seed", "generator_draw")
