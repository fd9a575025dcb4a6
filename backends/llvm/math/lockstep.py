"""Vectors processed in lockstep: the small language in which the math functions are written.

Owns: `Batch`, several independent values of one type on which every operation emits one instruction for
each, next to each other, so that serial chains (polynomials) overlap without an instruction scheduler.
Does not own: branches, see `rare_lanes`; any mathematics, see the other modules.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

from jitfuse.backends.llvm.text.builder import Function, Value, element, with_element

_FLOATS = ("float", "double")


class Context:
    """The function under construction, and whether the target has fused multiply-add.

    `scalar`: values are single numbers, and code for rare ones is written inline. `called`: the math functions that
    are called instead of inlined.
    """

    def __init__(
        self, f: Function, has_fma: bool, *, scalar: bool = False, called: frozenset[str] = frozenset()
    ) -> None:
        self.f = f
        self.has_fma = has_fma
        self.scalar = scalar
        self.called = called
        self._constants: dict[tuple[str, float | int], Value] = {}

    def constant(self, type_: str, value: float | int) -> Value:
        """Return a splat constant; equal ones are cached, except zeros, because 0.0 equals -0.0."""
        known = self._constants.get((type_, value))
        if known is None:
            known = self.f.const(type_, value)
            if value:
                self._constants[type_, value] = known
        return known

    def batch(self, values: Sequence[Value]) -> Batch:
        """Return the values, all of one type, as a batch."""
        return Batch(self, tuple(values))


class Batch:
    """Independent values of one type; every operation applies to each of them, in turn."""

    __slots__ = ("context", "type", "values")

    def __init__(self, context: Context, values: tuple[Value, ...]) -> None:
        self.context = context
        self.values = values
        self.type = values[0].type

    @property
    def is_float(self) -> bool:
        """Whether the elements are floating-point numbers."""
        return element(self.type) in _FLOATS

    @property
    def is_double(self) -> bool:
        """Whether the elements are float64."""
        return element(self.type) == "double"

    def lift(self, x: Batch | float | int) -> Sequence[Value]:
        """Return the values of `x`: a batch as it is, a number as a constant of this batch's type."""
        if isinstance(x, Batch):
            return x.values
        return (self.context.constant(self.type, x),) * len(self.values)

    def filled(self, x: float | int) -> Batch:
        """Return a batch of this shape that holds a constant."""
        return Batch(self.context, tuple(self.lift(x)))

    def zip(self, make: Callable[[Value, Value], Value], other: Batch | float | int) -> Batch:
        """Apply a two-operand instruction to each pair."""
        return Batch(self.context, tuple(map(make, self.values, self.lift(other))))

    def _binary(self, op: str, other: Batch | float | int, *, swapped: bool = False) -> Batch:
        binary = self.context.f.binary
        left, right = self.values, self.lift(other)
        if swapped:
            left, right = tuple(right), left
        return Batch(self.context, tuple([binary(op, a, b) for a, b in zip(left, right, strict=True)]))

    # ------------------------------------------------------------------ arithmetic
    def __add__(self, other: Batch | float | int) -> Batch:
        return self._binary("fadd" if self.is_float else "add", other)

    def __radd__(self, other: float | int) -> Batch:
        return self._binary("fadd" if self.is_float else "add", other, swapped=True)

    def __sub__(self, other: Batch | float | int) -> Batch:
        return self._binary("fsub" if self.is_float else "sub", other)

    def __rsub__(self, other: float | int) -> Batch:
        return self._binary("fsub" if self.is_float else "sub", other, swapped=True)

    def __mul__(self, other: Batch | float | int) -> Batch:
        return self._binary("fmul" if self.is_float else "mul", other)

    def __rmul__(self, other: float | int) -> Batch:
        return self._binary("fmul" if self.is_float else "mul", other, swapped=True)

    def __truediv__(self, other: Batch | float | int) -> Batch:
        return self.zip(self.context.f.fdiv, other)

    def __rtruediv__(self, other: float | int) -> Batch:
        return self.filled(other) / self

    def __and__(self, other: Batch | int) -> Batch:
        return self._binary("and", other)

    def __or__(self, other: Batch | int) -> Batch:
        return self._binary("or", other)

    def __xor__(self, other: Batch | int) -> Batch:
        return self._binary("xor", other)

    def __lshift__(self, count: int) -> Batch:
        return self._binary("shl", count)

    def __rshift__(self, count: int) -> Batch:
        """Shift right, filling with zeros."""
        return self._binary("lshr", count)

    def shifted_signed(self, count: int) -> Batch:
        """Shift right, filling with the sign."""
        return self._binary("ashr", count)

    def __neg__(self) -> Batch:
        return Batch(self.context, tuple(map(self.context.f.fneg, self.values)))

    def fma(self, factor: Batch | float, addend: Batch | float) -> Batch:
        """Return self*factor + addend: rounded once where the target has that instruction, else twice.

        Only for polynomial steps and products known to be exact; `double_double` has functions that need one rounding.
        """
        if not self.context.has_fma:
            return self * factor + addend
        f = self.context.f
        return Batch(
            self.context, tuple(map(f.fma, self.values, self.lift(factor), self.lift(addend)))
        )

    def polynomial(self, coefficients: Sequence[float]) -> Batch:
        """Return the polynomial in self with the given coefficients, constant term first.

        Horner's rule; from ten terms on, once each for the even and the odd ones, which halves the chain.
        """
        if len(coefficients) < 10:
            return self.horner(coefficients)
        square = self * self
        return square.horner(coefficients[1::2]).fma(self, square.horner(coefficients[::2]))

    def horner(self, coefficients: Sequence[float]) -> Batch:
        """Return the polynomial by Horner's rule, which rounds less than `polynomial` when it is long."""
        last, previous, *rest = reversed(coefficients)
        result = self.fma(last, previous)
        for c in rest:
            result = result.fma(self, c)
        return result

    def __abs__(self) -> Batch:
        return self._unary("fabs")

    def sqrt(self) -> Batch:
        """Return the correctly rounded square root."""
        return self._unary("sqrt")

    def native_round(self, name: str) -> Batch:
        """Round to an integer by the target's instruction for `floor`, `ceil`, `trunc` or `rint`."""
        return self._unary(name)

    def _unary(self, intrinsic: str) -> Batch:
        f = self.context.f
        return Batch(self.context, tuple([f.intrinsic(intrinsic, self.type, v) for v in self.values]))

    def copysign(self, sign: Batch | float) -> Batch:
        """Return self with the sign bit of `sign`."""
        f = self.context.f
        return self.zip(lambda a, b: f.intrinsic("copysign", a.type, a, b), sign)

    # ------------------------------------------------------------------ comparison, selection
    def compare(self, predicate: str, other: Batch | float | int) -> Batch:
        """Compare by LLVM's predicate (`olt`, `uno`, `eq`, `ult` ...): a batch of booleans."""
        f = self.context.f
        if self.is_float:
            return self.zip(lambda a, b: f.fcmp(predicate, a, b), other)
        return self.zip(lambda a, b: f.icmp(predicate, a, b), other)

    def is_nan(self) -> Batch:
        """Return where self is not a number."""
        return self.compare("uno", self)

    def where(self, condition: Batch, other: Batch | float | int) -> Batch:
        """Return self where the condition holds, `other` elsewhere."""
        f = self.context.f
        return Batch(
            self.context, tuple(map(f.select, condition.values, self.values, self.lift(other)))
        )

    def replace(self, condition: Batch, value: float | int) -> Batch:
        """Return self with a constant put in where the condition holds."""
        f = self.context.f
        return Batch(
            self.context, tuple(map(f.select, condition.values, self.lift(value), self.values))
        )

    def at_most(self, bound: float) -> Batch:
        """Return the smaller of self and the bound; NaN stays NaN."""
        return self.replace(self.compare("ogt", bound), bound)

    def at_least(self, bound: float) -> Batch:
        """Return the larger of self and the bound; NaN stays NaN."""
        return self.replace(self.compare("olt", bound), bound)

    # ------------------------------------------------------------------ conversion
    def cast(self, op: str, element_type: str) -> Batch:
        """Convert every element by LLVM's instruction `op`."""
        f = self.context.f
        type_ = with_element(self.type, element_type)
        return Batch(self.context, tuple([f.cast(op, v, type_) for v in self.values]))

    def bits(self) -> Batch:
        """Return the bit patterns of floats as integers of the same width."""
        return self.cast("bitcast", "i32" if element(self.type) == "float" else "i64")

    def from_bits(self) -> Batch:
        """Return the floats that have these integers as bit patterns."""
        return self.cast("bitcast", "float" if element(self.type) == "i32" else "double")

    def widened(self) -> Batch:
        """Return float32 elements as float64."""
        return self.cast("fpext", "double")

    def narrowed(self) -> Batch:
        """Return float64 elements rounded to float32."""
        return self.cast("fptrunc", "float")
