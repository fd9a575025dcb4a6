"""Learning rates that change from step to step: what takes the place of a number as `lr`.

A schedule is called with the number of steps so far, inside of the program, so that nothing is compiled again. Any
function of array code is one; these are the usual ones.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

_np: Any = np  # its type hints omit traced and eager arrays


@dataclass(frozen=True)
class _Falling:
    """A linear rise over `warmup` steps, then a fall from `lr` to `end`, whose form subclasses give."""

    lr: float
    steps: int
    warmup: int = 0
    end: float = 0.0

    def level(self, share: Any) -> Any:
        """Return the rate after a share of the steps that fall."""
        raise NotImplementedError

    def __call__(self, count: Any) -> Any:
        """Return the rate."""
        share = _np.clip((count - self.warmup) / max(self.steps - self.warmup, 1), 0.0, 1.0)
        then = self.level(share)
        return _np.where(count < self.warmup, self.lr * count / self.warmup, then) if self.warmup else then


@dataclass(frozen=True)
class Cosine(_Falling):
    """Half a cosine from `lr` to `end` (Loshchilov and Hutter 2017), after a linear rise.

    Args:
        lr: the largest rate.
        steps: after so many steps the rate is `end`.
        warmup: over so many of them the rate rises from 0.
        end: the last rate.

    Example:
        >>> rate = jf.optim.Cosine(0.5, steps=100, warmup=10)
        >>> [round(float(rate(t)), 3) for t in (0, 5, 10, 55, 100, 200)]
        [0.0, 0.25, 0.5, 0.25, 0.0, 0.0]
    """

    def level(self, share: Any) -> Any:
        """Return the rate after a share of the steps that fall."""
        return self.end + (self.lr - self.end) * 0.5 * (1.0 + _np.cos(np.pi * share))


@dataclass(frozen=True)
class Linear(_Falling):
    """A straight line from `lr` to `end`, after a linear rise.

    Args:
        lr, steps, warmup, end: as for `Cosine`.

    Example:
        >>> rate = jf.optim.Linear(1.0, steps=4)
        >>> [float(rate(t)) for t in range(6)]
        [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]
    """

    def level(self, share: Any) -> Any:
        """Return the rate after a share of the steps that fall."""
        return self.lr + (self.end - self.lr) * share


@dataclass(frozen=True)
class Exponential:
    """A rate that is multiplied by `factor` every `every` steps, at once or little by little.

    Args:
        lr: the first rate.
        factor: what it is multiplied by.
        every: so many steps.
        smooth: a little in each step, not all after `every` steps.

    Example:
        >>> rate = jf.optim.Exponential(1.0, 0.5, every=2)
        >>> [float(rate(t)) for t in range(5)]
        [1.0, 1.0, 0.5, 0.5, 0.25]
    """

    lr: float
    factor: float
    every: int = 1
    smooth: bool = False

    def __call__(self, count: Any) -> Any:
        """Return the rate."""
        times = count / self.every
        return self.lr * self.factor ** (times if self.smooth else _np.floor(times))
