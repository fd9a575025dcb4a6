"""Dtype rules of elementwise operators: the ufunc *loop* in which each runs, shared by kind.

A rule takes the operands' metas. It returns the dtype that each operand is cast to before the operation, and the dtype
of the result (NEP 50, checked against NumPy by brute force in the tests). It raises typed errors that say which dtypes
fit.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from jitfuse.base.records import NamedTuple
from jitfuse.dtypes import can_cast, component, is_integer, itemsize, kind, result_type, ufunc_type
from jitfuse.errors import DTypeError
from jitfuse.ir.schema import Meta


class DtypeRule(NamedTuple):
    """The dtypes of one elementwise operation: each operand's after its cast, and the result's."""

    inputs: tuple[str, ...]
    result: str
    weak: bool = False


LoopRule = Callable[[str, Sequence[Meta]], DtypeRule]


def _promoted(metas: Sequence[Meta]) -> tuple[str, bool]:
    return ufunc_type(tuple((m.dtype, m.weak) for m in metas))


def joined_dtype(metas: Sequence[Meta]) -> tuple[str, bool]:
    """Return the dtype that holds all operands, and whether it is weak."""
    return result_type(tuple((m.dtype, m.weak) for m in metas))


def refusal(name: str, metas: Sequence[Meta], hint: str) -> DTypeError:
    """Return the error for dtypes that an operator does not take, with a hint."""
    dtypes = ", ".join(m.dtype for m in metas)
    return DTypeError(f"{name} does not take {dtypes}. {hint}")


def loop_same(name: str, metas: Sequence[Meta]) -> DtypeRule:
    """Cast all operands to their common dtype, which is the result's."""
    dtype, weak = _promoted(metas)
    return DtypeRule((dtype,) * len(metas), dtype, weak)


def loop_numeric(name: str, metas: Sequence[Meta]) -> DtypeRule:
    """Like `loop_same`, but bool is rejected, as in NumPy."""
    loop = loop_same(name, metas)
    if loop.result == "bool":
        raise refusal(name, metas, "Use logical operators, or cast first with astype(int).")
    return loop


def loop_arithmetic(name: str, metas: Sequence[Meta]) -> DtypeRule:
    """Like `loop_same`, in int8 for bools."""
    dtype, weak = _promoted(metas)
    if dtype == "bool":
        dtype = "int8"
    return DtypeRule((dtype,) * len(metas), dtype, weak)


_FLOAT_OF: Final = {"bool": "float16", "int8": "float16", "uint8": "float16", "int16": "float32", "uint16": "float32"}


def real(rule: LoopRule) -> LoopRule:
    """Return the rule of an operator that rejects complex numbers."""

    def refusing(name: str, metas: Sequence[Meta]) -> DtypeRule:
        if any(kind(m.dtype) == "complex" for m in metas):
            raise refusal(name, metas, "It is defined over real numbers; take .real or abs(x) first.")
        return rule(name, metas)

    return refusing


def loop_analytic(name: str, metas: Sequence[Meta]) -> DtypeRule:
    """Compute in real or complex floating point: the smallest dtype that holds each integer dtype, as NumPy's ufuncs.

    The result for a Python scalar is strong.
    """
    dtype, _ = _promoted(metas)
    if kind(dtype) in ("bool", "int", "uint"):
        given = [m.dtype for m in metas if not m.weak]
        if all(d == "bool" for d in given):
            given.append(dtype)  # a Python int among bools is NumPy's default integer
        dtype = max((_FLOAT_OF.get(d, "float64") for d in given), key=itemsize)
    return DtypeRule((dtype,) * len(metas), dtype)


@real
def loop_double_first(name: str, metas: Sequence[Meta]) -> DtypeRule:
    """Compute float32 in float32, and all other real dtypes in float64: SciPy's ufuncs that list that loop first."""
    single = all(m.dtype == "float32" and not m.weak for m in metas)
    dtype = "float32" if single else "float64"
    return DtypeRule((dtype,) * len(metas), dtype)


@real
def loop_single_first(name: str, metas: Sequence[Meta]) -> DtypeRule:
    """Compute in float32 what fits there without loss: SciPy's ufuncs that list that loop first.

    A Python scalar counts as its promotion with the other operands: an int among bools is int64.
    """
    common = ufunc_type(tuple((m.dtype, m.weak) for m in metas))[0]
    single = all(can_cast(common if m.weak else m.dtype, "float32", "safe") for m in metas)
    dtype = "float32" if single else "float64"
    return DtypeRule((dtype,) * len(metas), dtype)


loop_float: LoopRule = real(loop_analytic)
"""Compute in real floating point."""


def loop_divide(name: str, metas: Sequence[Meta]) -> DtypeRule:
    """Divide as true division: integers and bools become float64."""
    dtype, weak = _promoted(metas)
    if kind(dtype) in ("bool", "int", "uint"):
        dtype = "float64"
    return DtypeRule((dtype,) * len(metas), dtype, weak)


def loop_part(name: str, metas: Sequence[Meta]) -> DtypeRule:
    """Return a real number for each complex one, in the dtype of its parts; real dtypes stay."""
    dtype, weak = _promoted(metas)
    return DtypeRule((dtype,), component(dtype), weak)


def loop_attribute(name: str, metas: Sequence[Meta]) -> DtypeRule:
    """Like `loop_part`, but int for a Python bool, because it is an attribute of Python's numbers too."""
    weak_bool = metas[0].dtype == "bool" and metas[0].weak
    return DtypeRule(("int64",), "int64", True) if weak_bool else loop_part(name, metas)


def loop_angle(name: str, metas: Sequence[Meta]) -> DtypeRule:
    """Return the floating-point angle of each complex or real number."""
    real_number = Meta((), "int64", weak=True)  # NumPy takes the angle of (x, 0) for a real x
    (dtype, *_), _, _ = loop_analytic(name, metas if kind(metas[0].dtype) == "complex" else [metas[0], real_number])
    return DtypeRule((dtype,), component(dtype))


def loop_join(name: str, metas: Sequence[Meta]) -> DtypeRule:
    """Make complex numbers from two real ones."""
    loop = loop_float(name, metas)
    joined = {"float32": "complex64", "float64": "complex128"}.get(loop.result)
    if joined is None:
        raise refusal(name, metas, "Complex numbers have parts in float32 or float64; cast with astype first.")
    return loop._replace(result=joined)


def loop_compare(name: str, metas: Sequence[Meta]) -> DtypeRule:
    """Compare in the common dtype. Integers without one, and Python ints, are each compared in 64 bits, exactly."""
    dtype, weak = _promoted(metas)
    whole = all(kind(m.dtype) in ("bool", "int", "uint") for m in metas)
    if whole and (kind(dtype) == "float" or any(m.weak and is_integer(m.dtype) for m in metas)):
        return DtypeRule(tuple("uint64" if m.dtype == "uint64" else "int64" for m in metas), "bool", weak)
    return DtypeRule((dtype,) * len(metas), "bool", weak)


def loop_predicate(name: str, metas: Sequence[Meta]) -> DtypeRule:
    """Test each element in its own dtype; the result is bool."""
    return DtypeRule(tuple(m.dtype for m in metas), "bool")


def loop_logical(name: str, metas: Sequence[Meta]) -> DtypeRule:
    """Take every operand as a truth value."""
    return DtypeRule(("bool",) * len(metas), "bool")


def _require_integers(name: str, metas: Sequence[Meta], loop: DtypeRule) -> DtypeRule:
    if kind(loop.result) not in ("bool", "int", "uint"):
        raise refusal(name, metas, "Bitwise operators want bool or integer arrays; cast with astype(int).")
    return loop


def loop_bitwise(name: str, metas: Sequence[Meta]) -> DtypeRule:
    """Work on the bits of bools and integers."""
    return _require_integers(name, metas, loop_same(name, metas))


def loop_shift(name: str, metas: Sequence[Meta]) -> DtypeRule:
    """Shift integers, bools as int8."""
    return _require_integers(name, metas, loop_arithmetic(name, metas))


def strong(rule: LoopRule) -> LoopRule:
    """Return the rule of a function that is no Python operator: it makes strong values from scalars too.

    ``1.0 + 2`` is a Python scalar, ``np.minimum(1.0, 2)`` is a np.float64.
    """
    return lambda name, metas: rule(name, metas)._replace(weak=False)


def loop_where(name: str, metas: Sequence[Meta]) -> DtypeRule:
    """Take the condition as a truth value and promote the two alternatives."""
    dtype, _ = joined_dtype(metas[1:])
    return DtypeRule(("bool", dtype, dtype), dtype)


def loop_require(name: str, metas: Sequence[Meta]) -> DtypeRule:
    """Keep the first operand; take the second as a truth value."""
    return DtypeRule((metas[0].dtype, "bool"), metas[0].dtype, metas[0].weak and not metas[1].shape)


def loop_clip(name: str, metas: Sequence[Meta]) -> DtypeRule:
    """Limit in the common dtype; ml_dtypes has no clip of its own, so NumPy uses float32."""
    dtype = _promoted(metas)[0]
    dtype = "float32" if dtype == "bfloat16" else dtype
    return DtypeRule((dtype,) * len(metas), dtype)


def loop_matmul(name: str, metas: Sequence[Meta]) -> DtypeRule:
    """Multiply and add in the common dtype; ml_dtypes has no matrix product, so NumPy uses float32."""
    return loop_clip(name, metas)


def loop_copy(name: str, metas: Sequence[Meta]) -> DtypeRule:
    """Keep the operand's dtype."""
    return DtypeRule((metas[0].dtype,), metas[0].dtype)


loop_rounding: LoopRule = real(loop_copy)
"""Round floats; integers and bools stay as they are."""
