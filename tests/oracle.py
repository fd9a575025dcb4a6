"""The oracle: what a fused function does is what plain Python does. One comparison, and one place for tolerances.

`check(function, *calls)` calls the function fused and as it is, and compares results, errors and what is written into
arguments. `same(got, want)` compares two values: types, containers, dtypes, shapes, bits with signs of zeros, NaN in
the same places. `outcome` is what a call does, for tests that compare with something else.
"""
from __future__ import annotations

import copy
import sys
import warnings
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

import jitfuse as jf


class Near(NamedTuple):
    """How far numbers with a fraction may be apart; special values are the same."""

    double: float
    """Relative, of float64 and complex128; of Python's floats too."""
    single: float
    """Relative, of narrower numbers."""
    smallest: float = 0.0
    """Absolute."""
    smallest_single: float | None = None
    """Absolute, of narrower numbers; None: as of others."""
    ulps: int = 0
    """In units in the last place."""
    signs: bool = True
    """Whether zeros have the same signs."""


EXACT: Final = None
"""All bits, but for the payload of NaN."""
ROUNDED: Final = Near(1e-12, 1e-12)
"""float64 of sums in another order or of another library's functions; of float32 as good as all bits."""
SINGLE: Final = Near(1e-12, 1e-6)
"""The same of float32."""
PLAIN: Final = (int, str, bytes, set, frozenset)
"""Values that are equal or not, and hold no numbers."""
EQUAL: Final = Near(0.0, 0.0, signs=False)
"""Equal numbers. Sums that begin with the first product have -0.0 where those that begin with 0.0 have 0.0."""
ULPS: Final = Near(0.0, 0.0, ulps=2)
"""Functions of the C library."""
REDUCED: Final = Near(1e-13, 2e-5, 1e-12, 2e-4)
"""Reductions, in another order than NumPy's."""
NORMALISED: Final = Near(1e-14, 2e-5)
"""Quotients of sums in another order."""
FUNCTIONS: Final = Near(4 * 2.0**-52, 4 * 2.0**-23)
"""Elementary functions: four units in the last place."""
BRANCHES: Final = Near(1e-12, 1e-6, 1e-12, 1e-6)
"""Sums that branches decide, of numbers about one."""
LOOPS: Final = Near(1e-12, 1e-12, 1e-12)
"""Loops that are computed in another order, of numbers about one."""
NARROW: Final = Near(1e-12, 1e-3, 1e-15)
"""Sums of float16, and of float32 in another order."""
TORCH: Final = Near(1e-5, 1e-5, 1e-8)
"""torch's own functions."""
MEANS: Final = Near(0.0, 0.0, 1e-13)
"""Means of few numbers about one."""


def outcome(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return what a call returns, or the exception that it raises; without warnings."""
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        try:
            return call(*args, **kwargs)
        except Exception as error:
            return error


def check(
    function: Callable[..., Any], *calls: Any, within: Near | None = EXACT,
    errors: type[Exception] | tuple[type[Exception], ...] = (), compiled: bool = True, times: int = 2,
    fused: Any = None,
) -> Any:
    """Compare calls of a function with its fused form, all of them in turn so many times; return the fused function.

    A call is a tuple of arguments, each time copied, or a function that makes such a tuple where arguments share
    memory. `errors`: what plain Python may raise. `compiled`: nothing falls back to plain Python, and nothing warns.
    `fused`: in place of `jf.fuse(function)`.
    """
    fused = jf.fuse(function) if fused is None else fused
    for turn in range(times):
        for number, call in enumerate(calls):
            plain, ours = arguments(call), arguments(call)
            want = outcome(function, *plain)
            if isinstance(want, Exception) and not isinstance(want, errors):
                raise want
            where = f"call {number}, time {turn}"
            same_outcome((outcome_without_warnings if compiled else outcome)(fused, *ours), want, within, where)
            if not isinstance(want, Exception):  # what is written before an error is written as a whole or not at all
                same(ours, plain, within, f"arguments of {where}")
    if compiled:
        assert fused.stats()["fallbacks"] == 0, fused.stats()
    return fused


def outcome_without_warnings(call: Callable[..., Any], *args: Any) -> Any:
    """Return what a call returns or raises; a warning is an error, but for NumPy's of elements."""
    with warnings.catch_warnings(action="error"), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            return call(*args)
        except Exception as error:
            return error


def arguments(call: Any) -> tuple[Any, ...]:
    """Return arguments of a call that nobody else has."""
    made: tuple[Any, ...] = call() if callable(call) else copy.deepcopy(call)
    assert isinstance(made, tuple), "a call is a tuple of arguments"
    return made


def same_outcome(got: Any, want: Any, within: Near | None = EXACT, where: str = "result") -> None:
    """Compare what two calls did; an error may be more special than plain Python's."""
    if isinstance(want, Exception):
        kind = next(c for c in type(want).__mro__ if not c.__module__.startswith("numpy._"))
        assert isinstance(got, kind), f"{where}: {got!r}, not {want!r}"
    else:
        assert not isinstance(got, Exception), f"{where}: {got!r}, not {want!r}"
        same(got, want, within, where)


def same(got: Any, want: Any, within: Near | None = EXACT, where: str = "result") -> None:
    """Compare two values of any nesting."""
    assert type(got) is type(want), f"{where}: {type(got)}, not {type(want)}"
    if isinstance(want, dict):
        assert list(got) == list(want), f"{where}: {list(got)}, not {list(want)}"
        for key in want:
            same(got[key], want[key], within, f"{where}[{key!r}]")
    elif isinstance(want, list | tuple | deque):
        assert len(got) == len(want), f"{where}: {len(got)} items, not {len(want)}"
        for k, (a, b) in enumerate(zip(got, want, strict=True)):
            same(a, b, within, f"{where}[{k}]")
    elif isinstance(want, np.ndarray | np.generic | float | complex):
        same_numbers(got, want, within, where)
    elif is_tensor(want):
        assert str(got.dtype) == str(want.dtype), f"{where}: {got.dtype}, not {want.dtype}"
        same_numbers(as_array(got), as_array(want), within, where)
    elif isinstance(want, np.random.Generator):
        same(got.bit_generator.state, want.bit_generator.state, within, where)
    elif isinstance(want, np.random.RandomState):
        same(got.get_state(legacy=False), want.get_state(legacy=False), within, where)
    elif isinstance(want, BaseException):
        same(got.args, want.args, within, where)
    elif hasattr(want, "__dict__") and not callable(want) and not isinstance(want, PLAIN):
        if got is not want:
            same(vars(got), vars(want), within, where)
    else:
        assert got is want or got == want, f"{where}: {got!r}, not {want!r}"


def is_tensor(value: Any) -> bool:
    """Return whether a value is an eager array of ours or a torch tensor."""
    torch = sys.modules.get("torch")
    return isinstance(value, jf.AbstractTensor) or (torch is not None and isinstance(value, torch.Tensor))


def as_array(tensor: Any) -> Any:
    """Return the elements of a tensor as an array of NumPy's; bfloat16 as float32."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(tensor, torch.Tensor):
        tensor = tensor.detach().resolve_conj().resolve_neg()
        return tensor.float().numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()
    return np.asarray(tensor)


def same_numbers(got: Any, want: Any, within: Near | None = EXACT, where: str = "result") -> None:
    """Compare the dtypes, shapes and elements of two arrays or numbers."""
    a, b = np.asarray(got), np.asarray(want)
    assert (a.dtype, a.shape) == (b.dtype, b.shape), f"{where}: {a.dtype}{a.shape}, not {b.dtype}{b.shape}"
    wrong = differing(a, b, within)
    assert not wrong.any(), (
        f"{where}: {wrong.sum()} of {wrong.size} differ, at {np.argwhere(wrong)[:3].tolist()}: "
        f"{a[wrong][:3]}, not {b[wrong][:3]}"
    )


def differing(a: Any, b: Any, within: Near | None) -> Any:
    """Return where two arrays of one dtype and shape differ."""
    with np.errstate(all="ignore"):
        if b.dtype.kind == "c":
            apart = differing(a.real, b.real, EXACT) | differing(a.imag, b.imag, EXACT)
            return apart & ~close(a, b, within) if within else apart
        if b.dtype.kind == "f" or b.dtype.name == "bfloat16":
            both = np.isnan(a) & np.isnan(b)
            apart = ((a != b) | (np.signbit(a) != np.signbit(b))) & ~both
            return apart & ~close(a, b, within) if within else apart
        return a != b


def close(a: Any, b: Any, within: Near) -> Any:
    """Return where two finite numbers are near."""
    if b.dtype.name in ("float64", "complex128") or within.smallest_single is None:
        smallest = within.smallest
    else:
        smallest = within.smallest_single
    relative = within.double if b.dtype.name in ("float64", "complex128") else within.single
    bound = np.abs(b).astype("float64") * relative + smallest
    if within.ulps:
        bound = bound + np.spacing(np.abs(b)) * within.ulps
    signs = (a == 0) & (b == 0) & within.signs  # where signs of zeros count, those that differ are not near
    return np.isfinite(a) & np.isfinite(b) & ~signs & (np.abs(a - b).astype("float64") <= bound)
