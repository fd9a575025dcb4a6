"""Replacements in traced user code of functions that do not dispatch on arrays, and of random generators.

Outside a trace, and for other callers, the originals stay. Owns the table of replacements. Does not own the functions
that make arrays (`jitfuse.tracing.numpy_like.creation`).
"""
from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

from jitfuse.base.later import Later
from jitfuse.tracing import library_functions
from jitfuse.tracing.numpy_like import creation as numpy_creation
from jitfuse.tracing.numpy_like.creation import run_of_call
from jitfuse.tracing.observe import raised_warnings
from jitfuse.tracing.scalars import math_functions
from jitfuse.tracing.tensor.array_class import class_proxy
from jitfuse.tracing.tensor.function_table import traced_among
from jitfuse.tracing.tensor.lifting import lift

extremes = Later("jitfuse.tracing.scalars.extremes")
gathering = Later("jitfuse.tracing.tensor.gathering")
random_state = Later("jitfuse.tracing.generators.random_state")
generator = Later("jitfuse.tracing.generators.generator")
assembly = Later("jitfuse.tracing.numpy_like.assembly")
joiners = Later("jitfuse.tracing.numpy_like.joiners")
elementwise = Later("jitfuse.tracing.numpy_like.elementwise")
library_calls = Later("jitfuse.tracing.numpy_like.library_calls")
shapes = Later("jitfuse.tracing.numpy_like.shapes")
printing = Later("jitfuse.tracing.observe.printing")

_TABLE: dict[int, tuple[Any, Callable[..., Any]]] = {}
_JOINERS: Final = frozenset({type(np.r_), type(np.c_)})
SAMPLED: Final = frozenset({
    "bartlett", "blackman", "hamming", "hanning", "kaiser", "tri", "geomspace", "tril_indices", "triu_indices",
    "diag_indices", "mask_indices", "broadcast_shapes", "indices", "vectorize", "logspace", "fromfunction", "fftfreq",
    "rfftfreq",
})
"""NumPy's functions whose replacements are in `jitfuse.tracing.numpy_like.sampled_arrays`, which is imported on first
use."""


def substitute(value: Any) -> Callable[..., Any] | None:
    """Return the replacement of a callable for traced user code, or None if it stays."""
    if _is_random(value):
        _know_random()
    _know_scipy()
    _know_libraries(getattr(value, "__module__", None))
    name = getattr(value, "__name__", None)
    if type(name) is str and name in SAMPLED:
        _know_samples()
    found = _TABLE.get(id(value))
    if found is not None and found[0] is value:
        return found[1]
    if type(value) in _JOINERS:
        return joiners.Joiner(value)  # type: ignore[return-value]
    if isinstance(value, _BOUND) and issubclass(type(value.__self__), tuple(_generators)):  # a proxy's __class__ lies
        return raised_warnings.raising(f"{type(value.__self__).__name__}.{name}", _RANDOM_WAY_OUT)
    return None


def _in_place_of(*originals: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for original in originals:
            _TABLE[id(original)] = (original, function)
        return function

    return register


for _original, _function in (*numpy_creation.REPLACEMENTS, *math_functions.replacements()):
    _in_place_of(_original)(_function)


def _always_traced(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(first: Any, *args: Any, **kwargs: Any) -> Any:
        if traced_among(first, *args) is None:
            run = run_of_call()
            first = [lift(run, v) for v in first] if isinstance(first, list | tuple) else lift(run, first)
        return function(first, *args, **kwargs)

    return call


for _original, _function in (
    (np.copy, lambda *args, **kwargs: elementwise.copy(*args, **kwargs)),
    (np.stack, lambda *args, **kwargs: shapes.stack(*args, **kwargs)),
    (np.concatenate, lambda *args, **kwargs: shapes.concatenate(*args, **kwargs)),
    (np.lexsort, lambda keys, axis=-1: assembly.lexsort(keys, axis)),
):
    _in_place_of(_original)(_always_traced(_function))



@_in_place_of(np.take)
def take(a: Any, indices: Any, *args: Any, **kwargs: Any) -> Any:
    """Return elements at indices; NumPy dispatches on the indexed array only."""
    traced = traced_among(a, indices) is not None
    return (gathering.take if traced else np.take)(a, indices, *args, **kwargs)


@_in_place_of(print)
def printed(*values: Any, **options: Any) -> None:
    """Print in each call of the program."""
    printing.printed(*values, **options)


@_in_place_of(max)
def largest(*values: Any, **options: Any) -> Any:
    """Return the first of the largest values; computed numbers are compared at run time."""
    return extremes.largest(*values, **options)


@_in_place_of(min)
def smallest(*values: Any, **options: Any) -> Any:
    """Return the first of the smallest values."""
    return extremes.smallest(*values, **options)


# ---------------------------------------------------------------- NumPy's random generators
_RANDOM_WAY_OUT: Final = (
    "Its numbers would be the same in every call. Use jf.random.uniform(shape) and jf.nn.dropout, which draw anew, "
    "or draw outside and pass the numbers as an argument."
)
_BOUND: Final = (types.BuiltinMethodType, types.MethodType)
_known_modules: set[str] = set()
_generators: list[type] = []


def _is_random(value: Any) -> bool:
    """Return whether a callable may belong to `np.random` or be a method of a generator.

    Entering its 60 functions takes time, so it waits for the first such call.
    """
    kinds = type(value.__self__).__mro__ if isinstance(value, _BOUND) else (getattr(value, "__objclass__", value),)
    return any(str(getattr(kind, "__module__", "")).startswith("numpy.random") for kind in (value, *kinds))


def _of_global_rng(name: str) -> Callable[..., Any]:
    """Return a function that calls a method of NumPy's global RNG."""
    name = "random_sample" if name in ("ranf", "sample") else name
    return lambda *args, **kwargs: getattr(random_state.global_generator(name), name)(*args, **kwargs)


def _know_random() -> None:
    """Replace the functions of `np.random` once it is imported; a warm start does not import it."""
    if "numpy.random" in _known_modules or "numpy.random" not in sys.modules:
        return
    names = vars(sys.modules["numpy.random"])
    if not all(c in names for c in ("Generator", "RandomState")):
        return  # another thread is importing it
    for name, member in list(names.items()):
        if not name.startswith("_") and callable(member):
            raise_error = raised_warnings.raising(f"np.random.{name}", _RANDOM_WAY_OUT)
            _in_place_of(member)(class_proxy(member, raise_error) if isinstance(member, type) else raise_error)
    _in_place_of(names["default_rng"])(lambda seed=None: generator.default_rng(seed))
    global_generator = names["mtrand"]._rand
    for name, member in list(names.items()):
        if name in ("seed", "ranf", "sample") or getattr(member, "__self__", None) is global_generator:
            _in_place_of(member)(_of_global_rng(name))
    legacy = names["RandomState"]
    _in_place_of(legacy)(class_proxy(legacy, lambda seed=None: random_state.random_state(seed)))
    for kind in (names["Generator"], legacy):
        _generators.append(kind)
        for name, member in vars(kind).items():  # compiled methods crash on a generator of the trace
            if not name.startswith("_") and callable(member):
                _in_place_of(member)(raised_warnings.raising(f"{kind.__name__}.{name}", _RANDOM_WAY_OUT))
    _known_modules.add("numpy.random")


def _know_scipy() -> None:
    """Replace SciPy's Python functions once scipy.special is imported."""
    special = sys.modules.get("scipy.special")
    if special is None or "scipy.special" in _known_modules or not hasattr(special, "log_softmax"):
        return
    from jitfuse.tracing.numpy_like import scipy_functions  # only users of SciPy need it

    for original, function in scipy_functions.replacements(vars(special)):
        _in_place_of(original)(function)
    _known_modules.add("scipy.special")


def _know_libraries(module: object) -> None:
    """Replace the functions of other libraries that are called at graph breaks."""
    if isinstance(module, str) and module.startswith(("scipy.", "sklearn.")):
        for original, name in library_functions.new_functions():
            _in_place_of(original)(_library_call(original, name))


def _library_call(original: Callable[..., Any], name: str, *, reads: bool = False) -> Callable[..., Any]:
    return lambda *args, **kwargs: library_calls.call(original, name, args, kwargs, reads=reads)


def _know_samples() -> None:
    """Replace NumPy's functions of plain numbers, and those of np.fft once it is imported."""
    ready = "numpy.fft" in sys.modules and hasattr(sys.modules["numpy.fft"], "rfftfreq")
    if _known_modules.issuperset({"samples", "numpy.fft"} if ready else {"samples"}):
        return
    from jitfuse.tracing.numpy_like import sampled_arrays

    for original, function in sampled_arrays.replacements(ready):
        _in_place_of(original)(function)
    _known_modules.update({"samples", "numpy.fft"} if ready else {"samples"})


def replace(library: str, replacements: Callable[[], Iterable[tuple[Any, Callable[..., Any]]]]) -> None:
    """Replace the functions of a library, unless that is done already."""
    if library not in _known_modules:
        for original, function in replacements():
            _in_place_of(original)(function)
        _known_modules.add(library)


for _original, _function in raised_warnings.replacements():
    _in_place_of(_original)(_function)
for _original, _name in library_functions.readers():
    _in_place_of(_original)(_library_call(_original, _name, reads=True))
