"""Draw steps that move elements: views, joins, repetitions, and indices that are data."""
from __future__ import annotations

import numpy as np
from drawing import Drawing


class Arrangements(Drawing):
    """Steps whose elements are those of their operands."""

    def _slice(self) -> None:
        x = self._pick(lambda v: isinstance(v, np.ndarray) and v.ndim > 0)
        if x is not None:
            self._assign_to(f"{x}[{self._index(np.shape(self.values[x]))}]", (x,))

    def _axes(self) -> None:
        x = self._pick(lambda v: isinstance(v, np.ndarray) and v.ndim > 0)
        if x is None:
            return
        rank = np.ndim(self.values[x])
        order = self.rng.sample(range(rank), rank)
        i, j = self.rng.randrange(rank), self.rng.randrange(-rank, rank)
        self._assign_to(self.rng.choice((
            f"{x}.T", f"np.transpose({x}, {tuple(order)})", f"{x}.transpose({tuple(order)})",
            f"np.swapaxes({x}, {i}, {j})", f"np.moveaxis({x}, {i}, {j})", f"np.expand_dims({x}, {i})",
            f"{x}[..., None]", f"np.squeeze({x})",
            f"np.flip({x}, {j})", f"np.flip({x})", f"{x}[::-1]",
        )), (x,))

    def _reshape(self) -> None:
        x = self._pick(lambda v: isinstance(v, np.ndarray))
        if x is None:
            return
        size, shape, rest = int(np.size(self.values[x])), [], int(np.size(self.values[x]))
        while rest > 1 and len(shape) < 4 and self.rng.random() < 0.75:
            divisors = [d for d in range(1, rest + 1) if rest % d == 0]
            shape.append(self.rng.choice(divisors))
            rest //= shape[-1]
        shape.append(rest)
        if self.rng.random() < 0.3 and size:
            shape[self.rng.randrange(len(shape))] = -1
        value = self.values[x]
        target = x if (value.flags.c_contiguous and value.ndim) or self._is_argument(value) else f"{x}.copy()"
        self._assign_to(self.rng.choice((
            f"{target}.reshape({tuple(shape)})", f"np.reshape({target}, {tuple(shape)})", f"{target}.ravel()",
            f"{target}.reshape(-1)",
        )), (x,))

    def _join(self) -> None:
        x = self._pick(lambda v: isinstance(v, np.ndarray) and v.ndim > 0)
        if x is None:
            return
        shape = np.shape(self.values[x])
        axis = self.rng.randrange(-len(shape), len(shape))
        if self.rng.random() < 0.5:
            at = axis % len(shape)
            rest = shape[:at] + shape[at + 1 :]
            y = self._pick(lambda v: np.ndim(v) == len(shape) and np.shape(v)[:at] + np.shape(v)[at + 1 :] == rest)
            text = f"np.concatenate([{x}, {y}], axis={axis})"
        else:
            y = self._pick(lambda v: np.shape(v) == shape)
            text = f"np.stack([{x}, {y}, {x}], axis={axis})"
        if y is not None:
            self._assign_to(text, (x, y))

    def _broadcast(self) -> None:
        x = self._pick(lambda v: isinstance(v, np.ndarray))
        if x is not None:
            shape = tuple(self.rng.choice((n, 2, 3)) if n == 1 else n for n in np.shape(self.values[x]))
            lead = (self.rng.choice((1, 2, 3)),) * self.rng.choice((0, 1))
            self._assign_to(f"np.broadcast_to({x}, {lead + shape})", (x,))

    def _rearranged(self) -> None:
        """Move, repeat, pad or drop elements."""
        rng = self.rng
        x = self._pick(lambda v: isinstance(v, np.ndarray) and v.ndim > 0)
        if x is None:
            return
        shape = np.shape(self.values[x])
        axis, k = rng.randrange(-len(shape), len(shape)), rng.randint(-4, 4)
        mode = rng.choice(("constant", "edge", "reflect", "symmetric", "wrap", "maximum", "minimum"))
        choices = [
            f"np.roll({x}, {k}, axis={axis})", f"np.roll({x}, {k})", f"np.repeat({x}, {abs(k) % 3}, axis={axis})",
            f"np.tile({x}, {(abs(k) % 3, 2)[rng.randrange(2):]})", f"np.pad({x}, ({abs(k)}, 1), mode={mode!r})",
            f"np.stack([{x}, {x}], axis={axis})", f"np.array_split({x}, 3, axis={axis})[{rng.randrange(3)}]",
        ]
        if len(shape) > 1:
            choices += [f"np.tril({x}, {k})", f"np.triu({x}, {k})", f"np.diagonal({x}, {k}) * 1", f"np.rot90({x}, {k})"]
        elif shape[0] <= 40:
            choices += [f"np.diag({x}, {k})"]
        if shape[axis] > 1:
            choices += [f"np.lib.stride_tricks.sliding_window_view({x}, 2, axis={axis}) * 1"]
        text = rng.choice(choices)
        grown = {"repeat": 3, "tile": 9, "pad": 8 ** len(shape), "stack": 2, "sliding": 2}
        if np.size(self.values[x]) * max((g for n, g in grown.items() if n in text), default=1) <= self.max_size:
            self._assign_to(text, (x,))
