"""The op table: one row for every operator, which everything else reads.

A row gives the name (an AbstractTensor method), arity, kind, attributes with defaults, the inference rule,
the NumPy reference, and for composite operators the decomposition, written over AbstractTensor methods.
Methods, verifier, printer, interpreter, kernels and the support table all come from here.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jitfuse.errors import ArgumentError, DTypeError, ShapeError
from jitfuse.ir import decompositions, reference, rules
from jitfuse.ir.program import Meta

ELEMENTWISE: Final = "elementwise"
REDUCTION: Final = "reduction"
VIEW: Final = "view"
CREATION: Final = "creation"
CONTRACTION: Final = "contraction"
RANDOM: Final = "random"
UPDATE: Final = "update"
MODE: Final = "mode"

Infer = Callable[[Sequence[Meta], dict[str, Any]], Meta]
VARIADIC: Final = -1
REQUIRED: Final = object()


@dataclass(frozen=True, eq=False)
class Op:
    """One operator. `attrs` maps attribute names to defaults (`REQUIRED`: none)."""

    name: str
    arity: int
    kind: str
    attrs: dict[str, Any]
    infer: Infer
    numpy: Callable[..., Any]
    loop: rules.LoopRule | None = None
    decompose: Callable[..., Any] | None = None
    mode_sensitive: bool = False
    doc: str = ""

    def check_attrs(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Return the attributes with defaults filled in; raises ArgumentError on unknown or missing ones."""
        unknown = [a for a in attrs if a not in self.attrs]
        if unknown:
            raise ArgumentError(
                f"{self.name} has no attribute {unknown[0]!r}; it takes {', '.join(self.attrs) or 'none'}"
            )
        full = {**self.attrs, **attrs}
        missing = [a for a, v in full.items() if v is REQUIRED]
        if missing:
            raise ArgumentError(f"{self.name} needs the attribute {missing[0]!r}")
        return full

    def result_meta(self, metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
        """Return the result's meta; raises a typed JitfuseError where operands or attributes do not fit."""
        if self.arity != VARIADIC and len(metas) != self.arity:
            raise ArgumentError(f"{self.name} takes {self.arity} operand(s), not {len(metas)}")
        return self.infer(metas, self.check_attrs(attrs))


_TABLE: dict[str, Op] = {}


def _add(op: Op) -> None:
    assert op.name not in _TABLE, op.name
    _TABLE[op.name] = op


def get(name: str) -> Op | None:
    """Return the row of an operator, or None."""
    return _TABLE.get(name)


def table() -> Iterator[Op]:
    """Yield every row in the order of the table."""
    yield from _TABLE.values()


def names() -> tuple[str, ...]:
    """Return every operator's name in the order of the table."""
    return tuple(_TABLE)


# ---------------------------------------------------------------- elementwise
def _elementwise(name: str, arity: int, loop: rules.LoopRule, *, decompose: Any = None, doc: str = "") -> None:
    def infer(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
        return rules.elementwise_meta(name, loop, metas)

    _add(Op(name, arity, ELEMENTWISE, {}, infer, reference.ufunc(name), loop, decompose, doc=doc))


for _name, _loop in {
    "negative": rules.loop_numeric, "positive": rules.loop_numeric, "abs": rules.loop_same,
    "square": rules.strong(rules.loop_numeric), "sign": rules.strong(rules.loop_numeric),
    "sqrt": rules.loop_float, "exp": rules.loop_float, "log": rules.loop_float, "sin": rules.loop_float,
    "cos": rules.loop_float, "tanh": rules.loop_float, "erf": rules.loop_float,
    "expm1": rules.loop_float, "log1p": rules.loop_float,
    "floor": rules.loop_rounding, "ceil": rules.loop_rounding, "trunc": rules.loop_rounding,
    "copy": rules.loop_rounding,
    "isnan": rules.loop_predicate, "isinf": rules.loop_predicate, "isfinite": rules.loop_predicate,
    "logical_not": rules.loop_logical, "bitwise_invert": rules.loop_bitwise,
}.items():
    _elementwise(_name, 1, _loop)

for _name, _loop in {
    "add": rules.loop_same, "subtract": rules.loop_numeric, "multiply": rules.loop_same,
    "divide": rules.loop_divide, "floor_divide": rules.loop_numeric, "remainder": rules.loop_numeric,
    "power": rules.loop_numeric,
    "minimum": rules.strong(rules.loop_same), "maximum": rules.strong(rules.loop_same),
    "equal": rules.loop_compare, "not_equal": rules.loop_compare, "less": rules.loop_compare,
    "less_equal": rules.loop_compare, "greater": rules.loop_compare, "greater_equal": rules.loop_compare,
    "logical_and": rules.loop_logical, "logical_or": rules.loop_logical, "logical_xor": rules.loop_logical,
    "bitwise_and": rules.loop_bitwise, "bitwise_or": rules.loop_bitwise, "bitwise_xor": rules.loop_bitwise,
    "bitwise_left_shift": rules.loop_shift, "bitwise_right_shift": rules.loop_shift,
}.items():
    _elementwise(_name, 2, _loop)

_elementwise("where", 3, rules.loop_where, doc="The second operand where the first is true, else the third.")
_elementwise("clip", 3, rules.strong(rules.loop_same), decompose=decompositions.clip,
             doc="minimum(maximum(x, low), high) in the common dtype of all three.")


def _infer_astype(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    dtype = rules.check_dtype("astype", attrs["dtype"])
    return Meta(metas[0].shape, dtype, metas[0].device)


_add(Op("astype", 1, ELEMENTWISE, {"dtype": REQUIRED}, _infer_astype, reference.astype,
        doc="Cast; float to int truncates, out of range as on x86-64."))


# ---------------------------------------------------------------- reductions
def _reduction(
    name: str, dtype_rule: Callable[[str, Meta], str], *, attrs: dict[str, Any] | None = None,
    identity: bool = True, decompose: Any = None,
) -> None:
    def infer(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
        axes = rules.normalize_axes(name, attrs["axis"], metas[0].ndim)
        if not identity:
            rules.require_nonempty(name, metas[0], axes)
        dtype = dtype_rule(name, metas[0])
        return rules.reduction_meta(name, metas[0], dtype, axes, attrs["keepdims"])

    full = {"axis": None, "keepdims": False, **(attrs or {})}
    _add(Op(name, 1, REDUCTION, full, infer, getattr(reference, name), decompose=decompose))


_reduction("sum", rules.sum_dtype)
_reduction("min", rules.same_dtype, identity=False)
_reduction("max", rules.same_dtype, identity=False)
_reduction("any", rules.bool_dtype)
_reduction("all", rules.bool_dtype)
_reduction("mean", rules.float_dtype, decompose=decompositions.mean)
_reduction("var", rules.float_dtype, attrs={"correction": 0.0}, decompose=decompositions.var)


def _infer_softmax(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    (m,) = metas
    axes = rules.normalize_axes("softmax", attrs["axis"], m.ndim)
    rules.require_nonempty("softmax", m, axes)
    return Meta(m.shape, rules.float_only("softmax", m), m.device)


_add(Op("softmax", 1, REDUCTION, {"axis": -1}, _infer_softmax, reference.softmax,
        decompose=decompositions.softmax, doc="exp(x - max) / sum(exp(x - max)) over the axes."))


# ---------------------------------------------------------------- views and joins
def _infer_reshape(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    m = metas[0]
    return Meta(rules.reshape_shape("reshape", m.shape, attrs["shape"]), m.dtype, m.device)


def _infer_transpose(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    m = metas[0]
    axes = tuple(rules.normalize_axis("transpose", a, m.ndim) for a in attrs["axes"])
    if sorted(axes) != list(range(m.ndim)):
        raise ShapeError(f"transpose: axes {attrs['axes']} is no permutation of {m.ndim} axes")
    return Meta(tuple(m.shape[a] for a in axes), m.dtype, m.device)


def _infer_broadcast_to(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    m, shape = metas[0], tuple(attrs["shape"])
    if any(n < 0 for n in shape):
        raise ShapeError(f"broadcast_to: {shape} has a negative extent")
    if rules.broadcast("broadcast_to", [m.shape, shape]) != shape:
        raise ShapeError(f"broadcast_to: {m.shape} cannot be broadcast to {shape}")
    return Meta(shape, m.dtype, m.device)


def _infer_slice(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    m = metas[0]
    _check_region("slice", m.shape, attrs)
    return Meta(tuple(attrs["counts"]), m.dtype, m.device)


def _check_region(name: str, shape: tuple[int, ...], attrs: dict[str, Any]) -> None:
    regions = list(zip(attrs["starts"], attrs["steps"], attrs["counts"], strict=False))
    if not len(regions) == len(attrs["starts"]) == len(attrs["steps"]) == len(attrs["counts"]) == len(shape):
        raise ShapeError(f"{name}: starts, steps and counts need one entry for each of {len(shape)} axes")
    for n, (start, step, count) in zip(shape, regions, strict=True):
        last = start + (count - 1) * step
        if count < 0 or step == 0 or (count and not (0 <= start < n and 0 <= last < n)):
            raise ShapeError(
                f"{name}: start {start}, step {step}, count {count} leaves an axis of extent {n}"
            )


def _infer_concat(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    if not metas:
        raise ArgumentError("concat needs at least one operand")
    axis = rules.normalize_axis("concat", attrs["axis"], metas[0].ndim)
    return rules.concat_meta("concat", metas, axis)


def _infer_update(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    target, value = metas
    _check_region("update_slice", target.shape, attrs)
    region = tuple(attrs["counts"])
    if rules.broadcast("update_slice", [value.shape, region]) != region:
        raise ShapeError(f"could not broadcast an array of shape {value.shape} into a region of {region}")
    return Meta(target.shape, target.dtype, target.device)


_REGION = {"starts": REQUIRED, "steps": REQUIRED, "counts": REQUIRED}
_add(Op("reshape", 1, VIEW, {"shape": REQUIRED}, _infer_reshape, reference.reshape))
_add(Op("transpose", 1, VIEW, {"axes": REQUIRED}, _infer_transpose, reference.transpose))
_add(Op("broadcast_to", 1, VIEW, {"shape": REQUIRED}, _infer_broadcast_to, reference.broadcast_to))
_add(Op("slice", 1, VIEW, _REGION, _infer_slice, reference.slice_,
        doc="Elements start, start + step, ... (count of them) of each axis; steps may be negative."))
_add(Op("concat", VARIADIC, VIEW, {"axis": 0}, _infer_concat, reference.concat))
_add(Op("update_slice", 2, UPDATE, _REGION, _infer_update, reference.update_slice,
        doc="The first operand with a region replaced by the second, broadcast and cast."))


# ---------------------------------------------------------------- contractions
def _infer_matmul(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    a, b = metas
    loop = rules.loop_same("matmul", metas)
    if loop.result == "bool":
        raise DTypeError("matmul does not take bool; cast first with astype(int)")
    return Meta(rules.matmul_shape(a.shape, b.shape), loop.result, rules.common_device("matmul", metas))


_add(Op("matmul", 2, CONTRACTION, {}, _infer_matmul, reference.matmul, rules.loop_same))


# ---------------------------------------------------------------- creation
def _infer_creation(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    dtype = rules.check_dtype("creation", attrs["dtype"])
    shape = tuple(attrs.get("shape", ()))
    if any(n < 0 for n in shape):
        raise ShapeError(f"negative dimensions are not allowed: {shape}")
    return Meta(shape, dtype, weak=bool(attrs.get("weak", False)))


def _infer_arange(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    if attrs["dtype"] == "bool":
        raise DTypeError("arange counts in integers or floats, not in bool")
    return Meta((attrs["count"],), rules.check_dtype("arange", attrs["dtype"]))


_add(Op("zeros", 0, CREATION, {"shape": REQUIRED, "dtype": "float64"}, _infer_creation, reference.zeros))
_add(Op("full", 0, CREATION, {"shape": (), "value": REQUIRED, "dtype": REQUIRED, "weak": False},
        _infer_creation, reference.full, doc="A constant; rank 0 and weak for a Python scalar."))
_add(Op("extent", 0, CREATION, {"value": REQUIRED, "dtype": "int64", "weak": True}, _infer_creation,
        reference.extent, doc="A number derived from shapes, such as the divisor of a mean: never specialised."))
_add(Op("arange", 0, CREATION, {"start": 0, "step": 1, "count": REQUIRED, "dtype": REQUIRED},
        _infer_arange, reference.arange, doc="start + step * i, computed in the dtype as NumPy does."))
_add(Op("constant", 0, CREATION, {"shape": REQUIRED, "dtype": REQUIRED, "data": REQUIRED}, _infer_creation,
        reference.constant, doc="Literal array data (C order, little endian bytes)."))


# ---------------------------------------------------------------- random numbers and the mode
def _infer_uniform(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    if attrs["dtype"] not in ("float32", "float64"):
        raise DTypeError(f"random_uniform makes float32 or float64, not {attrs['dtype']}")
    return Meta(tuple(attrs["shape"]), attrs["dtype"], metas[0].device)


def _infer_first(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    return Meta(metas[0].shape, metas[0].dtype, metas[0].device)


def _infer_dropout(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    if not 0.0 <= attrs["p"] < 1.0:
        raise ArgumentError(f"dropout: the probability must be in [0, 1), not {attrs['p']}")
    if rules.float_dtype("dropout", metas[0]) != metas[0].dtype:
        raise DTypeError(f"dropout scales its operand and wants a float array, not {metas[0].dtype}")
    return _infer_first(metas, attrs)


def _infer_mode_select(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    a, b = metas
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        raise ShapeError(f"mode_select: training gives {a}, evaluation gives {b}; both must agree")
    return Meta(a.shape, a.dtype, rules.common_device("mode_select", metas), a.weak and b.weak)


_add(Op("random_uniform", 2, RANDOM, {"shape": REQUIRED, "dtype": "float64"}, _infer_uniform,
        reference.random_uniform, doc="Philox-4x32-10 numbers in [0, 1) from (state, call index)."))
_add(Op("random_advance", 1, RANDOM, {}, _infer_first, reference.random_advance,
        doc="The random state for the next call: the counter plus one."))
_add(Op("dropout", 3, RANDOM, {"p": 0.5}, _infer_dropout, reference.dropout,
        decompose=decompositions.dropout, mode_sensitive=True,
        doc="(x, state, index): in training zero with probability p, the rest scaled by 1 / (1 - p)."))
_add(Op("mode_select", 2, MODE, {}, _infer_mode_select, reference.mode_select, mode_sensitive=True,
        doc="The first operand in training, the second in evaluation."))
