"""The audit of a train step: what it finds, also behind graph breaks and where nothing needs it; nothing moves."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.special

import jitfuse as jf

X = np.ones(2)


def test_the_audit_lists_all_at_once() -> None:
    p = jf.nn.parameters({"w": np.zeros(2), "b": np.zeros(2), "c": np.ones(2)})
    optimiser = jf.optim.Adam(p)

    @jf.fuse(training=True)
    def step(x: Any) -> Any:
        loss = np.sum(np.log(p["w"]) * x) + np.sum(scipy.special.zeta(p["c"] + 2))
        optimiser.minimize(loss)
        return loss

    before = {name: x.copy() for name, x in jf.nn.state_dict({"p": p, "o": optimiser}).items()}
    with pytest.raises(jf.DerivativeError) as found:
        jf.optim.audit(step, np.ones(2))
    text = str(found.value)
    assert "zeta has no derivative" in text and "does not depend on b" in text and "log makes infinity" in text
    assert text.count("test_audit.py") >= 3
    for name, x in jf.nn.state_dict({"p": p, "o": optimiser}).items():
        np.testing.assert_array_equal(x, before[name])
    with pytest.raises(jf.DerivativeError) as found:
        jf.optim.audit(step, np.ones(2), exempt=("log", "b"))
    assert "log makes" not in str(found.value) and "depend on b" not in str(found.value)
    with pytest.raises(jf.DerivativeError) as found:
        jf.optim.audit(step, np.ones(2), exempt="the")
    assert "log makes" in str(found.value) and "depend on b" in str(found.value)


def test_the_audit_of_a_good_step_is_silent(made: Any, data: Any) -> None:
    _, _, step = made(jf.optim.Adam)
    assert jf.optim.audit(step, *data) is None
    with pytest.raises(jf.ArgumentError, match="takes a fused function"):
        jf.optim.audit(len, 1)


def faults(body: Callable[[Any, Any, Any], Any], *args: Any, **options: Any) -> list[str]:
    """Return what the audit of a step says: operators and what they make. Nothing may move, nor run as plain Python."""
    p = jf.nn.parameters({"w": np.zeros(2), "c": np.ones(2)})
    optimiser = jf.optim.Adam(p)

    def step(x: Any, *rest: Any) -> Any:
        return body(p, optimiser, x, *rest)

    before = jf.nn.state_dict({"p": p, "o": optimiser})
    text = ""
    try:
        jf.optim.audit(jf.fuse(step, training=True, **options), *args)
    except jf.DerivativeError as error:
        text = str(error)
    for name, value in jf.nn.state_dict({"p": p, "o": optimiser}).items():
        np.testing.assert_array_equal(value, before[name])
    return [" ".join(line.split()[1:4]) for line in text.splitlines()[1:]]


def loss_of(p: Any, x: Any) -> Any:
    return np.sum(p["w"] * x + p["c"])


def test_steps_whose_results_nothing_needs() -> None:
    def body(p: Any, optimiser: Any, x: Any) -> None:
        np.log(x - 1)
        optimiser.minimize(loss_of(p, x))
        np.sqrt(-x)

    assert faults(body, X) == ["log makes infinity", "sqrt makes NaN"]
    assert faults(body, X + 1) == ["sqrt makes NaN"]


def test_graph_breaks() -> None:
    """Before and behind `minimize`; the branch that is taken is the one that is audited."""
    def body(p: Any, optimiser: Any, x: Any) -> Any:
        loss = loss_of(p, x)
        if float(loss) > 3:
            return np.sqrt(-x)
        optimiser.minimize(loss)
        return np.log(x - 1) if float(p["w"][0]) < 0 else float(loss)

    assert faults(body, X) == ["log makes infinity"]  # the parameter has moved in the run, there alone
    assert faults(lambda p, o, x: body(p, o, x) if x[0] < 5 else o.minimize(np.log(-loss_of(p, x))), 9 * X) == [
        "log makes NaN"]


def test_calls_of_libraries_and_generators() -> None:
    def body(p: Any, optimiser: Any, x: Any, rng: Any) -> Any:
        root = scipy.linalg.sqrtm(np.outer(x, x) + np.eye(2)).real
        noise = rng.normal(size=2)
        if noise[0] == first:
            optimiser.minimize(loss_of(p, x) * root[0, 0])
        return np.log(root - root)

    first, rng = np.random.default_rng(3).normal(), np.random.default_rng(3)
    assert faults(body, X, rng) == ["log makes infinity"]
    assert rng.normal() == first


@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
def test_what_the_function_writes_stays_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    counts = {"calls": 0}

    def body(p: Any, optimiser: Any, x: Any) -> Any:
        loss = loss_of(p, x)
        counts["calls"] += 1
        print("loss", loss)
        x[...] = 5.0
        optimiser.minimize(loss)

    x = X.copy()
    assert faults(body, x) == []
    assert counts == {"calls": 0} and x.tolist() == [1, 1] and capsys.readouterr().out == ""


def test_options_of_the_function_are_kept() -> None:
    def body(p: Any, optimiser: Any, x: Any, how: str) -> Any:
        optimiser.minimize(loss_of(p, x) if how == "sum" else np.log(loss_of(p, x) - 2))

    p = jf.nn.parameters({"w": np.zeros(2), "c": np.ones(2)})
    optimiser = jf.optim.SGD(p, lr=0.1)
    step = jf.fuse(lambda x, how: body(p, optimiser, x, how), static_argnames="how", training=True)
    jf.optim.audit(step, X, "sum")
    with pytest.raises(jf.DerivativeError, match="log makes infinity"):
        jf.optim.audit(step, X, "log")


def test_a_step_that_runs_as_plain_python_is_refused() -> None:
    seen: list[float] = []

    def body(p: Any, optimiser: Any, x: Any) -> Any:
        loss = loss_of(p, x)
        seen.append(float(loss))
        optimiser.minimize(loss)

    with pytest.raises(jf.errors.VolatileError, match="seen is changed"):
        faults(body, X)
    assert seen == []
