"""Writes LLVM assembly text: the only module by which jitfuse makes LLVM IR.

Owns: modules, functions, declarations, structured control flow. Straight-line code is in
`jitfuse.backends.llvm.text.instructions`, types in `jitfuse.backends.llvm.text.types`. Does not own: what the code
means, or compiling it (see `jitfuse.backends.llvm.jit`).

Text instead of llvmlite.ir, because an instruction then takes about a microsecond, and no IR library has to be
imported.
"""
from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from jitfuse.backends.llvm.text.instructions import Instructions
from jitfuse.backends.llvm.text.types import Value, element, float_literal, lanes, vector, with_element
from jitfuse.errors import KernelTooLargeError

__all__ = [
    "Function", "Loop", "Module", "Value", "element", "float_literal", "lanes", "vector", "with_element",
]


class _BoundedLines(list[str]):
    """The lines of a function, at most `most`; raises KernelTooLargeError where there are more."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def append(self, line: str) -> None:
        """Append a line."""
        if len(self) >= self._most:
            raise KernelTooLargeError(f"the kernel becomes more than {self._most:,} lines of LLVM IR")
        super().append(line)


class Module:
    """A module under construction: named functions, globals and declarations, rendered by `text`.

    `most_lines` bounds the lines of each function, for untrusted sources.
    """

    def __init__(self, most_lines: int | None = None) -> None:
        self.most_lines = most_lines
        self._declarations: dict[str, str] = {}
        self._globals: dict[str, str] = {}
        self._functions: list[Function] = []
        self._uses_metadata = False

    def function(
        self, name: str, result: str, params: Sequence[tuple[str, str]], *, internal: bool = False,
        attributes: str = "nounwind",
    ) -> Function:
        """Start a function; `params` are (name, type); returns its builder positioned in its entry block."""
        f = Function(self, name, result, params, internal, attributes)
        self._functions.append(f)
        return f

    def defines(self, name: str) -> bool:
        """Return whether a function of this name was started in the module."""
        return any(f.name == name for f in self._functions)

    def declare(self, name: str, result: str, params: Sequence[str], *, variadic: bool = False) -> None:
        """Declare an external function or intrinsic once; later declarations of the same name are ignored."""
        if name not in self._declarations:
            dots = ", ..." if variadic else ""
            self._declarations[name] = f"declare {result} @{name}({', '.join(params)}{dots})"

    def global_(self, name: str, definition: str) -> Value:
        """Define a global once; `definition` is all after the ``=``; returns the pointer to it."""
        self._globals.setdefault(name, f"@{name} = {definition}")
        return Value(f"@{name}", "ptr")

    def table(self, name: str, type_: str, values: Sequence[float | int]) -> Value:
        """Define a private constant array of scalars, 64-byte aligned; returns the pointer to it."""
        if type_ in ("float", "double"):
            items = ", ".join(f"{type_} {float_literal(type_, v)}" for v in values)
        else:
            items = ", ".join(f"{type_} {int(v)}" for v in values)
        return self.global_(name, f"private constant [{len(values)} x {type_}] [{items}], align 64")

    def global_metadata(self) -> None:
        """Add the metadata !0 (non-temporal), !1 (likely) and !2 (unlikely) to the rendered module."""
        self._uses_metadata = True

    def text(self) -> str:
        """Return the module as LLVM assembly; the same calls give the same text in every process."""
        parts = list(self._globals.values())
        parts += [f.text() for f in self._functions]
        defined = {f.name for f in self._functions}
        parts += [self._declarations[n] for n in sorted(self._declarations) if n not in defined]
        if self._uses_metadata:
            parts += [
                "!0 = !{i32 1}",
                '!1 = !{!"branch_weights", i32 2000, i32 1}',
                '!2 = !{!"branch_weights", i32 1, i32 2000}',
            ]
        return "\n".join(parts) + "\n"


class Function(Instructions):
    """Builds one function, instruction by instruction, at the end of the current block."""

    def __init__(
        self, module: Module, name: str, result: str, params: Sequence[tuple[str, str]], internal: bool,
        attributes: str,
    ) -> None:
        super().__init__()
        if module.most_lines is not None:
            self._lines = _BoundedLines(module.most_lines)
        self._module = weakref.ref(module)
        self.name = name
        self.result = result
        self.args = tuple(Value(f"%{n}", t) for n, t in params)
        linkage = "internal " if internal else ""
        signature = ", ".join(f"{a.type} {a.ref}" for a in self.args)
        self._head = f"define {linkage}{result} @{name}({signature}) {attributes} {{"
        self.block = "entry"
        self._terminated = False

    @property
    def module(self) -> Module:
        """The module, held weakly, because both would otherwise keep each other and all their text alive."""
        module = self._module()
        assert module is not None, "the module was dropped before its function was complete"
        return module

    @property
    def declarations(self) -> Module:
        """The module."""
        return self.module

    def text(self) -> str:
        """Return the function's definition as LLVM assembly."""
        return "\n".join([self._head, "entry:", *self._allocas, *self._lines, "}"])

    # ------------------------------------------------------------------ blocks
    def ret(self, x: Value | None = None) -> None:
        """Return from the function."""
        self.emit("ret void" if x is None else f"ret {x.type} {x.ref}")
        self._terminated = True

    def unreachable(self) -> None:
        """Mark the end of the block as never reached."""
        self.emit("unreachable")
        self._terminated = True

    def label(self, name: str) -> None:
        """Start a block; falls into it from the current block where that has no terminator yet."""
        if not self._terminated:
            self.emit(f"br label %{name}")
        self._lines.append(f"{name}:")
        self.block = name
        self._terminated = False

    def br(self, name: str) -> None:
        """Jump to a block."""
        self.emit(f"br label %{name}")
        self._terminated = True

    def cond_br(self, condition: Value, then: str, otherwise: str, *, likely: bool | None = None) -> None:
        """Branch on an i1; `likely` weights the first target up or down."""
        hint = ""
        if likely is not None:
            self.module.global_metadata()
            hint = ", !prof !1" if likely else ", !prof !2"
        self.emit(f"br i1 {condition.ref}, label %{then}, label %{otherwise}{hint}")
        self._terminated = True

    def switch(self, x: Value, otherwise: str, cases: Sequence[tuple[int, str]]) -> None:
        """Jump to the block of the constant that an integer equals, or to `otherwise`."""
        targets = " ".join(f"{x.type} {constant}, label %{name}" for constant, name in cases)
        self.emit(f"switch {x.type} {x.ref}, label %{otherwise} [ {targets} ]")
        self._terminated = True

    def phi(self, type_: str, incoming: Sequence[tuple[Value, str]]) -> Value:
        """Append a phi with the given (value, block) pairs; must come first in its block."""
        pairs = ", ".join(f"[ {v.ref}, %{block} ]" for v, block in incoming)
        return self.value(type_, f"phi {type_} {pairs}")

    @contextmanager
    def if_(self, condition: Value, *, likely: bool | None = None) -> Iterator[None]:
        """Run the body where the condition holds; values made inside must go through memory."""
        then, end = self.fresh("then"), self.fresh("endif")
        self.cond_br(condition, then, end, likely=likely)
        self.label(then)
        yield
        self.label(end)

    def branch(
        self, condition: Value, usual: Sequence[Value], rare: Callable[[], Sequence[Value]]
    ) -> list[Value]:
        """Return the values of `rare` where an i1 holds, which is unlikely, else `usual`."""
        before = self.block
        rarely, end = self.fresh("rare"), self.fresh("common")
        self.cond_br(condition, rarely, end, likely=False)
        self.label(rarely)
        unusual = rare()
        last = self.block
        self.label(end)
        return [self.phi(v.type, [(v, before), (w, last)]) for v, w in zip(usual, unusual, strict=True)]

    @contextmanager
    def loop(self, start: Value, stop: Value, step: int | Value = 1) -> Iterator[Loop]:
        """Count from `start` while below `stop` (signed); the body may add loop-carried values.

        The yielded `Loop` has `index`, and `carry(initial)` / `update(k, value)`; after the loop,
        `result(k)` is the carried value. The loop does nothing where start >= stop.
        """
        loop = Loop(self, start, stop, step)
        yield loop
        loop.close()


class Loop:
    """A counted loop with carried values, made by `Function.loop`. Carries are declared before the body."""

    def __init__(self, f: Function, start: Value, stop: Value, step: int | Value) -> None:
        self._f = f
        self._before = f.block
        self._head, self._body, self._end = f.fresh("head"), f.fresh("body"), f.fresh("end")
        f.label(self._head)
        # the head's phis are completed in close(): their lines are placeholders until then
        self._slot = len(f._lines)
        f._lines.append("")
        self.index = Value("%" + f.fresh("i"), start.type)
        condition = f.icmp("slt", self.index, stop)
        f.cond_br(condition, self._body, self._end)
        f.label(self._body)
        self._start = start
        self._step = step if isinstance(step, Value) else f.const(start.type, step)
        self._carries: list[tuple[Value, Value]] = []
        self._next: dict[int, Value] = {}

    def carry(self, initial: Value) -> Value:
        """Declare a loop-carried value; returns its value at the start of the body."""
        phi = Value("%" + self._f.fresh("c"), initial.type)
        self._carries.append((phi, initial))
        return phi

    def update(self, k: int, value: Value) -> None:
        """Set the k-th carried value for the next iteration."""
        self._next[k] = value

    def result(self, k: int) -> Value:
        """Return the k-th carried value after the loop."""
        return self._carries[k][0]

    def close(self) -> None:
        """End the body: advance the index, jump back, complete the phis."""
        f = self._f
        following = f.add(self.index, self._step)
        last = f.block
        f.br(self._head)
        phis = [
            f"  {self.index.ref} = phi {self.index.type} "
            f"[ {self._start.ref}, %{self._before} ], [ {following.ref}, %{last} ]"
        ]
        for k, (phi, initial) in enumerate(self._carries):
            phis.append(
                f"  {phi.ref} = phi {phi.type} "
                f"[ {initial.ref}, %{self._before} ], [ {self._next[k].ref}, %{last} ]"
            )
        f._lines[self._slot] = "\n".join(phis)
        f.label(self._end)
