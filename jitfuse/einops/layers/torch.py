"""torch's modules that carry patterns out: `Rearrange`, `Reduce` and `EinMix`.

Annotations are objects here, no strings: TorchScript reads those of methods that it leaves to Python.
"""
from typing import Any

import torch

from jitfuse.axes.reducers import Reducer
from jitfuse.einops.layers.mixing import mix
from jitfuse.einops.preparation import prepared
from jitfuse.einops.products import einsum
from jitfuse.einops.transforms import reduce


class _PatternLayer(torch.nn.Module):  # type: ignore[misc]
    """A module without parameters that carries a pattern out."""

    def __init__(self, pattern: str, reduction: Reducer, axes_lengths: dict[str, Any]) -> None:
        super().__init__()
        self.pattern = pattern
        self.axes_lengths = axes_lengths
        self._reduction = reduction
        self._axes_lengths = tuple(axes_lengths.items())
        prepared(pattern, reduction, axes_lengths)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return self._applied(input)

    @torch.jit.ignore  # type: ignore[untyped-decorator]
    def _applied(self, input: torch.Tensor) -> torch.Tensor:
        """Carry the pattern out. A script calls it as Python, with a copy of this object that has simple attributes."""
        result: torch.Tensor = reduce(input, self.pattern, self._reduction, **dict(self._axes_lengths))
        return result

    def _state(self) -> dict[str, Any]:
        return {"pattern": self.pattern, **self.axes_lengths}

    def __getstate__(self) -> dict[str, Any]:
        return self._state()

    def __setstate__(self, state: dict[str, Any]) -> None:
        type(self).__init__(self, **state)

    def __repr__(self) -> str:
        first, *others = self._state().items()
        reduction = [repr(value) for name, value in others if name == "reduction"]
        sizes = [f"{name}={size}" for name, size in self.axes_lengths.items()]
        return f"{type(self).__name__}({', '.join([repr(first[1]), *reduction, *sizes])})"


class Rearrange(_PatternLayer):
    """`jitfuse.einops.rearrange` as a module.

    Example:
        >>> import torch
        >>> from jitfuse.einops.layers.torch import Rearrange
        >>> Rearrange("b c h w -> b (c h w)")(torch.zeros(2, 3, 4, 5)).shape
        torch.Size([2, 60])

    Raises:
        EinopsError: the pattern is wrong; called, it does not fit.
    """

    def __init__(self, pattern: str, **axes_lengths: Any) -> None:
        super().__init__(pattern, "rearrange", axes_lengths)


class Reduce(_PatternLayer):
    """`jitfuse.einops.reduce` as a module.

    Example:
        >>> import torch
        >>> from jitfuse.einops.layers.torch import Reduce
        >>> Reduce("b c (h 2) (w 2) -> b c h w", "max")(torch.zeros(2, 3, 4, 6)).shape
        torch.Size([2, 3, 2, 3])

    Raises:
        EinopsError: the pattern is wrong; called, it does not fit.
    """

    def __init__(self, pattern: str, reduction: Reducer, **axes_lengths: Any) -> None:
        super().__init__(pattern, reduction, axes_lengths)
        self.reduction = reduction

    def _state(self) -> dict[str, Any]:
        return {"pattern": self.pattern, "reduction": self.reduction, **self.axes_lengths}


class EinMix(torch.nn.Module):  # type: ignore[misc]
    """A product with a weight, and a bias if it is asked for, over named axes.

    Parameters:
        pattern: the axes of the input and of the output.
        weight_shape: the axes of the weight; those that the output lacks are summed.
        bias_shape: the axes of the bias; None: there is none.
        axes_lengths: the sizes of all axes of the weight and of the bias.

    The weight is drawn uniformly within sqrt(3 / n), the bias within sqrt(1 / n), if n elements of the input make one
    of the output.

    Example:
        >>> import torch
        >>> from jitfuse.einops.layers.torch import EinMix
        >>> EinMix("b t c -> b t d", weight_shape="c d", bias_shape="d", c=4, d=3)(torch.zeros(2, 5, 4)).shape
        torch.Size([2, 5, 3])

    Raises:
        EinopsError: the pattern is wrong, or sizes are missing.
    """

    def __init__(self, pattern: str, weight_shape: str, bias_shape: str | None = None, **axes_lengths: Any) -> None:
        super().__init__()
        self.pattern = pattern
        self.weight_shape = weight_shape
        self.bias_shape = bias_shape
        self.axes_lengths = axes_lengths
        made = mix(pattern, weight_shape, bias_shape, axes_lengths)
        self.einsum_pattern = made.einsum_pattern
        self._product = made.product
        bounds = (3 / made.fan_in) ** 0.5, (1 / made.fan_in) ** 0.5
        self.weight = torch.nn.Parameter(torch.zeros(made.weight_shape).uniform_(-bounds[0], bounds[0]))
        self.bias = None if made.bias_shape is None else torch.nn.Parameter(
            torch.zeros(made.bias_shape).uniform_(-bounds[1], bounds[1]))
        names = set() if made.before is None else set(made.before.partition("->")[2].split())
        self.pre_rearrange = None if made.before is None else Rearrange(
            made.before, **{name: size for name, size in axes_lengths.items() if name in names})
        self.post_rearrange = None if made.behind is None else Rearrange(made.behind)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Return the product of an input with the weight, with the bias added."""
        if self.pre_rearrange is not None:
            input = self.pre_rearrange(input)
        result = self._multiplied(input, self.weight)
        if self.bias is not None:
            result = result + self.bias
        if self.post_rearrange is not None:
            result = self.post_rearrange(result)
        return result

    @torch.jit.ignore  # type: ignore[untyped-decorator]
    def _multiplied(self, input: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = einsum(input, weight, self._product)
        return result

    def __repr__(self) -> str:
        bias = [] if self.bias_shape is None else [f"'{self.bias_shape}'"]
        sizes = [f"{name}={size}" for name, size in self.axes_lengths.items()]
        return f"EinMix({', '.join([repr(self.pattern), repr(self.weight_shape), *bias, *sizes])})"
