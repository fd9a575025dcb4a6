"""What the tests of the call path share: hand-written kernels and a small way to make fused functions."""
from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from jitfuse.backends.llvm.jit import compile_text
from jitfuse.backends.llvm.loader import Library, load
from jitfuse.backends.llvm.runtime.callable import NativeCallable
from jitfuse.backends.llvm.runtime.native import runtime
from jitfuse.backends.llvm.runtime.tables import EntryBuilder, ObjectResult, StateBlock
from jitfuse.backends.llvm.text.builder import Function, Module, Value

sys.path.insert(0, str(Path(__file__).parent))  # for `kernels`
ZERO = Value("0", "i64")


def _kernel(module: Module, name: str, body: Callable[[Function], Value | None]) -> None:
    parameters = [("words", "ptr"), ("begin", "i64"), ("end", "i64"), ("scratch", "ptr")]
    f = module.function(name, "i64", parameters)
    status = body(f)
    f.ret(ZERO if status is None else status)


def _words(f: Function, *types: str) -> list[Value]:
    return [f.field(t, f.args[0], 8 * i) for i, t in enumerate(types)]


def _add(f: Function) -> None:
    """out[u] = x[u] + y[u] over float32."""
    out, x, y = _words(f, "ptr", "ptr", "ptr")
    with f.loop(f.args[1], f.args[2]) as loop:
        a, b = (f.load("float", f.offset(p, loop.index, "float")) for p in (x, y))
        f.store(f.fadd(a, b), f.offset(out, loop.index, "float"))


def _scale(f: Function) -> None:
    """out[u] = x[u] * factor over float64; the factor is read at an address."""
    out, x, factor = _words(f, "ptr", "ptr", "ptr")
    by = f.load("double", factor)
    with f.loop(f.args[1], f.args[2]) as loop:
        a = f.load("double", f.offset(x, loop.index, "double"))
        f.store(f.fmul(a, by), f.offset(out, loop.index, "double"))


def _sum(f: Function) -> None:
    """out[0] = sum of the first word-2 elements of x, out as int8 at out[8] whether it is above 0."""
    out, x, n = _words(f, "ptr", "ptr", "i64")
    with f.loop(ZERO, n) as loop:
        total = loop.carry(f.const("double", 0.0))
        loop.update(0, f.fadd(total, f.load("double", f.offset(x, loop.index, "double"))))
    f.store(loop.result(0), out)
    positive = f.fcmp("ogt", loop.result(0), f.const("double", 0.0))
    f.store(f.cast("zext", positive, "i8"), f.offset(out, 8))


def _copy(f: Function) -> None:
    """Copy word-2 bytes from the second address to the first."""
    out, x, n = _words(f, "ptr", "ptr", "i64")
    with f.loop(ZERO, n) as loop:
        f.store(f.load("i8", f.offset(x, loop.index)), f.offset(out, loop.index))


def _status(f: Function) -> Value:
    """Return the int64 at an address as the status."""
    address, = _words(f, "ptr")
    return f.load("i64", address)


def _increment(f: Function) -> None:
    """Add 1 to the int64 at an address."""
    address, = _words(f, "ptr")
    f.store(f.add(f.load("i64", address), f.const("i64", 1)), address)


def _climb(f: Function) -> None:
    """Add 1 to the int64 that lies word-1 bytes further for each unit, unit by unit."""
    address, step = _words(f, "ptr", "i64")
    with f.loop(f.args[1], f.args[2]) as loop:
        place = f.offset(address, f.mul(loop.index, step))
        f.store(f.add(f.load("i64", place), f.const("i64", 1)), place)


def _statuses(f: Function) -> Value:
    """Return the int64 that lies 8 bytes further for each unit, of the first unit."""
    address, = _words(f, "ptr")
    return f.load("i64", f.offset(address, f.args[1], "i64"))


def _through_scratch(f: Function) -> None:
    """out[u] = u, by way of the first word of this thread's scratch."""
    out, = _words(f, "ptr")
    with f.loop(f.args[1], f.args[2]) as loop:
        f.store(loop.index, f.args[3])
        f.store(f.load("i64", f.args[3], volatile=True), f.offset(out, loop.index, "i64"))


KERNELS = {
    "add": _add, "scale": _scale, "sum": _sum, "copy": _copy, "status": _status, "increment": _increment,
    "climb": _climb, "statuses": _statuses, "through_scratch": _through_scratch,
}


class Fused(NativeCallable):
    """A fused function in the small: counts the calls of its Python path."""

    def __init__(self) -> None:
        self.python_calls = 0

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        self.python_calls += 1
        return ("python", args, kwargs)


def miss(self: Fused, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    return ("miss", args, kwargs)


def unexpected(site: int, status: int) -> NoReturn:
    raise RuntimeError(("handler", site, status))


class Harness:
    """Kernels by name, the runtime, and fused functions over state blocks."""

    def __init__(self, library: Library) -> None:
        self.runtime = runtime()
        self._library = library

    def kernel(self, name: str) -> int:
        return self._library.address(name)

    def attach(self, state: StateBlock) -> Fused:
        f = Fused()
        assert f.attach(self.runtime.address("jf_fastcall"), state.address, state)
        return f

    def function(self, build: Callable[[EntryBuilder], Any], positional: int = 1, **options: Any) -> Fused:
        """Return a function of one entry, for evaluation; `build` adds guards and returns the result tree."""
        b = EntryBuilder(positional, handler=unexpected, **options)
        tree = build(b)
        entry = b.build()
        plan = entry.plan_builder()
        plan.finish(ObjectResult("hit") if tree is None else tree)
        entry.set_plan(training=False, plan=plan.build())
        state = StateBlock(miss)
        state.prepend(entry)
        return self.attach(state)

    def live_bytes(self) -> int:
        return self.runtime.memory_statistics()["live_bytes"]


@pytest.fixture(autouse=True)
def accepted_error_state() -> None:
    """Let calls run natively: a test before may have left them with the np.errstate of a block that has ended."""
    runtime().accept_error_state()


@pytest.fixture(scope="session")
def harness() -> Harness:
    module = Module()
    for name, body in KERNELS.items():
        _kernel(module, name, body)
    return Harness(load(compile_text(module.text())))
