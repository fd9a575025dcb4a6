"""L-BFGS: directions from the last changes of parameters and gradients, as a loop of the program."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitfuse.arrays.state_trees import by_path
from jitfuse.control import scan, while_loop
from jitfuse.derivatives import value_and_grad
from jitfuse.errors import ArgumentError
from jitfuse.optim.base import Optimizer, Slots
from jitfuse.optim.elements import like
from jitfuse.optim.line_search import strong_wolfe
from jitfuse.optim.options import Group, Schedule
from jitfuse.tracing.control.minimised import standing_for
from jitfuse.tracing.control.state import moves, updating

_np: Any = np  # its type hints omit traced and eager arrays
_CURVED = 1e-10
"""The least product of a step and the change of the gradient that is kept."""


class LBFGS(Optimizer):
    """Limited-memory BFGS (Liu and Nocedal 1989), as in torch: `minimize` takes the loss as a function.

    The function is computed several times a step, in a loop of the program, and reads the parameters where they are.

    Args:
        params, lr: see `Optimizer`; one group, of one dtype.
        max_iter: iterations a step.
        max_eval: evaluations of the loss a step; None: 1.25 times max_iter.
        tolerance_grad: a step ends where no element of the gradient is larger.
        tolerance_change: and where no parameter, or the loss, changes by more.
        history_size: changes that are kept.
        line_search_fn: None for steps of length lr, or "strong_wolfe".

    Example:
        >>> params = jf.nn.parameters({"w": np.array([3.0, -2.0])})
        >>> opt = jf.optim.LBFGS(params, lr=1.0, line_search_fn="strong_wolfe")
        >>> step = jf.fuse(lambda x: opt.minimize(lambda: np.sum(x * (params["w"] - 1.0) ** 2)), training=True)
        >>> float(step(np.array([1.0, 10.0])))
        94.0
        >>> params["w"].round(4).tolist()
        [1.0, 1.0]
    """

    def __init__(
        self, params: Any, lr: float | Schedule = 1.0, *, max_iter: int = 20, max_eval: int | None = None,
        tolerance_grad: float = 1e-7, tolerance_change: float = 1e-9, history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        if line_search_fn not in (None, "strong_wolfe"):
            raise ArgumentError(f'LBFGS: line_search_fn is {line_search_fn!r}, and must be "strong_wolfe" or None')
        if type(history_size) is not int or history_size < 1:
            raise ArgumentError(f"LBFGS: history_size is {history_size!r}, and must be an integer from 1 on")
        self.searches, self.history_size = line_search_fn is not None, history_size
        super().__init__(params, {
            "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change})
        if len(self.groups) > 1:
            raise ArgumentError("LBFGS: the parameters are one group, because the direction is one of all of them")

    takes_complex = False

    def check(self, group: Group) -> None:
        """Raise ArgumentError for parameters of several dtypes."""
        super().check(group)
        dtypes = sorted({str(p.dtype) for p in group.parameters})
        if len(dtypes) > 1:
            raise ArgumentError(f"LBFGS: parameters of {' and '.join(dtypes)}: give it those of one dtype")

    def start(self, p: np.ndarray[Any, Any], group: Group) -> Slots:
        """Keep the history, the last direction and its length with the first parameter, as torch does."""
        if p is not group.parameters[0].array:
            return {}
        size, one = sum(x.array.size for x in group.parameters), np.zeros((), p.dtype)
        whole, history = np.zeros(size, p.dtype), np.zeros((self.history_size, size), p.dtype)
        return {"direction": whole, "length": one, "gradient": whole, "changes": history, "steps": history,
                "inverses": np.zeros(self.history_size, p.dtype), "scale": one + 1, "iterations": np.int64(0),
                "evaluations": np.int64(0)}

    def apply(self, gradients: Any) -> None:
        """Raise ArgumentError: gradients alone are not enough."""
        raise ArgumentError("LBFGS.apply: it computes gradients itself, in several places; give minimize the loss as a "
                            "function: opt.minimize(lambda: ...)")

    @by_path
    def minimize(self, loss: Callable[[], Any]) -> Any:
        """Make a step of several iterations: more steps of the fused function's program; return the first loss.

        Args:
            loss: a function without arguments that computes one real number of the parameters.

        Raises:
            DerivativeError: as for the other optimisers. ArgumentError: a loss that is no function.
        """
        if not callable(loss):
            raise ArgumentError("LBFGS.minimize: the loss is computed several times a step, so give it as a function: "
                                "opt.minimize(lambda: ...)")
        run, held, seen = self._entered()
        first = loss()
        gradients = self._gradients(run, seen, first)
        with updating(run):
            slots = {name: held.part(buffer, "slots", 0, name).seen() for name, buffer in self.slots[0].items()}
            count = held.part(self.count, "count").seen()
            by = self._seen_options(held.part(self.groups[0], "groups", 0), (count + 1) * 1.0)

            def evaluate(x: Any) -> tuple[Any, Any]:
                def of(values: Any) -> Any:
                    with standing_for(seen, values):
                        return loss()

                value, found = value_and_grad(of)(_parts(x, seen))
                return value, _joined(found)

            new = self._stepped(evaluate, _joined(seen), (first, _joined(gradients)), slots, by)
            for array, value in zip(seen, _parts(new.pop("x"), seen), strict=True):
                moves(array, value)
            for name, value in new.items():
                moves(slots[name], value)
            moves(count, count + 1)
        return first

    def _stepped(
        self, evaluate: Callable[[Any], tuple[Any, Any]], x: Any, begin: tuple[Any, Any], slots: Slots, by: Any
    ) -> dict[str, Any]:
        """Return the new elements of all parameters and of the slots."""
        lr = like(x, by.count * 0.0 + by.lr)

        def iterate(c: Any) -> Any:
            kept, x, loss, before, n, evaluated, _ = c
            if self.searches:
                g = kept["g"]
            else:
                (loss, g), evaluated = evaluate(x), evaluated + 1
            d, t = kept["direction"], kept["length"]
            lacks = (_np.max(abs(d * t)) <= by.tolerance_change) | (abs(loss - before) < by.tolerance_change)
            stops = (_np.max(abs(g)) <= by.tolerance_grad) | ((n > 0) & ((evaluated >= by.max_eval) | lacks))
            new = _directed(kept, g, lr)
            slope = _np.dot(g, new["direction"])
            moved = ~stops & ~(slope > -by.tolerance_change)
            d, t, after = new["direction"], new["length"], loss
            if self.searches:
                t, after, found, count = strong_wolfe(
                    lambda t: evaluate(x + t * d), d, (t * 0, loss, g, slope), t, by.max_eval - evaluated, moved)
                new["length"] = _np.where(moved, t, new["length"])
                new["g"], evaluated = _np.where(moved, found, g), evaluated + count
                after = _np.where(moved, after, loss)
            kept = {name: _np.where(stops, value, new[name]) for name, value in kept.items()}
            return (kept, _np.where(moved, x + t * d, x), after, _np.where(stops, before, loss),
                    _np.where(stops, n, n + 1), evaluated, ~moved)

        kept = {name: value for name, value in slots.items() if name != "evaluations"}
        if self.searches:
            kept["g"] = begin[1]
        state = kept, x, begin[0], begin[0], 0, int(self.searches), False
        kept, x, *_, evaluated, _ = while_loop(lambda c: ~c[6] & (c[4] < by.max_iter), iterate, state)
        kept.pop("g", None)
        return {**kept, "x": x, "evaluations": slots["evaluations"] + evaluated}


def _directed(kept: Any, g: Any, lr: Any) -> dict[str, Any]:
    """Return what is kept, with the change since the last iteration, the new direction and its first length."""
    is_first = kept["iterations"] == 0
    y, s = g - kept["gradient"], kept["direction"] * kept["length"]
    product = _np.dot(y, s)
    taken = ~is_first & (product > _CURVED)
    changes, steps, inverses = (
        _np.where(taken, _np.concatenate([kept[name][1:], _np.stack([last])]), kept[name])
        for name, last in (("changes", y), ("steps", s), ("inverses", 1.0 / product)))
    scale = _np.where(taken, product / _np.dot(y, y), kept["scale"])
    direction = _np.where(is_first, -g, _times_inverse(g, changes, steps, inverses, scale))
    length = _np.where(is_first, _np.minimum(1.0, 1.0 / _np.sum(abs(g))) * lr, lr)
    return {**kept, "direction": direction, "length": length, "gradient": g, "changes": changes, "steps": steps,
            "inverses": inverses, "scale": scale, "iterations": kept["iterations"] + 1}


def _times_inverse(g: Any, changes: Any, steps: Any, inverses: Any, scale: Any) -> Any:
    """Return minus the gradient times the inverse of the Hessian that the history stands for: two loops over it.

    Places that are still empty have zeros, which change nothing.
    """
    def back(q: Any, of: Any) -> Any:
        y, s, inverse = of
        share = _np.dot(s, q) * inverse
        return q - share * y, share

    def forth(r: Any, of: Any) -> Any:
        y, s, inverse, share = of
        return r + s * (share - _np.dot(y, r) * inverse), None

    q, shares = scan(back, -g, (changes[::-1], steps[::-1], inverses[::-1]))
    r, _ = scan(forth, q * scale, (changes, steps, inverses, shares[::-1]))
    return r


def _joined(arrays: Any) -> Any:
    return _np.concatenate([_np.reshape(x, (-1,)) for x in arrays])


def _parts(whole: Any, like: Any) -> list[Any]:
    made, at = [], 0
    for x in like:
        size = int(np.prod(x.shape))
        made.append(_np.reshape(whole[at : at + size], x.shape))
        at += size
    return made
