"""One public function of a library inside of a fused function, compared with plain Python: three calls, in between
which the argument is changed in place and a global gain is changed.

Owns the arguments that are tried and the comparison. `try_all` is the body of a worker process: it prints a line before
and after each function, so that the other side knows what a process has died of (`sweep`).
"""
from __future__ import annotations

import importlib
import inspect
import math
import random
import signal
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np

import jitfuse as jf

SECONDS: Final = 10
"""How long one call of a library's function may take, and how long a trial."""
UNTRIED: Final = frozenset({
    "test", "show_config", "show_runtime", "info", "source", "lookfor", "get_include", "disp", "who", "deprecate",
    "byte_bounds", "safe_eval", "setbufsize", "seterr", "seterrcall", "set_printoptions", "set_string_function",
    "set_options", "set_option", "reset_option", "save", "savez", "savez_compressed", "savetxt", "tofile", "memmap",
    "read_clipboard", "empty", "empty_like", "set_global_backend", "set_backend", "register_backend", "set_workers",
    "describe_option", "fmin_l_bfgs_b", "ConvexHull",
})
"""Functions that print, set options of the process, write files, have results that are undefined or depend on where
arrays lie in memory, or end the process themselves where arguments do not fit."""

gain = 1.0


def _square(x: Any) -> Any:
    return np.outer(x, x) / 9 + np.diag(x * 3 + 1)


def _whole(x: Any) -> Any:
    return (x * 2).astype(np.int64) % 5


ARGUMENTS: Final[tuple[Callable[[Any], tuple[Any, ...]], ...]] = (
    lambda x: (x,),
    lambda x: (_square(x),),
    lambda x: (x, x[::-1] + 0.5),
    lambda x: (_square(x), x),
    lambda x: (x, _square(x)),
    lambda x: (_square(x), _square(x).T),
    lambda x: (x, 2),
    lambda x: (2, x),
    lambda x: (_whole(x),),
    lambda x: (_whole(x), _whole(x) + 1),
    lambda x: (x, _whole(x)),
    lambda x: (x, x + 1, x + 2),
    lambda x: (_square(x), 1),
    lambda x: ((x, x + 1),),
    lambda x: (x * 1j + 1,),
    lambda x: (lambda t: (t - 1) ** 2, x),
    lambda x: (lambda t: t * t - 2, 0.0, 3.0),
    lambda x: (x > 1, x),
    lambda x: (np.sort(x), x, x * 0.5 + 1),
    lambda x: (_square(x)[None],),
    lambda x: (x, "mean"),
    lambda x: (),
)
"""Arguments of functions, made of a vector of six numbers in the order in which they are tried."""


def base() -> Any:
    """Return the vector of which all arguments are made."""
    return np.array([0.75, 2.5, 1.25, 3.0, 0.5, 1.75])


def functions(library: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the public functions and classes of a module."""
    module = importlib.import_module(library)
    for name in sorted(getattr(module, "__all__", dir(module))):
        value = getattr(module, name, None)
        if name.startswith("_") or name in UNTRIED or not callable(value) or isinstance(value, types.ModuleType):
            continue
        if isinstance(value, type) and issubclass(value, BaseException | np.generic):
            continue
        yield name, value


class _TooLong(BaseException):
    pass


def _limited(call: Callable[[], Any], seconds: float = SECONDS) -> Any:
    """Return a call's result; raises _TooLong after some seconds."""
    def stop(*_: Any) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return call()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def outcome(call: Callable[[], Any]) -> Any:
    """Return what a call gives, or the type of what it raises."""
    _reseed()
    try:
        return _limited(call)
    except Exception as error:
        return type(error)


def _reseed() -> None:
    random.seed(3)
    np.random.seed(3)


def fitting(function: Callable[..., Any]) -> Callable[[Any], tuple[Any, ...]] | None:
    """Return the first arguments that a function takes, and answers alike twice; None if there are none."""
    for make in ARGUMENTS:
        found = []
        for _ in range(2):
            try:
                _reseed()
                found.append(_limited(lambda make=make: function(*make(base())), 2))
            except (Exception, _TooLong):
                break
        if len(found) == 2 and found[0] is not NotImplemented and same(found[0], found[1]):
            return make
    return None


def program(function: Callable[..., Any], make: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], Any]:
    """Return a function of an array with work before and after the library's function."""
    def run(x: Any) -> Any:
        y = np.abs(x * gain) + 0.25
        made = function(*make(y))
        if type(made) is np.ndarray and made.dtype.kind in "fc":
            made = made * 2 + 1
        return made, y - 1

    return run


def verdict(function: Callable[..., Any]) -> tuple[str, str]:
    """Return how a function ran, and what was wrong."""
    global gain
    make = fitting(function)
    if make is None:
        return "untried", ""
    plain = program(function, make)
    fused = jf.fuse(plain)
    mine, own = base(), base()
    for call in range(3):
        gain = 1.0 + call / 4
        again = outcome(lambda: plain(own.copy()))
        expected, got = outcome(lambda: plain(own)), outcome(lambda: fused(mine))
        if not same(expected, again):
            return "untried", "it gives something else each time"
        if not same(expected, got):
            return "WRONG", f"call {call}: {_short(expected)} became {_short(got)}"
        if not same(own, mine):
            return "WRONG", f"call {call}: the argument is {_short(mine)}, not {_short(own)}"
        for x in (mine, own):
            x *= 1.125
            x[call] += 0.5
    return ("compiled" if not fused.stats()["fallbacks"] else "plain Python"), ""


def _short(value: Any) -> str:
    return " ".join(repr(value).split())[:150]


# ---------------------------------------------------------------- comparison
def same(a: Any, b: Any, depth: int = 0) -> bool:
    """Return whether two results are alike: types, dtypes, shapes, and values but for rounding."""
    if type(a) is not type(b):
        return False
    if a is b or depth > 6 or isinstance(a, type | types.FunctionType | types.BuiltinFunctionType | types.ModuleType):
        return a is b or depth > 6 or not isinstance(a, type)
    if isinstance(a, np.ndarray | np.generic):
        return _same_array(a, b, depth)
    if isinstance(a, float | complex):
        return bool(np.allclose(a, b, rtol=1e-7, atol=1e-9, equal_nan=True))
    if isinstance(a, Mapping):
        return list(map(str, a)) == list(map(str, b)) and all(
            same(x, y, depth + 1) for x, y in zip(a.values(), b.values()))
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(x, y, depth + 1) for x, y in zip(a, b))
    for part in ("toarray", "to_numpy"):
        if hasattr(a, part) and not isinstance(a, type):
            return same(getattr(a, part)(), getattr(b, part)(), depth + 1)
    if hasattr(a, "__dict__"):
        return same(vars(a), vars(b), depth + 1)
    try:
        return bool(a == b) or type(a).__eq__ is object.__eq__
    except Exception:
        return True


def _same_array(a: Any, b: Any, depth: int) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.hasobject:
        return all(same(x, y, depth + 1) for x, y in zip(np.ravel(a).tolist(), np.ravel(b).tolist()))
    if isinstance(a, np.ma.MaskedArray):
        return _same_array(np.ma.getdata(a), np.ma.getdata(b), depth) and np.array_equal(
            np.ma.getmaskarray(a), np.ma.getmaskarray(b))
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.kind not in "fc":
        return bool(np.array_equal(a, b)) or a.tobytes() == b.tobytes()
    close = 1e-7 if a.dtype.itemsize >= 8 else 1e-3
    scale = float(np.max(np.abs(a), initial=0.0, where=np.isfinite(a)))
    return bool(np.allclose(a, b, rtol=close, atol=close * (scale if math.isfinite(scale) else 1.0), equal_nan=True))


# ---------------------------------------------------------------- a worker
def try_all(library: str) -> None:
    """Try the functions of a library that standard input names; print ``name<TAB>verdict<TAB>details`` for each."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    found = dict(functions(library))
    for line in sys.stdin:
        name = line.strip()
        print(f"{name}\tbegins\t", flush=True)
        try:
            how, details = _limited(lambda name=name: verdict(found[name]), 6 * SECONDS)
        except _TooLong:
            how, details = "untried", "it takes too long"
        except Exception as error:
            how, details = "untried", f"its results cannot be compared: {_short(error)}"
        print(f"{name}\t{how}\t{details}", flush=True)


if __name__ == "__main__":
    assert inspect.isfunction(try_all)
    try_all(sys.argv[1])
