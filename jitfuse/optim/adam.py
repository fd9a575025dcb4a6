"""Adam and its kin: averages of gradients, over the roots of averages of their squares."""
from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from jitfuse.optim.base import Optimizer, Slots
from jitfuse.optim.elements import decayed, like
from jitfuse.optim.options import Common, Schedule

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


def averages(g: Any, slots: Slots, by: Any) -> tuple[Any, Any]:
    """Return the new averages of gradients and of their squares."""
    first, second = by.betas
    return (first * slots["mean"] + (1.0 - first) * g, second * slots["square"] + (1.0 - second) * (g * g))


def shrunk(p: Any, g: Any, by: Any, apart: bool) -> tuple[Any, Any]:
    """Return a parameter and its gradient with weight decay, in the parameter or in the gradient."""
    if apart:
        return p * (1.0 - by.lr * by.weight_decay), -g if by.maximize else g
    return p, decayed(p, g, by)
