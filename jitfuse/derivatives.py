"""Derivatives of functions of arrays: `jf.grad`, `jf.value_and_grad`, `jf.vjp`, `jf.jvp`, `jf.hvp`.

They are functions of functions with JAX's signatures. Inside a fused function their steps become steps of its program;
outside they are fused functions of their own. Owns arguments and errors; the steps are made in
`jitfuse.tracing.control.derivatives`.
"""
from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

from jitfuse.base.records import Record
from jitfuse.errors import ArgumentError, DerivativeError
from jitfuse.fuse import FusedFunction, fuse, hides_frames, transform
from jitfuse.random_state import state as random_state
from jitfuse.tracing.control.derivatives import PullBack, changes_like, differentiable, push, record
from jitfuse.tracing.record.foreign import bare
from jitfuse.tracing.record.recorder import Recorder, active
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.results.trees import tree_of
from jitfuse.tracing.tensor.lifting import lift
from jitfuse.tracing.tensor.traced import TracedTensor
from jitfuse.tracing.tracer import Transform

__all__ = ["grad", "hvp", "jvp", "value_and_grad", "vjp"]


@hides_frames
def grad(fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return the function that computes the gradient of `fun`, a fused function.

    Args:
        fun: a function that returns one real number of float dtype (rank 0), or a pair of it and aux with `has_aux`.
        argnums: the position of the argument to differentiate by, or several. Each is a tree of arrays of floats or
            complex numbers, and of Python's floats.
        has_aux: whether `fun` returns a pair, whose second part is returned as it is beside the gradient.

    Returns:
        A function of the same arguments. It returns a tree like the argument, of its shapes and dtypes; a tuple
        of trees for several arguments. By a complex number the gradient is df/d(re) + 1j * df/d(im), the direction of
        steepest ascent, as in torch (JAX has its conjugate).

    Raises:
        DerivativeError, in calls: a leaf of integers or bools, a result that is not one real number, an operator
            without a derivative.
        TracedValueError, in calls: Python decides by a traced value in `fun`; use jf.cond, np.where or jf.scan.

    Example:
        >>> jf.grad(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))
        array([2., 4.])
    """
    return _fused(_Gradient("grad", _numbers(argnums), has_aux, with_value=False), "grad", fun)


@hides_frames
def value_and_grad(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Return the function that computes the value of `fun` and its gradient, as `grad` does.

    Args:
        fun, argnums, has_aux: as for `grad`.

    Returns:
        A function of the same arguments. It returns (value, gradient), with `has_aux` ((value, aux), gradient).

    Raises:
        DerivativeError, TracedValueError, in calls: as for `grad`.

    Example:
        >>> jf.value_and_grad(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))
        (np.float64(5.0), array([2., 4.]))
    """
    return _fused(_Gradient("value_and_grad", _numbers(argnums), has_aux, with_value=True), "value_and_grad", fun)


@hides_frames
def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Return ``fun(*primals)``, and the function from a cotangent of it to cotangents of the primals.

    Args:
        fun: a function of arrays that returns a tree of arrays.
        primals: trees of arrays of floats or complex numbers.
        has_aux: whether `fun` returns a pair (value, aux); then aux is returned as a third part.

    Returns:
        (value, pull_back). ``pull_back(cotangent)`` takes a tree like the value and returns a tuple of trees like the
        primals. Outside of a fused function it computes the value again, with the same random numbers.

    Raises:
        DerivativeError: a primal of integers or bools, an operator without a derivative.
        ShapeError, DTypeError, ArgumentError: a cotangent that is no tree like the value.

    Example:
        >>> y, pull_back = jf.vjp(np.sin, np.array([0.0, 1.0]))
        >>> pull_back(np.array([1.0, 0.0]))
        (array([1., 0.]),)
    """
    run = active()
    if run is None:
        pull_back = _pull_back_again(_fused(_PullBack(has_aux), "vjp", fun, own_arguments=False), primals)
        value = fuse(fun)(*primals)
        value, aux = value if has_aux else (value, None)
        return (value, pull_back, aux) if has_aux else (value, pull_back)
    made = _pull_back(run, "vjp", fun, primals, {}, range(len(primals)), has_aux)
    return (made.value, made, made.aux) if has_aux else (made.value, made)


def _pull_back_again(fused: Callable[..., Any], primals: tuple[Any, ...]) -> Callable[[Any], Any]:
    """Return the pull-back that computes the value again: of the primals as they are now, with the same draws."""
    tree, state = tree_of(primals, "primals"), random_state()
    before = state.copy()
    kept = tree.filled([deepcopy(leaf) for leaf in tree.leaves])

    @hides_frames
    def pull_back(cotangent: Any) -> Any:
        now = state.copy()
        state[:] = before
        try:
            return fused(cotangent, *kept)
        finally:
            state[:] = now

    return pull_back


@hides_frames
def jvp(fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """Return ``fun(*primals)`` and its directional derivative along the tangents (forward mode).

    Args:
        fun: a function of arrays that returns a tree of arrays.
        primals: the arguments, a tuple or list of trees of arrays of floats or complex numbers.
        tangents: trees like the primals, with their shapes and dtypes.
        has_aux: whether `fun` returns a pair (value, aux); then aux is returned as a third part.

    Returns:
        (value, tangent), or (value, tangent, aux): the tangent is a tree like the value; 0 for integers.

    Raises:
        DerivativeError: a primal of integers or bools, an operator without a derivative.
        ShapeError, DTypeError, ArgumentError: tangents that are no trees like the primals.

    Example:
        >>> jf.jvp(np.sin, (np.array([0.0, 1.0]),), (np.array([1.0, 0.0]),))
        (array([0.        , 0.84147098]), array([1., 0.]))
    """
    if not isinstance(primals, tuple | list) or not isinstance(tangents, tuple | list):
        raise ArgumentError("jvp: primals and tangents are tuples or lists, of one tree for each argument")
    run = active()
    if run is None:
        return _fused(_Push(has_aux), "jvp", fun, own_arguments=False)(tuple(primals), tuple(tangents))
    return _jvp(run, fun, has_aux, primals, tangents)


@hides_frames
def hvp(fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """Return the Hessian of `fun` at the primals times the tangents, without the matrix: forward over reverse mode.

    Args:
        fun: a function that returns one real number.
        primals: the arguments, a tuple or list of trees of arrays of floats.
        tangents: trees like the primals.

    Returns:
        A tuple of trees like the primals.

    Raises:
        DerivativeError, ShapeError, DTypeError, ArgumentError: as for `grad` and `jvp`.

    Example:
        >>> jf.hvp(lambda x: np.sum(x**3), (np.array([1.0, 2.0]),), (np.array([1.0, 1.0]),))
        (array([ 6., 12.]),)
    """
    return jvp(grad(fun, tuple(range(len(primals)))), primals, tangents)[1]


# ---------------------------------------------------------------- in a trace
class _Gradient(Record, frozen=True):
    """The transform of `grad` and `value_and_grad`."""

    name: str
    argnums: int | tuple[int, ...]
    has_aux: bool
    with_value: bool

    def __call__(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        def gradient(*args: Any, **kwargs: Any) -> Any:
            run, positions = _active(self.name), _positions(self.argnums, len(args))
            made = _pull_back(run, self.name, fun, args, kwargs, positions, self.has_aux)
            value = _one_number(run, self.name, made.value)
            one = run.emit("full", (), {"shape": (), "value": 1.0, "dtype": value._meta.dtype, "weak": False})
            changes = dict(zip(dict.fromkeys(positions), made.argument_changes(made.gradients([one]))))
            found = tuple([changes[k] for k in positions])
            gradient = found[0] if isinstance(self.argnums, int) else found
            if self.with_value:
                return (made.value, made.aux) if self.has_aux else made.value, gradient
            return (gradient, made.aux) if self.has_aux else gradient

        return gradient


class _PullBack(Record, frozen=True):
    """The transform of the function that `vjp` returns outside of a trace: (cotangent, primals...) -> cotangents."""

    has_aux: bool

    def __call__(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        def pull_back(cotangent: Any, *primals: Any) -> Any:
            made = _pull_back(_active("vjp"), "vjp", fun, primals, {}, range(len(primals)), self.has_aux)
            return made(cotangent)

        return pull_back


class _Push(Record, frozen=True):
    """The transform of `jvp`: (primals, tangents) -> (value, tangent)."""

    has_aux: bool

    def __call__(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        return lambda primals, tangents: _jvp(_active("jvp"), fun, self.has_aux, primals, tangents)


def _jvp(run: Recorder, fun: Callable[..., Any], has_aux: bool, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    by = differentiable(run, "jvp", primals, range(len(primals)))
    recorded = record(run, "jvp", fun, primals, {}, by, has_aux)
    given = changes_like(run, "jvp", tree_of(tuple(primals), "primals"), tuple(tangents), ("primals", "tangents"))
    value, tangent, aux = push(recorded, given)
    return (value, tangent, aux) if has_aux else (value, tangent)


def _fused(
    by: Transform, name: str, fun: Callable[..., Any], *, own_arguments: bool = True
) -> FusedFunction[..., Any]:
    if not callable(fun):
        raise ArgumentError(f"jf.{name} takes a function, not {fun!r}")
    called = getattr(fun, "__name__", type(fun).__name__)
    return transform(fun, by, f"{name} of {called}", own_arguments=own_arguments)


def _pull_back(
    run: Recorder, what: str, fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any],
    positions: Sequence[int], has_aux: bool,
) -> PullBack:
    by = differentiable(run, what, args, positions)
    return PullBack(record(run, what, fun, args, kwargs, by, has_aux), what, by)


def _active(what: str) -> Recorder:
    run = active()
    if run is None:
        raise DerivativeError(f"jf.{what} needs a trace, and this call runs as plain Python: under an np.errstate that "
                              "raises, or in a signal handler")
    return run


def _numbers(argnums: Any) -> int | tuple[int, ...]:
    several = isinstance(argnums, tuple | list)
    try:
        found = tuple([_integer(k) for k in (argnums if several else (argnums,))])
    except TypeError:
        raise ArgumentError(f"argnums={argnums!r}: pass the position of an argument, or a tuple of positions") from None
    return found if several else found[0]


def _integer(value: Any) -> int:
    """Return an integer, also one that the function around has as a traced number; raises TypeError for bools too."""
    if isinstance(value, bool) or (isinstance(value, TracedTensor) and value.dtype == "bool"):
        raise TypeError
    return operator.index(value)


def _positions(argnums: int | tuple[int, ...], count: int) -> list[int]:
    found = [argnums] if isinstance(argnums, int) else list(argnums)
    if not all(-count <= k < count for k in found):
        raise ArgumentError(f"argnums={argnums!r} at {user_line()}: the function is called with {count} positional "
                            "argument(s)")
    return [k % count for k in found]


def _one_number(run: Recorder, what: str, value: Any) -> TracedTensor:
    """Return a function's result as one real number; raises DerivativeError with what it is instead."""
    tree = tree_of(value, "result")
    if len(tree.leaves) != 1 or (tree.spec is not None and not tree.same_structure(tree_of(0.0, "result"))):
        raise DerivativeError(
            f"{what} at {user_line()}: the function has to return one real number, and returns "
            f"{'nothing' if value is None else f'a {type(value).__name__} of {len(tree.leaves)}'}. Return what to keep "
            "beside it as aux (has_aux=True), or use jf.vjp.")
    x = lift(run, bare(tree.leaves[0]))
    if x.shape or x.dtype not in ("float16", "bfloat16", "float32", "float64"):
        raise DerivativeError(
            f"{what} at {user_line()}: the function has to return one real number of float dtype, and returns "
            f"{x._meta}. Return its sum or mean (the real part of a complex number), or use jf.vjp and jf.jvp.")
    return x
