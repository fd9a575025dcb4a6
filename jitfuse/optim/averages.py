"""Averages of parameters over training."""
from __future__ import annotations

from typing import Any

from jitfuse.arrays.state import Buffer, Parameter
from jitfuse.arrays.state_trees import Keeper, by_path
from jitfuse.errors import ArgumentError
from jitfuse.optim.options import Layout
from jitfuse.tracing.control.state import Held, moves, updating
from jitfuse.tracing.record.recorder import active
from jitfuse.tracing.results.trees import tree_of


class EMA(Keeper):
    """The exponential moving average of parameters (Polyak and Juditsky 1992).

    Args:
        params: a tree with `jf.Parameter` leaves.
        decay: the share of the old average in the new one.

    Raises:
        ArgumentError: no parameters; a decay outside of [0, 1].

    Example:
        >>> params = jf.nn.parameters({"w": np.zeros(1)})
        >>> ema = jf.optim.EMA(params, decay=0.5)
        >>> params["w"][...] = 1.0
        >>> ema.update()
        >>> ema.averages["w"].tolist()
        [0.5]
    """

    def __init__(self, params: Any, decay: float = 0.999) -> None:
        if not 0.0 <= decay <= 1.0:
            raise ArgumentError(f"EMA: the decay is {decay}, and must be in [0, 1]")
        tree = tree_of(params, "")
        self.decay = decay
        self._parameters = [leaf for leaf in tree.leaves if isinstance(leaf, Parameter)]
        if not self._parameters:
            raise ArgumentError("EMA: there is no jf.Parameter among params")
        self._buffers = [Buffer(p, f"{p.name}.average") for p in self._parameters]
        found = [id(p) for p in self._parameters]
        self.layout = Layout.of(tuple(map(found.index, found)))
        averages = iter(self._buffers)
        self.averages = tree.filled([next(averages) if isinstance(x, Parameter) else x for x in tree.leaves])
        """A tree like `params`, of buffers."""

    @by_path
    def update(self) -> None:
        """Move the averages towards the parameters: in a fused function in training alone."""
        run = active()
        held = Held.of(run, self, self.layout, "EMA")
        decay = held.option("decay")
        with updating(run):
            for k, (parameter, buffer) in enumerate(zip(self._parameters, self._buffers, strict=True)):
                average, p = (held.part(x, name, k).seen() for x, name in (
                    (buffer, "_buffers"), (parameter, "_parameters")))
                moves(average, decay * average + (1.0 - decay) * p)

    def buffers(self) -> list[Buffer]:
        """Return the averages, for `jf.nn.save`."""
        return list(self._buffers)
