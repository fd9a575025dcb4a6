"""Random programs as data: sources of arguments, statements, outputs; their text, and running them.

A `Program` is a Python function over NumPy arrays, held as statements so that it can be printed, run step by
step and made smaller. Owns what a program is; does not own how one is drawn (`generate`) or judged (`compare`).
"""
from __future__ import annotations

import itertools
import linecache
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

import jitfuse as jf
from jitfuse.dtypes import numpy_dtype

GLOBALS = {"np": np, "jf": jf, "special": special}
_numbers = itertools.count()


@dataclass(frozen=True)
class Source:
    """Where one argument comes from: a Python expression over `make`, `number`, NumPy and earlier arguments."""

    name: str
    text: str

    @property
    def overlaps(self) -> bool:
        """Whether it is a view of another argument."""
        return self.text.startswith("a")

    def value(self, earlier: Mapping[str, Any], shift: int = 0) -> Any:
        """Return the argument; another `shift` gives other random elements of the same layout."""
        names = {
            "np": np, "make": lambda *args, **kwargs: make(*args, **kwargs, shift=shift),
            "number": lambda value: number(value, shift), **_CONSTANTS, **earlier,
        }
        return eval(self.text, names)


_CONSTANTS = {"nan": np.nan, "inf": np.inf, "nanj": complex(0, np.nan), "infj": complex(0, np.inf),
              "bfloat16": numpy_dtype("bfloat16"), **{d: np.dtype(d) for d in ("float32", "int32")}}


@dataclass(frozen=True)
class Statement:
    """One line: `target` is what it assigns or changes, `reads` the names it reads.

    slack    how far from NumPy's bits the result may be: "" (not at all), or a kind that `compare` knows
    changes  whether it writes into an array that was there before
    """

    text: str
    target: str
    reads: tuple[str, ...]
    slack: str = ""
    changes: bool = False


@dataclass(frozen=True)
class Program:
    """A function of `sources` whose body is `statements`; it returns `outputs` in a container."""

    sources: tuple[Source, ...]
    statements: tuple[Statement, ...]
    outputs: tuple[str, ...]
    container: str = "tuple"

    @property
    def returned(self) -> str:
        """The expression after `return`."""
        if self.container == "single" and len(self.outputs) == 1:
            return self.outputs[0]
        if self.container == "dict":
            return "{" + ", ".join(f'"{k}": {k}' for k in self.outputs) + "}"
        if self.container == "list":
            return "[" + ", ".join(self.outputs) + "]"
        return "(" + "".join(f"{k}, " for k in self.outputs) + ")"

    def text(self) -> str:
        """Return the function's source code."""
        lines = [f"def f({', '.join(s.name for s in self.sources)}):"]
        lines += [f"    {s.text}" for s in self.statements]
        return "\n".join([*lines, f"    return {self.returned}", ""])

    def script(self) -> str:
        """Return everything that is needed to see a failure: the function and its arguments."""
        return "\n".join([self.text(), *(f"{s.name} = {s.text}" for s in self.sources)])

    def function(self) -> Callable[..., Any]:
        """Compile the text to a Python function with source lines of its own."""
        text, filename = self.text(), f"<program {next(_numbers)}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        names: dict[str, Any] = dict(GLOBALS)
        exec(compile(text, filename, "exec"), names)
        function: Callable[..., Any] = names["f"]
        return function

    def arguments(self, shift: int = 0) -> list[Any]:
        """Return fresh arguments."""
        values: dict[str, Any] = {}
        for s in self.sources:
            values[s.name] = s.value(values, shift)
        return list(values.values())

    def live(self) -> Program:
        """Return the program without statements and arguments that reach no output."""
        needed, kept = set(self.outputs), []
        for s in reversed(self.statements):
            if s.target in needed or s.changes:
                needed |= {s.target, *s.reads}
                kept.append(s)
        for source in reversed(self.sources):
            if source.name in needed and source.overlaps:
                needed |= {s.name for s in self.sources if source.text.startswith(s.name)}
        sources = tuple(s for s in self.sources if s.name in needed)
        return replace(self, statements=tuple(reversed(kept)), sources=sources or self.sources[:1])


@contextmanager
def quiet() -> Iterator[None]:
    """Silence NumPy about what is no error inside kernels: overflow, division by zero, means of nothing."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


# ---------------------------------------------------------------- arguments
SPECIAL_FLOATS = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-320, -5e-324, 1e-45, 3e-39, 1e300, -1e38, 3.5e38, 1e-200,
                  0.5, 1.5, 2.5, -0.5, 1.0, -1.0, 2.0, 1e10, 2147483648.0, 9.3e18, -1e19)
SPECIAL_INTS = (0, 1, -1, 2, 3, 7, 31, 32, 63, 64, -2, 100, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 2**53 + 1)


def make(shape: tuple[int, ...], dtype: str, seed: int, layout: str = "C", style: str = "plain", shift: int = 0) -> Any:
    """Return an array of random elements in a layout; see `_elements` and `_laid_out`."""
    rng = np.random.default_rng((seed, shift))
    return _laid_out(lambda s: np.asarray(_elements(rng, s, dtype, style)), shape, layout)


def _elements(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, style: str) -> np.ndarray[Any, Any]:
    """Draw elements: plain (of size 1), small (few integers, many ties), positive, special (edges of the dtype)."""
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype.startswith(("int", "uint")):
        plain = rng.integers(-6 * (dtype[0] == "i"), 7, shape).astype(dtype)
        if style == "positive":
            return np.abs(plain)
        edges = np.array(SPECIAL_INTS).astype(dtype)
    elif dtype.startswith("complex"):
        real, imag = (_elements(rng, shape, {"complex64": "float32"}.get(dtype, "float64"), style) for _ in range(2))
        joined = np.empty(shape, dtype)
        joined.real, joined.imag = real, imag
        return joined
    else:
        into = numpy_dtype(dtype)
        plain = (rng.standard_normal(shape) * 2).astype(into)
        if style == "small":
            return np.rint(plain)
        if style == "positive":
            return np.abs(plain) + into.type(0.01)
        with np.errstate(all="ignore"):
            edges = np.array(SPECIAL_FLOATS).astype(into)
    if style != "special":
        return plain
    return np.where(rng.random(shape) < 0.5, edges[rng.integers(0, len(edges), shape)], plain)


def number(value: Any, shift: int = 0) -> Any:
    """Return a Python or NumPy number of this type: the value itself, or another one for another shift."""
    return value if isinstance(value, bool | np.bool_) else type(value)(value + shift)


LAYOUTS = ("C", "F", "strided", "reversed", "transposed", "broadcast", "offset", "stepped")


def _laid_out(draw: Callable[[tuple[int, ...]], Any], shape: tuple[int, ...], layout: str) -> Any:
    rank = len(shape)
    if layout == "F":
        return draw(shape).copy("F")
    if layout == "strided":
        return draw(tuple(2 * n for n in shape))[(slice(None, None, 2),) * rank]
    if layout == "reversed":
        return draw(shape)[(slice(None, None, -1),) * rank]
    if layout == "transposed":
        return draw(shape[1:] + shape[:1]).transpose((rank - 1, *range(rank - 1))) if rank else draw(shape)
    if layout == "broadcast":
        return np.broadcast_to(draw((1,) * min(rank, 1) + shape[1:]), shape)
    if layout == "offset":
        return draw(tuple(n + 1 for n in shape))[(slice(1, None),) * rank]
    if layout == "stepped":
        return draw(tuple(3 * n for n in shape))[(slice(None, None, -3),) * rank]
    return draw(shape)


def literal(name: str, value: Any) -> Source:
    """Return a source with exactly this value, in row-major order."""
    if not isinstance(value, np.ndarray):
        return Source(name, f"np.{value!r}" if repr(value).startswith(("float", "int")) else repr(value))
    with np.printoptions(threshold=100_000_000, floatmode="unique"):
        flat = ", ".join(repr(v) for v in value.reshape(-1).tolist())
    return Source(name, f"np.array([{flat}], '{value.dtype}').reshape({value.shape})")
