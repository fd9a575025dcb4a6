"""Functions that a kernel computes many times: their code once in the module, and calls of it.

Inlined each time, a thousand sines are megabytes of code, seconds of compiling, and more than an instruction cache
holds. Owns: the called functions, and which ones may be called.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from jitfuse.backends.llvm.text.builder import Function, Value, element, lanes

FROM: Final = 8
"""A function that a kernel computes at least so many times is called instead of inlined."""
_SHORT: Final = frozenset({"sqrt", "floor", "ceil", "trunc", "rint", "rad2deg", "deg2rad"})
"""Functions that are hardly longer than a call, and always inlined."""


def repeated(operators: Iterable[str], functions: frozenset[str]) -> frozenset[str]:
    """Return the functions that are called in a kernel of these operators."""
    return frozenset(op for op, n in Counter(operators).items() if n >= FROM and op in functions - _SHORT)


def call(
    f: Function, name: str, columns: Sequence[Sequence[Value]], write: Callable[[Function, Sequence[Sequence[Value]]],
    Sequence[Value]],
) -> Sequence[Value]:
    """Return the results of a function on operands, each a column of independent vectors, by calling it.

    `write` writes the body of the called function at the first call.
    """
    given = [v for column in columns for v in column]
    type_, count = given[0].type, len(columns[0])
    callee = f"{name}_{element(type_)}_{lanes(type_)}x{count}"
    result = type_ if count == 1 else f"{{ {', '.join([type_] * count)} }}"
    module = f.module
    if not module.defines(callee):
        params = [(f"x{k}", v.type) for k, v in enumerate(given)]
        g = module.function(callee, result, params, internal=True, attributes="nounwind noinline")
        made = write(g, [g.args[k : k + count] for k in range(0, len(given), count)])
        packed = made[0]
        if count > 1:
            packed = g.undef(result)
            for k, v in enumerate(made):
                packed = g.value(result, f"insertvalue {result} {packed.ref}, {type_} {v.ref}, {k}")
        g.ret(packed)
    found = f.call(callee, result, given)
    if count == 1:
        return [found]
    return [f.value(type_, f"extractvalue {result} {found.ref}, {k}") for k in range(count)]
