"""Mistakes of people who train: each has a message that names what is wrong, and the way out."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

import jitfuse as jf

X = np.ones((8, 4))
Y = np.zeros((8, 3))


def params() -> Any:
    return jf.nn.parameters({"w": np.ones((4, 3)), "b": np.zeros(3)})


def step_of(body: Callable[[Any, Any], Any]) -> Callable[[], Any]:
    """Return a call of a fused step: `body(parameters, optimiser)` of SGD."""
    def call() -> Any:
        p = params()
        optimiser = jf.optim.SGD(p, lr=0.1)
        return jf.fuse(lambda x, y: body(p, optimiser), training=True)(X, Y)

    return call


def written_first(p: Any, o: Any) -> Any:
    p["w"][...] = p["w"] * 2
    o.minimize(np.sum(X @ p["w"] + p["b"]))


def in_a_loop(p: Any, o: Any) -> Any:
    def body(c: Any, t: Any) -> Any:
        o.minimize(np.sum(X @ p["w"] + p["b"]) * c)
        return c, None

    return jf.scan(body, 1.0, np.ones(3))


def momentum_later() -> None:
    jf.optim.SGD(params(), lr=0.1).groups[0].momentum = 0.9


def unknown_option() -> None:
    jf.optim.SGD(params(), lr=0.1).groups[0].rate = 0.9


def other_state() -> None:
    jf.optim.Adam(params()).load_state_dict({"step": 1})


MISTAKES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a loss that is no number": (
        step_of(lambda p, o: o.minimize(X @ p["w"] + p["b"])), jf.DerivativeError, r"float64\[8, 3\].*mean or sum"),
    "a loss of integers": (
        step_of(lambda p, o: o.minimize(np.sum(p["w"] > 0))), jf.DerivativeError, "int64.*float"),
    "a loss that is a Python number": (
        step_of(lambda p, o: o.minimize(1.0)), jf.DerivativeError, "is a float, which depends on no parameter"),
    "a loss of nothing": (
        step_of(lambda p, o: o.minimize(np.sum(X * 2))), jf.DerivativeError, "(?s)does not depend on"),
    "a loss of one parameter of two": (
        step_of(lambda p, o: o.minimize(np.sum(p["w"]))), jf.DerivativeError, r"does not depend on b\. .*unused="),
    "minimize outside": (
        lambda: jf.optim.SGD(params(), lr=0.1).minimize(1.0), jf.DerivativeError, "outside of a trace.*apply"),
    "minimize in a loop": (step_of(in_a_loop), jf.DerivativeError, "is called in .*behind the loop"),
    "a parameter written before": (
        step_of(written_first), jf.DerivativeError, "has written into w before.*Minimise first"),
    "an operator without a derivative": (
        step_of(lambda p, o: o.minimize(np.sum(scipy.special.zeta(p["w"] + 2)) + np.sum(p["b"]))), jf.DerivativeError,
        "has no derivative.*test_mistakes.py"),
    "parameters of integers": (
        lambda: jf.nn.parameters({"w": np.arange(3)}), jf.DTypeError, "'w' of int64.*jf.Buffer"),
    "no parameters": (
        lambda: jf.optim.SGD({"w": np.ones(3)}, lr=0.1), jf.ArgumentError, r"no jf.Parameter.*jf\.nn\.parameters"),
    "a parameter twice": (
        lambda: (lambda p: jf.optim.SGD([p["w"], p["w"]], lr=0.1))(params()), jf.ArgumentError, "in two places"),
    "two parameters of one name": (
        lambda: jf.optim.SGD([jf.Parameter([1.0], "a"), jf.Parameter([1.0], "a")], lr=0.1), jf.ArgumentError,
        "two parameters are named 'a'"),
    "a negative rate": (lambda: jf.optim.SGD(params(), lr=-1.0), jf.ArgumentError, "lr is -1.0.*0 or more"),
    "an unknown option of a group": (
        lambda: jf.optim.SGD([{"params": params(), "rate": 1.0}], lr=0.1), jf.ArgumentError, "'rate'; its options are"),
    "an unknown option set": (unknown_option, jf.ArgumentError, "no option 'rate'"),
    "momentum switched on later": (momentum_later, jf.ArgumentError, "momentum decides which arrays are kept"),
    "Nesterov without momentum": (
        lambda: jf.optim.SGD(params(), lr=0.1, nesterov=True), jf.ArgumentError, "nesterov needs a momentum"),
    "Muon for vectors": (lambda: jf.optim.Muon(params()), jf.ArgumentError, "b has 1 axes.*another optimiser"),
    "gradients of another tree": (
        lambda: jf.optim.SGD(params(), lr=0.1).apply([np.ones(3)]), jf.ArgumentError,
        r"1 gradients \(0\) for 2 parameters \(b, w\)"),
    "a state of other names": (other_state, jf.ArgumentError, "the state lacks"),
    "an unknown name in unused": (
        lambda: jf.optim.SGD(params(), lr=0.1, unused=["v"]), jf.ArgumentError, "unused names 'v'"),
    "accumulate of half a call": (
        lambda: jf.optim.SGD(params(), lr=0.1, accumulate=0), jf.ArgumentError, "accumulate is 0"),
    "the flag as an array": (
        lambda: jf.fuse(lambda x: x)(X, training=np.ones(2)), jf.ArgumentError, "training= is True or False"),
}


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
def test_a_mistake_is_named_with_the_way_out(name: str) -> None:
    call, kind, message = MISTAKES[name]
    with pytest.raises(kind, match=message):
        call()
