"""Runs a pattern in jitfuse and compares with the judge; prints it as a short program."""
from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from axes.dtypes import LibraryRefusesError, NumPy, Torch, Wanted, wanted
from axes.oracle import MOVES, Judged, NothingToReduceError, judge
from axes.parts import repeats
from axes.patterns import Pattern
from axes.sources import UnclearError
from axes.terms import Operation, declared, written

AXES: Final = {"lost_axis", "added_axis", "no_source"}
"""The codes of what the judge calls "axes"; which of them comes first the page does not say."""
IMPORTS: Final = "from jitfuse.axes import ax, axes, contract, einop, packs, rearrange, reduce, repeat, view\n"
PRECISE: Final = {"float16": 4e-3, "float32": 2e-5, "complex64": 2e-5, "float64": 1e-11, "complex128": 1e-11}
Run = Callable[[Any, list[np.ndarray]], Any]


class Finding(NamedTuple):
    """What came of a pattern, and what is wrong.

    "fine"; "refused", as the page demands; "library", which refuses it itself; "unclear" in the page; or "wrong".
    """

    state: str
    message: str = ""


def program(pattern: Pattern) -> str:
    """Return a Python program that runs the pattern."""
    calls = ",\n    ".join(pattern.arrays)
    lines = f"import numpy as np\n{IMPORTS}{declared(pattern.operation)}"
    first = f"op({', '.join(f'np.ones({shape}, {pattern.before!r})' for shape in pattern.shapes)})\n"
    lines += f"op = {written(pattern.operation)}\n" + first * bool(pattern.before)
    return f"{lines}print(op(\n    {calls}))"


@functools.cache
def _names() -> dict[str, Any]:
    scope: dict[str, Any] = {"np": np}
    exec(IMPORTS, scope)
    return scope


def built(operation: Operation) -> Any:
    """Return the operation as jitfuse's."""
    scope = dict(_names())
    exec(declared(operation), scope)
    return eval(written(operation), scope)


def arrays_of(pattern: Pattern) -> list[np.ndarray]:
    """Return the arrays of a pattern."""
    return [eval(text, _names()) for text in pattern.arrays]


def eager(operation: Any, arrays: list[np.ndarray]) -> Any:
    """Call with NumPy arrays."""
    return operation(*arrays)


class NotOneProgramError(Exception):
    """A fused function was cut into several programs, or ran without one."""


def fused(operation: Any, arrays: list[np.ndarray]) -> Any:
    """Call within a fused function, which is one program."""
    import jitfuse as jf

    function = jf.fuse(lambda *values: operation(*values), strict=True)
    found = function(*arrays)
    stats = function.stats()
    if stats["fallbacks"] or stats["splits"]:
        raise NotOneProgramError(f"{stats['fallbacks']} fallbacks, {stats['splits']} splits")
    return found


def with_torch(operation: Any, arrays: list[np.ndarray]) -> Any:
    """Call with torch tensors of the same memory."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tensors = list(map(torch.from_numpy, arrays))
    found = operation(*tensors)
    whole = found if isinstance(found, tuple) else (found,)
    if not all(isinstance(each, torch.Tensor) for each in whole):
        raise TypeError(f"not tensors: {[type(each) for each in whole]}")
    back = tuple(each.resolve_conj().numpy() for each in whole)
    return back if isinstance(found, tuple) else back[0]


@functools.cache
def _library(run: Run) -> NumPy | Torch:
    return Torch() if run is with_torch else NumPy()


def find(pattern: Pattern, run: Run = eager) -> Finding:
    """Run a pattern and judge what comes of it."""
    arrays = arrays_of(pattern)
    if run is with_torch:  # whose strides are not negative
        arrays = [x if min(x.strides, default=0) >= 0 else x.copy() for x in arrays]
    judged, expected, refused = None, Wanted([]), ""
    bits = [x.tobytes() for x in arrays]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            judged = judge(pattern.operation, arrays)
            expected = wanted(_library(run), pattern.operation, judged.groups, pattern.dtypes)
        except UnclearError as unclear:
            return Finding("unclear", str(unclear))
        except NothingToReduceError:
            refused = "the largest or smallest of nothing"
        except LibraryRefusesError as error:
            refused = str(error)
        try:
            operation = built(pattern.operation)
            _call_before(pattern, operation, run)
            found = run(operation, arrays)
        except Exception as error:
            if refused or expected.excuse:
                return Finding("library", refused or expected.excuse)
            return _of_error(pattern, judged, error, arrays, run)
        if refused:
            return Finding("wrong", f"{found!r} of what the library refuses: {refused}")
        assert judged is not None
        if judged.errors:
            return Finding("wrong", f"gave a result where the page demands {sorted(judged.errors)}")
        message = _of_result(pattern, judged, expected.dtypes, found, arrays, run)
        if bits != [x.tobytes() for x in arrays]:
            message = "an argument was changed"
    return Finding("wrong" if message else "fine", message)


def _call_before(pattern: Pattern, operation: Any, run: Run) -> None:
    """Call with ones of another dtype, where the pattern says so: functions are kept by shapes."""
    if pattern.before and run is not fused:
        with contextlib.suppress(Exception):
            run(operation, [np.ones(shape, pattern.before) for shape in pattern.shapes])


def _of_error(
    pattern: Pattern, judged: Judged | None, error: Exception, arrays: list[np.ndarray], run: Run
) -> Finding:
    from jitfuse.errors import AxesError

    assert judged is not None
    said = f"{type(error).__name__} [{getattr(error, 'code', '')}]: {error}".replace("\n", "\n# ")
    if judged.errors:
        if not isinstance(error, AxesError):
            return Finding("wrong", f"not an AxesError but {said}; the page demands {sorted(judged.errors)}")
        if error.code not in judged.errors | (AXES if "axes" in judged.errors else set()):
            return Finding("wrong", f"code {error.code}; the page demands {sorted(judged.errors)}: {said}")
        return Finding("refused", str(error.code))
    if pattern.operation.kind == "view" and run is not fused:
        if viewable(pattern.operation, judged, arrays) is True:
            return Finding("wrong", f"a view exists, but {said}")
        if isinstance(error, AxesError) and error.code == "not_a_view":
            return Finding("refused", "no view")
    return Finding("wrong", said)


def viewable(operation: Operation, judged: Judged, arrays: Sequence[np.ndarray]) -> bool | None:
    """Return whether strides address all outputs; None where parts are joined or a diagonal is filled."""
    assert judged.verdict is not None
    counted = [part.array for part in judged.verdict.right]
    joined = len(counted) != len(set(counted)) or any(map(repeats, judged.verdict.right))
    strides, shape = arrays[0].strides, arrays[0].shape
    addresses = sum((np.arange(n).reshape([-1 if i == at else 1 for i in range(len(shape))]) * strides[at]
                     for at, n in enumerate(shape)), np.zeros(shape, int))
    lowest = addresses.min(initial=0) - 1  # so that 0 is where a diagonal is filled
    for places in judge(operation, [addresses - lowest]).outputs:
        if not places.size:
            continue
        if not places.all():
            return False
        expected = np.full(places.shape, places.flat[0])
        for at, n in enumerate(places.shape):
            along = [-1 if i == at else 1 for i in range(places.ndim)]
            start = places[tuple(slice(None) if i == at else 0 for i in range(places.ndim))]
            step = start[1] - start[0] if n > 1 else 0
            expected = expected + (np.arange(n) * step).reshape(along)
        if (places != expected).any():
            return False
    return None if joined else True


def _of_result(
    pattern: Pattern, judged: Judged, dtypes: Sequence[str], found: Any, arrays: list[np.ndarray], run: Run
) -> str:
    operation = pattern.operation
    if operation.one_right == isinstance(found, tuple):
        return f"gave {type(found).__name__} where the right side is {'one' if operation.one_right else 'a tuple'}"
    outputs = found if isinstance(found, tuple) else (found,)
    if len(outputs) != len(judged.outputs):
        return f"gave {len(outputs)} outputs, not {len(judged.outputs)}"
    for at, (output, want, loose, dtype) in enumerate(zip(outputs, judged.outputs, judged.loose, dtypes)):
        got = np.asarray(output)
        message = _compare(got, want, loose, dtype, pattern)
        if message:
            return f"output {at}: {message}"
        if operation.kind == "view" and run is not fused and got.size and not np.shares_memory(got, arrays[0]):
            return f"output {at}: a copy"
    return ""


def _compare(got: np.ndarray, want: np.ndarray, loose: np.ndarray, dtype: str, pattern: Pattern) -> str:
    if got.shape != want.shape:
        return f"shape {got.shape}, not {want.shape}"
    if got.dtype != dtype:
        return f"dtype {got.dtype}, not {dtype}, of {pattern.dtypes}"
    near = _same(got, want) if pattern.operation.kind in MOVES else _near(got, want, loose, pattern.dtypes)
    if near.all():
        return ""
    index = tuple(np.argwhere(~near)[0].tolist())
    return f"at {index} {got[index]!r}, not {want[index]!r}\n{got!r}\nnot\n{want!r}".replace("\n", "\n# ")


def _same(got: np.ndarray, want: np.ndarray) -> Any:
    """Compare elements that were moved: of zeros the sign as well, of NaN that it is one."""
    want = want.astype(got.dtype)
    if got.dtype.kind == "c":
        return _same(got.real, want.real) & _same(got.imag, want.imag)
    if got.dtype.kind == "f":
        return ((got == want) & (np.signbit(got) == np.signbit(want))) | (np.isnan(got) & np.isnan(want))
    return got == want


def _near(got: np.ndarray, want: np.ndarray, loose: np.ndarray, of: Sequence[str]) -> Any:
    if got.dtype.kind == "b":
        return got == (want != 0)
    if got.dtype.kind in "iu":
        return got == want.astype(got.dtype)  # modulo its range
    nan = np.isnan(want)
    if got.dtype.kind == "c":  # products of large complex numbers overflow in between
        loose = loose | (abs(want) > np.finfo(got.dtype).max / 100)
    least = max(PRECISE.get(dtype, 0) for dtype in (got.dtype.name, *of))
    rounded = want.astype(got.dtype)  # too large ones are infinite in both
    finite = np.isfinite(rounded)
    close = abs(np.where(finite, got, 0) - np.where(finite, rounded, 0)) <= least * np.maximum(1, abs(want))
    return np.where(nan, np.isnan(got), np.where(finite, close, got == rounded)) | (loose & ~np.isfinite(got))
