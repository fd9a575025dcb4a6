"""The problems with their sizes: how jitfuse differentiates each, and the same source over torch and its autograd."""
from __future__ import annotations

import importlib.util
import types
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

import jitfuse as jf
from gradbench_problems import descent, recurrences, statistics, vision

Function = Callable[..., Any]
SEED: Final = 31337


class Problem(NamedTuple):
    """What is differentiated, and how.

    name        GradBench's name, and what sets this way of writing it apart
    module      where its functions are
    inputs      the name of what makes arguments, of a generator and a size
    objective   the name of the objective, or None where only a whole optimisation is asked for
    derivative  the name of the function that uses derivatives; or the function whose gradient is asked for, and the
                positions of the arguments by which
    sizes       GradBench's own, the smallest to the middling
    tiny        the size that tests use
    """

    name: str
    module: types.ModuleType
    inputs: str
    objective: str | None
    derivative: str | tuple[str, int | tuple[int, ...]]
    sizes: Sequence[tuple[int, ...]]
    tiny: tuple[int, ...]

    def arguments(self, size: tuple[int, ...]) -> tuple[Any, ...]:
        """Return the arguments of a size, of NumPy."""
        made: tuple[Any, ...] = getattr(self.module, self.inputs)(np.random.default_rng(SEED), *size)
        return made

    def function(self, module: types.ModuleType) -> Function | None:
        """Return the fused objective, of this module or of the one over torch."""
        return None if self.objective is None else jf.fuse(getattr(module, self.objective))

    def fused(self, module: types.ModuleType) -> Function:
        """Return what jitfuse makes of the derivative."""
        if isinstance(self.derivative, str):
            return jf.fuse(getattr(module, self.derivative))
        name, by = self.derivative
        return jf.grad(getattr(module, name), by)

    def eager(self) -> Function:
        """Return the derivative by torch alone."""
        derivatives = torchs_derivatives()
        module = over_torch(self.module, derivatives)
        vars(module)["counted"] = derivatives.while_loop  # Python's loop knows its end
        if isinstance(self.derivative, str):
            derivative: Function = getattr(module, self.derivative)
            return derivative
        name, by = self.derivative
        return _torchs_gradient(getattr(module, name), (by,) if isinstance(by, int) else by)


PROBLEMS: Final = (
    Problem("lse", statistics, "lse_inputs", "logsumexp", ("logsumexp", 0), ((2500,), (160_000,), (1_280_000,)), (20,)),
    Problem("llsq", statistics, "llsq_inputs", "llsq", ("llsq", 0), ((64, 128), (1024, 128), (16_392, 128)), (16, 5)),
    Problem("kmeans", statistics, "kmeans_inputs", "kmeans", "kmeans_direction",
            ((10, 1000, 8), (100, 1000, 16), (100, 10_000, 8)), (3, 20, 2)),
    Problem("gmm", statistics, "gmm_inputs", "gmm", ("gmm", (0, 1, 2, 3)),
            ((2, 5, 1000), (10, 10, 1000), (20, 25, 1000), (32, 50, 1000)), (3, 4, 10)),
    Problem("ba", vision, "ba_inputs", "ba", "ba_jacobian", ((49, 7776, 31_843), (161, 48_126, 182_072)), (3, 4, 10)),
    Problem("ht", vision, "ht_inputs", "ht", "ht_jacobian", ((544, 100), (544, 800)), (30, 7)),
    Problem("lstm", recurrences, "lstm_inputs", "lstm", ("lstm", (0, 1)), ((2, 1024), (4, 1024)), (1, 40)),
    Problem("ode", recurrences, "ode_inputs", "ode", ("ode_last", 0), ((1000, 10), (1000, 100), (100_000, 10)), (5, 3)),
    Problem("det", recurrences, "det_inputs", "det", ("det", 0), ((5,), (6,)), (3,)),
    Problem("det of levels", recurrences, "det_inputs", "det_of_all", ("det_of_all", 0), ((5,), (7,), (9,)), (4,)),
    *(Problem(f"{name} {ways}", descent, f"{name}_inputs", None, f"{name}_{ways}", ((),), ())
      for name in ("particle", "saddle") for ways in ("ff", "fr", "rf", "rr")),
)


# ---------------------------------------------------------------------- the same source over torch
def over_torch(module: types.ModuleType, derivatives: Any = jf) -> types.ModuleType:
    """Return the module once more, whose `np` is torch under NumPy's names, and `jf` the derivatives."""
    import torch

    spec = importlib.util.find_spec(module.__name__)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    other: Any = made
    other.np = types.SimpleNamespace(**{**vars(torch), "max": torch.amax, "min": torch.amin, "array": torch.asarray})
    other.jf = derivatives
    return made


def torchs_derivatives() -> Any:
    """Return torch's functions for those of jitfuse, and loops of Python."""
    import torch

    def cond(chosen: Any, yes: Function, no: Function, *operands: Any) -> Any:
        return yes(*operands) if chosen else no(*operands)

    def while_loop(go_on: Function, body: Function, state: Any) -> Any:
        while go_on(state):
            state = body(state)
        return state

    def mapped(f: Function, xs: Any) -> Any:
        return torch.func.vmap(f)(xs)

    return types.SimpleNamespace(grad=torch.func.grad, vjp=torch.func.vjp, jvp=torch.func.jvp, map=mapped,
                                 cond=cond, while_loop=while_loop)


def _torchs_gradient(function: Function, by: tuple[int, ...]) -> Function:
    import torch

    def gradient(*arguments: Any) -> Any:
        given = [a.detach().requires_grad_() if k in by else a for k, a in enumerate(arguments)]
        return torch.autograd.grad(function(*given), [given[k] for k in by])

    return gradient


def to_torch(value: Any) -> Any:
    """Return a tree of tensors over NumPy's arrays."""
    import torch

    if isinstance(value, tuple):
        return tuple(map(to_torch, value))
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


def difference(expected: Any, actual: Any) -> float:
    """Return the largest error relative to the largest expected value, of trees of arrays or tensors."""
    want, got = _leaves(expected), _leaves(actual)
    return max(_error(w, g) for w, g in zip(want, got, strict=True))


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [leaf for part in value for leaf in _leaves(part)]
    return [np.asarray(value)]


def _error(want: Any, got: Any) -> float:
    if want.shape != got.shape or want.dtype != got.dtype or not np.isfinite(got).all():
        return float("inf")
    return float(np.max(np.abs(want - got)) / max(float(np.max(np.abs(want))), 1e-300))
