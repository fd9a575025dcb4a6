"""Write complex arithmetic as real steps over (real, imaginary) parts.

After this pass, complex values are only stored, moved and passed to library calls. Every computed complex value is a
`make_complex` of two real ones, and steps that compute read `real` and `imag` of values. Kernels load and store the
parts of pairs. Owns the walk, and which operators stay. Does not own formulas (`jitfuse.passes.complex.arithmetic`,
`jitfuse.passes.complex.functions`).
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from jitfuse.base.later import Later
from jitfuse.dtypes import COMPONENT, component
from jitfuse.errors import UnsupportedError
from jitfuse.ir.operators import ops
from jitfuse.ir.program import FusedProgram, OpStep, make_attrs
from jitfuse.tracing.program_builder import ProgramBuilder, rewrite

if TYPE_CHECKING:
    from jitfuse.passes.complex.real_tensor import RealTensor
    Pair = tuple[RealTensor, RealTensor]

arithmetic = Later("jitfuse.passes.complex.arithmetic")
functions = Later("jitfuse.passes.complex.functions")
inverses = Later("jitfuse.passes.complex.inverses")
power = Later("jitfuse.passes.complex.power")
real_tensor = Later("jitfuse.passes.complex.real_tensor")

_MOVED: Final = frozenset({
    "where", "copy", "concat", "zeros", "full", "constant", "require", "make_complex", "real", "imag",
})
"""Operators that only store or move complex values; views, updates and library calls do so too."""
_PARTS: Final = frozenset({"real", "imag", "conj"})
"""Operators of complex values that real values have too."""


def lower_complex(program: FusedProgram) -> FusedProgram:
    """Replace complex arithmetic by real arithmetic."""
    if program.dtypes.isdisjoint(COMPONENT) and not any(s.op_name in _PARTS for s in program.steps):
        return program
    lowering = _Lowering(program)
    return rewrite(program, lowering.visit)


class _Lowering:
    """The walk over one program, and the parts of the complex values seen so far."""

    def __init__(self, program: FusedProgram) -> None:
        self._program = program
        self._pairs: dict[int, Pair] = {}
        self._literals: dict[int, complex] = {}

    def visit(self, builder: ProgramBuilder, step: OpStep, inputs: tuple[int, ...]) -> int | None:
        """Return the value that replaces a step's result; None for a step that stays."""
        new = self._visit(builder, step, inputs)
        if step.op_name == "astype" and new is not None and inputs[0] in self._literals:
            self._literals[new] = self._literals[inputs[0]]
        elif step.op_name == "full" and not self._program.meta[step.result_id].shape:
            new = builder.step("full", (), step.attrs)
            self._literals[new] = step.attr("value")
        return new

    def _visit(self, builder: ProgramBuilder, step: OpStep, inputs: tuple[int, ...]) -> int | None:
        result = self._program.meta[step.result_id]
        if result.dtype not in COMPONENT and all(builder.meta[i].dtype not in COMPONENT for i in inputs):
            return self._of_reals(builder, step, inputs)
        op = ops.get(step.op_name)
        assert op is not None
        if op.kind in (ops.VIEW, ops.UPDATE, *ops.ON_HOST):
            return None
        if step.op_name in _MOVED:
            return self._moved(builder, step, inputs)
        if step.op_name == "astype":
            return self._cast(builder, inputs[0], result.dtype)
        if f"complex_{step.op_name}" in ops.names():
            return builder.step(f"complex_{step.op_name}", inputs, step.attrs)
        if op.kind in (ops.REDUCTION, ops.SCAN):
            return self._reduced(builder, step, inputs[0])
        if step.op_name == "power":
            base, exponent = inputs
            literal = self._literals.get(exponent)
            made = power.power(self.parts(builder, base), self.parts(builder, exponent), literal)
            shape = self._program.meta[step.result_id].shape  # the shape of a literal exponent counts too
            real, imag = (p if p.shape == shape else p.call("broadcast_to", shape=shape) for p in made)
            return self._joined(builder, (real, imag))
        made = _formula(step.op_name)(*[self.parts(builder, i) for i in inputs])
        return self._joined(builder, made) if isinstance(made, tuple) else int(made.id)

    def parts(self, builder: ProgramBuilder, value: int) -> Pair:
        """Return the real and the imaginary part of a complex value."""
        found = self._pairs.get(value)
        if found is None:
            real, imag = (real_tensor.tensor(builder, builder.step(name, (value,), ())) for name in ("real", "imag"))
            found = self._pairs[value] = real, imag
        return found

    def _joined(self, builder: ProgramBuilder, pair: Pair) -> int:
        value = builder.step("make_complex", (pair[0].id, pair[1].id), ())
        self._pairs[value] = pair
        return value

    def _of_reals(self, builder: ProgramBuilder, step: OpStep, inputs: tuple[int, ...]) -> int | None:
        if step.op_name in ("real", "conj"):
            return inputs[0]
        if step.op_name == "imag":
            meta = self._program.meta[step.result_id]
            return builder.step("zeros", (), make_attrs({"shape": meta.shape, "dtype": meta.dtype}))
        return None

    def _moved(self, builder: ProgramBuilder, step: OpStep, inputs: tuple[int, ...]) -> int | None:
        if step.op_name in ("real", "imag"):
            return self.parts(builder, inputs[0])[step.op_name == "imag"].id
        if step.op_name == "make_complex":
            real, imag = (real_tensor.tensor(builder, i) for i in inputs)
            return self._joined(builder, (real, imag))
        return None

    def _cast(self, builder: ProgramBuilder, value: int, dtype: str) -> int:
        if builder.meta[value].dtype not in COMPONENT:
            x = real_tensor.tensor(builder, value).to(component(dtype))
            return self._joined(builder, (x, _zeros_like(builder, value, component(dtype))))
        real, imag = self.parts(builder, value)
        if dtype in COMPONENT:
            return self._joined(builder, (real.to(component(dtype)), imag.to(component(dtype))))
        if dtype == "bool":
            return int(real.call("not_equal", 0.0).call("logical_or", imag.call("not_equal", 0.0)).id)
        return real.to(dtype).id

    def _reduced(self, builder: ProgramBuilder, step: OpStep, value: int) -> int:
        real, imag = self.parts(builder, value)
        attrs = step.attr_dict
        if step.op_name in ("sum", "cumsum"):
            return self._joined(builder, (real.call(step.op_name, **attrs), imag.call(step.op_name, **attrs)))
        if step.op_name in ("min", "max"):
            return self._joined(builder, _extreme(step.op_name, (real, imag), attrs))
        raise UnsupportedError(f"{step.op_name} over complex numbers has no kernel")


def _formula(name: str) -> Callable[..., Any]:
    """Return the formula of an operator over parts; raise UnsupportedError if there is none."""
    modules: tuple[Any, ...] = (arithmetic, functions, inverses)
    for module in modules:
        if name in module.FORMULAS:
            formula: Callable[..., Any] = module.FORMULAS[name]
            return formula
    raise UnsupportedError(f"{name} has no complex kernel")


def _zeros_like(builder: ProgramBuilder, value: int, dtype: str) -> RealTensor:
    shape = builder.meta[value].shape
    return real_tensor.tensor(builder, builder.step("zeros", (), make_attrs({"shape": shape, "dtype": dtype})))


def _extreme(name: str, x: Pair, attrs: dict[str, object]) -> Pair:
    """Return the minimum or maximum in lexicographic order; NaN in both parts if any part is NaN."""
    real, imag = x
    worst = float("inf") if name == "min" else float("-inf")
    is_bad = real_tensor.is_nan(real) | real_tensor.is_nan(imag)
    bad = is_bad.call("any", axis=attrs["axis"], keepdims=attrs["keepdims"])
    kept = {**attrs, "keepdims": True}
    best = real.call(name, **kept)
    second = real_tensor.choose(real == best, imag, worst).call(name, **attrs)
    first = real.call(name, **attrs)
    return real_tensor.choose(bad, float("nan"), first), real_tensor.choose(bad, float("nan"), second)
