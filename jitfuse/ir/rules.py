"""Shape rules and dtype rules: what every operator's result looks like, shared by kind.

A dtype rule takes the operands' metas and returns the *loop*: the dtype that each operand is cast to before
the operation, and the dtype of the result (NEP 50, checked against NumPy by brute force in the tests). A
shape rule takes shapes and attributes. Both raise typed errors that say what fits.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from jitfuse.dtypes import SUPPORTED, component, is_integer, itemsize, kind, result_type, ufunc_type
from jitfuse.errors import ArgumentError, AxisError, DTypeError, ShapeError
from jitfuse.ir.program import Meta


class Loop(NamedTuple):
    """The dtypes of one elementwise operation: each operand's after its cast, and the result's."""

    inputs: tuple[str, ...]
    result: str
    weak: bool = False


LoopRule = Callable[[str, Sequence[Meta]], Loop]


def broadcast(name: str, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the common shape by NumPy's rules; raises ShapeError naming all the shapes."""
    rank = max(map(len, shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for k, extent in enumerate(shape, rank - len(shape)):
            if extent != 1:
                if result[k] not in (1, extent):
                    raise ShapeError(
                        f"{name}: shapes {', '.join(map(str, shapes))} do not broadcast together: "
                        f"axis {k - rank} is both {result[k]} and {extent}. "
                        "Reshape one of them, or insert an axis with x[:, None]."
                    )
                result[k] = extent
    return tuple(result)


def normalize_axis(name: str, axis: int, ndim: int) -> int:
    """Return a non-negative axis; raises AxisError out of range."""
    if not -ndim <= axis < ndim:
        raise AxisError(f"{name}: axis {axis} is out of bounds for an array of {ndim} dimension(s)")
    return axis % ndim


def normalize_axes(name: str, axis: Any, ndim: int) -> tuple[int, ...]:
    """Return sorted, non-negative, distinct axes; None means all."""
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, tuple | list) else (axis,)
    axes = [normalize_axis(name, a, ndim) for a in given]
    if len(set(axes)) != len(axes):
        raise ShapeError(f"{name}: axis {tuple(given)} names one axis twice")
    return tuple(sorted(axes))


# ---------------------------------------------------------------- dtype rules of elementwise operators
def _promoted(metas: Sequence[Meta]) -> tuple[str, bool]:
    return ufunc_type(tuple((m.dtype, m.weak) for m in metas))


def _joined(metas: Sequence[Meta]) -> tuple[str, bool]:
    return result_type(tuple((m.dtype, m.weak) for m in metas))


def _refuse(name: str, metas: Sequence[Meta], hint: str) -> DTypeError:
    dtypes = ", ".join(m.dtype for m in metas)
    return DTypeError(f"{name} does not take {dtypes}. {hint}")


def loop_same(name: str, metas: Sequence[Meta]) -> Loop:
    """Cast all operands to their common dtype, which is the result's."""
    dtype, weak = _promoted(metas)
    return Loop((dtype,) * len(metas), dtype, weak)


def loop_numeric(name: str, metas: Sequence[Meta]) -> Loop:
    """Like `loop_same`, refusing bool as NumPy does."""
    loop = loop_same(name, metas)
    if loop.result == "bool":
        raise _refuse(name, metas, "Use logical operators, or cast first with astype(int).")
    return loop


def loop_arithmetic(name: str, metas: Sequence[Meta]) -> Loop:
    """Like `loop_same`, in int8 for bools."""
    dtype, weak = _promoted(metas)
    if dtype == "bool":
        dtype = "int8"
    return Loop((dtype,) * len(metas), dtype, weak)


_FLOAT_OF: Final = {"bool": "float16", "int8": "float16", "uint8": "float16", "int16": "float32", "uint16": "float32"}


def real(rule: LoopRule) -> LoopRule:
    """Return the rule of an operator that complex numbers do not have."""

    def refusing(name: str, metas: Sequence[Meta]) -> Loop:
        if any(kind(m.dtype) == "complex" for m in metas):
            raise _refuse(name, metas, "It is defined over real numbers; take .real or abs(x) first.")
        return rule(name, metas)

    return refusing


def loop_analytic(name: str, metas: Sequence[Meta]) -> Loop:
    """Compute in floating point, real or complex, the smallest that holds each integer dtype, as NumPy's ufuncs.

    A function of a Python scalar is strong.
    """
    dtype, _ = _promoted(metas)
    if kind(dtype) in ("bool", "int", "uint"):
        given = [m.dtype for m in metas if not m.weak]
        if all(d == "bool" for d in given):
            given.append(dtype)  # a Python int among bools is NumPy's default integer
        dtype = max((_FLOAT_OF.get(d, "float64") for d in given), key=itemsize)
    return Loop((dtype,) * len(metas), dtype)


@real
def loop_double_first(name: str, metas: Sequence[Meta]) -> Loop:
    """Compute float32 in float32, and all other real dtypes in float64: SciPy's ufuncs list that loop first."""
    single = all(m.dtype == "float32" and not m.weak for m in metas)
    dtype = "float32" if single else "float64"
    return Loop((dtype,) * len(metas), dtype)


loop_float: LoopRule = real(loop_analytic)
"""Compute in real floating point."""


def loop_divide(name: str, metas: Sequence[Meta]) -> Loop:
    """True division: integers and bools become float64."""
    dtype, weak = _promoted(metas)
    if kind(dtype) in ("bool", "int", "uint"):
        dtype = "float64"
    return Loop((dtype,) * len(metas), dtype, weak)


def loop_part(name: str, metas: Sequence[Meta]) -> Loop:
    """Give a real number for each complex one, in the dtype of its parts; reals stay what they are."""
    dtype, weak = _promoted(metas)
    return Loop((dtype,), component(dtype), weak)


def loop_attribute(name: str, metas: Sequence[Meta]) -> Loop:
    """Like `loop_part`, but an int for a Python bool: it is an attribute of Python's numbers too."""
    weak_bool = metas[0].dtype == "bool" and metas[0].weak
    return Loop(("int64",), "int64", True) if weak_bool else loop_part(name, metas)


def loop_angle(name: str, metas: Sequence[Meta]) -> Loop:
    """Give the floating-point angle of each complex or real number."""
    real_number = Meta((), "int64", weak=True)  # NumPy takes the angle of (x, 0) for a real x
    (dtype, *_), _, _ = loop_analytic(name, metas if kind(metas[0].dtype) == "complex" else [metas[0], real_number])
    return Loop((dtype,), component(dtype))


def loop_join(name: str, metas: Sequence[Meta]) -> Loop:
    """Make complex numbers of two real ones."""
    loop = loop_float(name, metas)
    joined = {"float32": "complex64", "float64": "complex128"}.get(loop.result)
    if joined is None:
        raise _refuse(name, metas, "Complex numbers have parts in float32 or float64; cast with astype first.")
    return loop._replace(result=joined)


def loop_compare(name: str, metas: Sequence[Meta]) -> Loop:
    """Compare in the common dtype; integers that have none, and Python ints, each in 64 bits, which is exact."""
    dtype, weak = _promoted(metas)
    whole = all(kind(m.dtype) in ("bool", "int", "uint") for m in metas)
    if whole and (kind(dtype) == "float" or any(m.weak and is_integer(m.dtype) for m in metas)):
        return Loop(tuple("uint64" if m.dtype == "uint64" else "int64" for m in metas), "bool", weak)
    return Loop((dtype,) * len(metas), "bool", weak)


def loop_predicate(name: str, metas: Sequence[Meta]) -> Loop:
    """Look at each element in its own dtype and answer in bool."""
    return Loop(tuple(m.dtype for m in metas), "bool")


def loop_logical(name: str, metas: Sequence[Meta]) -> Loop:
    """Take every operand as a truth value."""
    return Loop(("bool",) * len(metas), "bool")


def _require_integers(name: str, metas: Sequence[Meta], loop: Loop) -> Loop:
    if kind(loop.result) not in ("bool", "int", "uint"):
        raise _refuse(name, metas, "Bitwise operators want bool or integer arrays; cast with astype(int).")
    return loop


def loop_bitwise(name: str, metas: Sequence[Meta]) -> Loop:
    """Work on the bits of bools and integers."""
    return _require_integers(name, metas, loop_same(name, metas))


def loop_shift(name: str, metas: Sequence[Meta]) -> Loop:
    """Shift integers, bools as int8."""
    return _require_integers(name, metas, loop_arithmetic(name, metas))


def strong(rule: LoopRule) -> LoopRule:
    """Return the rule of a function that is no operator of Python: it makes strong values of scalars too.

    ``1.0 + 2`` is a Python scalar, ``np.minimum(1.0, 2)`` is a np.float64.
    """
    return lambda name, metas: rule(name, metas)._replace(weak=False)


def loop_where(name: str, metas: Sequence[Meta]) -> Loop:
    """Take the condition as a truth value and promote the two choices."""
    dtype, _ = _joined(metas[1:])
    return Loop(("bool", dtype, dtype), dtype)


def loop_require(name: str, metas: Sequence[Meta]) -> Loop:
    """Keep the first operand; take the second as a truth value."""
    return Loop((metas[0].dtype, "bool"), metas[0].dtype)


def loop_clip(name: str, metas: Sequence[Meta]) -> Loop:
    """Limit in the common dtype; ml_dtypes has no clip of its own, and NumPy takes float32."""
    dtype = _promoted(metas)[0]
    dtype = "float32" if dtype == "bfloat16" else dtype
    return Loop((dtype,) * len(metas), dtype)


def loop_matmul(name: str, metas: Sequence[Meta]) -> Loop:
    """Multiply and add in the common dtype; ml_dtypes has no matrix product, and NumPy takes float32."""
    return loop_clip(name, metas)


def loop_copy(name: str, metas: Sequence[Meta]) -> Loop:
    """Keep the one operand's dtype."""
    return Loop((metas[0].dtype,), metas[0].dtype)


loop_rounding: LoopRule = real(loop_copy)
"""Round floats; integers and bools are their own rounding."""


def elementwise_meta(name: str, rule: LoopRule, metas: Sequence[Meta]) -> Meta:
    """Return the result's meta of an elementwise operator."""
    loop = rule(name, metas)
    shape = broadcast(name, [m.shape for m in metas])
    return Meta(shape, loop.result, common_device(name, metas), loop.weak)


def common_device(name: str, metas: Sequence[Meta]) -> str:
    """Return the one device of all strong operands; weak scalars live anywhere."""
    devices = {m.device for m in metas if not m.weak} or {m.device for m in metas}
    if len(devices) > 1:
        raise ArgumentError(
            f"{name}: operands live on different devices ({', '.join(sorted(devices))}); "
            "move one with jf.asarray(x, device=...)"
        )
    return next(iter(devices), "cpu")


# ---------------------------------------------------------------- reductions
def reduced_shape(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """Return the shape after reducing `axes`."""
    if keepdims:
        return tuple(1 if k in axes else n for k, n in enumerate(shape))
    return tuple(n for k, n in enumerate(shape) if k not in axes)


def sum_dtype(name: str, m: Meta) -> str:
    """Return the dtype of a sum or product: bools and integers in 64 bits."""
    return {"bool": "int64", "int": "int64", "uint": "uint64"}.get(kind(m.dtype), m.dtype)


def float_dtype(name: str, m: Meta) -> str:
    """Return the dtype of a mean: float64 for bools and integers."""
    return "float64" if kind(m.dtype) in ("bool", "int", "uint") else m.dtype


def real_dtype(name: str, m: Meta) -> str:
    """Return the dtype of a mean, refusing complex numbers."""
    if kind(m.dtype) == "complex":
        raise _refuse(name, [m], "It is defined over real numbers; take .real or abs(x) first.")
    return float_dtype(name, m)


def spread_dtype(name: str, m: Meta) -> str:
    """Return the dtype of a variance: that of a mean's real part."""
    return component(float_dtype(name, m))


def same_dtype(name: str, m: Meta) -> str:
    """Return the operand's own dtype."""
    return m.dtype


def bool_dtype(name: str, m: Meta) -> str:
    """Return bool."""
    return "bool"


def reduction_meta(name: str, m: Meta, dtype: str, axes: tuple[int, ...], keepdims: bool) -> Meta:
    """Return the result's meta of a reduction over normalised axes."""
    return Meta(reduced_shape(m.shape, axes, keepdims), dtype, m.device)


def require_nonempty(name: str, m: Meta, axes: tuple[int, ...]) -> None:
    """Raise ShapeError where a reduction without identity has nothing to reduce, as NumPy does."""
    if math.prod(m.shape[a] for a in axes) == 0:
        raise ShapeError(f"{name}: zero-size array of shape {m.shape} to a reduction without identity")


# ---------------------------------------------------------------- views, joins, contractions
def reshape_shape(name: str, shape: tuple[int, ...], new: Sequence[int]) -> tuple[int, ...]:
    """Return the new shape with a single -1 filled in; raises ShapeError where the sizes differ."""
    size = math.prod(shape)
    unknown = [k for k, n in enumerate(new) if n == -1]
    if any(n < -1 for n in new) or len(unknown) > 1:
        raise ShapeError(f"{name}: {tuple(new)} may hold one -1 and no other negative extent")
    known = math.prod(n for n in new if n != -1)
    if unknown:
        if known == 0 or size % known:
            raise ShapeError(f"{name}: cannot reshape {shape} ({size} elements) into {tuple(new)}")
        result = tuple(size // known if n == -1 else n for n in new)
    else:
        result = tuple(new)
    if math.prod(result) != size:
        raise ShapeError(f"{name}: cannot reshape {shape} ({size} elements) into {tuple(new)}")
    return result


def matmul_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a @ b by NumPy's rules for ranks 1 and up."""
    if not a or not b:
        raise ShapeError(f"matmul: operands of shapes {a} and {b} need at least one axis; use * for scalars")
    inner_b = b[0] if len(b) == 1 else b[-2]
    if a[-1] != inner_b:
        raise ShapeError(
            f"matmul: {a} @ {b}: the last axis of the first ({a[-1]}) must equal "
            f"axis {-1 if len(b) == 1 else -2} of the second ({inner_b})"
        )
    batch = broadcast("matmul", [a[:-2], b[:-2]])
    return batch + (a[-2:-1] if len(a) > 1 else ()) + (b[-1:] if len(b) > 1 else ())


def concat_meta(name: str, metas: Sequence[Meta], axis: int) -> Meta:
    """Return the meta of a join along one axis."""
    first = metas[0].shape
    for m in metas[1:]:
        if len(m.shape) != len(first) or any(
            n != k for i, (n, k) in enumerate(zip(m.shape, first)) if i != axis
        ):
            raise ShapeError(
                f"{name}: shapes {', '.join(str(m.shape) for m in metas)} must agree except on axis {axis}"
            )
    joined = sum(m.shape[axis] for m in metas)
    dtype, _ = _joined(metas)
    return Meta(first[:axis] + (joined,) + first[axis + 1 :], dtype, common_device(name, metas))


def check_dtype(name: str, dtype: str) -> str:
    """Return the dtype where it is supported; raises DTypeError listing those that are."""
    if dtype not in SUPPORTED:
        raise DTypeError(f"{name}: dtype {dtype} is not supported; use one of {', '.join(SUPPORTED)}")
    return dtype
