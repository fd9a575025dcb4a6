"""The register programs of a tree, after all passes: each is made when it is asked for.

Owns which messages are normalized. Does not own instructions (`emit.py`), passes (`rewrites`), nor what runs programs.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitfuse.base.lazy import cached_property
from jitfuse.factors.emit import emit_downward_program, emit_finalize_program, emit_upward_program
from jitfuse.factors.ir.schema import OpCode, Program, SlotKey
from jitfuse.factors.marginals import cheapest_marginals
from jitfuse.factors.rewrites.pipeline import rewritten
from jitfuse.factors.structure import Structure
from jitfuse.factors.tree import Tree
from jitfuse.factors.underflow import LIMITS, allowed_spread

SEGMENT: Final = 12
"""Factors, and bits of states, that messages gather before they are normalized."""


class Programs:
    """Programs by their names.

    upward    all messages to the root
    finalize  the partition function from the root's belief
    downward  all messages from the root, and the marginal of every variable
    """

    def __init__(self, structure: Structure, tree: Tree) -> None:
        self.structure, self.tree = structure, tree
        self._made: dict[tuple[str, bool], Program] = {}

    def program(self, name: str, *, scaled: bool = False) -> Program:
        """Return a program; `scaled`: with normalized messages."""
        key = name, scaled
        if key not in self._made:
            self._made[key] = self._program(name, self.normalized if scaled else frozenset())
        return self._made[key]

    def _program(self, name: str, normalized: frozenset[int]) -> Program:
        if name == "finalize":
            return emit_finalize_program(self.structure, self.tree)
        if name == "upward":
            return rewritten(emit_upward_program(self.structure, self.tree, normalized)).program
        wanted = cheapest_marginals(self.structure, self.tree)
        return rewritten(emit_downward_program(self.structure, self.tree, wanted, normalized)).program

    @cached_property
    def normalized(self) -> frozenset[int]:
        """The nodes whose messages are divided by their largest element where probabilities are multiplied: so often
        that no more than `SEGMENT` factors lie between, and no number of states above 2**`SEGMENT`.
        """
        found = set()
        since, bits = [0.0] * len(self.tree.nodes), [0.0] * len(self.tree.nodes)
        for place, node in enumerate(self.tree.nodes[:-1]):
            since[place] += len(node.factors)
            bits[place] += math.log2(math.prod([self.structure.sizes[v] for v in node.eliminated]))
            if since[place] >= SEGMENT or bits[place] >= SEGMENT or node.parent == self.tree.root:
                found.add(place)
            else:
                since[node.parent] += since[place]
                bits[node.parent] += bits[place]
        return frozenset(found)

    @cached_property
    def scales(self) -> list[SlotKey]:
        """The slots of what messages to the root are divided by."""
        upward = self.program("upward", scaled=True)
        return [step.args["scale"] for step in upward.instructions if step.op is OpCode.NORMALIZE]

    def allowed_spread(self, spreads: Sequence[float], dtype: Any, *, downward: bool) -> float:
        """Return how far from 0 the logs of normalized messages and scales may lie so that products stay in range."""
        return allowed_spread(self.tree, self.structure.sizes, self.normalized, spreads, downward=downward,
                              limit=LIMITS[np.dtype(dtype)])
