"""Runs a pattern in jitfuse and compares with the judge; prints it as a short program."""
from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from axes.oracle import FILL, Judged, NothingToReduceError, judge
from axes.parts import repeats
from axes.patterns import Pattern
from axes.sources import UnclearError
from axes.terms import Operation, declared, written

AXES: Final = {"lost_axis", "added_axis", "no_source"}
"""The codes of what the judge calls "axes"; which of them comes first the page does not say."""
IMPORTS: Final = "from jitfuse.axes import ax, axes, contract, einop, packs, rearrange, reduce, repeat, view\n"
PRECISE: Final = {"float32": 2e-5, "complex64": 2e-5, "float64": 1e-11, "complex128": 1e-11}
NAMED: Final = ("view", "rearrange", "repeat")
Run = Callable[[Any, list[Any]], Any]


class Finding(NamedTuple):
    """What came of a pattern: "fine", "refused" (rightly), "unclear" or "wrong", and what is wrong."""

    state: str
    message: str = ""


def program(pattern: Pattern) -> str:
    """Return a Python program that runs the pattern."""
    calls = ",\n    ".join(pattern.arrays)
    lines = f"import numpy as np\n{IMPORTS}{declared(pattern.operation)}"
    return f"{lines}print({written(pattern.operation)}(\n    {calls}))"


def built(operation: Operation) -> Any:
    """Return the operation as jitfuse's."""
    scope: dict[str, Any] = {}
    exec(IMPORTS + declared(operation), scope)
    return eval(written(operation), scope)


def arrays_of(pattern: Pattern) -> list[np.ndarray]:
    """Return the arrays of a pattern."""
    return [eval(text, {"np": np}) for text in pattern.arrays]


def eager(operation: Any, arrays: list[np.ndarray]) -> Any:
    """Call with NumPy arrays."""
    return operation(*arrays)


def fused(operation: Any, arrays: list[np.ndarray]) -> Any:
    """Call within a fused function."""
    import jitfuse as jf

    return jf.fuse(lambda *values: operation(*values))(*arrays)


def with_torch(operation: Any, arrays: list[np.ndarray]) -> Any:
    """Call with torch tensors of the same layout, but for negative strides, which torch has not."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tensors = [torch.from_numpy(x if min(x.strides, default=0) >= 0 else x.copy()) for x in arrays]
    found = operation(*tensors)
    whole = found if isinstance(found, tuple) else (found,)
    if not all(isinstance(each, torch.Tensor) for each in whole):
        raise TypeError(f"not tensors: {[type(each) for each in whole]}")
    back = tuple(each.resolve_conj().numpy() for each in whole)
    return back if isinstance(found, tuple) else back[0]


def find(pattern: Pattern, run: Run = eager) -> Finding:
    """Run a pattern and judge what comes of it."""
    arrays = arrays_of(pattern)
    nothing = False
    judged = None
    try:
        judged = judge(pattern.operation, arrays)
    except UnclearError as unclear:
        return Finding("unclear", str(unclear))
    except NothingToReduceError:
        nothing = True
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            found = run(built(pattern.operation), arrays)
        except Exception as error:
            return _of_error(pattern, judged, error, arrays)
    if nothing or judged is None:
        return Finding("wrong", f"largest or smallest of nothing gave {found!r}")
    if judged.errors:
        return Finding("wrong", f"gave a result where the page demands {sorted(judged.errors)}")
    message = _of_result(pattern, judged, found, arrays, run)
    return Finding("wrong" if message else "fine", message)


def _of_error(pattern: Pattern, judged: Judged | None, error: Exception, arrays: list[np.ndarray]) -> Finding:
    from jitfuse.errors import AxesError

    said = f"{type(error).__name__} [{getattr(error, 'code', '')}]: {error}"
    if judged is None:
        return Finding("refused", "nothing to reduce")
    if judged.errors:
        if not isinstance(error, AxesError):
            return Finding("wrong", f"not an AxesError but {said}; the page demands {sorted(judged.errors)}")
        if error.code not in judged.errors | (AXES if "axes" in judged.errors else set()):
            return Finding("wrong", f"code {error.code}; the page demands {sorted(judged.errors)}: {said}")
        return Finding("refused", str(error.code))
    if _is_left_to_the_library(pattern, judged, error):
        return Finding("unclear", said)
    if pattern.operation.kind == "view":
        if viewable(pattern, judged, arrays) is not True:
            return Finding("refused", "no view") if isinstance(error, AxesError) else Finding("wrong", said)
        return Finding("wrong", f"a view exists, but {said}".replace("\n", "\n# "))
    return Finding("wrong", said.replace("\n", "\n# "))


def _is_left_to_the_library(pattern: Pattern, judged: Judged, error: Exception) -> bool:
    """Return whether torch has no such function of integers, or NumPy reduces nothing to results of no element."""
    empty = isinstance(error, ValueError) and all(0 in shape for shape, _ in judged.outputs)
    exact = np.dtype(pattern.dtype).kind in "bi" and isinstance(error, (NotImplementedError, RuntimeError))
    return exact or (empty and "zero-size array" in str(error))


def viewable(pattern: Pattern, judged: Judged, arrays: Sequence[np.ndarray]) -> bool | None:
    """Return whether strides address all outputs; None where parts are joined or a diagonal is filled."""
    assert judged.verdict is not None
    counted = [part.array for part in judged.verdict.right]
    joined = len(counted) != len(set(counted)) or any(map(repeats, judged.verdict.right))
    array = arrays[0]

    def address(index: tuple[int, ...]) -> int:
        return sum(i * stride for i, stride in zip(index, array.strides))

    for shape, places in judge(pattern.operation, arrays, [address]).outputs:
        if 0 in shape:
            continue
        origin = places[(0,) * len(shape)]
        if FILL in places.values():
            return False
        steps = [places[tuple(int(i == at) for i in range(len(shape)))] - origin if size > 1 else 0
                 for at, size in enumerate(shape)]
        for index in itertools.product(*map(range, shape)):
            if places[index] != origin + sum(i * step for i, step in zip(index, steps)):
                return False
    return None if joined else True


def _of_result(pattern: Pattern, judged: Judged, found: Any, arrays: list[np.ndarray], run: Run) -> str:
    operation = pattern.operation
    if operation.one_right == isinstance(found, tuple):
        return f"gave {type(found).__name__} where the right side is {'one' if operation.one_right else 'a tuple'}"
    outputs = found if isinstance(found, tuple) else (found,)
    if len(outputs) != len(judged.outputs):
        return f"gave {len(outputs)} outputs, not {len(judged.outputs)}"
    for at, (output, (shape, values)) in enumerate(zip(outputs, judged.outputs)):
        got = np.asarray(output)
        message = _compare(pattern, got, shape, values, run is not with_torch)
        if message:
            return f"output {at}: {message}"
        if operation.kind == "view" and run is eager and got.size and not np.shares_memory(got, arrays[0]):
            return f"output {at}: a copy"
    return ""


def _dtype(pattern: Pattern) -> np.dtype:
    """Return the dtype of results: of sums that nobody asked for that of einsum, else that of NumPy's reducers."""
    reducer, one = pattern.operation.reducer, np.ones(1, pattern.dtype)
    if pattern.operation.kind in NAMED or reducer is None:
        return one.dtype
    for name in [reducer] if isinstance(reducer, str) else [name for _, name in reducer]:
        if name == "squares":
            one = (one * one).sum(0, keepdims=True)
        elif name == "logsumexp":
            one = np.log(one)
        else:
            one = getattr(np, name)(one, axis=0, keepdims=True)
    return np.dtype(float) if reducer == "logsumexp" and pattern.dtype.startswith("int") else one.dtype


def _compare(pattern: Pattern, got: np.ndarray, shape: Any, values: dict[Any, Any], exact: bool = True) -> str:
    wanted = _dtype(pattern)
    counts = not exact and pattern.dtype == "bool" and pattern.operation.kind in ("contract", "einop")  # torch counts
    if got.shape != shape:
        return f"shape {got.shape}, not {shape}"
    if got.dtype != wanted if exact else got.dtype.kind != wanted.kind and not counts:
        return f"dtype {got.dtype}, not {wanted}, of {pattern.dtype}"
    for index, value in values.items():
        if not _near(got[index].item(), 0 if value is FILL else value, got.dtype, pattern.dtype):
            return f"at {index} {got[index]!r}, not {value!r}\n{got!r}"
    return ""


def _near(got: Any, want: Any, dtype: np.dtype, of: str) -> bool:
    if dtype.kind == "b" or (of == "bool" and dtype.kind in "iu"):
        return bool(got) == bool(want)
    if dtype.kind in "iu":
        return bool((int(got) - int(want)) % 2 ** (8 * dtype.itemsize) == 0)
    if want != want or (isinstance(want, float) and math.isinf(want)):
        return bool(got == want or (got != got and want != want))
    near = max(PRECISE[dtype.name], PRECISE.get(of, 0))
    return bool(abs(got - want) <= near * max(1.0, abs(want)))
