"""Descent with a rate for each element, by its squared gradients so far."""
from __future__ import annotations

from typing import Any, Unpack

import ml_dtypes
import numpy as np

from jitfuse.dtypes import numpy_dtype
from jitfuse.optim.base import Optimizer, Slots
from jitfuse.optim.elements import decayed, like
from jitfuse.optim.options import Common, Schedule

_np: Any = np  # its type hints omit traced and eager arrays


class RMSprop(Optimizer):
    """Gradients over the root of their average square (Hinton 2012), as in torch.

    Args:
        params, lr, and the options of every optimiser: see `Optimizer`.
        alpha: the share of the old average square in the new one.
        eps: added to its root.
        momentum: the share of the last step in this one.
        centered: divide by the standard deviation instead.
        weight_decay: this times the parameter is added to the gradient.
        maximize: go up instead of down.
    """

    def __init__(
        self, params: Any, lr: float | Schedule = 1e-2, *, alpha: float = 0.99, eps: float = 1e-8,
        weight_decay: float = 0.0, momentum: float = 0.0, centered: bool = False, maximize: bool = False,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(params, {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay,
                                  "momentum": momentum, "centered": centered, "maximize": maximize}, **common)

    def start(self, p: np.ndarray[Any, Any], group: Any) -> Slots:
        """Keep the average square, the mean if centered, and the velocity."""
        names = ["square", *(["mean"] if group.centered else []), *(["velocity"] if group.momentum else [])]
        return {name: np.zeros_like(p) for name in names}

    def step(self, p: Any, g: Any, slots: Slots, by: Any) -> tuple[Any, Slots]:
        """Return the step."""
        g = decayed(p, g, by)
        square = by.alpha * slots["square"] + (1.0 - by.alpha) * (g * g)
        made, spread = {"square": square}, square
        if "mean" in slots:
            mean = made["mean"] = slots["mean"] + (1.0 - by.alpha) * (g - slots["mean"])
            spread = square - mean * mean
        moved = g / (_np.sqrt(spread) + by.eps)
        if "velocity" in slots:
            moved = made["velocity"] = by.momentum * slots["velocity"] + moved
        return p - by.lr * moved, made


class Adagrad(Optimizer):
    """Gradients over the root of the sum of their squares (Duchi et al. 2011), as in torch.

    Args:
        params, lr, and the options of every optimiser: see `Optimizer`.
        lr_decay: the rate of step t is lr / (1 + (t - 1) lr_decay).
        initial_accumulator_value: what the sums begin with.
        eps: added to the root.
        weight_decay: this times the parameter is added to the gradient.
        maximize: go up instead of down.
    """

    def __init__(
        self, params: Any, lr: float | Schedule = 1e-2, *, lr_decay: float = 0.0, weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0, eps: float = 1e-10, maximize: bool = False, **common: Unpack[Common],
    ) -> None:
        super().__init__(params, {
            "lr": lr, "lr_decay": lr_decay, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "eps": eps, "maximize": maximize}, **common)

    def start(self, p: np.ndarray[Any, Any], group: Any) -> Slots:
        """Keep the sum of squares."""
        return {"sum": np.full_like(p, group.initial_accumulator_value)}

    def step(self, p: Any, g: Any, slots: Slots, by: Any) -> tuple[Any, Slots]:
        """Return the step."""
        g = decayed(p, g, by)
        total = slots["sum"] + g * g
        rate = like(p, by.lr / (1.0 + (by.count - 1.0) * by.lr_decay))
        return p - rate * g / (_np.sqrt(total) + by.eps), {"sum": total}


class Adadelta(Optimizer):
    """Steps in the units of the parameter (Zeiler 2012), as in torch.

    Args:
        params, lr, and the options of every optimiser: see `Optimizer`.
        rho: the share of the old averages in the new ones.
        eps: added to both under the root.
        weight_decay: this times the parameter is added to the gradient.
        maximize: go up instead of down.
    """

    def __init__(
        self, params: Any, lr: float | Schedule = 1.0, *, rho: float = 0.9, eps: float = 1e-6,
        weight_decay: float = 0.0, maximize: bool = False, **common: Unpack[Common],
    ) -> None:
        super().__init__(params, {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay,
                                  "maximize": maximize}, **common)

    def start(self, p: np.ndarray[Any, Any], group: Any) -> Slots:
        """Keep the average squares of gradients and of steps."""
        return {"square": np.zeros_like(p), "steps": np.zeros_like(p)}

    def step(self, p: Any, g: Any, slots: Slots, by: Any) -> tuple[Any, Slots]:
        """Return the step."""
        g = decayed(p, g, by)
        square = by.rho * slots["square"] + (1.0 - by.rho) * (g * g)
        moved = _np.sqrt(slots["steps"] + by.eps) / _np.sqrt(square + by.eps) * g
        steps = by.rho * slots["steps"] + (1.0 - by.rho) * (moved * moved)
        return p - by.lr * moved, {"square": square, "steps": steps}


class Adafactor(Optimizer):
    """Average squares of matrices as products of rows and columns (Shazeer and Stern 2018), as in torch.

    Args:
        params, lr, and the options of every optimiser: see `Optimizer`.
        beta2_decay: the share of new squares in step t is t**beta2_decay.
        eps: the least average square (None: the dtype's eps) and the least size of a parameter.
        d: the largest root mean square of a step before the rate.
        weight_decay: each step shrinks the parameters by lr times this.
        maximize: go up instead of down.
    """

    def __init__(
        self, params: Any, lr: float | Schedule = 1e-2, *, beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3), d: float = 1.0, weight_decay: float = 0.0,
        maximize: bool = False, **common: Unpack[Common],
    ) -> None:
        super().__init__(params, {"lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d,
                                  "weight_decay": weight_decay, "maximize": maximize}, **common)

    takes_complex = False

    def start(self, p: np.ndarray[Any, Any], group: Any) -> Slots:
        """Keep the average squares of rows and of columns, or of all elements of a vector."""
        if p.ndim < 2:
            return {"square": np.zeros_like(p)}
        *lead, rows, columns = p.shape
        return {"rows": np.zeros((*lead, rows, 1), p.dtype), "columns": np.zeros((*lead, 1, columns), p.dtype)}

    def step(self, p: Any, g: Any, slots: Slots, by: Any) -> tuple[Any, Slots]:
        """Return the step."""
        g = -g if by.maximize else g
        least, smallest = by.eps
        if least is None:
            least = float(ml_dtypes.finfo(numpy_dtype(str(p.dtype))).eps)  # type: ignore[no-untyped-call]
        share = like(p, by.count**by.beta2_decay)
        size = _np.maximum(smallest, _np.sqrt(_np.mean(p * p)))
        rate = size * like(p, _np.minimum(by.lr, 1.0 / _np.sqrt(by.count)))
        p = p * (1.0 - by.lr * by.weight_decay)
        squares, made = g * g, {}
        for name, axis in {"rows": -1, "columns": -2, "square": None}.items():
            if name in slots:
                new = squares if axis is None else _np.mean(squares, axis=axis, keepdims=True)
                made[name] = slots[name] + share * (new - slots[name])
        if p.ndim < 2:
            square = made["square"]
        else:
            square = made["rows"] @ made["columns"] / _np.maximum(_np.mean(made["rows"], axis=-2, keepdims=True), least)
        moved = g / _np.sqrt(_np.maximum(square, least * least))
        away = _np.maximum(1.0, _np.sqrt(_np.mean(moved * moved)) / by.d)
        return p - rate / away * moved, made
