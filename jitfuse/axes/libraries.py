"""Backend profiles: how NumPy and torch write each primitive step, as text of Python.

A plan's runtime steps are lines of Python that are compiled to one function: a call does nothing but the library's own
methods. Traced tensors and jitfuse's arrays have NumPy's methods, those of torch functions torch's, so that two
profiles serve all. Owns the text; does not own which steps there are.
"""
from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from jitfuse.axes.reducers import log_sum_exp
from jitfuse.base.records import Record

Shape = tuple[int, ...]


def promoted(*xs: Any) -> tuple[Any, ...]:
    """Return arrays of NumPy's kind in their common dtype."""
    if all(isinstance(x, np.ndarray | np.generic) for x in xs):
        dtype: Any = np.result_type(*[x.dtype for x in xs])
    else:
        from jitfuse.array_api.namespace import result_type

        dtype = result_type(*xs)
    return tuple(x if x.dtype == dtype else x.astype(dtype) for x in xs)


def promoted_tensors(*xs: Any) -> tuple[Any, ...]:
    """Return tensors in their common dtype."""
    dtype = functools.reduce(sys.modules["torch"].promote_types, [x.dtype for x in xs])
    return tuple(x if x.dtype == dtype else x.to(dtype) for x in xs)


class Library(Record, frozen=True):
    """A library's way of writing steps.

    `lazy`: its arrays are wrappers, which are not written in place; `proves`: their strides are known, so that a view
    can be proved. Traced arrays have none.
    """

    lazy: bool = False
    proves: bool = True
    name: ClassVar[str]
    owns_copies: ClassVar[bool]
    """Whether new axes are copies, in memory of their own, and not views with stride 0."""
    functions: ClassVar[Mapping[str, Any]]

    @property
    def writes(self) -> bool:
        """Whether arrays may be written in place, and new axes are copies anyway."""
        return self.owns_copies and not self.lazy

    def reshape(self, x: str, shape: Shape) -> str:
        """Return an array in another shape."""
        return f"{x}.reshape({shape})"

    def permute(self, x: str, order: Shape) -> str:
        """Return the view of an array with its axes in another order."""
        raise NotImplementedError

    def diagonal(self, x: str, one: int, other: int) -> str:
        """Return the view of a diagonal, as the last axis."""
        return f"{x}.diagonal(0, {one}, {other})"

    def cut(self, x: str, axis: int, start: int, stop: int) -> str:
        """Return the view of a range along an axis."""
        return f"{x}[{':, ' * axis}{start}:{stop}]"

    def concat(self, xs: Sequence[str], axis: int) -> str:
        """Return arrays joined along an axis."""
        raise NotImplementedError

    def expand(self, x: str, shape: Shape, new: dict[int, int]) -> str:
        """Return an array, whose shape has 1 at the new axes, with these repeated."""
        raise NotImplementedError

    def reduce(self, x: str, reducer: str, axes: Shape, count: int) -> str:
        """Return a reduction over axes that have so many elements together."""
        raise NotImplementedError

    def einsum(self, equation: str, xs: Sequence[str]) -> str:
        """Return a sum of products."""
        return f"einsum({equation!r}, {', '.join(xs)})"

    def matmul(self, a: str, b: str) -> str:
        """Return a product of matrices, or of stacks of them."""
        return f"matmul({a}, {b})"

    def embed(self, x: str, shape: Shape, n: int, mask: Shape) -> str:
        """Return an array on the diagonal of another, with zeros around it."""
        raise NotImplementedError


class NumPyLibrary(Library, frozen=True):
    """NumPy's methods, of arrays, and of traced tensors."""

    name: ClassVar[str] = "numpy"
    owns_copies: ClassVar[bool] = True
    functions: ClassVar[Mapping[str, Any]] = {
        "concatenate": np.concatenate, "broadcast_to": np.broadcast_to, "einsum": np.einsum, "matmul": np.matmul,
        "where": np.where, "eye": np.eye, "empty": np.empty, "result_type": np.result_type, "add": np.add.reduce,
        "multiply": np.multiply.reduce, "maximum": np.maximum.reduce, "minimum": np.minimum.reduce,
        "any_": np.logical_or.reduce, "all_": np.logical_and.reduce, "log_sum_exp": log_sum_exp, "times": np.multiply,
        "promoted": promoted,
    }

    def permute(self, x: str, order: Shape) -> str:
        """Return the view of an array with its axes in another order."""
        return f"{x}.transpose({order})"

    def concat(self, xs: Sequence[str], axis: int) -> str:
        """Return arrays joined along an axis."""
        return f"concatenate(({', '.join(xs)},), {axis})"

    def expand(self, x: str, shape: Shape, new: dict[int, int]) -> str:
        """Return an array with its new axes repeated."""
        if self.lazy:
            return f"broadcast_to({x}, {shape})"
        return x + "".join(f".repeat({n}, {axis})" for axis, n in reversed(new.items()))  # what is largest comes last

    def reduce(self, x: str, reducer: str, axes: Shape, count: int) -> str:
        """Return a reduction over axes."""
        if reducer == "mean":
            slow = f"{x}.mean({axes})"
            if self.lazy or not count:
                return slow
            return f"add({x}, {axes}) / {count} if {x}.dtype.char in 'fd' else {slow}"
        if reducer == "var":
            return f"{x}.var({axes})"
        if reducer == "+":
            return f"{x}.sum({axes}, {x}.dtype)" if self.lazy else f"add({x}, {axes}, {x}.dtype)"
        if self.lazy and reducer != "logsumexp":
            return f"{x}.{reducer}({axes})"
        return f"{_UFUNCS[reducer]}({x}, {axes})"

    def embed(self, x: str, shape: Shape, n: int, mask: Shape) -> str:
        """Return an array on a diagonal."""
        return f"where(eye({n}, dtype=bool).reshape({mask}), {x}.reshape({shape}), {x}.dtype.type(0))"


_UFUNCS: Final = {
    "sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum", "any": "any_", "all": "all_",
    "logsumexp": "log_sum_exp",
}


class TorchLibrary(Library, frozen=True):
    """torch's methods, of tensors, and of traced tensors of torch functions."""

    name: ClassVar[str] = "torch"
    owns_copies: ClassVar[bool] = False
    functions: ClassVar[Mapping[str, Any]] = {}

    def permute(self, x: str, order: Shape) -> str:
        """Return the view of an array with its axes in another order."""
        return f"{x}.permute({order})"

    def concat(self, xs: Sequence[str], axis: int) -> str:
        """Return arrays joined along an axis."""
        return f"cat(({', '.join(xs)},), {axis})"

    def expand(self, x: str, shape: Shape, new: dict[int, int]) -> str:
        """Return an array with its new axes repeated."""
        return f"{x}.expand({shape})"

    def reduce(self, x: str, reducer: str, axes: Shape, count: int) -> str:
        """Return a reduction over axes."""
        if reducer == "prod":
            return x + "".join(f".prod({axis})" for axis in sorted(axes, reverse=True))
        if reducer == "var":
            return f"{x}.var({axes}, correction=0)"
        if reducer == "+":
            return f"{x}.any({axes}) if {x}.dtype is bool_ else {x}.sum({axes}, dtype={x}.dtype)"
        return f"{x}.{_METHODS.get(reducer, reducer)}({axes})"

    def einsum(self, equation: str, xs: Sequence[str]) -> str:
        """Return a sum of products, in the operands' dtype: torch's sums of integers are int64 in some equations."""
        return f"{super().einsum(equation, xs)}.to({xs[0]}.dtype)"

    def embed(self, x: str, shape: Shape, n: int, mask: Shape) -> str:
        """Return an array on a diagonal."""
        diagonal = f"eye({n}, dtype=bool_, device={x}.device).reshape({mask})"
        return f"where({diagonal}, {x}.reshape({shape}), {x}.new_zeros(()))"


_METHODS: Final = {"max": "amax", "min": "amin"}


def torch_library(*, lazy: bool) -> TorchLibrary:
    """Return torch's profile; the first call looks torch's functions up."""
    if not TorchLibrary.functions:
        import torch

        TorchLibrary.functions = {
            "cat": torch.cat, "einsum": torch.einsum, "matmul": torch.matmul, "where": torch.where, "eye": torch.eye,
            "bool_": torch.bool, "times": torch.mul, "promoted": promoted_tensors,
        }
    return TorchLibrary(lazy, proves=not lazy)


_FILE: Final = __file__.replace("libraries.py", "<plan>")
"""Where plans are, for tracebacks: within jitfuse, so that the lines that errors name are the user's."""


def compiled(lines: Sequence[str], inputs: Sequence[str], outputs: str, names: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the function of lines of Python."""
    body = "".join(f"    {line}\n" for line in lines)
    scope = dict(names)
    text = f"def run({', '.join(inputs)}):\n{body}    return {outputs}\n"
    exec(compile(text, _FILE, "exec"), scope)
    made: Callable[..., Any] = scope["run"]
    return made
