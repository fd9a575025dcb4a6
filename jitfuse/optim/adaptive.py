"""Descent with a rate for each element, by averages of squared gradients."""
from __future__ import annotations

from typing import Any, Unpack

import ml_dtypes
import numpy as np

from jitfuse.dtypes import numpy_dtype
from jitfuse.optim.base import Common, Optimizer, Schedule, Slots, decayed, like

_np: Any = np  # its type hints omit traced and eager arrays


class Adam(Optimizer):
    """Adam (Kingma and Ba 2015), as in torch.

    Args:
        params, lr, and the options of every optimiser: see `Optimizer`.
        betas: the shares of the old averages of gradients and of their squares in the new ones.
        eps: added to the root of the average square.
        weight_decay: this times the parameter is added to the gradient.
        amsgrad: divide by the largest average so far (Reddi et al. 2018).
        maximize: go up instead of down.

    Example:
        >>> params = jf.nn.parameters({"w": np.ones(2)})
        >>> opt = jf.optim.Adam(params, lr=0.5)
        >>> step = jf.fuse(lambda x: opt.minimize(np.sum((params["w"] - x) ** 2)), training=True)
        >>> step(np.zeros(2))
        >>> params["w"].round(6).tolist()
        [0.5, 0.5]
    """

    decoupled = False

    def __init__(
        self, params: Any, lr: float | Schedule = 1e-3, *, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0.0, amsgrad: bool = False, maximize: bool = False,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
                                  "amsgrad": amsgrad, "maximize": maximize}, **common)

    def start(self, p: np.ndarray[Any, Any], group: Any) -> Slots:
        """Keep the averages of gradients and of their squares."""
        names = ["mean", "square", *(["largest"] if group.amsgrad else [])]
        return {name: np.zeros_like(p) for name in names}

    def step(self, p: Any, g: Any, slots: Slots, by: Any) -> tuple[Any, Slots]:
        """Return the step."""
        p, g = shrunk(p, g, by, self.decoupled)
        first, second = by.betas
        mean, square = averages(g, slots, by)
        made = {"mean": mean, "square": square}
        if "largest" in slots:
            square = made["largest"] = _np.maximum(slots["largest"], square)
        rate = like(p, by.lr / (1.0 - first**by.count))
        root = like(p, _np.sqrt(1.0 - second**by.count))
        return p - rate * mean / (_np.sqrt(square) / root + by.eps), made


class AdamW(Adam):
    """Adam whose weight decay is apart from the gradient (Loshchilov and Hutter 2019).

    Args:
        params, lr, betas, eps, amsgrad, maximize: as for `Adam`.
        weight_decay: each step shrinks the parameters by lr times this.
    """

    decoupled = True

    def __init__(
        self, params: Any, lr: float | Schedule = 1e-3, *, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 1e-2, amsgrad: bool = False, maximize: bool = False,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(params, lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad,
                         maximize=maximize, **common)


class NAdam(Optimizer):
    """Adam with Nesterov's momentum (Dozat 2016), as in torch.

    Args:
        params, lr, betas, eps, weight_decay, maximize: as for `Adam`.
        momentum_decay: how fast the momentum grows to its full share.
        decoupled_weight_decay: the decay is apart from the gradient, as in `AdamW`.
    """

    def __init__(
        self, params: Any, lr: float | Schedule = 2e-3, *, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0.0, momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False, maximize: bool = False, **common: Unpack[Common],
    ) -> None:
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize}, **common)

    def start(self, p: np.ndarray[Any, Any], group: Any) -> Slots:
        """Keep the averages, and the product of all momenta."""
        return {"mean": np.zeros_like(p), "square": np.zeros_like(p), "product": np.ones((), "float64")}

    def step(self, p: Any, g: Any, slots: Slots, by: Any) -> tuple[Any, Slots]:
        """Return the step."""
        p, g = shrunk(p, g, by, by.decoupled_weight_decay)
        first, second = by.betas
        mean, square = averages(g, slots, by)
        now = first * (1.0 - 0.5 * 0.96 ** (by.count * by.momentum_decay))
        then = first * (1.0 - 0.5 * 0.96 ** ((by.count + 1.0) * by.momentum_decay))
        product = slots["product"] * now
        away = _np.sqrt(square / like(p, 1.0 - second**by.count)) + by.eps
        of_gradient = like(p, by.lr * (1.0 - now) / (1.0 - product))
        of_mean = like(p, by.lr * then / (1.0 - product * then))
        return p - (of_gradient * g + of_mean * mean) / away, {"mean": mean, "square": square, "product": product}


class RAdam(Optimizer):
    """Adam with a rectified rate while the average square is uncertain (Liu et al. 2020), as in torch.

    Args:
        params, lr, betas, eps, weight_decay, maximize: as for `Adam`.
        decoupled_weight_decay: the decay is apart from the gradient, as in `AdamW`.
    """

    def __init__(
        self, params: Any, lr: float | Schedule = 1e-3, *, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0.0, decoupled_weight_decay: bool = False, maximize: bool = False,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
                                  "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize}, **common)

    def start(self, p: np.ndarray[Any, Any], group: Any) -> Slots:
        """Keep the averages of gradients and of their squares."""
        return {"mean": np.zeros_like(p), "square": np.zeros_like(p)}

    def step(self, p: Any, g: Any, slots: Slots, by: Any) -> tuple[Any, Slots]:
        """Return the step."""
        p, g = shrunk(p, g, by, by.decoupled_weight_decay)
        first, second = by.betas
        mean, square = averages(g, slots, by)
        left = 1.0 - second**by.count
        end = 2.0 / (1.0 - second) - 1.0
        length = end - 2.0 * by.count * second**by.count / left
        known = length > 5.0
        sure = _np.where(known, length, 6.0)
        rectified = _np.sqrt((sure - 4.0) * (sure - 2.0) * end / ((end - 4.0) * (end - 2.0) * sure))
        adapted = like(p, _np.sqrt(left) * rectified) / (_np.sqrt(square) + by.eps)
        rate = like(p, by.lr / (1.0 - first**by.count))
        return p - rate * mean * _np.where(known, adapted, 1.0), {"mean": mean, "square": square}


class Adamax(Optimizer):
    """Adam with the largest gradient in place of the root of the average square (Kingma and Ba 2015).

    Args:
        params, lr, betas, eps, weight_decay, maximize: as for `Adam`.
    """

    def __init__(
        self, params: Any, lr: float | Schedule = 2e-3, *, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0.0, maximize: bool = False, **common: Unpack[Common],
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
                                  "maximize": maximize}, **common)

    def start(self, p: np.ndarray[Any, Any], group: Any) -> Slots:
        """Keep the average of gradients, and the largest one."""
        return {"mean": np.zeros_like(p), "largest": np.zeros_like(p)}

    def step(self, p: Any, g: Any, slots: Slots, by: Any) -> tuple[Any, Slots]:
        """Return the step."""
        g = decayed(p, g, by)
        first, second = by.betas
        mean = first * slots["mean"] + (1.0 - first) * g
        largest = _np.maximum(second * slots["largest"], abs(g) + by.eps)
        return p - like(p, by.lr / (1.0 - first**by.count)) * mean / largest, {"mean": mean, "largest": largest}


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


def averages(g: Any, slots: Slots, by: Any) -> tuple[Any, Any]:
    """Return the new averages of gradients and of their squares."""
    first, second = by.betas
    return (first * slots["mean"] + (1.0 - first) * g, second * slots["square"] + (1.0 - second) * (g * g))


def shrunk(p: Any, g: Any, by: Any, apart: bool) -> tuple[Any, Any]:
    """Return a parameter and its gradient with weight decay, in the parameter or in the gradient."""
    if apart:
        return p * (1.0 - by.lr * by.weight_decay), -g if by.maximize else g
    return p, decayed(p, g, by)
