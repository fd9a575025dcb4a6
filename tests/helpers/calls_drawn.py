"""Draw calls of functions over axes: reductions, scans, contractions, and what host libraries compute."""
from __future__ import annotations

from typing import Any

import numpy as np
from drawing import Drawing
from functions_drawn import complex_function, order_statistic, small_function, small_product, special_function
from libraries_drawn import linear_algebra, random_numbers, transform
from reductions_drawn import reduced, scanned

EXACT_REDUCTIONS = ("min", "max", "any", "all")
REDUCTIONS = ("sum", "mean", "var", *EXACT_REDUCTIONS)
SLACK = {"min": "zero", "max": "zero", "sum": "sum", "mean": "mean", "var": "var"}


class Calls(Drawing):
    """Steps that combine elements."""

    def _reduction(self) -> None:
        x = self._pick(lambda v: isinstance(v, np.ndarray | np.generic))
        if x is None:
            return
        name, axis = self.rng.choice(REDUCTIONS), self._axis(np.ndim(self.values[x]))
        keepdims = self.rng.random() < 0.5
        extra = f", axis={axis}" + (", keepdims=True" if keepdims else "")
        if name == "var" and self.rng.random() < 0.3:
            extra += ", ddof=1"
        text = f"np.{name}({x}{extra})" if self.rng.random() < 0.6 else f"{x}.{name}({extra[2:]})"
        slack = SLACK.get(name, "")
        if slack in ("sum", "mean", "var"):
            exact = name == "sum" and np.asarray(self.values[x]).dtype.kind in "iub"
            slack = "" if exact else f"{slack} {x} {axis} {keepdims}"
        self._assign_to(text, (x,), slack)

    def _reduced(self) -> None:
        x = self._pick(lambda v: isinstance(v, np.ndarray | np.generic))
        if x is not None:
            text, slack = reduced(self.rng, x, self.values[x], self._axis(np.ndim(self.values[x])))
            self._assign_to(text, (x,), slack)

    def _scanned(self) -> None:
        x = self._pick(lambda v: isinstance(v, np.ndarray) and v.ndim > 0)
        if x is not None:
            text, slack = scanned(self.rng, x, self.values[x])
            self._assign_to(text, (x,), slack)

    def _derived(self) -> None:
        """Use a function of NumPy that several operators make up."""
        x = self._pick(lambda v: isinstance(v, np.ndarray))
        if x is None:
            return
        shape = np.shape(self.values[x])
        y = self._pick(lambda v: isinstance(v, np.ndarray) and np.shape(v) == shape) or x
        axis = self._axis(len(shape))
        one = self.rng.randrange(len(shape)) if shape else None
        choices = [
            (f"np.std({x}, axis={axis})", f"std {x} {axis} False"), (f"np.count_nonzero({x}, axis={axis})", ""),
            (f"np.nan_to_num({x})", ""), (f"np.full_like({x}, 2)", ""), (f"np.ones_like({x})", ""),
            (f"np.fabs({x})", ""), (f"np.modf({x})[{self.rng.randrange(2)}]", ""), (f"np.divmod({x}, {y})[0]", ""),
            (f"np.frexp({x} * 0.5)[{self.rng.randrange(2)}]", ""),
            (f"np.round({x}, {self.rng.choice((-2, -1, 1, 2))})", ""),
            (f"{x}.round(1)", ""), (f"np.allclose({x}, {y}, rtol=0.5) + {x}", ""),
            (f"np.array_equal({x}, {y}) + {x}", ""),
            (f"np.nan_to_num({x}, nan=-1, posinf=7.5)", ""), (f"np.isclose({x}, {y}, equal_nan=True)", ""),
            (f"jf.nn.gelu({x}, approximate='tanh')", "ulp"), (f"jf.nn.hard_silu({x})", ""), (f"jf.nn.elu({x})", "ulp"),
            (f"np.ptp({x}, axis={axis})", "zero"), (f"np.ravel({x}.copy())", ""), (f"np.atleast_2d({x})", ""),
            (f"np.broadcast_arrays({x}, {y})[0] + 0", ""), (f"divmod({x}, {y})[1]", ""), (f"{x}.flatten()", ""),
            (f"len({x}) * {x}", ""), (f"{x} * {x}.size - {x}.shape[-1]", ""), (f"sum(row for row in {x}[:4])", ""),
            (f"np.hstack([{x}, {y}])", ""), (f"np.vstack([{x}, {y}])", ""), (f"np.column_stack([{x}, {y}])", ""),
            (f"np.split({x}, {self.rng.choice((1, 2, 3))}, axis={one})[-1]", ""), (f"[*{x}[:3]][0] + 1", ""),
            (f"jf.nn.relu({x})", "zero"), (f"np.full({shape}, np.real({x}).sum() > 0)", "ulp"),
            (f"np.where({x} > {y}, {x}, {y}) - np.minimum({x}, {y})", "zero"),
        ]
        if len(shape) == 1 and self.values[x].dtype != bool and self.values[x].size ** 2 <= self.max_size:
            choices += [(f"np.outer({x}, {y})", "")]
            choices += [(f"np.{name}({x}, {y})", f"matmul {x} {y}") for name in ("dot", "inner")]
        text, slack = self.rng.choice(choices)
        self._assign_to(text, (x, y), slack)

    def _product(self) -> None:
        """Contract two arrays over some of the axes that have equal extents."""
        rng = self.rng
        x, y = self._pick(lambda v: isinstance(v, np.ndarray)), self._pick(lambda v: isinstance(v, np.ndarray))
        if x is None or y is None:
            return
        sizes = dict(zip("abcdefg", np.shape(self.values[x])))
        left, right = "".join(sizes), ""
        for k, n in enumerate(np.shape(self.values[y])):
            same = [c for c in left if sizes[c] == n]
            right += rng.choice(same) if same and rng.random() < 0.8 else "uvwxyz"[k]
            sizes.setdefault(right[-1], n)
        if int(np.prod(list(sizes.values()))) > self.max_size:
            return
        every = sorted(sizes)
        output = "".join(rng.sample(every, rng.randint(0, len(every))))
        subscripts = f"{left},{right}->{output}"
        self._assign_to(f"np.einsum({subscripts!r}, {x}, {y})", (x, y), f"einsum {subscripts} {x} {y}")

    def _library(self) -> None:
        """Use what libraries of the host compute: algebra, transforms, random numbers, order statistics."""
        x = self._pick(lambda v: isinstance(v, np.ndarray) and v.ndim > 0 and v.size > 0)
        if x is None:
            return
        shape, y = np.shape(self.values[x]), x
        form = self.rng.random()
        if form < 0.2 and len(shape) > 1:
            text, slack = linear_algebra(self.rng, x, self.values[x])
            self._assign_to(text, (x,), slack)
        elif form < 0.35:
            text, slack = transform(self.rng, x, self.values[x])
            self._assign_to(text, (x,), slack)
        elif form < 0.4:
            self._assign_to(random_numbers(self.rng, x, self.values[x]), (x,))
        elif form < 0.7:
            y = self._pick(lambda v: isinstance(v, np.ndarray) and self._broadcasts(np.shape(v), shape)) or x
            self._assign_to(*special_function(self.rng, x, y))
        else:
            self._assign_to(*order_statistic(self.rng, x, self.values[x], self._axis(len(shape))))

    def _rare(self) -> None:
        """Use what few programs do: complex numbers' parts, products of equal shapes, less common functions."""
        x = self._pick(lambda v: isinstance(v, np.ndarray))
        if x is None:
            return
        shape = np.shape(self.values[x])
        y = self._pick(lambda v: isinstance(v, np.ndarray) and np.shape(v) == shape) or x
        form = self.rng.random()
        if form < 0.3:
            text, slack = complex_function(self.rng, x, y)
        elif form < 0.5 and shape:
            text, slack = small_product(self.rng, x, y, self.values[x])
        elif np.size(self.values[x]) ** 2 <= 4 * self.max_size:
            text, slack = small_function(self.rng, x, y, self.values[x])
        else:
            return
        self._assign_to(text, (x, y), slack)

    def _softmax(self) -> None:
        x = self._pick(lambda v: isinstance(v, np.ndarray) and v.ndim > 0 and v.size > 0 and v.dtype != bool)
        if x is not None:
            axis = self.rng.randrange(-np.ndim(self.values[x]), np.ndim(self.values[x]))
            self._assign_to(f"jf.softmax({x}, axis={axis})", (x,), f"softmax {axis}")

    def _matmul(self) -> None:
        x = self._pick(lambda v: np.ndim(v) > 0)
        if x is None:
            return
        k = np.shape(self.values[x])[-1]

        left = self.values[x]

        def fits(v: Any) -> bool:
            meets = np.ndim(v) > 0 and np.shape(v)[0 if np.ndim(v) == 1 else -2] == k
            both_bool = np.asarray(v).dtype == bool and np.asarray(left).dtype == bool
            return meets and not both_bool and np.size(left) * np.size(v) <= self.max_size * max(k, 1) ** 2

        y = self._pick(fits)
        if y is not None:
            self._assign_to(self.rng.choice((f"{x} @ {y}", f"np.matmul({x}, {y})")), (x, y), f"matmul {x} {y}")
