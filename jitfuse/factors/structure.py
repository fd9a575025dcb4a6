"""Which variables there are and which of them each factor reads: all that an order, a plan and a program depend on."""
from __future__ import annotations

from jitfuse.base.lazy import cached_property
from jitfuse.base.records import Record


class Structure(Record, frozen=True):
    """The sizes of variables 0, 1, ... and the scope of each factor: other variables, in increasing order.

    Example:
        >>> Structure((2, 3, 2), ((0, 1), (1, 2))).neighbours
        ({1}, {0, 2}, {1})
    """

    sizes: tuple[int, ...]
    scopes: tuple[tuple[int, ...], ...]

    @cached_property
    def neighbours(self) -> tuple[set[int], ...]:
        """For each variable, those that share a factor with it: a new set each, nobody changes them."""
        found: tuple[set[int], ...] = tuple(set() for _ in self.sizes)
        for scope in self.scopes:
            for v in scope:
                found[v].update(scope)
        for v, near in enumerate(found):
            near.discard(v)
        return found
