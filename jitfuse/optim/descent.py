"""Descent with one rate for all elements, and by the sign or the direction of the gradient alone."""
from __future__ import annotations

import math
from typing import Any, Unpack

import numpy as np

from jitfuse.errors import ArgumentError
from jitfuse.optim.base import Optimizer, Slots
from jitfuse.optim.elements import decayed, like
from jitfuse.optim.options import Common, Group, Schedule

_np: Any = np  # its type hints omit traced and eager arrays


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum as in torch (Sutskever et al. 2013).

    Args:
        params, lr, and the options of every optimiser: see `Optimizer`.
        momentum: the share of the last step in this one; `dampening`: of the gradient that is left out.
        weight_decay: this times the parameter is added to the gradient.
        nesterov: look ahead by Nesterov's rule.
        maximize: go up instead of down.

    Example:
        >>> w = jf.Parameter([3.0], "w")
        >>> opt = jf.optim.SGD([w], lr=0.25)
        >>> @jf.fuse(training=True)
        ... def step():
        ...     loss = np.sum(w * w)
        ...     opt.minimize(loss)
        ...     return loss
        >>> float(step()), float(step()), w.tolist()
        (9.0, 2.25, [0.75])
    """

    def __init__(
        self, params: Any, lr: float | Schedule = 1e-3, *, momentum: float = 0.0, dampening: float = 0.0,
        weight_decay: float = 0.0, nesterov: bool = False, maximize: bool = False, **common: Unpack[Common],
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
                                  "nesterov": nesterov, "maximize": maximize}, **common)

    def check(self, group: Any) -> None:
        """Raise ArgumentError for Nesterov's rule without momentum, or with dampening."""
        super().check(group)
        if group.nesterov and (not group.momentum or group.dampening):
            raise ArgumentError(f"{self.name}: nesterov needs a momentum, and no dampening")

    def start(self, p: np.ndarray[Any, Any], group: Any) -> Slots:
        """Keep the velocity."""
        return {"velocity": np.zeros_like(p)} if group.momentum else {}

    def step(self, p: Any, g: Any, slots: Slots, by: Any) -> tuple[Any, Slots]:
        """Return the step."""
        g = decayed(p, g, by)
        if not slots:
            return p - by.lr * g, {}
        share = like(p, _np.where(by.count <= 1.0, 1.0, 1.0 - by.dampening))
        velocity = by.momentum * slots["velocity"] + share * g
        moved = g + by.momentum * velocity if by.nesterov else velocity
        return p - by.lr * moved, {"velocity": velocity}


class Lion(Optimizer):
    """The sign of an average of gradients (Chen et al., "Symbolic discovery of optimization algorithms", 2023).

    Args:
        params, lr, and the options of every optimiser: see `Optimizer`.
        betas: the share of the average in the step, and in the next average.
        weight_decay: each step shrinks the parameters by lr times this.
        maximize: go up instead of down.
    """

    def __init__(
        self, params: Any, lr: float | Schedule = 1e-4, *, betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0, maximize: bool = False, **common: Unpack[Common],
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay, "maximize": maximize},
                         **common)

    def start(self, p: np.ndarray[Any, Any], group: Any) -> Slots:
        """Keep the mean of gradients."""
        return {"mean": np.zeros_like(p)}

    def step(self, p: Any, g: Any, slots: Slots, by: Any) -> tuple[Any, Slots]:
        """Return the step."""
        g = -g if by.maximize else g
        (first, second), mean = by.betas, slots["mean"]
        direction = _np.sign(first * mean + (1.0 - first) * g)
        return p * (1.0 - by.lr * by.weight_decay) - by.lr * direction, {"mean": second * mean + (1.0 - second) * g}


class Rprop(Optimizer):
    """A step size for each element that grows while the gradient keeps its sign (Riedmiller and Braun 1993).

    Args:
        params, and the options of every optimiser: see `Optimizer`.
        lr: the first step size.
        etas: the factors of a step size where the sign has changed, and where it has not.
        step_sizes: the least and the largest step size.
        maximize: go up instead of down.
    """

    def __init__(
        self, params: Any, lr: float = 1e-2, *, etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50.0), maximize: bool = False, **common: Unpack[Common],
    ) -> None:
        super().__init__(params, {"lr": lr, "etas": etas, "step_sizes": step_sizes, "maximize": maximize}, **common)

    def start(self, p: np.ndarray[Any, Any], group: Any) -> Slots:
        """Keep the last gradient and the step sizes."""
        return {"last": np.zeros_like(p), "size": np.full_like(p, group.lr)}

    def step(self, p: Any, g: Any, slots: Slots, by: Any) -> tuple[Any, Slots]:
        """Return the step."""
        g = -g if by.maximize else g
        (less, more), (least, most) = by.etas, by.step_sizes
        sign = g * slots["last"]
        size = _np.clip(slots["size"] * _np.where(sign > 0, more, _np.where(sign < 0, less, 1.0)), least, most)
        kept = _np.where(sign < 0, 0.0, g)
        return p - _np.sign(kept) * size, {"last": kept, "size": size}


class ASGD(Optimizer):
    """Averaged stochastic gradient descent (Polyak and Juditsky 1992), as in torch.

    Args:
        params, lr, and the options of every optimiser: see `Optimizer`.
        lambd, alpha: the rate of step t is lr / (1 + lambd lr t)**alpha.
        t0: averaging begins after this step.
        weight_decay: this times the parameter is added to the gradient.
        maximize: go up instead of down.
    """

    def __init__(
        self, params: Any, lr: float | Schedule = 1e-2, *, lambd: float = 1e-4, alpha: float = 0.75, t0: float = 1e6,
        weight_decay: float = 0.0, maximize: bool = False, **common: Unpack[Common],
    ) -> None:
        super().__init__(params, {"lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay,
                                  "maximize": maximize}, **common)

    def start(self, p: np.ndarray[Any, Any], group: Any) -> Slots:
        """Keep the average of the parameter, and the rate of the next step."""
        return {"average": np.zeros_like(p), "rate": np.zeros((), "float64")}

    def step(self, p: Any, g: Any, slots: Slots, by: Any) -> tuple[Any, Slots]:
        """Return the step: rate and weight of the average are those that the step before has set."""
        g, before = decayed(p, g, by), by.count - 1.0
        rate = like(p, _np.where(before < 1.0, by.lr, slots["rate"]))
        share = like(p, 1.0 / _np.maximum(1.0, before - by.t0))
        new = p * (1.0 - by.lambd * rate) - rate * g
        average = slots["average"]
        return new, {"average": _np.where(share == 1.0, new, average + (new - average) * share),
                     "rate": by.lr / (1.0 + by.lambd * by.lr * by.count) ** by.alpha}


class Muon(Optimizer):
    """Momentum made orthogonal by Newton and Schulz's iteration (Jordan et al., "Muon", 2024): for matrices.

    The iteration runs in the parameter's dtype; that of torch in bfloat16.

    Args:
        params, lr, and the options of every optimiser: see `Optimizer`. Each parameter has two axes.
        momentum, nesterov, weight_decay: as in torch, decay apart from the gradient.
        steps: of the iteration.
        match_rms: scale the rate by 0.2 sqrt(max(rows, columns)), as AdamW's steps are, not by sqrt(rows / columns).
    """

    def __init__(
        self, params: Any, lr: float | Schedule = 1e-3, *, momentum: float = 0.95, nesterov: bool = True,
        weight_decay: float = 0.1, steps: int = 5, match_rms: bool = False, **common: Unpack[Common],
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "nesterov": nesterov, "weight_decay": weight_decay,
                                  "steps": steps, "match_rms": match_rms}, **common)

    takes_complex = False

    def check(self, group: Group) -> None:
        """Raise ArgumentError for parameters that are no matrices."""
        super().check(group)
        for p in group.parameters:
            if p.ndim != 2:
                raise ArgumentError(f"{self.name}: {p.name} has {p.ndim} axes, and is for matrices; give the others to "
                                    "another optimiser, such as AdamW")

    def start(self, p: np.ndarray[Any, Any], group: Group) -> Slots:
        """Keep the mean of gradients."""
        return {"mean": np.zeros_like(p)}

    def step(self, p: Any, g: Any, slots: Slots, by: Any) -> tuple[Any, Slots]:
        """Return the step."""
        rows, columns = p.shape
        mean = slots["mean"] + (1.0 - by.momentum) * (g - slots["mean"])
        moved = _orthogonal(g + by.momentum * (mean - g) if by.nesterov else mean, by.steps)
        scale = 0.2 * math.sqrt(max(rows, columns)) if by.match_rms else math.sqrt(max(1, rows / columns))
        return p * (1.0 - by.lr * by.weight_decay) - (by.lr * scale) * moved, {"mean": mean}


def _orthogonal(x: Any, steps: int) -> Any:
    """Return nearly the orthogonal factor of a matrix: its singular values become about 1."""
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / _np.maximum(_np.sqrt(_np.sum(x * x)), 1e-7)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x.T if tall else x
