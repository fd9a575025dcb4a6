"""Minima within minima, by gradients of what holds gradients: particle and saddle."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import jitfuse as jf

ROUNDS = 1000
"""More than the particle flies, or a descent within takes."""
Loop = Callable[[Callable[[Any], Any], Callable[[Any], Any], Any], Any]
Gradient = Callable[[Callable[[Any], Any]], Callable[[Any], Any]]


def forwards(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The gradient of a function of a vector, by forward mode."""
    def gradient(x: Any) -> Any:
        return np.stack([jf.jvp(f, (x,), (one,))[1] for one in np.eye(len(x), dtype=x.dtype)])

    return gradient


def backwards(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return jf.grad(f)


def counted(go_on: Callable[[Any], Any], body: Callable[[Any], Any], start: Any) -> Any:
    """A loop like `jf.while_loop` that has a reverse mode: its rounds are counted, and the last do nothing."""
    return jf.fori_loop(0, ROUNDS, lambda i, state: jf.cond(go_on(state), body, lambda same: same, state), start)


def argmin(gradient: Gradient, f: Callable[[Any], Any], start: Any, loop: Loop = jf.while_loop) -> Any:
    """Gradient descent whose steps double after ten good ones, and halve after a bad one."""
    slope = gradient(f)

    def step(state: Any) -> Any:
        x, fx, gx, rate, good, _ = state

        def move() -> Any:
            moved = x - rate * gx

            def accept(value: Any) -> Any:
                return moved, value, slope(moved), rate, good + 1, True

            def look() -> Any:
                value = f(moved)
                return jf.cond(value < fx, lambda: accept(value), lambda: (x, fx, gx, rate / 2, 0, True))

            return jf.cond(np.sum((x - moved) ** 2) <= 1e-10, stop, look)

        def stop() -> Any:
            return x, fx, gx, rate, good, False

        return jf.cond(np.sum(gx**2) <= 1e-10, stop,
                       lambda: jf.cond(good == 10, lambda: (x, fx, gx, 2 * rate, 0, True), move))

    return loop(lambda state: state[5], step, (start, f(start), slope(start), 1e-5, 0, True))[0]


# ---------------------------------------------------------------------- a particle between charges
def potential(x: Any, charges: Any) -> Any:
    return np.sum(1.0 / np.sqrt(np.sum((x - charges) ** 2, 1)))


def landing(w: Any, gradient: Gradient, loop: Loop) -> Any:
    """The square of where the particle meets the axis, for the place of a charge that w says."""
    ten = np.full_like(w[0], 10.0)
    charges = np.stack([np.stack([ten, 10.0 - w[0]]), np.stack([ten, 0.0 * ten])])
    slope = gradient(lambda x: potential(x, charges))

    def above(state: Any) -> Any:
        x, speed = state
        return x[1] + 0.1 * speed[1] > 0

    def fly(state: Any) -> Any:
        x, speed = state
        return x + 0.1 * speed, speed - 0.1 * slope(x)

    x, speed = loop(above, fly, (np.asarray([0.0, 8.0], dtype=w.dtype), np.asarray([0.75, 0.0], dtype=w.dtype)))
    return (x[0] - x[1] / speed[1] * speed[0]) ** 2


def particle(outer: Gradient, inner: Gradient, loop: Loop, w: Any) -> Any:
    return argmin(outer, lambda w: landing(w, inner, loop), w)


def particle_ff(w: Any) -> Any:
    return particle(forwards, forwards, jf.while_loop, w)


def particle_fr(w: Any) -> Any:
    return particle(forwards, backwards, jf.while_loop, w)


def particle_rf(w: Any) -> Any:
    return particle(backwards, forwards, counted, w)


def particle_rr(w: Any) -> Any:
    return particle(backwards, backwards, counted, w)


def particle_inputs(rng: Any) -> tuple[Any, ...]:
    return (np.zeros(1),)


# ---------------------------------------------------------------------- a saddle
def height(x: Any, y: Any) -> Any:
    return np.sum(x**2) - np.sum(y**2)


def saddle(outer: Gradient, inner: Gradient, loop: Loop, start: Any) -> Any:
    def highest(x: Any) -> Any:
        return height(x, argmin(inner, lambda y: -height(x, y), start, loop))

    x = argmin(outer, highest, start)
    return np.concatenate([x, argmin(outer, lambda y: -height(x, y), start)])


def saddle_ff(start: Any) -> Any:
    return saddle(forwards, forwards, jf.while_loop, start)


def saddle_fr(start: Any) -> Any:
    return saddle(forwards, backwards, jf.while_loop, start)


def saddle_rf(start: Any) -> Any:
    return saddle(backwards, forwards, counted, start)


def saddle_rr(start: Any) -> Any:
    return saddle(backwards, backwards, counted, start)


def saddle_inputs(rng: Any) -> tuple[Any, ...]:
    return (np.ones(2),)
