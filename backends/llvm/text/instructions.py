"""Straight-line LLVM code: one method for each instruction, appended to the block under construction.

Owns: SSA names, constants, arithmetic, vectors, memory, calls. Does not own blocks and functions
(`jitfuse.backends.llvm.text.builder`). All floating-point instructions are strict: no fast-math flag is ever written,
so LLVM neither reassociates nor contracts.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from jitfuse.backends.llvm.text.types import Value, element, float_literal, mangled, vector, with_element


class Declarations(Protocol):
    """The interface that straight-line code needs of its module."""

    def declare(self, name: str, result: str, params: Sequence[str], *, variadic: bool = False) -> None:
        """Declare an external function or intrinsic once."""

    def global_metadata(self) -> None:
        """Add the metadata that instructions refer to to the rendered module."""


class Instructions:
    """Writes instructions at the end of the current block, and reserves stack memory."""

    def __init__(self) -> None:
        self._allocas: list[str] = []
        self._scratch: dict[tuple[str, int, int], Value] = {}
        self._lines: list[str] = []
        self._count = 0

    @property
    def declarations(self) -> Declarations:
        """The module that contains the code."""
        raise NotImplementedError

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

    def fdiv(self, a: Value, b: Value) -> Value:
        """Divide, by an instruction that the code generator does not fold unless the divisor is a constant.

        LLVM 22 folds a zero that it finds late (such as x ^ x as a float), divided by a select of 1 and any other
        value, to zero, even where that value is 0.
        """
        if not b.ref.startswith("%"):
            return self.binary("fdiv", a, b)
        modes = (Value('!"round.tonearest"', "metadata"), Value('!"fpexcept.ignore"', "metadata"))
        return self.intrinsic("experimental.constrained.fdiv", a.type, a, b, *modes)

    def half(self, a: Value) -> Value:
        """Round floats to half; behind a fence, because LLVM would merge it with a rounding from double into a call."""
        return self.cast("fptrunc", self.intrinsic("arithmetic.fence", a.type, a), with_element(a.type, "half"))

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
        suffix = "".join("." + mangled(t) for t in ([result] if overload is None else overload))
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
        """Return lanes selected from `a` followed by `b`; one index in `mask` for each lane of the result."""
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
        """Return stack memory that all requests of the same type, count and slot share, at different times."""
        key = (type_, count, slot)
        if key not in self._scratch:
            self._scratch[key] = self.alloca(type_, count)
        return self._scratch[key]

    def load(self, type_: str, pointer: Value, align: int | None = None, *, volatile: bool = False) -> Value:
        """Load a value; `align` in bytes, natural where None."""
        tail = f", align {align}" if align else ""
        return self.value(type_, f"load {'volatile ' if volatile else ''}{type_}, ptr {pointer.ref}{tail}")

    def store(self, x: Value, pointer: Value, align: int | None = None, *, nontemporal: bool = False) -> None:
        """Store a value; `nontemporal` bypasses the caches and needs full alignment."""
        tail = f", align {align}" if align else ""
        if nontemporal:
            self.declarations.global_metadata()
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
        """Load the lanes whose mask is set, `other` elsewhere; inactive lanes touch no memory."""
        return self._masked_read("load", type_, pointer, mask, other, align)

    def masked_store(self, x: Value, pointer: Value, mask: Value, align: int) -> None:
        """Store the lanes whose mask is set."""
        self._masked_write("store", x, pointer, mask, align)

    def masked_gather(self, type_: str, pointers: Value, mask: Value, other: Value, align: int) -> Value:
        """Load one element for each lane from a vector of pointers."""
        return self._masked_read("gather", type_, pointers, mask, other, align)

    def masked_scatter(self, x: Value, pointers: Value, mask: Value, align: int) -> None:
        """Store one element for each lane through a vector of pointers."""
        self._masked_write("scatter", x, pointers, mask, align)

    def _masked_read(self, kind: str, type_: str, at: Value, mask: Value, other: Value, align: int) -> Value:
        name = f"llvm.masked.{kind}.{mangled(type_)}.{mangled(at.type)}"
        self.declarations.declare(name, type_, [at.type, mask.type, type_])
        return self.value(
            type_,
            f"call {type_} @{name}({at.type} align {align} {at.ref}, {mask.type} {mask.ref}, {type_} {other.ref})",
        )

    def _masked_write(self, kind: str, x: Value, at: Value, mask: Value, align: int) -> None:
        name = f"llvm.masked.{kind}.{mangled(x.type)}.{mangled(at.type)}"
        self.declarations.declare(name, "void", [x.type, at.type, mask.type])
        self.emit(
            f"call void @{name}({x.type} {x.ref}, {at.type} align {align} {at.ref}, {mask.type} {mask.ref})"
        )

    # ------------------------------------------------------------------ calls
    def call(self, name: str, result: str, args: Sequence[Value]) -> Value:
        """Call a function by name, declaring it where the module does not define it."""
        self.declarations.declare(name, result, [a.type for a in args])
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
