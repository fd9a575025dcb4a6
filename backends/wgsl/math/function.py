"""A function under construction in WGSL, with the methods of the builder that the CPU's math is written with.

Values are single numbers. Types are the builder's: LLVM's integers have no sign, so they are held as u32 and u64, and
signed operations convert to i32 and i64; i128 is a pair of u64. Owns: the translation of instructions; see
`jitfuse.backends.llvm.text.builder` for what they mean.
"""
from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from jitfuse.backends.llvm.text.builder import Value

TYPES: Final = {
    "float": "f32", "double": "f64", "i1": "bool", "i32": "u32", "i64": "u64", "i128": "vec2<u64>",
}
_SIGNED: Final = {"u32": "i32", "u64": "i64"}
_SIGNS: Final = {"fadd": "+", "fsub": "-", "fmul": "*", "fdiv": "/", "add": "+", "sub": "-", "mul": "*",
                 "and": "&", "or": "|", "xor": "^", "udiv": "/", "urem": "%"}
_WIDE: Final = {"add": "jf_wide_add", "mul": "jf_wide_multiply", "sub": "jf_wide_subtract"}
_COMPARES: Final = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


_ORDERED: Final = {
    "oeq": ("equal", False), "olt": ("less", False), "ole": ("less_equal", False), "ogt": ("less", True),
    "oge": ("less_equal", True),
}
_NEGATED: Final = {"une": "oeq", "ueq": "one", "ugt": "ole", "uge": "olt", "ult": "oge", "ule": "ogt"}


class ShaderModule:
    """The module of a function, which has only tables."""

    @staticmethod
    def table(name: str, type_: str, values: Sequence[int]) -> Value:
        """Return a table that the library has as a function of the index."""
        return Value(f"jf_{name.rpartition('.')[2]}_table", "table")


class WgslFunction:
    """Statements of one function, each value named once."""

    def __init__(self) -> None:
        self.module = ShaderModule()
        self._lines: list[str] = []
        self._count = 0

    def text(self) -> str:
        """Return the statements."""
        return "\n".join("  " + line for line in self._lines)

    def fresh(self, hint: str = "t") -> str:
        """Return a new name."""
        self._count += 1
        return f"{hint}{self._count}"

    def _value(self, type_: str, expression: str) -> Value:
        name = self.fresh()
        self._lines.append(f"let {name} = {expression};")
        return Value(name, type_)

    # ------------------------------------------------------------------ constants
    def const(self, type_: str, value: float | int | bool) -> Value:
        """Return a constant, by its bits where drivers fold it wrongly or WGSL has no literal for it."""
        return Value(_literal(type_, value), type_)

    # ------------------------------------------------------------------ arithmetic
    def binary(self, op: str, a: Value, b: Value) -> Value:
        """Append a two-operand instruction."""
        type_ = TYPES[a.type]
        if op in ("shl", "lshr", "ashr"):
            return self._shifted(op, a, _count(b))
        a, b = _spelled(a), _spelled(b)
        if a.type == "i128":
            return self._value(a.type, f"{_WIDE[op]}({a.ref}, {b.ref})")
        if op[0] == "f":
            suffix = "" if type_ == "f32" else "_64"
            return self._value(a.type, f"fence{suffix}({a.ref} {_SIGNS[op]} apart{suffix}({b.ref}))")
        if type_ == "bool" and op == "xor":
            return self._value(a.type, f"{a.ref} != {b.ref}")
        return self._value(a.type, f"{a.ref} {_SIGNS[op]} {b.ref}")

    def _shifted(self, op: str, a: Value, count: str) -> Value:
        type_ = TYPES[a.type]
        if a.type == "i128":
            return self._value(a.type, f"jf_wide_{op}({a.ref}, {count})")
        if op == "ashr":
            signed = _SIGNED[type_]
            return self._value(a.type, f"bitcast<{type_}>(bitcast<{signed}>({a.ref}) >> {count})")
        return self._value(a.type, f"{a.ref} {'<<' if op == 'shl' else '>>'} {count}")

    # ruff: noqa: D102, E704
    def fmul(self, a: Value, b: Value) -> Value: return self.binary("fmul", a, b)
    def fdiv(self, a: Value, b: Value) -> Value: return self.binary("fdiv", a, b)
    def add(self, a: Value, b: Value) -> Value: return self.binary("add", a, b)
    def sub(self, a: Value, b: Value) -> Value: return self.binary("sub", a, b)
    def mul(self, a: Value, b: Value) -> Value: return self.binary("mul", a, b)
    def urem(self, a: Value, b: Value) -> Value: return self.binary("urem", a, b)
    def and_(self, a: Value, b: Value) -> Value: return self.binary("and", a, b)
    def or_(self, a: Value, b: Value) -> Value: return self.binary("or", a, b)
    def shl(self, a: Value, b: Value) -> Value: return self.binary("shl", a, b)
    def lshr(self, a: Value, b: Value) -> Value: return self.binary("lshr", a, b)
    def ashr(self, a: Value, b: Value) -> Value: return self.binary("ashr", a, b)

    def fneg(self, a: Value) -> Value:
        """Flip the sign bit."""
        return self._value(a.type, f"jf_negative{_suffix(a)}({a.ref})")

    def icmp(self, predicate: str, a: Value, b: Value) -> Value:
        """Compare integers."""
        left, right = _spelled(a).ref, _spelled(b).ref
        if predicate[0] == "s":
            signed = _SIGNED[TYPES[a.type]]
            left, right = f"bitcast<{signed}>({left})", f"bitcast<{signed}>({right})"
        sign = _COMPARES[predicate if predicate in ("eq", "ne") else predicate[1:]]
        return self._value("i1", f"{left} {sign} {right}")

    def fcmp(self, predicate: str, a: Value, b: Value) -> Value:
        """Compare floats; NaN is recognised by its bits."""
        s, left, right = _suffix(a), a.ref, b.ref
        either = f"(jf_is_nan{s}({left}) || jf_is_nan{s}({right}))"
        if predicate in ("uno", "ord"):
            return self._value("i1", either if predicate == "uno" else f"!{either}")
        if predicate in _ORDERED:
            name, swapped = _ORDERED[predicate]
            call = f"jf_{name}{s}({right}, {left})" if swapped else f"jf_{name}{s}({left}, {right})"
            return self._value("i1", call)
        if predicate == "one":
            return self._value("i1", f"!jf_equal{s}({left}, {right}) && !{either}")
        return self._not(self.fcmp(_NEGATED[predicate], a, b))

    def _not(self, a: Value) -> Value:
        return self._value("i1", f"!{a.ref}")

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """Return `a` where the condition holds, else `b`."""
        a, b = _spelled(a), _spelled(b)
        if a.type == "i128":
            return self._value(a.type, f"jf_wide_select({condition.ref}, {a.ref}, {b.ref})")
        return self._value(a.type, f"select({b.ref}, {a.ref}, {condition.ref})")

    def cast(self, op: str, a: Value, type_: str) -> Value:
        """Convert a value."""
        if a.type == type_:
            return a
        a = _spelled(a)
        source, target = TYPES[a.type], TYPES[type_]
        if type_ == "i128":
            return self._value(type_, f"vec2<u64>(u64({a.ref}), 0lu)")
        if a.type == "i128":
            return self._value(type_, f"{target}({a.ref}.x)")
        if op == "bitcast":
            return self._value(type_, f"bitcast<{target}>({a.ref})")
        if op == "sext" and source == "bool":
            return self._value(type_, f"select({target}(0u), ~{target}(0u), {a.ref})")
        if op == "trunc" and target == "bool":
            return self._value(type_, f"({a.ref} & {source}(1u)) != {source}(0u)")
        if op in ("sext", "sitofp"):
            number = f"{_SIGNED.get(target, target)}(bitcast<{_SIGNED[source]}>({a.ref}))"
            return self._value(type_, f"bitcast<{target}>({number})" if op == "sext" else number)
        if op == "fptosi":
            return self._value(type_, f"bitcast<{target}>(jf_{source}_to_{_SIGNED[target]}({a.ref}))")
        return self._value(type_, f"{target}({a.ref})")

    def intrinsic(self, name: str, result: str, *args: Value, overload: Any = None) -> Value:
        """Call the WGSL counterpart of an LLVM intrinsic."""
        refs = [_spelled(a).ref for a in args]
        if name == "sqrt":
            return self._value(result, f"fence{_suffix(args[0])}(sqrt({refs[0]}))")
        if name == "ctlz":
            return self._value(result, f"countLeadingZeros({refs[0]})" if result == "i32" else f"jf_clz_64({refs[0]})")
        if name == "fshl":
            return self._value(result, f"jf_funnel({', '.join(refs)})")
        assert name in ("fabs", "copysign", "floor", "ceil", "trunc", "rint"), name
        known = "abs" if name == "fabs" else name
        return self._value(result, f"jf_{known}{_suffix(args[0])}({', '.join(refs)})")

    # ------------------------------------------------------------------ tables
    def offset(self, pointer: Value, index: Value | int, type_: str = "i8") -> Value:
        """Move a position in a table by entries (a value) or by bytes (a number)."""
        at = f"u32({index.ref})" if isinstance(index, Value) else f"{index // 8}u"
        name, _, before = pointer.ref.partition("|")
        return Value(f"{name}|{f'{before} + {at}' if before else at}", "table")

    def load(self, type_: str, pointer: Value, align: int | None = None) -> Value:
        """Read a table."""
        name, _, at = pointer.ref.partition("|")
        return self._value(type_, f"{name}({at})")

    # ------------------------------------------------------------------ control flow
    def branch(self, condition: Value, usual: Sequence[Value], rare: Callable[[], Sequence[Value]]) -> list[Value]:
        """Return the values of `rare` where the condition holds, else `usual`."""
        names = [self.fresh("r") for _ in usual]
        for name, v in zip(names, usual, strict=True):
            self._lines.append(f"var {name} = {_spelled(v).ref};")
        self._lines.append(f"if ({condition.ref}) {{")
        for name, v in zip(names, rare(), strict=True):
            self._lines.append(f"{name} = {_spelled(v).ref};")
        self._lines.append("}")
        return [self._value(v.type, name) for name, v in zip(names, usual, strict=True)]

    @contextmanager
    def loop(self, start: Value, stop: Value, step: int = 1) -> Iterator[ShaderLoop]:
        """Count from `start` while below `stop`; see the builder's loop."""
        loop = ShaderLoop(self, start, stop, step)
        yield loop
        loop.close()


class ShaderLoop:
    """A counted loop with carried values."""

    def __init__(self, f: WgslFunction, start: Value, stop: Value, step: int) -> None:
        self._f = f
        self._before = len(f._lines)
        name, signed = f.fresh("i"), _SIGNED[TYPES[start.type]]
        first, last = _spelled(start).ref, _spelled(stop).ref
        f._lines.append(
            f"for (var {name} = {first}; bitcast<{signed}>({name}) < bitcast<{signed}>({last}); "
            f"{name} += {_literal(start.type, step)}) {{"
        )
        self.index = Value(name, start.type)
        self._carries: list[Value] = []
        self._next: dict[int, Value] = {}

    def carry(self, initial: Value) -> Value:
        """Declare a carried value; returns its value at the start of an iteration."""
        name = self._f.fresh("c")
        self._f._lines.insert(self._before, f"var {name} = {_spelled(initial).ref};")
        self._before += 1
        self._carries.append(Value(name, initial.type))
        return self._carries[-1]

    def update(self, k: int, value: Value) -> None:
        """Set the k-th carried value for the next iteration."""
        self._next[k] = value

    def result(self, k: int) -> Value:
        """Return the k-th carried value after the loop."""
        return self._carries[k]

    def close(self) -> None:
        """End the body."""
        for k, value in self._next.items():
            self._f._lines.append(f"{self._carries[k].ref} = {_spelled(value).ref};")
        self._f._lines.append("}")


def _spelled(a: Value) -> Value:
    """Return a value in WGSL's spelling; users of the builder may spell integers bare, as LLVM does."""
    plain = a.ref.removeprefix("-").isdigit()
    return Value(_literal(a.type, int(a.ref)), a.type) if plain else a


def _count(b: Value) -> str:
    """Return a shift count as u32."""
    text = b.ref.removeprefix("vec2<u64>(").partition("lu")[0].partition("u")[0]
    try:
        return f"{int(text, 0)}u"
    except ValueError:
        return f"u32({b.ref})"


def _suffix(a: Value) -> str:
    return "" if a.type == "float" else "_64"


def _literal(type_: str, value: float | int | bool) -> str:
    if type_ == "i1":
        return "true" if value else "false"
    if type_ == "i32":
        return f"{int(value) & 0xFFFFFFFF:#x}u"
    if type_ == "i64":
        return f"{int(value) & (2**64 - 1):#x}lu"
    if type_ == "i128":
        return f"vec2<u64>({int(value)}lu, 0lu)"
    single = type_ == "float"
    if single:
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    if value == 0 or not math.isfinite(value):
        if single:
            return f"literal({struct.unpack('<I', struct.pack('<f', value))[0]:#x}u)"
        low, high = struct.unpack("<II", struct.pack("<d", value))
        return f"literal_64({low:#x}u, {high:#x}u)"
    text = repr(float(value))
    return f"({text})" if single else f"({text}lf)"
