"""torch's own settings of its optimisers (optim_db): 20 steps on the same gradients, parameters compared in float64.
LBFGS, which computes gradients itself, has a loss instead.

``python tests/optim/optim_db.py`` judges all; CI does too (`test_optim_db.py`).
"""
from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.testing._internal.common_optimizers import optim_db

import jitfuse as jf

STEPS = 20
SHAPES = ((5, 3), (7,), (2, 3, 4), ())
IGNORED = frozenset({"foreach", "fused", "capturable", "differentiable"})
"""How torch computes a step, not what."""
LEFT_OUT = {
    "SparseAdam": "sparse gradients",
    "Muon": "torch iterates in bfloat16, jitfuse in the parameter's dtype (tests/optim/test_optimisers.py)",
}


def settings() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield each optimiser's name, the description of a setting, and its options."""
    for entry in optim_db:
        name = entry.optim_cls.__name__
        if name in LEFT_OUT:
            continue
        for given in entry.optim_inputs_func(device="cpu"):
            yield name, given.desc, {k: v for k, v in given.kwargs.items() if k not in IGNORED}


def plain(options: dict[str, Any]) -> dict[str, Any]:
    """Return options with numbers in place of torch's tensors."""
    return {k: tuple(map(float, v)) if isinstance(v, tuple) and k == "betas" else float(v)
            if isinstance(v, torch.Tensor) else v for k, v in options.items()}


def largest_difference(name: str, options: dict[str, Any], shapes: tuple[tuple[int, ...], ...] = SHAPES) -> float:
    """Return the largest relative difference of a parameter in any of the steps, beside torch's."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)  # torch keeps numbers, such as rates, in the default dtype
    try:
        return _judged(name, options, shapes)
    finally:
        torch.set_default_dtype(before)


def _judged(name: str, options: dict[str, Any], shapes: tuple[tuple[int, ...], ...]) -> float:
    rng = np.random.default_rng(0)
    values = [rng.normal(size=s) for s in shapes]
    theirs = [torch.tensor(v, requires_grad=True) for v in values]
    ours = jf.nn.parameters([v.copy() for v in values])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reference = getattr(torch.optim, name)(theirs, **options)
    known = inspect.signature(getattr(jf.optim, name)).parameters
    optimiser = getattr(jf.optim, name)(ours, **{k: v for k, v in plain(options).items() if k in known or v})
    by_loss = name == "LBFGS"
    step = _step_by_loss(optimiser, ours) if by_loss else jf.fuse(
        lambda *gradients: optimiser.apply(list(gradients)), training=True)
    worst, gradients = 0.0, [rng.normal(size=s) for s in shapes]
    for _ in range(STEPS):
        gradients = gradients if by_loss else [rng.normal(size=s) for s in shapes]
        for p, g in zip(theirs, gradients, strict=True):
            p.grad = torch.tensor(g)
        reference.step(*([_closure(reference, theirs, gradients)] if by_loss else []))
        step(*gradients)
        for p, q in zip(theirs, ours, strict=True):
            right = p.detach().numpy()
            worst = float(np.maximum(worst, np.max(np.abs(q.array - right) / (1e-3 + np.abs(right)))))  # NaN stays
    assert step.stats()["traces"] == 1 and step.stats()["fallbacks"] == 0
    return worst


def _step_by_loss(optimiser: Any, ours: Any) -> Any:
    """Return a step that minimises a sum of squares and fourth powers of p - given."""
    return jf.fuse(lambda *given: optimiser.minimize(lambda: _loss(ours, given)), training=True)


def _loss(parameters: Any, given: Any) -> Any:
    return sum(((p - g) ** 2 + 0.1 * (p - g) ** 4).sum() for p, g in zip(parameters, given, strict=True))


def _closure(reference: Any, theirs: Any, given: list[Any]) -> Any:
    def closure() -> Any:
        reference.zero_grad()
        loss = _loss(theirs, [torch.tensor(g) for g in given])
        loss.backward()
        return loss

    return closure


def main() -> None:
    """Print each setting's largest difference."""
    for name, description, options in settings():
        try:
            print(f"{name:12}{description:50}{largest_difference(name, options):.1e}", flush=True)
        except Exception as error:
            print(f"{name:12}{description:50}{type(error).__name__}: {str(error)[:200]}", flush=True)
    for name, reason in LEFT_OUT.items():
        print(f"{name:12}left out: {reason}")


if __name__ == "__main__":
    main()
