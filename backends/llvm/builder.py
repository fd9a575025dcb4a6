"""Writes LLVM assembly text: the one way in which jitfuse makes LLVM IR.

Owns: SSA names, types as LLVM's own strings (``"<16 x float>"``, ``"i64"``, ``"ptr"``), declarations,
structured control flow. Does not own: what the code means, or compiling it (see `jitfuse.backends.llvm.jit`).

Text instead of llvmlite.ir because an instruction then costs about a microsecond to make and importing a
process needs no IR library at all. All floating-point instructions are strict: no fast-math flag is ever
written, so LLVM neither reassociates nor contracts.
"""
from __future__ import annotations

import struct
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple


class Value(NamedTuple):
    """An SSA value or constant: how LLVM text refers to it (``%t12``, ``42``) and its type."""

    ref: str
    type: str


def vector(element: str, lanes: int) -> str:
    """Return the vector type of `lanes` elements; one lane is the scalar type itself."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


def element(type_: str) -> str:
    """Return the element type of a vector type, or the type itself."""
    return type_[type_.index(" x ") + 3 : -1] if type_[0] == "<" else type_


def lanes(type_: str) -> int:
    """Return the number of lanes of a type: 1 for a scalar."""
    return int(type_[1 : type_.index(" x ")]) if type_[0] == "<" else 1


def with_element(type_: str, new: str) -> str:
    """Return the type of the same shape as `type_` with another element type."""
    return vector(new, lanes(type_))


def _mangled(type_: str) -> str:
    base = {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}
    e = element(type_)
    e = base.get(e, e)
    return e if type_[0] != "<" else f"v{lanes(type_)}{e}"


def float_literal(type_: str, value: float) -> str:
    """Return LLVM's exact hexadecimal spelling of a float or double constant."""
    if type_ == "float":
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    elif type_ != "double":
        raise ValueError(f"no float literal of type {type_}")
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


class Module:
    """A module under construction: named functions, globals and declarations, rendered by `text`."""

    def __init__(self) -> None:
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
        """Have the rendered module carry !0 (non-temporal), !1 (likely) and !2 (unlikely)."""
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


class Function:
    """Builds one function, instruction by instruction, at the end of the current block."""

    def __init__(
        self, module: Module, name: str, result: str, params: Sequence[tuple[str, str]], internal: bool,
        attributes: str,
    ) -> None:
        self._module = weakref.ref(module)
        self.name = name
        self.result = result
        self.args = tuple(Value(f"%{n}", t) for n, t in params)
        linkage = "internal " if internal else ""
        signature = ", ".join(f"{a.type} {a.ref}" for a in self.args)
        self._head = f"define {linkage}{result} @{name}({signature}) {attributes} {{"
        self._allocas: list[str] = []
        self._scratch: dict[tuple[str, int, int], Value] = {}
        self._lines: list[str] = []
        self._count = 0
        self.block = "entry"
        self._terminated = False

    @property
    def module(self) -> Module:
        """The module, which its maker holds: both would otherwise keep each other, and all their text."""
        module = self._module()
        assert module is not None, "the module was dropped before its function was complete"
        return module

    def text(self) -> str:
        """Return the function's definition as LLVM assembly."""
        return "\n".join([self._head, "entry:", *self._allocas, *self._lines, "}"])

    # ------------------------------------------------------------------ names, raw lines
    def fresh(self, hint: str = "t") -> str:
        """Return a new local name, without the leading percent sign."""
        self._count += 1
        return f"{hint}{self._count}"

    def emit(self, line: str) -> None:
        """Append a raw instruction line to the current block."""
        self._lines.append("  " + line)

    def value(self, type_: str, expression: str) -> Value:
        """Append ``%new = expression`` and return the new value of the given type."""
        self._count += 1
        name = f"%t{self._count}"
        self._lines.append(f"  {name} = {expression}")
        return Value(name, type_)

    # ------------------------------------------------------------------ constants
    def const(self, type_: str, value: float | int | bool) -> Value:
        """Return a constant of a scalar or vector type (splat), exact for floats."""
        e = element(type_)
        if e in ("float", "double"):
            literal = float_literal(e, float(value))
        elif e == "i1":
            literal = "true" if value else "false"
        else:
            literal = str(int(value))
        if type_[0] == "<":
            return Value(f"splat ({e} {literal})", type_)
        return Value(literal, type_)

    def vector_const(self, element_type: str, values: Sequence[float | int]) -> Value:
        """Return a vector constant with the given lanes."""
        items = ", ".join(f"{element_type} {self.const(element_type, v).ref}" for v in values)
        return Value(f"<{items}>", vector(element_type, len(values)))

    null = Value("null", "ptr")

    def undef(self, type_: str) -> Value:
        """Return a poison value of the type, to build aggregates and shuffles from."""
        return Value("poison", type_)

    # ------------------------------------------------------------------ arithmetic
    def binary(self, op: str, a: Value, b: Value) -> Value:
        """Append a two-operand instruction; both operands have the type of the result."""
        assert a.type == b.type, (op, a, b)
        return self.value(a.type, f"{op} {a.type} {a.ref}, {b.ref}")

    # ruff: noqa: D102, E704
    def fadd(self, a: Value, b: Value) -> Value: return self.binary("fadd", a, b)
    def fsub(self, a: Value, b: Value) -> Value: return self.binary("fsub", a, b)
    def fmul(self, a: Value, b: Value) -> Value: return self.binary("fmul", a, b)
    def fdiv(self, a: Value, b: Value) -> Value: return self.binary("fdiv", a, b)
    def add(self, a: Value, b: Value) -> Value: return self.binary("add", a, b)
    def sub(self, a: Value, b: Value) -> Value: return self.binary("sub", a, b)
    def mul(self, a: Value, b: Value) -> Value: return self.binary("mul", a, b)
    def udiv(self, a: Value, b: Value) -> Value: return self.binary("udiv", a, b)
    def urem(self, a: Value, b: Value) -> Value: return self.binary("urem", a, b)
    def sdiv(self, a: Value, b: Value) -> Value: return self.binary("sdiv", a, b)
    def and_(self, a: Value, b: Value) -> Value: return self.binary("and", a, b)
    def or_(self, a: Value, b: Value) -> Value: return self.binary("or", a, b)
    def xor(self, a: Value, b: Value) -> Value: return self.binary("xor", a, b)
    def shl(self, a: Value, b: Value) -> Value: return self.binary("shl", a, b)
    def lshr(self, a: Value, b: Value) -> Value: return self.binary("lshr", a, b)
    def ashr(self, a: Value, b: Value) -> Value: return self.binary("ashr", a, b)

    def fneg(self, a: Value) -> Value:
        """Flip the sign bit."""
        return self.value(a.type, f"fneg {a.type} {a.ref}")

    def not_(self, a: Value) -> Value:
        """Flip every bit of an integer or boolean value."""
        return self.xor(a, self.const(a.type, True if element(a.type) == "i1" else -1))

    def icmp(self, predicate: str, a: Value, b: Value) -> Value:
        """Compare integers or pointers (`eq ne slt sle sgt sge ult ule ugt uge`)."""
        assert a.type == b.type, (predicate, a, b)
        return self.value(with_element(a.type, "i1"), f"icmp {predicate} {a.type} {a.ref}, {b.ref}")

    def fcmp(self, predicate: str, a: Value, b: Value) -> Value:
        """Compare floats (`oeq une olt ole ogt oge uno ord` ...)."""
        assert a.type == b.type, (predicate, a, b)
        return self.value(with_element(a.type, "i1"), f"fcmp {predicate} {a.type} {a.ref}, {b.ref}")

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """Return `a` where the condition holds, else `b`, lane by lane."""
        assert a.type == b.type, (condition, a, b)
        return self.value(
            a.type, f"select {condition.type} {condition.ref}, {a.type} {a.ref}, {b.type} {b.ref}"
        )

    def cast(self, op: str, a: Value, type_: str) -> Value:
        """Append a conversion (`bitcast zext sext trunc fpext fptrunc sitofp fptosi ptrtoint inttoptr` ...)."""
        if a.type == type_ and op == "bitcast":
            return a
        return self.value(type_, f"{op} {a.type} {a.ref} to {type_}")

    def intrinsic(self, name: str, result: str, *args: Value, overload: Sequence[str] | None = None) -> Value:
        """Call ``llvm.<name>``, declared on the way, mangled by `overload` (default: the result type)."""
        suffix = "".join("." + _mangled(t) for t in ([result] if overload is None else overload))
        return self.call(f"llvm.{name}{suffix}", result, args)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """Return a*b + c rounded once."""
        return self.intrinsic("fma", a.type, a, b, c)

    # ------------------------------------------------------------------ vectors
    def extract(self, v: Value, lane: int | Value) -> Value:
        """Return one lane of a vector."""
        i = lane if isinstance(lane, Value) else Value(str(lane), "i64")
        return self.value(element(v.type), f"extractelement {v.type} {v.ref}, {i.type} {i.ref}")

    def insert(self, v: Value, x: Value, lane: int | Value) -> Value:
        """Return the vector with one lane replaced."""
        i = lane if isinstance(lane, Value) else Value(str(lane), "i64")
        return self.value(v.type, f"insertelement {v.type} {v.ref}, {x.type} {x.ref}, {i.type} {i.ref}")

    def shuffle(self, a: Value, b: Value, mask: Sequence[int]) -> Value:
        """Return lanes picked from `a` followed by `b`; one index in `mask` for each lane of the result."""
        indices = ", ".join(f"i32 {i}" for i in mask)
        type_ = f"<{len(mask)} x {element(a.type)}>"
        return self.value(
            type_, f"shufflevector {a.type} {a.ref}, {b.type} {b.ref}, <{len(mask)} x i32> <{indices}>"
        )

    def splat(self, x: Value, n: int) -> Value:
        """Return a vector whose `n` lanes all hold the scalar `x`; the scalar itself for one lane."""
        if n == 1:
            return x
        type_ = vector(x.type, n)
        return self.shuffle(self.insert(self.undef(type_), x, 0), self.undef(type_), [0] * n)

    # ------------------------------------------------------------------ memory
    def alloca(self, type_: str, count: int | Value = 1, align: int = 8) -> Value:
        """Reserve stack memory; a constant count lands in the entry block, outside every loop."""
        name = "%" + self.fresh("a")
        if isinstance(count, Value):
            self.emit(f"{name} = alloca {type_}, {count.type} {count.ref}, align {align}")
        else:
            self._allocas.append(f"  {name} = alloca {type_}, i64 {count}, align {align}")
        return Value(name, "ptr")

    def scratch(self, type_: str, count: int, slot: int) -> Value:
        """Return stack memory that all who ask for the same type, count and slot share, one after the other."""
        key = (type_, count, slot)
        if key not in self._scratch:
            self._scratch[key] = self.alloca(type_, count)
        return self._scratch[key]

    def load(self, type_: str, pointer: Value, align: int | None = None, *, volatile: bool = False) -> Value:
        """Load a value; `align` in bytes, natural where None."""
        tail = f", align {align}" if align else ""
        return self.value(type_, f"load {'volatile ' if volatile else ''}{type_}, ptr {pointer.ref}{tail}")

    def store(self, x: Value, pointer: Value, align: int | None = None, *, nontemporal: bool = False) -> None:
        """Store a value; `nontemporal` bypasses the caches and wants full alignment."""
        tail = f", align {align}" if align else ""
        if nontemporal:
            self.module.global_metadata()
            tail += ", !nontemporal !0"
        self.emit(f"store {x.type} {x.ref}, ptr {pointer.ref}{tail}")

    def offset(self, pointer: Value, index: Value | int, type_: str = "i8") -> Value:
        """Return `pointer` moved by `index` elements of `type_` (bytes by default)."""
        i = index if isinstance(index, Value) else Value(str(index), "i64")
        if i.ref == "0":
            return pointer
        return self.value("ptr", f"getelementptr {type_}, ptr {pointer.ref}, {i.type} {i.ref}")

    def field(self, type_: str, pointer: Value, byte_offset: int, align: int | None = None) -> Value:
        """Load a value of `type_` at a constant byte offset."""
        return self.load(type_, self.offset(pointer, byte_offset), align)

    def set_field(self, x: Value, pointer: Value, byte_offset: int) -> None:
        """Store a value at a constant byte offset."""
        self.store(x, self.offset(pointer, byte_offset))

    def masked_load(self, type_: str, pointer: Value, mask: Value, other: Value, align: int) -> Value:
        """Load the lanes whose mask is set, `other` elsewhere; lanes left out touch no memory."""
        name = f"llvm.masked.load.{_mangled(type_)}.p0"
        self.module.declare(name, type_, ["ptr", mask.type, type_])
        return self.value(
            type_,
            f"call {type_} @{name}(ptr align {align} {pointer.ref}, {mask.type} {mask.ref}, "
            f"{type_} {other.ref})",
        )

    def masked_store(self, x: Value, pointer: Value, mask: Value, align: int) -> None:
        """Store the lanes whose mask is set."""
        name = f"llvm.masked.store.{_mangled(x.type)}.p0"
        self.module.declare(name, "void", [x.type, "ptr", mask.type])
        self.emit(
            f"call void @{name}({x.type} {x.ref}, ptr align {align} {pointer.ref}, {mask.type} {mask.ref})"
        )

    def masked_gather(self, type_: str, pointers: Value, mask: Value, other: Value, align: int) -> Value:
        """Load one element for each lane from a vector of pointers."""
        name = f"llvm.masked.gather.{_mangled(type_)}.{_mangled(pointers.type)}"
        self.module.declare(name, type_, [pointers.type, mask.type, type_])
        return self.value(
            type_,
            f"call {type_} @{name}({pointers.type} align {align} {pointers.ref}, "
            f"{mask.type} {mask.ref}, {type_} {other.ref})",
        )

    def masked_scatter(self, x: Value, pointers: Value, mask: Value, align: int) -> None:
        """Store one element for each lane through a vector of pointers."""
        name = f"llvm.masked.scatter.{_mangled(x.type)}.{_mangled(pointers.type)}"
        self.module.declare(name, "void", [x.type, pointers.type, mask.type])
        self.emit(
            f"call void @{name}({x.type} {x.ref}, {pointers.type} align {align} {pointers.ref}, "
            f"{mask.type} {mask.ref})"
        )

    # ------------------------------------------------------------------ calls and control flow
    def call(self, name: str, result: str, args: Sequence[Value]) -> Value:
        """Call a function by name, declaring it where the module does not define it."""
        self.module.declare(name, result, [a.type for a in args])
        return self._call(f"@{name}", result, args)

    def call_pointer(self, pointer: Value, result: str, args: Sequence[Value]) -> Value:
        """Call through a function pointer."""
        return self._call(pointer.ref, result, args)

    def _call(self, target: str, result: str, args: Sequence[Value]) -> Value:
        text = f"call {result} {target}({', '.join(f'{a.type} {a.ref}' for a in args)})"
        if result == "void":
            self.emit(text)
            return Value("", "void")
        return self.value(result, text)

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
        """Return what `rare` makes where an i1 holds, which is not likely, else `usual`."""
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
        """Declare a loop-carried value; returns what it is at the start of the body."""
        phi = Value("%" + self._f.fresh("c"), initial.type)
        self._carries.append((phi, initial))
        return phi

    def update(self, k: int, value: Value) -> None:
        """Give the k-th carried value its value for the next round."""
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
